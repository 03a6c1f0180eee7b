// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// configView is the API object configuration.
type configView struct {
	Category    string `json:"category"`
	Group       string `json:"group"`
	SubGroup    string `json:"subgroup"`
	Name        string `json:"name"`
	Value       string `json:"value"`
	Default     string `json:"defaultvalue"`
	Scope       string `json:"scope,omitempty"`
	Description string `json:"description"`
	Dynamic     bool   `json:"isdynamic"`
	Component   string `json:"component"`
	DisplayText string `json:"displaytext"`
	Type        string `json:"type"`
}

func viewConfig(c *wire.Call, s *settings.Config, in *scopeOf) configView {
	text := strings.ReplaceAll(s.Name, ".", " ")
	v := configView{
		Category: s.Category, Group: "Miscellaneous", SubGroup: "Others", Name: s.Name, Value: scopedSetting(c.St, s.Name, in), Default: s.Def,
		Scope: s.Scope, Description: s.Description, Dynamic: s.Dynamic, Component: s.Component, Type: s.Kind,
		DisplayText: strings.ToUpper(text[:1]) + text[1:],
	}
	if in != nil {
		v.Scope = strings.ToLower(in.name)
	}
	return v
}

func listConfigurations(c *wire.Call) (any, error) {
	in, err := configScope(c)
	if err != nil {
		return nil, err
	}
	var out []*settings.Config
	for i := range settings.ConfigList {
		s := &settings.ConfigList[i]
		switch {
		case in != nil && !inScope(s, in.name):
		case c.Has("name") && !strings.EqualFold(c.Str("name"), s.Name), c.Has("category") && !strings.EqualFold(c.Str("category"), s.Category):
		case c.Has("keyword") && !store.Like(s.Name, c.Str("keyword")) && !store.Like(s.Description, c.Str("keyword")) && !store.Like(s.Component, c.Str("keyword")):
		case c.Has("group") && !strings.EqualFold(c.Str("group"), "Miscellaneous"), c.Has("subgroup") && !strings.EqualFold(c.Str("subgroup"), "Others"):
		case c.Has("parent"):
		default:
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *settings.Config) int { return strings.Compare(a.Name, b.Name) })
	return wire.Page(c, "configuration", out, func(s *settings.Config) configView { return viewConfig(c, s, in) })
}

func inScope(s *settings.Config, name string) bool {
	return slices.ContainsFunc(strings.Split(s.Scope, ","), func(v string) bool { return strings.EqualFold(v, name) })
}

type configAnswer struct {
	Config configView `json:"configuration"`
}

// configArg returns the setting that a command changes, with its scope.
func configArg(c *wire.Call) (*settings.Config, *scopeOf, error) {
	in, err := configScope(c)
	if err != nil {
		return nil, nil, err
	}
	s, ok := settings.ConfigTable()[c.Str("name")]
	if !ok {
		return nil, nil, wire.Invalid("Config parameter with name %s doesn't exist", c.Str("name"))
	}
	if in != nil && !inScope(s, in.name) {
		return nil, nil, wire.Invalid("Invalid scope id provided for the parameter %s", s.Name)
	}
	return s, in, nil
}

func updateConfiguration(c *wire.Call) (any, error) {
	s, in, err := configArg(c)
	if err != nil {
		return nil, err
	}
	if !c.Has("value") {
		return configAnswer{viewConfig(c, s, in)}, nil
	}
	v := strings.TrimSpace(c.Str("value"))
	if v == "" && s.Kind != "String" {
		v = s.Def
	}
	if err := Check(s, v); err != nil {
		return nil, err
	}
	if in != nil {
		c.St.Configs[in.key+s.Name] = v
	} else {
		c.St.Set(s.Name, v)
	}
	return configAnswer{viewConfig(c, s, in)}, nil
}

func resetConfiguration(c *wire.Call) (any, error) {
	s, in, err := configArg(c)
	if err != nil {
		return nil, err
	}
	if in != nil {
		delete(c.St.Configs, in.key+s.Name)
	} else {
		c.St.Set(s.Name, s.Def)
	}
	return configAnswer{viewConfig(c, s, in)}, nil
}

// Check refuses a value that is not of the setting's type.
func Check(c *settings.Config, v string) *wire.Error {
	switch c.Kind {
	case "Boolean":
		if v != "true" && v != "false" {
			return wire.Invalid("Please enter either 'true' or 'false'.")
		}
	case "Number":
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			return wire.Invalid("There was an error trying to parse the integer value for: %s", c.Name)
		}
	case "Decimal":
		if _, err := strconv.ParseFloat(v, 64); err != nil {
			return wire.Invalid("There was an error trying to parse the float value for: %s", c.Name)
		}
	}
	return nil
}

// scopeOf is the scope, other than global, in which a call reads or changes a setting.
type scopeOf struct{ name, key string }

// configScopes are the parameters that select a scope, with its name.
var configScopes = []struct{ param, scope string }{
	{"zoneid", "Zone"}, {"clusterid", "Cluster"}, {"storageid", "StoragePool"}, {"imagestoreuuid", "ImageStore"}, {"imagestoreid", "ImageStore"},
	{"accountid", "Account"}, {"domainid", "Domain"},
}

// configScope reads the scope parameters, of which at most one is allowed.
func configScope(c *wire.Call) (*scopeOf, *wire.Error) {
	var found *scopeOf
	for _, p := range configScopes {
		if !c.Given(p.param) {
			continue
		}
		if found != nil {
			return nil, wire.Invalid("cannot handle multiple IDs, provide only one ID corresponding to the scope")
		}
		found = &scopeOf{p.scope, fmt.Sprintf("%s/%d/", strings.ToLower(p.scope), c.Refs[p.param].ID)}
	}
	return found, nil
}

// scopedSetting returns the value of a setting in a scope, or the global value if the scope has none.
func scopedSetting(st *store.State, name string, in *scopeOf) string {
	if in != nil {
		if v, ok := st.Configs[in.key+name]; ok {
			return v
		}
	}
	return st.Setting(name)
}

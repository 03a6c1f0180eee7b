// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
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

func (c *call) viewConfig(s *config, in *scopeOf) configView {
	text := strings.ReplaceAll(s.name, ".", " ")
	v := configView{
		Category: s.category, Group: "Miscellaneous", SubGroup: "Others", Name: s.name, Value: c.st.scopedSetting(s.name, in), Default: s.def,
		Scope: s.scope, Description: s.description, Dynamic: s.dynamic, Component: s.component, Type: s.kind,
		DisplayText: strings.ToUpper(text[:1]) + text[1:],
	}
	if in != nil {
		v.Scope = strings.ToLower(in.name)
	}
	return v
}

func listConfigurations(c *call) (any, error) {
	in, err := c.configScope()
	if err != nil {
		return nil, err
	}
	var out []*config
	for i := range configList {
		s := &configList[i]
		switch {
		case in != nil && !s.inScope(in.name):
		case c.has("name") && !strings.EqualFold(c.str("name"), s.name), c.has("category") && !strings.EqualFold(c.str("category"), s.category):
		case c.has("keyword") && !like(s.name, c.str("keyword")) && !like(s.description, c.str("keyword")) && !like(s.component, c.str("keyword")):
		case c.has("group") && !strings.EqualFold(c.str("group"), "Miscellaneous"), c.has("subgroup") && !strings.EqualFold(c.str("subgroup"), "Others"):
		case c.has("parent"):
		default:
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *config) int { return strings.Compare(a.name, b.name) })
	return page(c, "configuration", out, func(s *config) configView { return c.viewConfig(s, in) })
}

func (s *config) inScope(name string) bool {
	return slices.ContainsFunc(strings.Split(s.scope, ","), func(v string) bool { return strings.EqualFold(v, name) })
}

type configAnswer struct {
	Config configView `json:"configuration"`
}

// configArg returns the setting that a command changes, with its scope.
func (c *call) configArg() (*config, *scopeOf, error) {
	in, err := c.configScope()
	if err != nil {
		return nil, nil, err
	}
	s, ok := configTable()[c.str("name")]
	if !ok {
		return nil, nil, invalid("Config parameter with name %s doesn't exist", c.str("name"))
	}
	if in != nil && !s.inScope(in.name) {
		return nil, nil, invalid("Invalid scope id provided for the parameter %s", s.name)
	}
	return s, in, nil
}

func updateConfiguration(c *call) (any, error) {
	s, in, err := c.configArg()
	if err != nil {
		return nil, err
	}
	if !c.has("value") {
		return configAnswer{c.viewConfig(s, in)}, nil
	}
	v := strings.TrimSpace(c.str("value"))
	if v == "" && s.kind != "String" {
		v = s.def
	}
	if err := s.check(v); err != nil {
		return nil, err
	}
	if in != nil {
		c.st.configs[in.key+s.name] = v
	} else {
		c.st.set(s.name, v)
	}
	return configAnswer{c.viewConfig(s, in)}, nil
}

func resetConfiguration(c *call) (any, error) {
	s, in, err := c.configArg()
	if err != nil {
		return nil, err
	}
	if in != nil {
		delete(c.st.configs, in.key+s.name)
	} else {
		c.st.set(s.name, s.def)
	}
	return configAnswer{c.viewConfig(s, in)}, nil
}

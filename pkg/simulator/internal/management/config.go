// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// configView is the API object configuration.
type configView struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"defaultvalue"`
}

// scopes are the parameters that limit a setting to a part of the cloud.
var scopes = []string{"zoneid", "clusterid", "storageid", "imagestoreuuid", "imagestoreid", "accountid", "domainid"}

// updateConfiguration changes a setting. The new value applies from the next call.
func updateConfiguration(c *wire.Call) (any, error) {
	name := c.Str("name")
	def, ok := settings.Defaults[name]
	if !ok {
		return nil, wire.Invalid("Config parameter with name %s doesn't exist", name)
	}

	for _, p := range scopes {
		if c.Given(p) {
			return nil, c.Internal(wire.CSGeneric, "the simulator has global settings only, none by %s", p)
		}
	}

	if c.Has("value") {
		v := strings.TrimSpace(c.Str("value"))
		if def == "true" || def == "false" || isNumber(def) {
			v = cmp.Or(v, def)
		}
		if err := checkSetting(name, def, v); err != nil {
			return nil, err
		}
		c.St.Settings[name] = v
	}

	return wire.Object("configuration", configView{Name: name, Value: c.St.Setting(name), Default: def}), nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// checkSetting returns an error if the value does not have the type of the default.
func checkSetting(name, def, v string) *wire.Error {
	switch {
	case def == "true" || def == "false":
		if v != "true" && v != "false" {
			return wire.Invalid("Please enter either 'true' or 'false'.")
		}
	case isNumber(def) && !isNumber(v):
		return wire.Invalid("There was an error trying to parse the integer value for: %s", name)
	}
	return nil
}

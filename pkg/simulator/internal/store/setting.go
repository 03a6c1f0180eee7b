// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"strconv"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
)

// Setting returns the global value of a setting.
func (st *State) Setting(name string) string {
	if f, ok := settings.Fields[name]; ok {
		return f.Get(&st.Settings)
	}
	switch name {
	case "api.throttling.enabled":
		return strconv.FormatBool(st.Settings.ThrottleMax > 0)
	case "api.throttling.max":
		if st.Settings.ThrottleMax > 0 {
			return strconv.Itoa(st.Settings.ThrottleMax)
		}
	}
	if v, ok := st.Configs[name]; ok {
		return v
	}
	return settings.Defaults[name]
}

// BoolSetting reports whether the setting is true.
func (st *State) BoolSetting(name string) bool { return st.Setting(name) == "true" }

// Set stores a setting, which applies from the next call.
func (st *State) Set(name, value string) {
	if f, ok := settings.Fields[name]; ok {
		f.Set(&st.Settings, value)
		return
	}
	switch name {
	case "api.throttling.enabled":
		st.Settings.ThrottleMax = 0
		if value == "true" {
			st.Settings.ThrottleMax = settings.Atoi(cmp.Or(st.Configs["api.throttling.max"], settings.Defaults["api.throttling.max"]))
		}
		return
	case "api.throttling.max":
		if st.Settings.ThrottleMax > 0 {
			st.Settings.ThrottleMax = settings.Atoi(value)
		}
	}
	st.Configs[name] = value
}

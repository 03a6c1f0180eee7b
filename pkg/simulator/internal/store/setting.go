// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
)

// Setting returns the global value of a setting.
func (st *State) Setting(name string) string {
	if v, ok := st.Settings[name]; ok {
		return v
	}
	return settings.Defaults[name]
}

// BoolSetting reports whether the setting is true.
func (st *State) BoolSetting(name string) bool { return st.Setting(name) == "true" }

// IntSetting returns the number of a setting, or its default if the number is not positive.
func (st *State) IntSetting(name string) int {
	if n := settings.Atoi(st.Setting(name)); n > 0 {
		return n
	}
	return settings.Atoi(settings.Defaults[name])
}

// Throttling returns the number of calls that an account may make in an interval; 0 means no limit.
func (st *State) Throttling() (limit int, interval time.Duration) {
	if st.BoolSetting("api.throttling.enabled") {
		limit = settings.Atoi(st.Setting("api.throttling.max"))
	}
	return limit, time.Duration(st.IntSetting("api.throttling.interval")) * time.Second
}

// ClusterTimeout returns a setting cloud.kubernetes.cluster.ACTION.timeout.
func (st *State) ClusterTimeout(action string) time.Duration {
	return time.Duration(st.IntSetting("cloud.kubernetes.cluster."+action+".timeout")) * time.Second
}

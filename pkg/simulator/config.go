// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// config is a global setting of the management server.
type config struct {
	name, def, description string
	category               string // Advanced, Account Defaults ...
	component              string
	kind                   string // Number, Decimal, Boolean, String
	dynamic                bool   // no restart needed in CloudStack; the simulator never needs one
	scope                  string // Global if the setting has no narrower scope
}

// settingField links a setting to the field of Settings that implements it.
type settingField struct {
	get func(*Settings) string
	set func(*Settings, string)
}

// settingFields are the settings that a field of Settings implements.
var settingFields = map[string]settingField{
	"default.page.size": {
		func(s *Settings) string { return strconv.Itoa(s.pageSize()) },
		func(s *Settings, v string) { s.DefaultPageSize = atoi(v) },
	},
	"job.expire.minutes": {
		func(s *Settings) string { return strconv.Itoa(int(s.jobExpiry().Minutes())) },
		func(s *Settings, v string) { s.JobExpireMinutes = atoi(v) },
	},
	"api.throttling.interval": {
		func(s *Settings) string { return strconv.Itoa(int(s.throttleInterval().Seconds())) },
		func(s *Settings, v string) { s.ThrottleIntervalSeconds = atoi(v) },
	},
	"enforce.post.requests.and.timestamps": {
		func(s *Settings) string { return strconv.FormatBool(s.EnforcePost) },
		func(s *Settings, v string) { s.EnforcePost = v == "true" },
	},
	"allow.user.view.destroyed.vm": {
		func(s *Settings) string { return strconv.FormatBool(s.UserViewDestroyed) },
		func(s *Settings, v string) { s.UserViewDestroyed = v == "true" },
	},
	"allow.user.expunge.recover.vm": {
		func(s *Settings) string { return strconv.FormatBool(s.UserExpungeRecover) },
		func(s *Settings, v string) { s.UserExpungeRecover = v == "true" },
	},
	"cloud.kubernetes.service.enabled": {
		func(s *Settings) string { return strconv.FormatBool(!s.KubernetesDisabled) },
		func(s *Settings, v string) { s.KubernetesDisabled = v != "true" },
	},
	"cloud.kubernetes.cluster.experimental.features.enabled": {
		func(s *Settings) string { return strconv.FormatBool(s.KubernetesExperimental) },
		func(s *Settings, v string) { s.KubernetesExperimental = v == "true" },
	},
	"cloud.kubernetes.cluster.max.size": {
		func(s *Settings) string { return strconv.Itoa(s.kubernetesMaxSize()) },
		func(s *Settings, v string) { s.KubernetesMaxSize = atoi(v) },
	},
	"endpoint.url": {
		func(s *Settings) string { return s.endpointURL() },
		func(s *Settings, v string) { s.EndpointURL = v },
	},
	"guest.domain.suffix": {
		func(s *Settings) string { return cmp.Or(s.NetworkDomainSuffix, "cloud.internal") },
		func(s *Settings, v string) { s.NetworkDomainSuffix = v },
	},
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// configTable returns every setting of the simulator by name.
var configTable = sync.OnceValue(func() map[string]*config {
	m := make(map[string]*config, len(configList))
	for i := range configList {
		m[configList[i].name] = &configList[i]
	}
	return m
})

// setting returns the global value of a setting.
func (st *state) setting(name string) string {
	if f, ok := settingFields[name]; ok {
		return f.get(&st.settings)
	}
	switch name {
	case "api.throttling.enabled":
		return strconv.FormatBool(st.settings.ThrottleMax > 0)
	case "api.throttling.max":
		if st.settings.ThrottleMax > 0 {
			return strconv.Itoa(st.settings.ThrottleMax)
		}
	}
	if v, ok := st.configs[name]; ok {
		return v
	}
	if c, ok := configTable()[name]; ok {
		return c.def
	}
	return ""
}

func (st *state) boolSetting(name string) bool { return st.setting(name) == "true" }

// set stores a setting, which applies from the next call.
func (st *state) set(name, value string) {
	if f, ok := settingFields[name]; ok {
		f.set(&st.settings, value)
		return
	}
	switch name {
	case "api.throttling.enabled":
		st.settings.ThrottleMax = 0
		if value == "true" {
			st.settings.ThrottleMax = atoi(cmp.Or(st.configs["api.throttling.max"], configTable()["api.throttling.max"].def))
		}
		return
	case "api.throttling.max":
		if st.settings.ThrottleMax > 0 {
			st.settings.ThrottleMax = atoi(value)
		}
	}
	st.configs[name] = value
}

// check refuses a value that is not of the setting's type.
func (c *config) check(v string) *apiError {
	switch c.kind {
	case "Boolean":
		if v != "true" && v != "false" {
			return invalid("Please enter either 'true' or 'false'.")
		}
	case "Number":
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			return invalid("There was an error trying to parse the integer value for: %s", c.name)
		}
	case "Decimal":
		if _, err := strconv.ParseFloat(v, 64); err != nil {
			return invalid("There was an error trying to parse the float value for: %s", c.name)
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
func (c *call) configScope() (*scopeOf, *apiError) {
	var found *scopeOf
	for _, p := range configScopes {
		if !c.given(p.param) {
			continue
		}
		if found != nil {
			return nil, invalid("cannot handle multiple IDs, provide only one ID corresponding to the scope")
		}
		found = &scopeOf{p.scope, fmt.Sprintf("%s/%d/", strings.ToLower(p.scope), c.refs[p.param].id)}
	}
	return found, nil
}

// scopedSetting returns the value of a setting in a scope, or the global value if the scope has none.
func (st *state) scopedSetting(name string, in *scopeOf) string {
	if in != nil {
		if v, ok := st.configs[in.key+name]; ok {
			return v
		}
	}
	return st.setting(name)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"strconv"
	"sync"
)

// Config is a global setting of the management server.
type Config struct {
	Name, Def, Description string
	Category               string // Advanced, Account Defaults ...
	Component              string
	Kind                   string // Number, Decimal, Boolean, String
	Dynamic                bool   // no restart needed in CloudStack; the simulator never needs one
	Scope                  string // Global if the setting has no narrower scope
}

// settingField links a setting to the field of Settings that implements it.
type settingField struct {
	Get func(*Settings) string
	Set func(*Settings, string)
}

// SettingFields are the settings that a field of Settings implements.
var SettingFields = map[string]settingField{
	"default.page.size": {
		func(s *Settings) string { return strconv.Itoa(s.PageSize()) },
		func(s *Settings, v string) { s.DefaultPageSize = Atoi(v) },
	},
	"job.expire.minutes": {
		func(s *Settings) string { return strconv.Itoa(int(s.JobExpiry().Minutes())) },
		func(s *Settings, v string) { s.JobExpireMinutes = Atoi(v) },
	},
	"api.throttling.interval": {
		func(s *Settings) string { return strconv.Itoa(int(s.ThrottleInterval().Seconds())) },
		func(s *Settings, v string) { s.ThrottleIntervalSeconds = Atoi(v) },
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
		func(s *Settings) string { return strconv.Itoa(s.MaxClusterSize()) },
		func(s *Settings, v string) { s.KubernetesMaxSize = Atoi(v) },
	},
	"cloud.kubernetes.cluster.start.timeout": {
		func(s *Settings) string { return strconv.Itoa(int(s.KubernetesTimeout("start").Seconds())) },
		func(s *Settings, v string) { s.KubernetesStartTimeout = Atoi(v) },
	},
	"cloud.kubernetes.cluster.scale.timeout": {
		func(s *Settings) string { return strconv.Itoa(int(s.KubernetesTimeout("scale").Seconds())) },
		func(s *Settings, v string) { s.KubernetesScaleTimeout = Atoi(v) },
	},
	"cloud.kubernetes.cluster.upgrade.timeout": {
		func(s *Settings) string { return strconv.Itoa(int(s.KubernetesTimeout("upgrade").Seconds())) },
		func(s *Settings, v string) { s.KubernetesUpgradeTimeout = Atoi(v) },
	},
	"endpoint.url": {
		func(s *Settings) string { return s.Endpoint() },
		func(s *Settings, v string) { s.EndpointURL = v },
	},
	"guest.domain.suffix": {
		func(s *Settings) string { return cmp.Or(s.NetworkDomainSuffix, "cloud.internal") },
		func(s *Settings, v string) { s.NetworkDomainSuffix = v },
	},
}

// Atoi returns the number, or 0 if s is not a number.
func Atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// ConfigTable returns every setting of the simulator by name.
var ConfigTable = sync.OnceValue(func() map[string]*Config {
	m := make(map[string]*Config, len(ConfigList))
	for i := range ConfigList {
		m[ConfigList[i].Name] = &ConfigList[i]
	}
	return m
})

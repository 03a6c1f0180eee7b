// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"strconv"
)

// Defaults are the global settings that the simulator implements, with CloudStack's values of a fresh installation.
var Defaults = limitDefaults(map[string]string{
	"allow.operations.on.users.in.same.account":              "true",
	"allow.user.create.projects":                             "true",
	"allow.user.expunge.recover.vm":                          "false",
	"allow.user.view.all.domain.accounts":                    "false",
	"allow.user.view.destroyed.vm":                           "false",
	"api.throttling.enabled":                                 "false",
	"api.throttling.interval":                                "1",
	"api.throttling.max":                                     "25",
	"cloud.kubernetes.cluster.experimental.features.enabled": "false",
	"cloud.kubernetes.cluster.max.size":                      "10",
	"cloud.kubernetes.cluster.network.offering":              "DefaultNetworkOfferingforKubernetesService",
	"cloud.kubernetes.cluster.scale.timeout":                 "3600",
	"cloud.kubernetes.cluster.start.timeout":                 "3600",
	"cloud.kubernetes.cluster.upgrade.timeout":               "3600",
	"cloud.kubernetes.etcd.node.start.port":                  "50000",
	"cloud.kubernetes.service.enabled":                       "true",
	"default.page.size":                                      "500",
	"endpoint.url":                                           "http://localhost:8080/client/api",
	"enforce.post.requests.and.timestamps":                   "false",
	"guest.domain.suffix":                                    "cloud.internal",
	"incorrect.login.attempts.allowed":                       "5",
	"job.expire.minutes":                                     "1440",
	"session.timeout":                                        "30",
})

// Field links a setting to the field of Settings that implements it.
type Field struct {
	Get func(*Settings) string
	Set func(*Settings, string)
}

// Fields are the settings that a field of Settings implements.
var Fields = map[string]Field{
	"default.page.size":                                      number(func(s *Settings) *int { return &s.DefaultPageSize }, 500),
	"job.expire.minutes":                                     number(func(s *Settings) *int { return &s.JobExpireMinutes }, 1440),
	"api.throttling.interval":                                number(func(s *Settings) *int { return &s.ThrottleIntervalSeconds }, 1),
	"cloud.kubernetes.cluster.max.size":                      number(func(s *Settings) *int { return &s.KubernetesMaxSize }, 10),
	"cloud.kubernetes.cluster.start.timeout":                 number(func(s *Settings) *int { return &s.KubernetesStartTimeout }, 3600),
	"cloud.kubernetes.cluster.scale.timeout":                 number(func(s *Settings) *int { return &s.KubernetesScaleTimeout }, 3600),
	"cloud.kubernetes.cluster.upgrade.timeout":               number(func(s *Settings) *int { return &s.KubernetesUpgradeTimeout }, 3600),
	"endpoint.url":                                           text(func(s *Settings) *string { return &s.EndpointURL }, "http://localhost:8080/client/api"),
	"guest.domain.suffix":                                    text(func(s *Settings) *string { return &s.NetworkDomainSuffix }, "cloud.internal"),
	"enforce.post.requests.and.timestamps":                   flag(func(s *Settings) *bool { return &s.EnforcePost }, "true"),
	"allow.user.view.destroyed.vm":                           flag(func(s *Settings) *bool { return &s.UserViewDestroyed }, "true"),
	"allow.user.expunge.recover.vm":                          flag(func(s *Settings) *bool { return &s.UserExpungeRecover }, "true"),
	"cloud.kubernetes.service.enabled":                       flag(func(s *Settings) *bool { return &s.KubernetesDisabled }, "false"),
	"cloud.kubernetes.cluster.experimental.features.enabled": flag(func(s *Settings) *bool { return &s.KubernetesExperimental }, "true"),
}

func number(field func(*Settings) *int, unset int) Field {
	return Field{
		func(s *Settings) string { return strconv.Itoa(cmp.Or(*field(s), unset)) },
		func(s *Settings, v string) { *field(s) = Atoi(v) },
	}
}

func text(field func(*Settings) *string, unset string) Field {
	return Field{
		func(s *Settings) string { return cmp.Or(*field(s), unset) },
		func(s *Settings, v string) { *field(s) = v },
	}
}

// flag is a field that is set if the setting has the value.
func flag(field func(*Settings) *bool, value string) Field {
	return Field{
		func(s *Settings) string { return strconv.FormatBool(*field(s) == (value == "true")) },
		func(s *Settings, v string) { *field(s) = v == value },
	}
}

// Atoi returns the number, or 0 if s is not a number.
func Atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

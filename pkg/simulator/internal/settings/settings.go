// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"time"
)

// Settings are global settings. Zero values mean CloudStack's defaults.
type Settings struct {
	// DefaultPageSize is default.page.size, which is also the maximum page size (500).
	DefaultPageSize int `json:"defaultPageSize,omitempty"`
	// JobExpireMinutes is job.expire.minutes (1440).
	JobExpireMinutes int `json:"jobExpireMinutes,omitempty"`
	// ThrottleMax is api.throttling.max: calls per account and interval; 0 disables throttling.
	ThrottleMax int `json:"throttleMax,omitempty"`
	// ThrottleIntervalSeconds is api.throttling.interval (1).
	ThrottleIntervalSeconds int `json:"throttleIntervalSeconds,omitempty"`
	// EnforcePost is enforce.post.requests.and.timestamps.
	EnforcePost bool `json:"enforcePost,omitempty"`
	// UserViewDestroyed is allow.user.view.destroyed.vm.
	UserViewDestroyed bool `json:"userViewDestroyed,omitempty"`
	// UserExpungeRecover is allow.user.expunge.recover.vm.
	UserExpungeRecover bool `json:"userExpungeRecover,omitempty"`
	// NetworkDomainSuffix is guest.domain.suffix (cloud.internal).
	NetworkDomainSuffix string `json:"networkDomainSuffix,omitempty"`
	// KubernetesDisabled disables CloudStack Kubernetes Service (cloud.kubernetes.service.enabled is true by
	// default).
	KubernetesDisabled bool `json:"kubernetesDisabled,omitempty"`
	// KubernetesExperimental is cloud.kubernetes.cluster.experimental.features.enabled.
	KubernetesExperimental bool `json:"kubernetesExperimental,omitempty"`
	// KubernetesMaxSize is cloud.kubernetes.cluster.max.size (10).
	KubernetesMaxSize int `json:"kubernetesMaxSize,omitempty"`
	// KubernetesStartTimeout, KubernetesScaleTimeout and KubernetesUpgradeTimeout are
	// cloud.kubernetes.cluster.start.timeout, scale.timeout and upgrade.timeout in seconds (3600).
	KubernetesStartTimeout   int `json:"kubernetesStartTimeout,omitempty"`
	KubernetesScaleTimeout   int `json:"kubernetesScaleTimeout,omitempty"`
	KubernetesUpgradeTimeout int `json:"kubernetesUpgradeTimeout,omitempty"`
	// EndpointURL is endpoint.url (http://localhost:8080/client/api). A CloudManaged cluster needs a URL that its
	// nodes can reach.
	EndpointURL string `json:"endpointURL,omitempty"`
}

// PageSize returns default.page.size.
func (s Settings) PageSize() int {
	if s.DefaultPageSize > 0 {
		return s.DefaultPageSize
	}
	return 500
}

// MaxClusterSize returns cloud.kubernetes.cluster.max.size.
func (s Settings) MaxClusterSize() int {
	if s.KubernetesMaxSize > 0 {
		return s.KubernetesMaxSize
	}
	return 10
}

// KubernetesTimeout returns cloud.kubernetes.cluster.start.timeout, scale.timeout or upgrade.timeout.
func (s Settings) KubernetesTimeout(action string) time.Duration {
	seconds := map[string]int{"start": s.KubernetesStartTimeout, "scale": s.KubernetesScaleTimeout, "upgrade": s.KubernetesUpgradeTimeout}[action]
	return time.Duration(cmp.Or(seconds, 3600)) * time.Second
}

// Endpoint returns endpoint.url. VMs cannot reach its default.
func (s Settings) Endpoint() string {
	return cmp.Or(s.EndpointURL, "http://localhost:8080/client/api")
}

// JobExpiry returns how long completed jobs can be queried.
func (s Settings) JobExpiry() time.Duration {
	if s.JobExpireMinutes > 0 {
		return time.Duration(s.JobExpireMinutes) * time.Minute
	}
	return 24 * time.Hour
}

// ThrottleInterval returns api.throttling.interval.
func (s Settings) ThrottleInterval() time.Duration {
	if s.ThrottleIntervalSeconds > 0 {
		return time.Duration(s.ThrottleIntervalSeconds) * time.Second
	}
	return time.Second
}

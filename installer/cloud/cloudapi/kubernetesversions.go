// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// KubernetesVersion is a version that CloudStack Kubernetes Service can install.
type KubernetesVersion struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Semantic string `json:"semanticversion"` // such as 1.33.1
	ISOID    string `json:"isoid"`
	ISOName  string `json:"isoname"`
	ISOState string `json:"isostate"` // Ready when it can be used; empty when the ISO is gone
	ZoneID   string `json:"zoneid"`   // empty: all zones
	ZoneName string `json:"zonename"`
	Arch     string `json:"arch"` // x86_64 or aarch64; CloudStack 4.20.1
	State    string `json:"state"`
	MinCPUs  int    `json:"mincpunumber"`
	// MinMemoryMiB is what a node needs at least.
	MinMemoryMiB        int  `json:"minmemory"`
	SupportsHA          bool `json:"supportsha"`
	SupportsAutoscaling bool `json:"supportsautoscaling"`
}

// VersionEnabled is the state of a version that new clusters can have.
const VersionEnabled = "Enabled"

// ListKubernetesVersions lists the versions of a zone, with those of all zones; of every zone for "".
func (c *Client) ListKubernetesVersions(ctx context.Context, zoneID string) ([]KubernetesVersion, error) {
	return cloudstack.List(ctx, c.Client, "listKubernetesSupportedVersions", "kubernetessupportedversion", cloudstack.Params{}.Set("zoneid", zoneID),
		func(v *KubernetesVersion) string { return v.ID })
}

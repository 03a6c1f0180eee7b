// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"
	"strconv"

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

// The states of a KubernetesVersion.
const (
	VersionEnabled  = "Enabled"
	VersionDisabled = "Disabled"
)

// ListKubernetesVersions lists the versions of a zone, with those of all zones; of every zone for "".
func (c *Client) ListKubernetesVersions(ctx context.Context, zoneID string) ([]KubernetesVersion, error) {
	return cloudstack.List(ctx, c.Client, "listKubernetesSupportedVersions", "kubernetessupportedversion", cloudstack.Params{}.Set("zoneid", zoneID),
		func(v *KubernetesVersion) string { return v.ID })
}

// AddKubernetesVersionRequest are the parameters of a new version. The fields of the first line are required.
type AddKubernetesVersionRequest struct {
	Semantic, URL         string
	MinCPUs, MinMemoryMiB int
	Name, ZoneID          string
	Checksum              string // such as {SHA-256}0123...
	DirectDownload        bool
	Arch                  string
}

// AddKubernetesVersion registers a version and its ISO; administrators only. The ISO is downloaded afterwards.
func (c *Client) AddKubernetesVersion(ctx context.Context, r AddKubernetesVersionRequest) (*KubernetesVersion, error) {
	return c.changeVersion(ctx, "addKubernetesSupportedVersion", cloudstack.Params{
		"semanticversion": r.Semantic, "url": r.URL, "mincpunumber": strconv.Itoa(r.MinCPUs), "minmemory": strconv.Itoa(r.MinMemoryMiB),
	}.Set("name", r.Name).Set("zoneid", r.ZoneID).Set("checksum", r.Checksum).Set("arch", r.Arch).Flag("directdownload", r.DirectDownload))
}

// UpdateKubernetesVersion makes a version Enabled or Disabled; administrators only.
func (c *Client) UpdateKubernetesVersion(ctx context.Context, id, state string) (*KubernetesVersion, error) {
	return c.changeVersion(ctx, "updateKubernetesSupportedVersion", cloudstack.Params{"id": id, "state": state})
}

func (c *Client) changeVersion(ctx context.Context, command string, f cloudstack.Params) (*KubernetesVersion, error) {
	var out struct {
		Version KubernetesVersion `json:"kubernetessupportedversion"`
	}
	if err := c.Call(ctx, command, f, &out); err != nil {
		return nil, err
	}
	if out.Version.ID == "" {
		return nil, cloudstack.BadAnswer(command, "the answer names no version")
	}
	return &out.Version, nil
}

// DeleteKubernetesVersion deletes a version and its ISO; administrators only. A version of a cluster is refused.
func (c *Client) DeleteKubernetesVersion(ctx context.Context, id string) (cloudstack.Submitted, error) {
	return c.Submit(ctx, "deleteKubernetesSupportedVersion", cloudstack.Params{"id": id})
}

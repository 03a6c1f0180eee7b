// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"
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
	return listAll(ctx, c, "listKubernetesSupportedVersions", "kubernetessupportedversion", filter{}.set("zoneid", zoneID),
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
	return c.changeVersion(ctx, "addKubernetesSupportedVersion", filter{
		"semanticversion": r.Semantic, "url": r.URL, "mincpunumber": strconv.Itoa(r.MinCPUs), "minmemory": strconv.Itoa(r.MinMemoryMiB),
	}.set("name", r.Name).set("zoneid", r.ZoneID).set("checksum", r.Checksum).set("arch", r.Arch).flag("directdownload", r.DirectDownload))
}

// UpdateKubernetesVersion makes a version Enabled or Disabled; administrators only.
func (c *Client) UpdateKubernetesVersion(ctx context.Context, id, state string) (*KubernetesVersion, error) {
	return c.changeVersion(ctx, "updateKubernetesSupportedVersion", filter{"id": id, "state": state})
}

func (c *Client) changeVersion(ctx context.Context, command string, f filter) (*KubernetesVersion, error) {
	var out struct {
		Version KubernetesVersion `json:"kubernetessupportedversion"`
	}
	if err := c.call(ctx, command, f, &out); err != nil {
		return nil, err
	}
	if out.Version.ID == "" {
		return nil, badAnswer(command, "the answer names no version")
	}
	return &out.Version, nil
}

// DeleteKubernetesVersion deletes a version and its ISO; administrators only. A version of a cluster is refused.
func (c *Client) DeleteKubernetesVersion(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deleteKubernetesSupportedVersion", filter{"id": id})
}

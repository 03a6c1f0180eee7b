// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// ServiceOffering is a size of VMs.
type ServiceOffering struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	State      string `json:"state"`     // Active or Inactive; empty before 4.19
	CPUs       int    `json:"cpunumber"` // 0 where the user of the offering chooses
	SpeedMHz   int    `json:"cpuspeed"`
	MemoryMiB  int    `json:"memory"`
	Customized bool   `json:"iscustomized"`
}

// ListServiceOfferings lists the offerings that VMs of a zone can have; of every zone for "".
func (c *Client) ListServiceOfferings(ctx context.Context, zoneID string) ([]ServiceOffering, error) {
	return cloudstack.List(ctx, c.Client, "listServiceOfferings", "serviceoffering", cloudstack.Params{}.Set("zoneid", zoneID), func(o *ServiceOffering) string { return o.ID })
}

// Quota is what an account or a project may use, and uses.
type Quota struct {
	// Owner is "account NAME" or "project NAME".
	Owner                                                          string
	VMs, CPUs, MemoryMiB, Volumes, StorageGiB, PublicIPs, Networks Usage
}

// Unlimited is the Max of a Usage without a limit.
const Unlimited = -1

// Usage is a limit, and how much of it is used.
type Usage struct{ Max, Used int }

// Free returns how much is left; unlimited reports that there is no limit.
func (u Usage) Free() (left int, unlimited bool) {
	if u.Max < 0 {
		return 0, true
	}
	return max(u.Max-u.Used, 0), false
}

type quotaJSON struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	VMMax        string `json:"vmlimit"`
	VMs          int    `json:"vmtotal"`
	CPUMax       string `json:"cpulimit"`
	CPUs         int    `json:"cputotal"`
	MemoryMax    string `json:"memorylimit"`
	Memory       int    `json:"memorytotal"`
	VolumeMax    string `json:"volumelimit"`
	Volumes      int    `json:"volumetotal"`
	StorageMax   string `json:"primarystoragelimit"`
	Storage      int    `json:"primarystoragetotal"`
	PublicIPMax  string `json:"iplimit"`
	PublicIPs    int    `json:"iptotal"`
	NetworkMax   string `json:"networklimit"`
	NetworksUsed int    `json:"networktotal"`
}

// usage reads a limit: a number, or "Unlimited".
func usage(limit string, used int) Usage {
	n, err := strconv.Atoi(limit)
	if err != nil || n < 0 {
		n = Unlimited
	}
	return Usage{Max: n, Used: used}
}

// ReadQuota returns the limits of a project, or of the caller's own account for "". They are those of the account or project
// itself: a domain can have lower ones, which its users cannot see.
func (c *Client) ReadQuota(ctx context.Context, projectID string) (*Quota, error) {
	command, object, noun := "listAccounts", "account", "account "
	if projectID != "" {
		command, object, noun = "listProjects", "project", "project "
	}
	rows, err := cloudstack.List(ctx, c.Client, command, object, cloudstack.Params{}.Set("id", projectID), func(q *quotaJSON) string { return q.ID })
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || rows[0].VMMax == "" {
		return nil, cloudstack.BadAnswer(command, "it does not show the limits of exactly one "+object)
	}
	q := &rows[0]
	return &Quota{
		Owner: noun + q.Name, VMs: usage(q.VMMax, q.VMs), CPUs: usage(q.CPUMax, q.CPUs), MemoryMiB: usage(q.MemoryMax, q.Memory),
		Volumes: usage(q.VolumeMax, q.Volumes), StorageGiB: usage(q.StorageMax, q.Storage), PublicIPs: usage(q.PublicIPMax, q.PublicIPs),
		Networks: usage(q.NetworkMax, q.NetworksUsed),
	}, nil
}

// CountFreePublicIPs returns how many public addresses of a zone nobody has. It costs one call, whatever their number.
func (c *Client) CountFreePublicIPs(ctx context.Context, zoneID string) (int, error) {
	var answer struct {
		Count int `json:"count"` // missing where the list is empty
	}
	f := cloudstack.Params{"state": "Free", "page": "1", "pagesize": "1"}.Set("zoneid", zoneID)
	err := c.Call(ctx, "listPublicIpAddresses", f, &answer)
	return answer.Count, err
}

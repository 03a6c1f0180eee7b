// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// ServiceOffering is a compute offering: the size of a VM.
type ServiceOffering struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	State      string `json:"state"`     // Active or Inactive; empty before 4.19
	CPUs       int    `json:"cpunumber"` // 0 if it is chosen for each VM
	SpeedMHz   int    `json:"cpuspeed"`
	MemoryMiB  int    `json:"memory"`
	Customized bool   `json:"iscustomized"`
}

// ListServiceOfferings returns the offerings for VMs of a zone; those of every zone if zoneID is "".
func (c *Client) ListServiceOfferings(ctx context.Context, zoneID string) ([]ServiceOffering, error) {
	f := cloudstack.Params{}.Set("zoneid", zoneID)
	return cloudstack.List(ctx, c.Client, "listServiceOfferings", "serviceoffering", f,
		func(o *ServiceOffering) string { return o.ID })
}

// Quota has the limits of an account or project, and their usage.
type Quota struct {
	Owner                                                          string // "account NAME" or "project NAME"
	VMs, CPUs, MemoryMiB, Volumes, StorageGiB, PublicIPs, Networks Usage
}

// Unlimited is the Max of a Usage without a limit.
const Unlimited = -1

// Usage is a limit and the amount in use.
type Usage struct{ Max, Used int }

// Free returns how much is left. unlimited reports whether there is no limit.
func (u Usage) Free() (free int, unlimited bool) {
	if u.Max < 0 {
		return 0, true
	}
	return max(u.Max-u.Used, 0), false
}

// ReadQuota returns the limits of a project, or of the caller's own account if projectID is "". The domain may have
// lower limits, which its users cannot see.
func (c *Client) ReadQuota(ctx context.Context, projectID string) (*Quota, error) {
	command, object := "listAccounts", "account"
	if projectID != "" {
		command, object = "listProjects", "project"
	}

	f := cloudstack.Params{}.Set("id", projectID)
	rows, err := cloudstack.List(ctx, c.Client, command, object, f,
		func(row *map[string]string) string { return (*row)["id"] })
	if err != nil {
		return nil, err
	}

	if len(rows) != 1 || rows[0]["vmlimit"] == "" {
		return nil, cloudstack.BadAnswer(command, "the answer does not show the limits of exactly one "+object)
	}

	usage := func(resource string) Usage {
		limit, err := strconv.Atoi(rows[0][resource+"limit"])
		if err != nil || limit < 0 { // "Unlimited", for an administrator
			limit = Unlimited
		}
		used, _ := strconv.Atoi(rows[0][resource+"total"]) // missing if it is 0
		return Usage{Max: limit, Used: used}
	}

	return &Quota{
		Owner:      object + " " + rows[0]["name"],
		VMs:        usage("vm"),
		CPUs:       usage("cpu"),
		MemoryMiB:  usage("memory"),
		Volumes:    usage("volume"),
		StorageGiB: usage("primarystorage"),
		PublicIPs:  usage("ip"),
		Networks:   usage("network"),
	}, nil
}

// CountFreePublicIPs returns the number of free public addresses of a zone. It makes one call, however many there are.
func (c *Client) CountFreePublicIPs(ctx context.Context, zoneID string) (int, error) {
	var answer struct {
		Count int `json:"count"` // missing if the list is empty
	}
	f := cloudstack.Params{"state": "Free", "page": "1", "pagesize": "1"}.Set("zoneid", zoneID)
	err := c.Call(ctx, "listPublicIpAddresses", f, &answer)
	return answer.Count, err
}

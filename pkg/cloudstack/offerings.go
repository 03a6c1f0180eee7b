// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
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
	return listAll(ctx, c, "listServiceOfferings", "serviceoffering", filter{}.set("zoneid", zoneID), func(o *ServiceOffering) string { return o.ID })
}

// KeyPair is a registered SSH key.
type KeyPair struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// ListKeyPairs lists the SSH keys of a project, or of the account for "".
func (c *Client) ListKeyPairs(ctx context.Context, projectID string) ([]KeyPair, error) {
	return listAll(ctx, c, "listSSHKeyPairs", "sshkeypair", filter{}.set("projectid", projectID), func(k *KeyPair) string { return k.Name })
}

// Template is what VMs are made from.
type Template struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Ready  bool   `json:"isready"`
	Status string `json:"status"` // how far the download is; only its owner and administrators see it
	ZoneID string `json:"zoneid"`
}

// ListTemplates lists the zones' copies of one template that the caller can deploy VMs with: none where it does not exist, and
// where it is not the caller's to see, as CloudStack's own templates of system VMs.
func (c *Client) ListTemplates(ctx context.Context, id string) ([]Template, error) {
	templates, err := listAll(ctx, c, "listTemplates", "template", filter{"templatefilter": "executable", "id": id}, func(t *Template) string { return t.ID + " " + t.ZoneID })
	if IsNotFound(err) {
		return nil, nil
	}
	return templates, err
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
	ID           string      `json:"id"`
	Name         string      `json:"name"`
	VMMax        flex.String `json:"vmlimit"`
	VMs          flex.Int    `json:"vmtotal"`
	CPUMax       flex.String `json:"cpulimit"`
	CPUs         flex.Int    `json:"cputotal"`
	MemoryMax    flex.String `json:"memorylimit"`
	Memory       flex.Int    `json:"memorytotal"`
	VolumeMax    flex.String `json:"volumelimit"`
	Volumes      flex.Int    `json:"volumetotal"`
	StorageMax   flex.String `json:"primarystoragelimit"`
	Storage      flex.Int    `json:"primarystoragetotal"`
	PublicIPMax  flex.String `json:"iplimit"`
	PublicIPs    flex.Int    `json:"iptotal"`
	NetworkMax   flex.String `json:"networklimit"`
	NetworksUsed flex.Int    `json:"networktotal"`
}

// usage reads a limit: a number, or "Unlimited".
func usage(limit flex.String, used flex.Int) Usage {
	n, err := strconv.Atoi(string(limit))
	if err != nil || n < 0 {
		n = Unlimited
	}
	return Usage{Max: n, Used: int(used)}
}

// ReadQuota returns the limits of a project, or of the caller's own account for "". They are those of the account or project
// itself: a domain can have lower ones, which its users cannot see.
func (c *Client) ReadQuota(ctx context.Context, projectID string) (*Quota, error) {
	command, object, noun := "listAccounts", "account", "account "
	if projectID != "" {
		command, object, noun = "listProjects", "project", "project "
	}
	rows, err := listAll(ctx, c, command, object, filter{}.set("id", projectID), func(q *quotaJSON) string { return q.ID })
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || rows[0].VMMax == "" {
		return nil, badAnswer(command, "it does not show the limits of exactly one "+object)
	}
	q := &rows[0]
	return &Quota{
		Owner: noun + q.Name, VMs: usage(q.VMMax, q.VMs), CPUs: usage(q.CPUMax, q.CPUs), MemoryMiB: usage(q.MemoryMax, q.Memory),
		Volumes: usage(q.VolumeMax, q.Volumes), StorageGiB: usage(q.StorageMax, q.Storage), PublicIPs: usage(q.PublicIPMax, q.PublicIPs),
		Networks: usage(q.NetworkMax, q.NetworksUsed),
	}, nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

// ServiceOffering is the size of a VM.
type ServiceOffering struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	State     string `json:"state"`     // Active or Inactive; empty before 4.19
	CPUs      int    `json:"cpunumber"` // 0 in a customized offering
	SpeedMHz  int    `json:"cpuspeed"`
	MemoryMiB int    `json:"memory"`
	// Customized is true where whoever deploys a VM chooses CPUs and memory.
	Customized bool `json:"iscustomized"`
}

// ListServiceOfferings lists the offerings that the caller can deploy VMs with.
func (c *Client) ListServiceOfferings(ctx context.Context) ([]ServiceOffering, error) {
	return listAll(ctx, c, "listServiceOfferings", "serviceoffering", filter{}, func(o *ServiceOffering) string { return o.ID })
}

// ListSSHKeyPairs lists the names of the SSH key pairs of a project, or of the account for "".
func (c *Client) ListSSHKeyPairs(ctx context.Context, projectID string) ([]string, error) {
	type pair struct {
		Name string `json:"name"`
	}
	return list(ctx, c, "listSSHKeyPairs", "sshkeypair", filter{}.set("projectid", projectID), func(p *pair) string { return p.Name },
		func(p *pair) string { return p.Name })
}

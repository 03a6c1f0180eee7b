// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

// ServiceOffering is a size of VMs.
type ServiceOffering struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	CPUs       int    `json:"cpunumber"` // 0 where the user of the offering chooses
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

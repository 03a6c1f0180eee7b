// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
)

func TestCreate(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		change func(f *facts, r *create)
		want   []string
	}{
		"well":        {func(*facts, *create) {}, nil},
		"no network":  {func(_ *facts, r *create) { r.NetworkID = "" }, nil},
		"no offering": {func(_ *facts, r *create) { r.OfferingID = "" }, []string{"error offering-missing"}},
		"large nodes": {func(_ *facts, r *create) { r.OfferingID = "big" }, nil},
		"small workers": {func(_ *facts, r *create) { r.WorkerOfferingID = "small" },
			[]string{"error offering-small"}},
		"small for all": {func(_ *facts, r *create) { r.OfferingID = "small" },
			[]string{"error offering-small", "error offering-small"}},
		"small etcd": {func(_ *facts, r *create) { r.EtcdNodes, r.EtcdOfferingID = 1, "small" },
			[]string{"error offering-small", "warning etcd-iso"}},
		"etcd nodes": {func(_ *facts, r *create) { r.EtcdNodes = 3 }, []string{"warning etcd-iso"}},
		"two etcd nodes": {func(_ *facts, r *create) { r.EtcdNodes = 2 },
			[]string{"warning etcd-iso", "warning etcd-even"}},
		"no etcd nodes": {func(_ *facts, r *create) { r.EtcdOfferingID, r.EtcdTemplateID = "big", "t" },
			[]string{"error offering-unused", "error offering-unused"}},
		"unused small": {func(_ *facts, r *create) {
			r.OfferingID, r.ControlOfferingID, r.WorkerOfferingID = "small", "node", "big"
		}, []string{"warning offering-unused-small"}},
		"limit of VMs": {func(f *facts, _ *create) { f.Quota.VMs = cloudapi.Usage{Max: 4, Used: 3} },
			[]string{"error limit"}},
		"VMs just fit": {func(f *facts, _ *create) { f.Quota.VMs = cloudapi.Usage{Max: 5, Used: 3} }, nil},
		"no limit": {func(f *facts, _ *create) {
			f.Quota.VMs = cloudapi.Usage{Max: cloudapi.Unlimited, Used: 300}
		}, nil},
		"limit of CPUs": {func(f *facts, _ *create) { f.Quota.CPUs.Max = 9 }, []string{"error limit"}},
		"CPUs just fit": {func(f *facts, _ *create) { f.Quota.CPUs.Max = 10 }, nil},
		"limit of memory": {func(f *facts, _ *create) { f.Quota.MemoryMiB.Max = 6144 + 4095 },
			[]string{"error limit"}},
		"limit of volumes": {func(f *facts, _ *create) { f.Quota.Volumes.Max = 4 }, []string{"error limit"}},
		"limit of storage": {func(f *facts, r *create) { f.Quota.StorageGiB.Max, r.RootDiskGiB = 24+39, 20 },
			[]string{"error limit"}},
		"addresses not needed": {func(f *facts, _ *create) { f.Quota.PublicIPs.Max, f.FreeAddresses = 1, 0 }, nil},
		"limit of addresses": {func(f *facts, r *create) { f.Quota.PublicIPs.Max, r.NetworkID = 1, "" },
			[]string{"error limit"}},
		"limit of networks": {func(f *facts, r *create) { f.Quota.Networks.Max, r.NetworkID = 1, "" },
			[]string{"error limit"}},
		"no free address": {func(f *facts, r *create) { f.FreeAddresses, r.NetworkID = 0, "" },
			[]string{"error no-free-address"}},
		"one free address": {func(f *facts, r *create) { f.FreeAddresses, r.NetworkID = 1, "" }, nil},
		"no address for a tier": {func(f *facts, _ *create) { f.Network.VPCID, f.FreeAddresses = "v", 0 },
			[]string{"error no-free-address"}},
		"shared": {func(f *facts, r *create) { f.Network.Type, f.Addresses = "Shared", nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, r := newCluster()
			tc.change(f, &r)
			got := Create(f, r)
			require.Equal(t, append([]string{}, tc.want...), codes(t, got))
			require.Empty(t, unread(got))
		})
	}
}

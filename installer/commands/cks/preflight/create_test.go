// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	version := func(change func(v *cloudstack.KubernetesVersion)) func(*facts, *create) {
		return func(f *facts, _ *create) { change(&f.Versions[0]) }
	}
	network := func(change func(n *cloudstack.Network)) func(*facts, *create) {
		return func(f *facts, _ *create) { change(&f.Networks[0]) }
	}
	for name, tc := range map[string]struct {
		change func(f *facts, r *create)
		want   []string
	}{
		"well":           {func(*facts, *create) {}, nil},
		"no network":     {func(_ *facts, r *create) { r.NetworkID = "" }, nil},
		"bad name":       {func(_ *facts, r *create) { r.Name = "1_c" }, []string{"error cluster-name"}},
		"no worker":      {func(_ *facts, r *create) { r.Size = 0 }, []string{"error cluster-size"}},
		"no control":     {func(_ *facts, r *create) { r.ControlNodes = 0 }, []string{"error cluster-size"}},
		"disk too small": {func(_ *facts, r *create) { r.RootDiskGiB = 7 }, []string{"error root-disk"}},
		"disk just fits": {func(_ *facts, r *create) { r.RootDiskGiB = 8 }, nil},

		"unknown version":    {func(_ *facts, r *create) { r.VersionID = "x" }, []string{"error version-unknown"}},
		"disabled version":   {version(func(v *cloudstack.KubernetesVersion) { v.State = cloudstack.VersionDisabled }), []string{"error version-disabled"}},
		"version's zone":     {version(func(v *cloudstack.KubernetesVersion) { v.ZoneID = "z" }), nil},
		"another zone":       {version(func(v *cloudstack.KubernetesVersion) { v.ZoneID, v.ZoneName = "y", "zone-2" }), []string{"error version-zone"}},
		"ISO on its way":     {version(func(v *cloudstack.KubernetesVersion) { v.ISOState = "Creating" }), []string{"error iso-not-ready"}},
		"ISO gone":           {version(func(v *cloudstack.KubernetesVersion) { v.ISOID, v.ISOState = "", "" }), []string{"error iso-missing"}},
		"old, one control":   {version(func(v *cloudstack.KubernetesVersion) { v.SupportsHA = false }), nil},
		"old, three control": {func(f *facts, r *create) { f.Versions[0].SupportsHA, r.ControlNodes = false, 3 }, []string{"error version-ha"}},

		"unknown offering":   {func(_ *facts, r *create) { r.OfferingID = "x" }, []string{"error offering-unknown"}},
		"no offering":        {func(_ *facts, r *create) { r.OfferingID = "" }, []string{"error offering-missing"}},
		"inactive offering":  {func(f *facts, _ *create) { f.Offerings[1].State = "Inactive" }, []string{"error offering-inactive"}},
		"custom offering":    {func(_ *facts, r *create) { r.OfferingID = "any" }, []string{"error offering-custom"}},
		"small offering":     {func(_ *facts, r *create) { r.OfferingID = "small" }, []string{"error offering-small"}},
		"one CPU":            {func(f *facts, _ *create) { f.Offerings[1].CPUs = 1 }, []string{"error offering-small"}},
		"2047 MiB":           {func(f *facts, _ *create) { f.Offerings[1].MemoryMiB = 2047 }, []string{"error offering-small"}},
		"version needs more": {version(func(v *cloudstack.KubernetesVersion) { v.MinCPUs = 3 }), []string{"error offering-small"}},
		"more memory":        {version(func(v *cloudstack.KubernetesVersion) { v.MinMemoryMiB = 2049 }), []string{"error offering-small"}},
		"version needs less": {version(func(v *cloudstack.KubernetesVersion) { v.MinCPUs, v.MinMemoryMiB = 0, 0 }), nil},
		"small workers":      {func(_ *facts, r *create) { r.WorkerOfferingID = "small" }, []string{"error offering-small"}},
		"unused small": {func(_ *facts, r *create) {
			r.OfferingID, r.ControlOfferingID, r.WorkerOfferingID = "small", "node", "big"
		}, []string{"warning offering-unused-small"}},
		"unused, but for one": {func(_ *facts, r *create) { r.OfferingID, r.ControlOfferingID = "small", "node" }, []string{"error offering-small"}},

		"unknown key pair": {func(_ *facts, r *create) { r.KeyPair = "x" }, []string{"error key-pair"}},
		"no key pair":      {func(f *facts, r *create) { f.KeyPairs, r.KeyPair = nil, "" }, nil},

		"limit of VMs":          {func(f *facts, _ *create) { f.Quota.VMs = cloudstack.Usage{Max: 4, Used: 3} }, []string{"error limit"}},
		"VMs just fit":          {func(f *facts, _ *create) { f.Quota.VMs = cloudstack.Usage{Max: 5, Used: 3} }, nil},
		"no limit":              {func(f *facts, _ *create) { f.Quota.VMs = cloudstack.Usage{Max: cloudstack.Unlimited, Used: 300} }, nil},
		"limit of CPUs":         {func(f *facts, _ *create) { f.Quota.CPUs.Max = 9 }, []string{"error limit"}},
		"CPUs just fit":         {func(f *facts, _ *create) { f.Quota.CPUs.Max = 10 }, nil},
		"limit of memory":       {func(f *facts, _ *create) { f.Quota.MemoryMiB.Max = 6144 + 4095 }, []string{"error limit"}},
		"limit of volumes":      {func(f *facts, _ *create) { f.Quota.Volumes.Max = 4 }, []string{"error limit"}},
		"limit of storage":      {func(f *facts, r *create) { f.Quota.StorageGiB.Max, r.RootDiskGiB = 24+39, 20 }, []string{"error limit"}},
		"addresses not needed":  {func(f *facts, _ *create) { f.Quota.PublicIPs.Max, f.FreeAddresses = 1, 0 }, nil},
		"limit of addresses":    {func(f *facts, r *create) { f.Quota.PublicIPs.Max, r.NetworkID = 1, "" }, []string{"error limit"}},
		"limit of networks":     {func(f *facts, r *create) { f.Quota.Networks.Max, r.NetworkID = 1, "" }, []string{"error limit"}},
		"no free address":       {func(f *facts, r *create) { f.FreeAddresses, r.NetworkID = 0, "" }, []string{"error no-free-address"}},
		"one free address":      {func(f *facts, r *create) { f.FreeAddresses, r.NetworkID = 1, "" }, nil},
		"no address for a tier": {func(f *facts, _ *create) { f.Networks[0].VPCID, f.FreeAddresses = "v", 0 }, []string{"error no-free-address"}},

		"unknown network":          {func(_ *facts, r *create) { r.NetworkID = "x" }, []string{"error network-unknown"}},
		"network elsewhere":        {network(func(n *cloudstack.Network) { n.ZoneID = "y" }), []string{"error network-zone"}},
		"L2":                       {network(func(n *cloudstack.Network) { n.Type = "L2" }), []string{"error network-type"}},
		"no port forwarding":       {network(func(n *cloudstack.Network) { delete(n.Services, "PortForwarding") }), []string{"error network-service"}},
		"no firewall":              {network(func(n *cloudstack.Network) { delete(n.Services, "Firewall") }), []string{"error network-service"}},
		"a tier has no firewall":   {network(func(n *cloudstack.Network) { n.VPCID = "v"; delete(n.Services, "Firewall") }), nil},
		"egress denied":            {network(func(n *cloudstack.Network) { n.EgressDenied = true }), []string{"error network-egress"}},
		"tier, default_deny":       {network(func(n *cloudstack.Network) { n.VPCID, n.ACLName = "v", "default_deny" }), []string{"error network-acl"}},
		"network of a cluster":     {func(f *facts, _ *create) { f.Clusters = []cloudstack.KubernetesCluster{{Name: "old", NetworkID: "n"}} }, []string{"error network-in-use"}},
		"network without a router": {func(f *facts, _ *create) { f.Networks[0].State, f.Addresses = "Allocated", nil }, nil},
		"no source NAT address":    {func(f *facts, _ *create) { f.Addresses[0].SourceNAT = false }, []string{"error network-source-nat"}},
		"shared":                   {func(f *facts, r *create) { f.Networks[0].Type, f.Addresses = "Shared", nil }, nil},
		"shared, HA":               {func(f *facts, r *create) { f.Networks[0].Type, r.ControlNodes = "Shared", 2 }, []string{"error external-address-missing"}},
		"shared, HA, with address": {func(f *facts, r *create) {
			f.Networks[0].Type, r.ControlNodes, r.ExternalLBAddress = "Shared", 2, "192.0.2.9"
		}, nil},
		"isolated, with address":   {func(_ *facts, r *create) { r.ExternalLBAddress = "192.0.2.9" }, []string{"error external-address"}},
		"no network, with address": {func(_ *facts, r *create) { r.NetworkID, r.ExternalLBAddress = "", "192.0.2.9" }, []string{"error external-address"}},
		"API port is taken": {func(f *facts, _ *create) {
			f.Firewall = []cloudstack.FirewallRule{{ID: "x", PublicIPID: "ip", Protocol: "tcp", StartPort: 6000, EndPort: 6443}}
		}, []string{"error network-ports"}},
		"port before SSH": {func(f *facts, _ *create) {
			f.Forwards = []cloudstack.PortForwarding{{ID: "x", PublicIPID: "ip", StartPort: 2221, EndPort: 2221}}
		}, nil},
		"last SSH port is taken": {func(f *facts, _ *create) {
			f.Forwards = []cloudstack.PortForwarding{{ID: "x", PublicIPID: "ip", StartPort: 2223, EndPort: 2223}}
		}, []string{"error network-ports"}},
		"port after SSH": {func(f *facts, _ *create) {
			f.Forwards = []cloudstack.PortForwarding{{ID: "x", PublicIPID: "ip", StartPort: 2224, EndPort: 2224}}
		}, nil},
		"port of another address": {func(f *facts, _ *create) {
			f.Firewall = []cloudstack.FirewallRule{{ID: "x", PublicIPID: "other", Protocol: "tcp", StartPort: 6443, EndPort: 6443}}
		}, nil},
		"UDP does not matter": {func(f *facts, _ *create) {
			f.Firewall = []cloudstack.FirewallRule{{ID: "x", PublicIPID: "ip", Protocol: "udp", StartPort: 6443, EndPort: 6443}}
		}, nil},
		"TCP without ports matters": {func(f *facts, _ *create) {
			f.Firewall = []cloudstack.FirewallRule{{ID: "x", PublicIPID: "ip", Protocol: "tcp"}}
		}, []string{"error network-ports"}},
		"ICMP does not": {func(f *facts, _ *create) {
			f.Firewall = []cloudstack.FirewallRule{{ID: "x", PublicIPID: "ip", Protocol: "icmp"}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, r := newCluster()
			tc.change(f, &r)
			got := Create(f, r)
			require.Equal(t, append([]string{}, tc.want...), codes(t, got))
			require.Equal(t, []string{"the setting cloud.kubernetes.cluster.max.size", "the template of the nodes"}, unread(got), "nobody can read these")
		})
	}
}

// TestCreateUnread: what a role may not read is said once, and is no problem.
func TestCreateUnread(t *testing.T) {
	t.Parallel()
	f, r := newCluster()
	for _, s := range []Subject{
		SubjectVersions, SubjectOfferings, SubjectQuota, SubjectKeyPairs, SubjectNetworks, SubjectFree, SubjectClusters, SubjectAddresses, SubjectFirewall, SubjectForwards,
	} {
		f.Unread[s] = "the role of the keys does not allow it"
	}
	f.Versions, f.Offerings, f.Quota, f.KeyPairs, f.Networks = nil, nil, nil, nil, nil
	got := Create(f, r)
	require.Empty(t, codes(t, got))
	require.Equal(t, []string{
		"the Kubernetes versions", "the SSH key pairs", "the networks", "the resource limits", "the service offerings", "the setting cloud.kubernetes.cluster.max.size", "the template of the nodes",
	}, unread(got))

	f, r = newCluster()
	f.Unread[SubjectFirewall], f.Unread[SubjectClusters] = "no", "no"
	require.Equal(t, []string{"the clusters", "the firewall rules of the network", "the setting cloud.kubernetes.cluster.max.size", "the template of the nodes"}, unread(Create(f, r)))
}

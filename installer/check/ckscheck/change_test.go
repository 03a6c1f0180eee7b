// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// row is a test case of scale or upgrade: a change of a healthy cluster, and the expected findings.
type row struct {
	change func(f *facts)
	want   []string
}

// inCommon returns test cases for both scaling up and upgrading: both need every node and the certificates.
func inCommon() map[string]row {
	return map[string]row{
		"well":            {func(*facts) {}, nil},
		"VM is stopped":   {func(f *facts) { f.Cluster.Nodes[1].State = "Stopped" }, []string{"error vm-state"}},
		"VM does not say": {func(f *facts) { f.Cluster.Nodes[1].State = "" }, nil},
		"etcd VM is stopped": {func(f *facts) {
			f.Cluster.Nodes = append(f.Cluster.Nodes,
				cloudapi.ClusterVM{ID: "e", Name: "e", State: "Stopped", Etcd: true})
		}, []string{"error vm-state"}},
		"etcd VM is no Node": {func(f *facts) {
			f.Cluster.Nodes = append(f.Cluster.Nodes,
				cloudapi.ClusterVM{ID: "e", Name: "e", State: "Running", Etcd: true})
		}, nil},
		"node added by hand": {func(f *facts) { f.Cluster.Nodes[2].External = true }, nil},
		"VM is gone": {func(f *facts) { f.Cluster.Nodes = f.Cluster.Nodes[:2] },
			[]string{"warning cluster-nodes"}},
		"Node is not Ready": {func(f *facts) { f.Nodes[2] = node("c1-node-2", "kubelet stopped posting") },
			[]string{"error node-not-ready"}},
		"Node of somebody else": {func(f *facts) { f.Nodes = append(f.Nodes, node("other", "stopped")) }, nil},
		"VM never joined":       {func(f *facts) { f.Nodes = f.Nodes[:2] }, []string{"error node-missing"}},

		"certificate for 30 days": {func(f *facts) { f.Certificate.NotAfter = now.Add(ExpiryWarning + time.Second) },
			nil},
		"certificate for less": {func(f *facts) { f.Certificate.NotAfter = now.Add(ExpiryWarning) },
			[]string{"warning certificate-expires"}},
		"its last second": {func(f *facts) { f.Certificate.NotAfter = now },
			[]string{"warning certificate-expires"}},
		"certificate expired": {func(f *facts) { f.Certificate.NotAfter = now.Add(-time.Second) },
			[]string{"error certificate-expired"}},
		"not yet valid": {func(f *facts) { f.Certificate.NotBefore = now.Add(time.Second) },
			[]string{"error certificate-not-yet"}},
		"for another address": {func(f *facts) { f.Certificate.WrongHost = errors.New("x509: not valid") },
			[]string{"warning certificate-host"}},
	}
}

func run(t *testing.T, rows map[string]row, decide func(f *facts) []Finding) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			tc.change(f)
			require.Equal(t, append([]string{}, tc.want...), codes(t, decide(f)))
		})
	}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	run(t, inCommon(), func(f *facts) []Finding {
		ofUpgrades := func(f Finding) bool { return f.Code == "node-etcd" || f.Code == "node-added" }
		return slices.DeleteFunc(Upgrade(f, "v132"), ofUpgrades)
	})

	run(t, map[string]row{
		"no offering":           {func(f *facts) { f.Cluster.OfferingID = "" }, []string{"error offering-missing"}},
		"offering is not shown": {func(f *facts) { f.Cluster.OfferingID = "x" }, nil},
		"offering too small":    {func(f *facts) { f.Versions[2].MinCPUs = 3 }, []string{"error offering-upgrade"}},
		"memory too small": {func(f *facts) { f.Versions[2].MinMemoryMiB = 2049 },
			[]string{"error offering-upgrade"}},
		"CKS's own minimum is past": {func(f *facts) {
			f.Cluster.OfferingID, f.Versions[2].MinCPUs, f.Versions[2].MinMemoryMiB = "small", 1, 512
		}, nil},
		"workers are too small": {func(f *facts) { f.Cluster.WorkerOfferingID = "small" },
			[]string{"warning offering-small"}},
		"control nodes likewise": {func(f *facts) { f.Cluster.ControlOfferingID = "small" },
			[]string{"warning offering-small"}},
	}, func(f *facts) []Finding { return Upgrade(f, "v132") })
}

func TestScaleUp(t *testing.T) {
	t.Parallel()
	rows := inCommon()
	for name, r := range map[string]row{
		"limit of VMs":  {func(f *facts) { f.Quota.VMs.Max = 4 }, []string{"error limit"}},
		"VMs just fit":  {func(f *facts) { f.Quota.VMs.Max = 5 }, nil},
		"limit of CPUs": {func(f *facts) { f.Quota.CPUs.Max = 9 }, []string{"error limit"}},
		"workers' own offering": {func(f *facts) { f.Cluster.WorkerOfferingID, f.Quota.CPUs.Max = "big", 6+7 },
			[]string{"warning mixed-offerings", "error limit"}},
		"no address is needed": {func(f *facts) { f.Quota.PublicIPs.Max, f.FreeAddresses = 0, 0 }, nil},
		"without an offering": {func(f *facts) { f.Cluster.OfferingID, f.Cluster.WorkerOfferingID = "", "node" },
			[]string{"warning offering-missing"}},
		"autoscaled": {func(f *facts) { f.Cluster.Autoscaling = true }, []string{"warning autoscaling"}},
		"firewall rule, no ports": {func(f *facts) {
			f.Firewall = append(f.Firewall, cloudstack.FirewallRule{ID: "x", PublicIPID: "ip", Protocol: "icmp"})
		}, []string{"error firewall-without-ports"}},
		"on another address": {func(f *facts) {
			f.Firewall = append(f.Firewall, cloudstack.FirewallRule{ID: "x", PublicIPID: "other", Protocol: "icmp"})
		}, nil},
		"firewall rule, all ports": {func(f *facts) {
			f.Firewall = append(f.Firewall,
				cloudstack.FirewallRule{ID: "x", PublicIPID: "ip", Protocol: "udp", StartPort: 1, EndPort: 65535})
		}, nil},
		"firewall rule for SSH": {func(f *facts) { f.Firewall = f.Firewall[1:] },
			[]string{"warning firewall-ssh-missing"}},
		"tier, no rules":            {func(f *facts) { f.Cluster.IPAddressID, f.Firewall = "", nil }, nil},
		"etcd does not matter here": {func(f *facts) { f.Cluster.EtcdNodes = 3 }, nil},
	} {
		rows[name] = r
	}

	run(t, rows, func(f *facts) []Finding { return Scale(f, scale{ID: "k", Size: 4}) })
}

func TestScaleDown(t *testing.T) {
	t.Parallel()
	run(t, map[string]row{
		"well":            {func(*facts) {}, nil},
		"limits are past": {func(f *facts) { f.Quota.VMs.Max = 1 }, nil},
		"node is not Ready": {func(f *facts) { f.Nodes[2] = node("c1-node-2", "kubelet stopped posting") },
			[]string{"warning node-not-ready"}},
		"VM is stopped": {func(f *facts) { f.Cluster.Nodes[2].State = "Stopped" }, []string{"warning vm-state"}},
		"separate etcd": {func(f *facts) { f.Cluster.EtcdNodes = 1 }, []string{"warning etcd-scale-down"}},
		"firewall rule": {func(f *facts) { f.Firewall[0].StartPort = 0 },
			[]string{"error firewall-without-ports", "warning firewall-ssh-missing"}},
	}, func(f *facts) []Finding { return Scale(f, scale{ID: "k", Size: 1}) })
}

func TestScaleRequests(t *testing.T) {
	t.Parallel()
	on, off := true, false

	for name, tc := range map[string]struct {
		request scale
		change  func(f *facts)
		want    []string
	}{
		"autoscaling": {scale{Autoscaling: &on, MinSize: 1, MaxSize: 4}, nil, nil},
		"autoscaling, limit": {scale{Autoscaling: &on, MinSize: 1, MaxSize: 4},
			func(f *facts) { f.Quota.VMs.Max = 4 }, []string{"warning limit"}},
		"autoscaling off": {scale{Autoscaling: &off}, nil, nil},
		"larger":          {scale{OfferingID: "big"}, nil, nil},
		"larger, limit": {scale{OfferingID: "big"}, func(f *facts) { f.Quota.CPUs.Max = 6 + 5 },
			[]string{"error limit"}},
		"larger, just fits": {scale{OfferingID: "big"}, func(f *facts) { f.Quota.CPUs.Max = 6 + 6 }, nil},
		"workers larger":    {scale{WorkerOfferingID: "big"}, func(f *facts) { f.Quota.CPUs.Max = 6 + 4 }, nil},
		"offerings cannot be read": {scale{OfferingID: "big"},
			func(f *facts) { f.Unread[SubjectOfferings] = "no"; f.Offerings = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			if tc.change != nil {
				tc.change(f)
			}
			require.Equal(t, append([]string{}, tc.want...), codes(t, Scale(f, tc.request)))
		})
	}
}

// TestUnread: if only the cluster itself can be read, each operation names once what was not read, and finds no
// problem.
func TestUnread(t *testing.T) {
	t.Parallel()
	everything := map[Subject]string{}
	for _, s := range []Subject{
		SubjectVersions, SubjectOfferings, SubjectQuota, SubjectFree, SubjectNetwork, SubjectAddresses, SubjectFirewall,
		SubjectBalancers,
		SubjectNetworkVMs, SubjectNodes, SubjectServices, SubjectCertificate,
	} {
		everything[s] = "the role of the keys does not allow it"
	}

	f, on := &Facts{Now: now, Cluster: good().Cluster, Unread: everything}, true
	_, r := newCluster()
	for name, got := range map[string][]Finding{
		"upgrade":     Upgrade(f, "v132"),
		"scale up":    Scale(f, scale{Size: 3}),
		"delete":      Delete(f, false),
		"offering":    Scale(f, scale{OfferingID: "big"}),
		"autoscaling": Scale(f, scale{Autoscaling: &on, MinSize: 1, MaxSize: 9}),
		"create":      Create(&Facts{Now: now, Unread: everything}, r),
	} {
		require.Empty(t, codes(t, got), name)
		require.Len(t, unread(got), len(everything), name)
	}
}

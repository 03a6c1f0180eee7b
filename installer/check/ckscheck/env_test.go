// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// good returns the facts of a cluster with one control node and two workers in a network of its own choice. The cluster
// has no problem.
func good() *Facts {
	k := cloudapi.KubernetesCluster{
		ID:           "k",
		Name:         "c1",
		Type:         cloudapi.CloudManaged,
		State:        "Running",
		ZoneID:       "z",
		ZoneName:     "zone-1",
		VersionID:    "v131",
		Version:      "v1.31.1",
		OfferingID:   "node",
		OfferingName: "node",
		ControlNodes: 1,
		Size:         2,
		NetworkID:    "n",
		NetworkName:  "net",
		IPAddress:    "203.0.113.10",
		IPAddressID:  "ip",
		Endpoint:     "https://203.0.113.10:6443/",
		VMs:          []string{"vm0", "vm1", "vm2"},
		Nodes: []cloudapi.ClusterVM{
			{ID: "vm0", Name: "c1-control-1", State: "Running", TemplateID: "t"},
			{ID: "vm1", Name: "c1-node-1", State: "Running", TemplateID: "t"},
			{ID: "vm2", Name: "c1-node-2", State: "Running", TemplateID: "t"},
		},
	}

	version := func(id, semantic string) cloudapi.KubernetesVersion {
		return cloudapi.KubernetesVersion{
			ID:       id,
			Name:     "v" + semantic,
			Semantic: semantic,
			State:    "Enabled",
			ISOName:  "v" + semantic + "-ISO",
			ISOState: "Ready",
			Arch:     "x86_64",
			MinCPUs:  2, MinMemoryMiB: 2048, SupportsHA: true, SupportsAutoscaling: true,
		}
	}

	return &Facts{
		Now: now, Cluster: &k,
		Versions: []cloudapi.KubernetesVersion{version("v131", "1.31.1"), version("v131p", "1.31.7"),
			version("v132", "1.32.4"), version("v133", "1.33.2")},
		Offerings: []cloudapi.ServiceOffering{
			{ID: "small", Name: "small", State: "Active", CPUs: 1, SpeedMHz: 500, MemoryMiB: 512},
			{ID: "node", Name: "node", State: "Active", CPUs: 2, SpeedMHz: 1000, MemoryMiB: 2048},
			{ID: "big", Name: "big", State: "Active", CPUs: 4, SpeedMHz: 1000, MemoryMiB: 4096},
			{ID: "any", Name: "any", State: "Active", Customized: true},
		},
		Network: &cloudstack.Network{ID: "n", Name: "net", Type: "Isolated", ZoneID: "z", State: "Implemented"},
		Quota: &cloudapi.Quota{
			Owner:      "account owner",
			VMs:        cloudapi.Usage{Max: 20, Used: 3},
			CPUs:       cloudapi.Usage{Max: 40, Used: 6},
			MemoryMiB:  cloudapi.Usage{Max: 40960, Used: 6144},
			Volumes:    cloudapi.Usage{Max: 20, Used: 3},
			StorageGiB: cloudapi.Usage{Max: 200, Used: 24},
			PublicIPs:  cloudapi.Usage{Max: 20, Used: 1},
			Networks:   cloudapi.Usage{Max: 20, Used: 1},
		},
		FreeAddresses: 9,
		Addresses: []cloudstack.PublicIP{
			{ID: "ip", Address: "203.0.113.10", SourceNAT: true, AssociatedNetworkID: "n"},
		},
		Firewall: []cloudstack.FirewallRule{
			{ID: "fw-ssh", PublicIPID: "ip", Protocol: "tcp", StartPort: 2222, EndPort: 2224},
			{ID: "fw-api", PublicIPID: "ip", Protocol: "tcp", StartPort: 6443, EndPort: 6443},
		},
		Balancers: []cloudstack.LoadBalancerRule{
			{ID: "api", Name: "api-lb", PublicIPID: "ip", PublicPort: 6443, NetworkID: "n"},
		},
		NetworkVMs: []cloudstack.VirtualMachine{
			{ID: "vm0", Name: "c1-control-1"},
			{ID: "vm1", Name: "c1-node-1"},
			{ID: "vm2", Name: "c1-node-2"},
		},
		Nodes:       []corev1.Node{node("c1-control-1", ""), node("c1-node-1", ""), node("c1-node-2", "")},
		Certificate: &Certificate{NotBefore: now.AddDate(0, -1, 0), NotAfter: now.AddDate(0, 11, 0)},
		Unread:      map[Subject]string{},
	}
}

// node returns a Node that is Ready or, if why is not empty, not ready with this message.
func node(name, why string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if why != "" {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = corev1.ConditionUnknown, why
	}
	return n
}

// newCluster returns the facts and the request for a new cluster without problems, in a network that has no other
// cluster.
func newCluster() (*Facts, cloudapi.CreateClusterRequest) {
	f := good()
	f.Cluster, f.Firewall = nil, nil
	return f, cloudapi.CreateClusterRequest{
		Name:         "c2",
		ZoneID:       "z",
		VersionID:    "v131",
		OfferingID:   "node",
		ControlNodes: 1,
		Size:         1,
		NetworkID:    "n",
		KeyPair:      "key",
	}
}

// codes returns the errors and warnings in the form "SEVERITY CODE".
func codes(t *testing.T, all []Finding) []string {
	t.Helper()
	out := []string{}
	for _, f := range all {
		require.NotEmpty(t, f.Object, f)
		require.NotEmpty(t, f.What, f)
		if f.Severity == NotChecked {
			require.Contains(t, f.String(), "not checked: ")
			continue
		}
		if f.Severity == Error {
			require.NotEmpty(t, f.Remedy, f)
		}
		out = append(out, string(f.Severity)+" "+f.Code)
	}
	return out
}

// unread returns the objects of the findings that say that something was not checked.
func unread(all []Finding) (out []string) {
	for _, f := range all {
		if f.Severity == NotChecked {
			out = append(out, f.Object)
		}
	}
	slices.Sort(out)
	return out
}

type (
	facts  = Facts
	create = cloudapi.CreateClusterRequest
	scale  = cloudapi.ScaleClusterRequest
)

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ckscheck finds what a change of a cluster of CloudStack Kubernetes Service (CKS) would fail at half-way: when VMs
// were already created or replaced, or addresses left behind. CloudStack itself refuses wrong parameters before it changes
// anything; there are no rules about those.
package ckscheck

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Subject is a part of Facts. Its text completes "not checked: ...".
type Subject string

// The subjects.
const (
	SubjectVersions    Subject = "the Kubernetes versions"
	SubjectOfferings   Subject = "the service offerings"
	SubjectNetwork     Subject = "the network"
	SubjectQuota       Subject = "the resource limits"
	SubjectFree        Subject = "the free public addresses of the zone"
	SubjectAddresses   Subject = "the addresses of the network"
	SubjectFirewall    Subject = "the firewall rules of the network"
	SubjectForwards    Subject = "the port forwarding rules of the network"
	SubjectBalancers   Subject = "the load balancer rules of the network"
	SubjectNetworkVMs  Subject = "the VMs of the network"
	SubjectNodes       Subject = "the Nodes"
	SubjectServices    Subject = "the Services"
	SubjectCertificate Subject = "the certificate of the API server"
	SubjectKubeconfig  Subject = "the certificate in the administrator's kubeconfig"
)

// Facts are what the rules decide by. Cluster is nil before a create.
type Facts struct {
	// Now is the time of CloudStack's server, which the clocks of the nodes follow more likely than this machine's.
	Now       time.Time
	Cluster   *cloudapi.KubernetesCluster
	Versions  []cloudapi.KubernetesVersion
	Offerings []cloudapi.ServiceOffering
	Quota     *cloudapi.Quota
	// FreeAddresses is how many public addresses of the zone are free.
	FreeAddresses int
	// Network is the cluster's, or the one that a create names; nil without.
	Network    *cloudstack.Network
	Addresses  []cloudstack.PublicIP
	Firewall   []cloudstack.FirewallRule
	Forwards   []cloudstack.PortForwarding
	Balancers  []cloudstack.LoadBalancerRule
	NetworkVMs []cloudstack.VirtualMachine
	// Nodes and Services are Kubernetes'.
	Nodes    []corev1.Node
	Services []corev1.Service
	// Certificates are the API server's, and the client certificate in the administrator's kubeconfig where that was read.
	Certificates []Certificate
	// Unread says of what could not be read why not.
	Unread map[Subject]string
}

// Reader reads only the facts that an operation needs. What the role does not allow is no error: Unread names it.
type Reader struct {
	API       *cloudapi.Client
	ProjectID string // "" for the account
	// Kube is the API server of the cluster that is to be changed; nil where it cannot be asked, and NoKube says why.
	Kube   kubernetes.Interface
	NoKube string
	// Dial connects to the API server of the cluster; nil for the network.
	Dial  Dial
	Clock clock.PassiveClock
}

// reading collects the facts of one operation.
type reading struct {
	*Reader
	*Facts
	err error
}

func (r *Reader) begin(k *cloudapi.KubernetesCluster) *reading {
	return &reading{Reader: r, Facts: &Facts{Cluster: k, Unread: map[Subject]string{}}}
}

func (r *reading) end() (*Facts, error) {
	r.Now = r.Clock.Now()
	if offset, known := r.API.ClockOffset(); known {
		r.Now = r.Now.Add(offset)
	}
	return r.Facts, r.err
}

// read asks CloudStack for one subject. What is gone is empty, and a refusal by the role is noted; any other error ends the
// reading.
func read[Q, T any](ctx context.Context, r *reading, s Subject, to *T, call func(context.Context, Q) (T, error), q Q) {
	if r.err != nil {
		return
	}
	v, err := call(ctx, q)
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		r.Unread[s] = "the role of the keys does not allow it"
	case err == nil:
		*to = v
	case !cloudstack.IsNotFound(err):
		r.err = fmt.Errorf("read %s: %w", s, err)
	}
}

// Create reads the facts for the creation of a cluster.
func (r *Reader) Create(ctx context.Context, q cloudapi.CreateClusterRequest) (*Facts, error) {
	in := r.begin(nil)
	in.sizes(ctx, q.ZoneID)
	read(ctx, in, SubjectQuota, &in.Quota, r.API.ReadQuota, r.ProjectID)
	if q.NetworkID != "" {
		in.network(ctx, q.NetworkID)
	}
	if n := in.Network; n == nil || n.VPCID != "" {
		read(ctx, in, SubjectFree, &in.FreeAddresses, r.API.CountFreePublicIPs, q.ZoneID)
	}
	return in.end()
}

// Scale reads the facts for scaling a cluster.
func (r *Reader) Scale(ctx context.Context, k *cloudapi.KubernetesCluster, q cloudapi.ScaleClusterRequest) (*Facts, error) {
	in := r.begin(k)
	grows := q.Size > k.Size || q.Autoscaling != nil && *q.Autoscaling
	if grows || q.OfferingID != "" || q.ControlOfferingID != "" || q.WorkerOfferingID != "" {
		in.sizes(ctx, k.ZoneID)
		read(ctx, in, SubjectQuota, &in.Quota, r.API.ReadQuota, r.ProjectID)
	}
	if q.Size > 0 {
		if k.IPAddressID != "" { // empty in a VPC tier, and where the nodes are reached directly
			read(ctx, in, SubjectFirewall, &in.Firewall, r.API.ListFirewallRules, cloudstack.FirewallRuleQuery{PublicIPID: k.IPAddressID, ProjectID: r.ProjectID})
		}
		in.nodes(ctx)
		in.certificates(ctx)
	}
	return in.end()
}

// Upgrade reads the facts for upgrading a cluster.
func (r *Reader) Upgrade(ctx context.Context, k *cloudapi.KubernetesCluster) (*Facts, error) {
	in := r.begin(k)
	in.sizes(ctx, k.ZoneID)
	in.nodes(ctx)
	in.certificates(ctx)
	return in.end()
}

// Delete reads the facts for deleting a cluster.
func (r *Reader) Delete(ctx context.Context, k *cloudapi.KubernetesCluster) (*Facts, error) {
	in := r.begin(k)
	network, project := k.NetworkID, r.ProjectID
	if network == "" {
		return in.end()
	}
	in.network(ctx, network)
	read(ctx, in, SubjectAddresses, &in.Addresses, r.API.ListPublicIPs, cloudstack.PublicIPQuery{AssociatedNetworkID: network, ProjectID: project})
	read(ctx, in, SubjectFirewall, &in.Firewall, r.API.ListFirewallRules, cloudstack.FirewallRuleQuery{NetworkID: network, ProjectID: project})
	read(ctx, in, SubjectForwards, &in.Forwards, r.API.ListPortForwardings, cloudstack.PortForwardingQuery{NetworkID: network, ProjectID: project})
	read(ctx, in, SubjectBalancers, &in.Balancers, r.API.ListLoadBalancerRules, cloudstack.LoadBalancerRuleQuery{NetworkID: network, ProjectID: project})
	read(ctx, in, SubjectNetworkVMs, &in.NetworkVMs, r.API.ListVirtualMachines, cloudstack.VMQuery{NetworkID: network, ProjectID: project})
	in.ask(SubjectServices, func() (err error) {
		in.Services = cluster.List(ctx, &err, r.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
		return err
	})
	return in.end()
}

// sizes reads what versions need and offerings have.
func (r *reading) sizes(ctx context.Context, zoneID string) {
	read(ctx, r, SubjectVersions, &r.Versions, r.API.ListKubernetesVersions, zoneID)
	read(ctx, r, SubjectOfferings, &r.Offerings, r.API.ListServiceOfferings, zoneID)
}

func (r *reading) network(ctx context.Context, id string) {
	var found []cloudstack.Network
	if read(ctx, r, SubjectNetwork, &found, r.API.ListNetworks, cloudstack.NetworkQuery{ID: id, ProjectID: r.ProjectID}); len(found) > 0 {
		r.Network = &found[0]
	}
}

func (r *reading) nodes(ctx context.Context) {
	r.ask(SubjectNodes, func() (err error) {
		r.Nodes = cluster.List(ctx, &err, r.Kube.CoreV1().Nodes().List).Items
		return err
	})
}

// ask reads a subject from the cluster, which need not answer.
func (r *reading) ask(s Subject, read func() error) {
	if r.Kube == nil {
		r.Unread[s] = r.NoKube
	} else if err := read(); err != nil {
		r.Unread[s] = err.Error()
	}
}

// ClusterOf returns the cluster that has any of the VMs, by their ids; nil for none.
func ClusterOf(clusters []cloudapi.KubernetesCluster, vms map[string]bool) *cloudapi.KubernetesCluster {
	for i := range clusters {
		if slices.ContainsFunc(clusters[i].VMs, func(id string) bool { return vms[id] }) {
			return &clusters[i]
		}
	}
	return nil
}

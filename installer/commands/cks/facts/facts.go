// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package facts reads what package preflight decides by: only what an operation needs. What the keys may not read is no error;
// the facts say so.
package facts

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// API is what is asked of CloudStack; *cloudstack.Client has it.
type API interface {
	ListKubernetesClusters(ctx context.Context, projectID string) ([]cloudstack.KubernetesCluster, error)
	ListKubernetesVersions(ctx context.Context, zoneID string) ([]cloudstack.KubernetesVersion, error)
	ListServiceOfferings(ctx context.Context, zoneID string) ([]cloudstack.ServiceOffering, error)
	ListTemplates(ctx context.Context, id string) ([]cloudstack.Template, error)
	ListKeyPairs(ctx context.Context, projectID string) ([]cloudstack.KeyPair, error)
	ReadQuota(ctx context.Context, projectID string) (*cloudstack.Quota, error)
	CountFreePublicIPs(ctx context.Context, zoneID string) (int, error)
	ListNetworks(ctx context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error)
	ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error)
	ListFirewallRules(ctx context.Context, q cloudstack.FirewallRuleQuery) ([]cloudstack.FirewallRule, error)
	ListPortForwardings(ctx context.Context, q cloudstack.PortForwardingQuery) ([]cloudstack.PortForwarding, error)
	ListLoadBalancerRules(ctx context.Context, q cloudstack.LoadBalancerRuleQuery) ([]cloudstack.LoadBalancerRule, error)
	ListVirtualMachines(ctx context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error)
	KubernetesClusterConfig(ctx context.Context, id string) (string, error)
	ClockOffset() (offset time.Duration, known bool)
}

// Reader reads facts.
type Reader struct {
	API       API
	ProjectID string // "" for the account
	// Kube is the API server of the cluster that is to be changed; nil where it cannot be asked, and NoKube says why.
	Kube   kubernetes.Interface
	NoKube string
	// Dial connects to the API server of the cluster; nil for the network.
	Dial Dial
	// Clock is nil for the real one.
	Clock clock.PassiveClock
}

// reading collects the facts of one operation.
type reading struct {
	*Reader
	f   *preflight.Facts
	err error
}

func (r *Reader) begin(k *cloudstack.KubernetesCluster) *reading {
	return &reading{Reader: r, f: &preflight.Facts{Cluster: k, Unread: map[preflight.Subject]string{}}}
}

// into reads one subject. A refusal by the role is noted; any other error ends the reading.
func into[T any](r *reading, s preflight.Subject, to *T, read func() (T, error)) {
	if r.err != nil {
		return
	}
	v, err := read()
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		r.f.Unread[s] = "the role of the keys does not allow it"
	case err != nil:
		r.err = fmt.Errorf("read %s: %w", s, err)
	default:
		*to = v
	}
}

func (r *reading) end() (*preflight.Facts, error) {
	var c clock.PassiveClock = clock.RealClock{}
	if r.Clock != nil {
		c = r.Clock
	}
	r.f.Now = c.Now()
	if offset, known := r.API.ClockOffset(); known {
		r.f.Now = r.f.Now.Add(offset)
	}
	return r.f, r.err
}

// Create reads the facts for the creation of a cluster.
func (r *Reader) Create(ctx context.Context, q cloudstack.CreateClusterRequest) (*preflight.Facts, error) {
	in := r.begin(nil)
	in.versions(ctx, q.ZoneID)
	in.offerings(ctx, q.ZoneID)
	in.quota(ctx)
	if q.KeyPair != "" {
		into(in, preflight.SubjectKeyPairs, &in.f.KeyPairs, func() ([]cloudstack.KeyPair, error) { return r.API.ListKeyPairs(ctx, r.ProjectID) })
	}
	if q.NetworkID != "" {
		into(in, preflight.SubjectClusters, &in.f.Clusters, func() ([]cloudstack.KubernetesCluster, error) {
			return r.API.ListKubernetesClusters(ctx, r.ProjectID)
		})
		in.network(ctx, q.NetworkID)
		in.firewall(ctx, q.NetworkID)
		in.forwards(ctx, q.NetworkID)
	}
	if n := in.networkOf(q.NetworkID); n == nil || n.VPCID != "" {
		in.free(ctx, q.ZoneID)
	}
	return in.end()
}

// Scale reads the facts for scaling a cluster.
func (r *Reader) Scale(ctx context.Context, k *cloudstack.KubernetesCluster, q cloudstack.ScaleClusterRequest) (*preflight.Facts, error) {
	in := r.begin(k)
	in.versions(ctx, k.ZoneID)
	grows := q.Size > k.Size || q.Autoscaling != nil && *q.Autoscaling
	if grows || q.OfferingID != "" || q.ControlOfferingID != "" || q.WorkerOfferingID != "" {
		in.offerings(ctx, k.ZoneID)
		in.quota(ctx)
	}
	if grows {
		in.templates(ctx)
	}
	if q.Size > 0 {
		in.clusterFirewall(ctx)
		in.kubernetes(ctx)
		in.certificates(ctx)
	}
	return in.end()
}

// Upgrade reads the facts for upgrading a cluster.
func (r *Reader) Upgrade(ctx context.Context, k *cloudstack.KubernetesCluster) (*preflight.Facts, error) {
	in := r.begin(k)
	in.versions(ctx, k.ZoneID)
	in.offerings(ctx, k.ZoneID)
	in.kubernetes(ctx)
	in.certificates(ctx)
	return in.end()
}

// Delete reads the facts for deleting a cluster.
func (r *Reader) Delete(ctx context.Context, k *cloudstack.KubernetesCluster) (*preflight.Facts, error) {
	in := r.begin(k)
	if k.NetworkID == "" {
		return in.end()
	}
	in.network(ctx, k.NetworkID)
	in.firewall(ctx, k.NetworkID)
	in.forwards(ctx, k.NetworkID)
	into(in, preflight.SubjectBalancers, &in.f.Balancers, func() ([]cloudstack.LoadBalancerRule, error) {
		return r.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{NetworkID: k.NetworkID, ProjectID: r.ProjectID})
	})
	into(in, preflight.SubjectNetworkVMs, &in.f.NetworkVMs, func() ([]cloudstack.VirtualMachine, error) {
		return r.API.ListVirtualMachines(ctx, cloudstack.VMQuery{NetworkID: k.NetworkID, ProjectID: r.ProjectID})
	})
	in.services(ctx)
	return in.end()
}

func (r *reading) versions(ctx context.Context, zoneID string) {
	into(r, preflight.SubjectVersions, &r.f.Versions, func() ([]cloudstack.KubernetesVersion, error) { return r.API.ListKubernetesVersions(ctx, zoneID) })
}

func (r *reading) offerings(ctx context.Context, zoneID string) {
	into(r, preflight.SubjectOfferings, &r.f.Offerings, func() ([]cloudstack.ServiceOffering, error) { return r.API.ListServiceOfferings(ctx, zoneID) })
}

func (r *reading) quota(ctx context.Context) {
	into(r, preflight.SubjectQuota, &r.f.Quota, func() (*cloudstack.Quota, error) { return r.API.ReadQuota(ctx, r.ProjectID) })
}

func (r *reading) free(ctx context.Context, zoneID string) {
	into(r, preflight.SubjectFree, &r.f.FreeAddresses, func() (int, error) { return r.API.CountFreePublicIPs(ctx, zoneID) })
}

// templates reads the templates of the nodes.
func (r *reading) templates(ctx context.Context) {
	for _, id := range preflight.TemplatesOf(r.f.Cluster) {
		var found []cloudstack.Template
		into(r, preflight.SubjectTemplates, &found, func() ([]cloudstack.Template, error) { return r.API.ListTemplates(ctx, id) })
		r.f.Templates = append(r.f.Templates, found...)
	}
}

func (r *reading) network(ctx context.Context, id string) {
	into(r, preflight.SubjectNetworks, &r.f.Networks, func() ([]cloudstack.Network, error) {
		found, err := r.API.ListNetworks(ctx, cloudstack.NetworkQuery{ID: id, ProjectID: r.ProjectID})
		if cloudstack.IsNotFound(err) {
			return nil, nil
		}
		return found, err
	})
	into(r, preflight.SubjectAddresses, &r.f.Addresses, func() ([]cloudstack.PublicIP, error) {
		return r.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{AssociatedNetworkID: id, ProjectID: r.ProjectID})
	})
}

func (r *reading) networkOf(id string) *cloudstack.Network {
	if i := slices.IndexFunc(r.f.Networks, func(n cloudstack.Network) bool { return n.ID == id }); i >= 0 {
		return &r.f.Networks[i]
	}
	return nil
}

// firewall reads the rules of all addresses of a network: CloudStack lists them by network.
func (r *reading) firewall(ctx context.Context, networkID string) {
	into(r, preflight.SubjectFirewall, &r.f.Firewall, func() ([]cloudstack.FirewallRule, error) {
		return r.API.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{NetworkID: networkID, ProjectID: r.ProjectID})
	})
}

// clusterFirewall reads the rules of the cluster's own address.
func (r *reading) clusterFirewall(ctx context.Context) {
	if r.f.Cluster.IPAddressID == "" { // a VPC tier, or a network that its nodes are reached in directly
		return
	}
	into(r, preflight.SubjectFirewall, &r.f.Firewall, func() ([]cloudstack.FirewallRule, error) {
		return r.API.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: r.f.Cluster.IPAddressID, ProjectID: r.ProjectID})
	})
}

func (r *reading) forwards(ctx context.Context, networkID string) {
	into(r, preflight.SubjectForwards, &r.f.Forwards, func() ([]cloudstack.PortForwarding, error) {
		return r.API.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{NetworkID: networkID, ProjectID: r.ProjectID})
	})
}

// kubernetes reads the Nodes.
func (r *reading) kubernetes(ctx context.Context) {
	if r.Kube == nil {
		r.f.Unread[preflight.SubjectNodes] = r.NoKube
		return
	}
	nodes, err := r.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		r.f.Unread[preflight.SubjectNodes] = err.Error()
		return
	}
	r.f.Nodes = preflight.NodesOf(nodes.Items, r.f.Cluster)
}

// services reads the Services of type LoadBalancer.
func (r *reading) services(ctx context.Context) {
	if r.Kube == nil {
		r.f.Unread[preflight.SubjectServices] = r.NoKube
		return
	}
	services, err := r.Kube.CoreV1().Services(corev1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		r.f.Unread[preflight.SubjectServices] = err.Error()
		return
	}
	r.f.Services = preflight.ServicesOf(services.Items)
}

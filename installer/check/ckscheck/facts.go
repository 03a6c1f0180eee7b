// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ckscheck finds reasons why a change of a cluster of CloudStack Kubernetes Service (CKS) would fail half-way:
// when VMs were already created or replaced, or addresses left behind. It has no rules about invalid parameters:
// CloudStack refuses those before it changes anything.
package ckscheck

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Subject is a part of Facts. Its text completes "not checked: ...".
type Subject string

// Subjects. The last three are read from the cluster, which may not answer.
const (
	SubjectVersions    Subject = "the Kubernetes versions"
	SubjectOfferings   Subject = "the service offerings"
	SubjectQuota       Subject = "the resource limits"
	SubjectFree        Subject = "the free public addresses of the zone"
	SubjectNetwork     Subject = "the network"
	SubjectAddresses   Subject = "the addresses of the network"
	SubjectFirewall    Subject = "the firewall rules of the network"
	SubjectBalancers   Subject = "the load balancer rules of the network"
	SubjectNetworkVMs  Subject = "the VMs of the network"
	SubjectRootDisks   Subject = "the root disks of the VMs"
	SubjectPods        Subject = "the Pods of the nodes"
	SubjectNodes       Subject = "the Nodes"
	SubjectServices    Subject = "the Services"
	SubjectCertificate Subject = "the certificate of the API server"
)

// Facts are the input of the rules. Before a cluster is created, Cluster has only the zone and the network.
type Facts struct {
	// Now is the time of CloudStack's server. The clocks of the nodes are more likely to agree with it than with this
	// machine.
	Now           time.Time
	Cluster       *cloudapi.KubernetesCluster
	Versions      []cloudapi.KubernetesVersion
	Offerings     []cloudapi.ServiceOffering
	Quota         *cloudapi.Quota
	FreeAddresses int
	// Network is the network of the cluster, or the one named for a new cluster; nil if there is none.
	Network    *cloudstack.Network
	Addresses  []cloudstack.PublicIP
	Firewall   []cloudstack.FirewallRule
	Balancers  []cloudstack.LoadBalancerRule
	NetworkVMs []cloudstack.VirtualMachine
	// Nodes and Services are read from the cluster.
	Nodes       []corev1.Node
	Services    []corev1.Service
	Certificate *Certificate // of the API server
	// Joining are the VMs to add as nodes; RootDisks are the sizes of their root disks in bytes, by VM id.
	Joining   []cloudstack.VirtualMachine
	RootDisks map[string]int64
	// Lost has the reasons why Pods cannot move, by the name of a node that is to be removed.
	Lost map[string]string
	// Unread has the reasons why subjects could not be read.
	Unread map[Subject]string
}

// Reader reads the facts for one operation. A refusal by the role is not an error: it is recorded in Unread.
type Reader struct {
	API       *cloudapi.Client
	ProjectID string // "" for the account
	// Kube is the client of the cluster to be changed; nil if it cannot be used, for the reason NoKube.
	Kube   kubernetes.Interface
	NoKube error
	// Dial connects to the API server of the cluster; nil uses the network.
	Dial  Dial
	Clock clock.PassiveClock
}

// Create reads the facts for the creation of a cluster.
func (r *Reader) Create(ctx context.Context, q cloudapi.CreateClusterRequest) (*Facts, error) {
	subjects := []Subject{SubjectVersions, SubjectOfferings, SubjectQuota, SubjectFree}
	if q.NetworkID != "" {
		subjects = append(subjects, SubjectNetwork)
	}
	return r.read(ctx, &cloudapi.KubernetesCluster{ZoneID: q.ZoneID, NetworkID: q.NetworkID}, subjects...)
}

// Scale reads the facts for scaling a cluster.
func (r *Reader) Scale(
	ctx context.Context, k *cloudapi.KubernetesCluster, q cloudapi.ScaleClusterRequest,
) (*Facts, error) {
	subjects := []Subject{SubjectOfferings, SubjectQuota}
	if q.Size > 0 {
		subjects = append(subjects, SubjectFirewall, SubjectNodes, SubjectCertificate)
	}
	return r.read(ctx, k, subjects...)
}

// Upgrade reads the facts for upgrading a cluster.
func (r *Reader) Upgrade(ctx context.Context, k *cloudapi.KubernetesCluster) (*Facts, error) {
	return r.read(ctx, k, SubjectVersions, SubjectOfferings, SubjectNodes, SubjectCertificate)
}

// Delete reads the facts for deleting a cluster. It reads the addresses only if there is a network, because otherwise
// nothing can be left behind.
func (r *Reader) Delete(ctx context.Context, k *cloudapi.KubernetesCluster) (*Facts, error) {
	if k.NetworkID == "" {
		return r.read(ctx, k)
	}
	return r.read(ctx, k, SubjectNetwork, SubjectAddresses, SubjectFirewall, SubjectBalancers, SubjectNetworkVMs,
		SubjectServices)
}

// Running reads the facts about a cluster that is not changed. nodes are its Nodes.
func (r *Reader) Running(ctx context.Context, k *cloudapi.KubernetesCluster, nodes []corev1.Node) (*Facts, error) {
	f, err := r.read(ctx, k, SubjectFirewall, SubjectCertificate)
	if err == nil {
		f.Nodes = nodes
	}
	return f, err
}

// read reads subjects of a cluster, its zone and its network. Objects that do not exist are empty. Refusals by the
// role, and all errors of the cluster itself, are recorded in Unread; any other error is returned.
func (r *Reader) read(ctx context.Context, k *cloudapi.KubernetesCluster, subjects ...Subject) (*Facts, error) {
	f := &Facts{Now: r.Clock.Now(), Cluster: k, Unread: map[Subject]string{}}
	for _, s := range subjects {
		var err, noAnswer error
		switch s {
		case SubjectVersions:
			f.Versions, err = r.API.ListKubernetesVersions(ctx, k.ZoneID)
		case SubjectOfferings:
			f.Offerings, err = r.API.ListServiceOfferings(ctx, k.ZoneID)
		case SubjectQuota:
			f.Quota, err = r.API.ReadQuota(ctx, r.ProjectID)
		case SubjectFree:
			f.FreeAddresses, err = r.API.CountFreePublicIPs(ctx, k.ZoneID)
		case SubjectNetwork:
			var found []cloudstack.Network
			if found, err = r.API.ListNetworks(
				ctx, cloudstack.NetworkQuery{ID: k.NetworkID, ProjectID: r.ProjectID},
			); len(found) > 0 {
				f.Network = &found[0]
			}

		case SubjectAddresses:
			f.Addresses, err = r.API.ListPublicIPs(ctx,
				cloudstack.PublicIPQuery{AssociatedNetworkID: k.NetworkID, ProjectID: r.ProjectID})
		case SubjectFirewall:
			if k.IPAddressID == "" {
				continue // CKS made no firewall rules
			}
			f.Firewall, err = r.API.ListFirewallRules(ctx,
				cloudstack.FirewallRuleQuery{NetworkID: k.NetworkID, ProjectID: r.ProjectID})

		case SubjectBalancers:
			f.Balancers, err = r.API.ListLoadBalancerRules(ctx,
				cloudstack.LoadBalancerRuleQuery{NetworkID: k.NetworkID, ProjectID: r.ProjectID})
		case SubjectNetworkVMs:
			f.NetworkVMs, err = r.API.ListVirtualMachines(ctx,
				cloudstack.VMQuery{NetworkID: k.NetworkID, ProjectID: r.ProjectID})
		case SubjectRootDisks, SubjectPods: // read by the callers, for the named VMs and nodes
		case SubjectCertificate:
			f.Certificate, noAnswer = Serving(ctx, r.Dial, k.Endpoint)
		case SubjectNodes, SubjectServices:
			switch {
			case r.Kube == nil:
				noAnswer = r.NoKube
			case s == SubjectNodes:
				f.Nodes = cluster.Nodes(ctx, &noAnswer, r.Kube)
			default:
				f.Services = cluster.Services(ctx, &noAnswer, r.Kube)
			}
		}

		switch {
		case noAnswer != nil:
			f.Unread[s] = noAnswer.Error()
		case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
			f.Unread[s] = "the role of the keys does not allow it"
		case err != nil && !cloudstack.IsNotFound(err):
			return nil, fmt.Errorf("read %s: %w", s, err)
		}
	}

	if offset, known := r.API.ClockOffset(); known {
		f.Now = f.Now.Add(offset)
	}

	return f, nil
}

// ClusterOf returns the cluster that has any of the VMs; nil if there is none.
func ClusterOf(clusters []cloudapi.KubernetesCluster, vms map[string]bool) *cloudapi.KubernetesCluster {
	for i := range clusters {
		if slices.ContainsFunc(clusters[i].VMs, func(id string) bool { return vms[id] }) {
			return &clusters[i]
		}
	}
	return nil
}

// Certificate is the certificate of an API server.
type Certificate struct {
	NotBefore, NotAfter time.Time
	// WrongHost is the reason why the certificate is not valid for the host of the cluster's endpoint.
	WrongHost error
}

// handshakeTimeout limits the time to connect to an API server.
const handshakeTimeout = 5 * time.Second

// Dial opens a connection, like net.Dialer.DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Serving reads the certificate of an API server. It does not verify the certificate: it needs only its dates and
// names, and sends nothing. If dial is nil, it uses the network.
func Serving(ctx context.Context, dial Dial, endpoint string) (*Certificate, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the cluster has no endpoint (%q)", endpoint)
	}

	address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()

	if dial == nil {
		dial = new(net.Dialer).DialContext
	}

	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the API server at %s does not answer: %w", address, err)
	}
	defer func() { _ = conn.Close() }()

	secure := tls.Client(conn,
		&tls.Config{
			//nolint:gosec // see above
			InsecureSkipVerify: true,
			MinVersion:         tls.VersionTLS12,
			ServerName:         u.Hostname(),
		})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("the API server at %s refuses TLS: %w", address, err)
	}

	leaf := secure.ConnectionState().PeerCertificates[0]
	return &Certificate{leaf.NotBefore, leaf.NotAfter, leaf.VerifyHostname(u.Hostname())}, nil
}

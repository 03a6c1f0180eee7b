// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

const webUID = "3f1c8b4e-0000-4000-8000-000000000001"

// web returns Service shop/web with an address.
func web(ip string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: webUID}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	return s
}

// withService adds Service shop/web on an address of its own, which the controller acquired.
func withService(f *facts) {
	f.Services = []corev1.Service{web("203.0.113.20")}
	f.Addresses = append(f.Addresses,
		cloudstack.PublicIP{ID: "ip2", Address: "203.0.113.20", AssociatedNetworkID: "n", Tags: map[string]string{
			"csccm-service":      "shop/web",
			"csccm-service-uid":  webUID,
			"csccm-managed-by":   "cloudstack-ccm",
			"csccm-allocated-by": "cloudstack-ccm",
			"csccm-cluster":      "c",
		}})

	f.Balancers = append(f.Balancers,
		cloudstack.LoadBalancerRule{
			ID:         "lb2",
			Name:       "a3f1c8b4e00004000800000000000000-tcp-80",
			PublicIPID: "ip2",
			PublicPort: 80,
		})

	f.Firewall = append(f.Firewall,
		cloudstack.FirewallRule{ID: "fw2", PublicIPID: "ip2", Protocol: "tcp", StartPort: 80, EndPort: 80})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	own := func(f *facts) {
		f.Network.Name, f.Network.OfferingName = "c1-network", "DefaultNetworkOfferingforKubernetesService"
	}
	both := func(all ...func(*facts)) func(*facts) {
		return func(f *facts) {
			for _, change := range all {
				change(f)
			}
		}
	}

	run(t, map[string]row{
		"well":              {func(*facts) {}, nil},
		"a Service":         {withService, []string{"warning leftover"}},
		"of an old cluster": {both(withService, func(f *facts) { f.Services = nil }), []string{"warning leftover"}},
		"somebody's address": {func(f *facts) {
			f.Addresses = append(f.Addresses, cloudstack.PublicIP{ID: "ip3", Address: "203.0.113.30"})
		}, nil},
		"somebody's rule": {func(f *facts) {
			f.Balancers = append(f.Balancers,
				cloudstack.LoadBalancerRule{ID: "x", Name: "shop", PublicIPID: "ip", PublicPort: 80})
		}, nil},
		"Leaseweb's rule": {func(f *facts) {
			f.Balancers = append(f.Balancers,
				cloudstack.LoadBalancerRule{
					ID:         "x",
					Name:       "K8s_svc_c1_shop_web-tcp-80",
					PublicIPID: "ip",
					PublicPort: 80,
				})
		}, []string{"warning leftover"}},
		"no balancer of a Service": {both(withService, func(f *facts) { f.Balancers = f.Balancers[:1] }),
			[]string{"warning leftover"}},
		"its own network":         {own, nil},
		"its own, with a Service": {both(own, withService), []string{"warning address-lost"}},
		"its own, other VMs": {both(own,
			func(f *facts) { f.NetworkVMs = append(f.NetworkVMs, cloudstack.VirtualMachine{ID: "x", Name: "db"}) }),
			[]string{"error network-guests"}},
		"its own, node by hand": {both(own, func(f *facts) { f.Cluster.Nodes[2].External = true }),
			[]string{"error node-external"}},
		"another's name": {both(own, func(f *facts) {
			f.Network.Name = "c2-network"
			f.NetworkVMs = append(f.NetworkVMs, cloudstack.VirtualMachine{ID: "x", Name: "db"})
		}), nil},
		"firewall rule, no ports": {func(f *facts) {
			f.Firewall = append(f.Firewall, cloudstack.FirewallRule{ID: "x", PublicIPID: "ip", Protocol: "icmp"})
		}, []string{"error firewall-without-ports"}},
		"its own, rule, no ports":    {both(own, func(f *facts) { f.Firewall[0].StartPort = 0 }), nil},
		"no network: a failed start": {func(f *facts) { f.Cluster.State, f.Cluster.NetworkID = "Error", "" }, nil},
	}, func(f *facts) []Finding { return Delete(f, false) })

	run(t, map[string]row{
		"a Service":         {withService, nil},
		"of an old cluster": {both(withService, func(f *facts) { f.Services = nil }), []string{"warning leftover"}},
	}, func(f *facts) []Finding { return Delete(f, true) })
}

// TestLeftover: the finding about a leftover names its ids and its Service, however the Service was found. CKS's own
// rules are not leftovers.
func TestLeftover(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *facts){
		"tags": func(f *facts) {
			f.Balancers = f.Balancers[:1]
			f.Services[0].Status.LoadBalancer.Ingress = nil
		},
		"name of a rule": func(f *facts) { f.Addresses[1].Tags = nil; f.Services[0].Status.LoadBalancer.Ingress = nil },
		"the Service":    func(f *facts) { f.Addresses[1].Tags = nil; f.Balancers = f.Balancers[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			withService(f)
			change(f)
			left := Leftovers(f)
			require.Len(t, left, 1)
			require.Equal(t, "ip2", left[0].Address.ID)
			require.Equal(t, "shop/web", left[0].Service)
			require.True(t, left[0].Living)
		})
	}

	f := good() // a Service that shares the cluster's own address
	f.Services = []corev1.Service{web("203.0.113.10")}
	f.Balancers = append(f.Balancers,
		cloudstack.LoadBalancerRule{
			ID:         "lb2",
			Name:       "a3f1c8b4e00004000800000000000000-tcp-80",
			PublicIPID: "ip",
			PublicPort: 80,
		})

	left := Leftovers(f)
	require.Len(t, left, 1)
	require.Equal(t, f.Balancers[1:], left[0].Balancers)
	require.False(t, left[0].Allocated)
}

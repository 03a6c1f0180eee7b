// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// tenantService is a Service of type LoadBalancer with an address; without one for ip "".
func tenantService(name, ip string, change ...func(*corev1.Service)) corev1.Service {
	ns, name := name[:1], name[2:]
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(ns + name), Annotations: map[string]string{}}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	if ip != "" {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	}
	aged(0)(&s)
	for _, c := range change {
		c(&s)
	}
	return s
}

func with(name, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[annotation.Prefix+name] = value }
}

func aged(minutes int) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Add(-time.Duration(minutes) * time.Minute))
	}
}

func ports(n int) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, n) }
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	custom := func(text string) tenancy.Policy {
		p, err := tenancy.Parse([]byte(text))
		require.NoError(t, err)
		return p
	}
	for name, tt := range map[string]struct {
		policy    tenancy.Policy
		services  []corev1.Service
		labels    map[string]map[string]string
		addresses []cloudstack.PublicIP
		rules     []cloudstack.LoadBalancerRule
		refused   []string // service rule, with + where it has an address
	}{
		"nothing": {policy: tenancy.Default()},
		"nothing special": {policy: tenancy.Default(), services: []corev1.Service{
			tenantService("a/web", "192.0.2.1", with("algorithm", "source")), tenantService("b/web", "192.0.2.2", with("keep-ip", "true")),
		}},
		"networks": {
			policy: tenancy.Default(),
			services: []corev1.Service{
				tenantService("b/web", "192.0.2.2", with("network", "n2")), tenantService("a/web", "192.0.2.1", with("network", "n1"), with("project", "p")),
				tenantService("a/db", "192.0.2.3", with("network", "n1")),
			},
			refused: []string{
				"+a/db tenancy.annotations.network", "+a/web tenancy.annotations.network", "+b/web tenancy.annotations.network",
			},
		},
		"without an address": {
			policy: tenancy.Default(), services: []corev1.Service{tenantService("a/web", "", with("network", "n1"))},
			refused: []string{" a/web tenancy.annotations.network"},
		},
		"of another class, of another type, being deleted": {policy: tenancy.Default(), services: []corev1.Service{
			tenantService("a/x", "192.0.2.1", with("network", "n1"), func(s *corev1.Service) { class := "c"; s.Spec.LoadBalancerClass = &class }),
			tenantService("a/y", "192.0.2.1", with("network", "n1"), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
			tenantService("a/z", "192.0.2.1", with("network", "n1"), func(s *corev1.Service) { now := metav1.Now(); s.DeletionTimestamp = &now }),
		}},
		"a trusted namespace": {
			policy:   custom(`{"trustedNamespaces":["team=infra"],"annotations":{"network":{"deny":true}}}`),
			services: []corev1.Service{tenantService("a/web", "192.0.2.1", with("network", "n1")), tenantService("b/web", "192.0.2.2", with("network", "n1"))},
			labels:   map[string]map[string]string{"a": {"team": "infra"}},
			refused:  []string{"+b/web tenancy.annotations.network"},
		},
		"the operator's own lists stay": {
			policy: custom(`{"annotations":{"network":{"allow":["x","team=infra"],"values":["n9"]}}}`),
			services: []corev1.Service{
				tenantService("a/web", "192.0.2.1", with("network", "n1")), tenantService("x/web", "192.0.2.2", with("network", "n9")),
			},
			refused: []string{"+a/web tenancy.annotations.network"},
		},
		"a value alone": {
			policy: custom(`{"annotations":{"algorithm":{"values":["source"]},"address":{"values":["192.0.2.9"]}}}`),
			services: []corev1.Service{
				tenantService("a/web", "192.0.2.1", with("algorithm", "leastconn"), func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" }),
			},
			refused: []string{"+a/web tenancy.annotations.algorithm"},
		},
		"addresses of CloudStack": {
			policy: tenancy.Default(),
			services: []corev1.Service{
				tenantService("a/nat", "192.0.2.1"), tenantService("b/foreign", "192.0.2.2", with("address", "192.0.2.2")),
				tenantService("c/chosen", "192.0.2.3"), tenantService("d/own", "192.0.2.4", with("address", "192.0.2.4")),
				tenantService("e/unknown", "192.0.2.5", with("address", "192.0.2.5")), tenantService("f/asks", "", with("address", "192.0.2.2")),
			},
			addresses: []cloudstack.PublicIP{{Address: "192.0.2.1", SourceNAT: true}, {Address: "192.0.2.2"}, {Address: "192.0.2.3"}},
			rules:     []cloudstack.LoadBalancerRule{{Name: "intranet", PublicIP: "192.0.2.2", PublicPort: 80}},
			refused:   []string{"+a/nat tenancy.sourceNATAddress", "+b/foreign tenancy.foreignAddress", " f/asks tenancy.foreignAddress"},
		},
		"limits": {
			policy: custom(`{"limits":{"maxPortsPerService":2,"maxAddressesPerNamespace":1,"keepIP":{"maxPerNamespace":1}}}`),
			services: []corev1.Service{
				tenantService("a/1", "192.0.2.1", aged(1), ports(5)), tenantService("a/2", "192.0.2.2", aged(2)), tenantService("a/3", "192.0.2.2", aged(0)),
				tenantService("b/1", "192.0.2.4", aged(1), with("keep-ip", "yes")), tenantService("b/2", "192.0.2.4", aged(3), with("keep-ip", "on")),
			},
			refused: []string{"+a/1 tenancy.limits.maxPortsPerService", "+a/1 tenancy.limits.maxAddressesPerNamespace", "+b/1 tenancy.limits.keepIP.maxPerNamespace"},
		},
		"no address may be kept": {
			policy:   custom(`{"limits":{"keepIP":{"maxPerNamespace":0}}}`),
			services: []corev1.Service{tenantService("a/1", "192.0.2.1", with("keep-ip", "true")), tenantService("a/2", "192.0.2.2", with("keep-ip", "true"))},
			refused:  []string{"+a/1 tenancy.limits.keepIP.maxPerNamespace", "+a/2 tenancy.limits.keepIP.maxPerNamespace"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range Refusals(tt.policy, &Facts{Services: tt.services, Namespaces: tt.labels, Addresses: tt.addresses, AllRules: tt.rules}) {
				mark := map[bool]string{true: "+", false: " "}[r.Serving]
				got = append(got, mark+r.Service+" "+r.Rule)
				require.NotEmpty(t, r.Message)
			}
			require.Equal(t, tt.refused, got)
		})
	}
}

func TestRuledAddresses(t *testing.T) {
	t.Parallel()
	const uid = "01234567-89ab-cdef-0123-456789abcdef"
	svc := tenantService("a/web", "192.0.2.1", func(s *corev1.Service) { s.UID = uid })
	tags := func(cluster, uid string) map[string]string {
		return map[string]string{plan.TagCluster: cluster, plan.TagServiceUID: uid, plan.TagAllocatedBy: plan.ManagedBy}
	}
	rule := func(name, ip string) cloudstack.LoadBalancerRule {
		return cloudstack.LoadBalancerRule{ID: name + ip, Name: name, PublicIP: ip, PublicPort: 80}
	}
	f := &Facts{Services: []corev1.Service{svc}, ClusterIDs: []string{"ours"}, Addresses: []cloudstack.PublicIP{
		{Address: "192.0.2.1"}, {Address: "192.0.2.2"}, {Address: "192.0.2.3", Tags: tags("ours", uid)}, {Address: "192.0.2.4", Tags: tags("others", uid)},
		{Address: "192.0.2.5", SourceNAT: true}, {Address: "192.0.2.6"},
	}, AllRules: []cloudstack.LoadBalancerRule{
		rule("a0123456789abcdef0123456789abcde-tcp-80", "192.0.2.1"), rule("intranet", "192.0.2.2"), rule("intranet", "192.0.2.3"), rule("intranet", "192.0.2.4"),
	}}
	require.Equal(t, map[string]string{
		"192.0.2.2": tenancy.ForeignAddress, "192.0.2.4": tenancy.ForeignAddress, "192.0.2.5": tenancy.SourceNATAddress,
	}, f.ruledAddresses())
}

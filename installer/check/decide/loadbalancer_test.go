// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

const (
	uidWeb = "01234567-89ab-cdef-0123-456789abcdef"
	lbWeb  = "a0123456789abcdef0123456789abcde"
	lbGone = "affffffffffffffffffffffffffffff0"
)

func lbService(change ...func(s *corev1.Service)) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uidWeb, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.11"}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func lbRule(id, name string, port int) cloudstack.LoadBalancerRule {
	return cloudstack.LoadBalancerRule{
		ID: id, Name: name, PublicIP: "203.0.113.11", PublicPort: port, PrivatePort: 30000 + port, Protocol: "tcp", State: "Active", NetworkID: "net-1",
	}
}

func members(ids ...string) []cloudstack.LoadBalancerMember {
	var out []cloudstack.LoadBalancerMember
	for _, id := range ids {
		out = append(out, cloudstack.LoadBalancerMember{VMID: id, Name: id[:1]})
	}
	return out
}

// healthy is a cluster of three nodes with one Service that has all it asks for.
func healthy(f *Facts) {
	threeVMs(f)
	f.Nodes, f.Services = []corev1.Node{nodeWith("a"), nodeWith("b"), nodeWith("c")}, []corev1.Service{lbService()}
	f.Rules = []cloudstack.LoadBalancerRule{lbRule("1", lbWeb+"-tcp-80", 80)}
}

func TestServices(t *testing.T) {
	t.Parallel()
	const web = "Service default/web: "
	tests := []struct {
		name   string
		change func(f *Facts)
		want   expect
	}{
		{"fine", func(*Facts) {}, expect{OK, "1 Service", nil}},
		{"none", func(f *Facts) { f.Services = nil }, expect{OK, "no Services", nil}},
		{"other kinds do not count", func(f *Facts) {
			class := "example.org/other"
			f.Services = []corev1.Service{lbService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }), lbService(func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class })}
		}, expect{OK, "no Services", nil}},
		{"new and without an address", func(f *Facts) {
			f.Services[0].Status.LoadBalancer.Ingress, f.Services[0].CreationTimestamp = nil, metav1.NewTime(now)
		}, expect{OK, "0 Services, 1 more being set up", nil}},
		{"old and without an address, with the reason", func(f *Facts) {
			f.Services[0].Status.LoadBalancer.Ingress = nil
			f.Events = []corev1.Event{event("Service", "web", "x", "SyncLoadBalancerFailed", "Warning", time.Minute)}
		}, expect{"", "1 of 1 Service", []string{web + "has no address since 1h0m0s: a message in two lines"}}},
		{"no rule", func(f *Facts) { f.Rules = nil }, expect{"", "", []string{web + "port 80 has no rule"}}},
		{"a port without node port", func(f *Facts) { f.Rules, f.Services[0].Spec.Ports[0].NodePort = nil, 0 }, expect{OK, "", nil}},
		{"an old name serves too", func(f *Facts) { f.Rules[0].Name = lbWeb + "-80" }, expect{OK, "", nil}},
		{"another address", func(f *Facts) { f.Rules[0].PublicIP = "203.0.113.99" }, expect{"", "", []string{web + "port 80: its rule is on 203.0.113.99, the Service shows 203.0.113.11"}}},
		{"a host name instead of the address", func(f *Facts) {
			f.Services[0].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "web.example.org"}}
		}, expect{OK, "", nil}},
		{"another node port", func(f *Facts) { f.Rules[0].PrivatePort = 31000 }, expect{"", "", []string{web + "port 80: its rule goes to port 31000, the node port is 30080"}}},
		{"the plan is empty", func(f *Facts) {
			f.Rules, f.Planned = nil, map[string]Planned{"default/web": {}}
		}, expect{OK, "1 Service", nil}},
		{"the plan has actions", func(f *Facts) {
			f.Planned = map[string]Planned{"default/web": {Actions: []string{"would open port 80", "b", "c", "d", "e", "f"}}}
		}, expect{"", "1 of 1 Service", []string{web + "would open port 80; b; c; d; 2 more actions"}}},
		{"a Service that was just changed is being worked on", func(f *Facts) {
			f.Planned = map[string]Planned{"default/web": {Actions: []string{"would open port 80"}}}
			f.Services[0].Status.Conditions = []metav1.Condition{{Type: service.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}
		}, expect{OK, "0 Services, 1 more being set up", nil}},
		{"a new Service that is refused is given no time", func(f *Facts) {
			f.Services[0].Status.LoadBalancer.Ingress, f.Services[0].CreationTimestamp = nil, metav1.NewTime(now)
			f.Planned = map[string]Planned{"default/web": {Refused: "port 80 is taken", Remedy: "use another port"}}
		}, expect{"", "1 of 1 Service", []string{web + "refused: port 80 is taken"}}},
		{"no plan", func(f *Facts) {
			f.Planned = map[string]Planned{"default/web": {Err: errors.New("no answer")}}
		}, expect{"", "1 of 1 Service", []string{web + "cannot be compared: no answer"}}},
		{"a sample", func(f *Facts) {
			f.Planned, f.Sampled = map[string]Planned{"default/other": {}}, true
		}, expect{OK, "1 Service; compared with the controller's plan are 1 of them, --only LB compares all", nil}},
		{"a rule that Leaseweb's provider has named serves all the same", func(f *Facts) {
			f.Rules[0].Name = "K8s_svc_kubernetes_default_web-tcp-80"
		}, expect{OK, "", nil}},
		{"one of another cluster's Service of that name does not", func(f *Facts) {
			f.Rules[0].Name, f.Rules[0].PublicIP = "K8s_svc_kubernetes_default_web-tcp-80", "203.0.113.99"
		}, expect{"", "1 of 1 Service", []string{"Service default/web: port 80 has no rule"}}},
		{"two rules are LB-004's", func(f *Facts) {
			f.Rules = append(f.Rules, lbRule("2", lbWeb+"-80", 80))
		}, expect{OK, "", nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.of(t, "LB-001", healthy, tt.change)
		})
	}
}

func TestRuleNames(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"LB-002", "LB-003", "LB-004"} {
		expect{OK, "none", nil}.of(t, code, healthy)
	}
	tagged := func(address, clusterID, uid string) cloudstack.PublicIP {
		return cloudstack.PublicIP{Address: address, Tags: map[string]string{plan.TagCluster: clusterID, plan.TagServiceUID: uid, plan.TagService: "default/old"}}
	}
	odd := func(f *Facts) {
		f.Rules = []cloudstack.LoadBalancerRule{
			lbRule("1", lbWeb+"-80", 80), lbRule("2", lbWeb+"-443", 443), lbRule("3", lbWeb+"-tcp-443", 443),
			lbRule("4", lbGone+"-80", 80), lbRule("5", "affffffffffffffffffffffffffffff1-80", 80),
		}
		f.OddMembers = Members{"4": members(idA, idB), "5": members(idA, "dddddddd-0000-4000-8000-000000000004")}
		f.Addresses = []cloudstack.PublicIP{
			tagged("203.0.113.50", "ours", "gone"), tagged("203.0.113.51", "former", uidWeb), tagged("203.0.113.54", "former", "gone"), tagged("203.0.113.52", "another", "gone"), {Address: "203.0.113.53"},
		}
		f.ClusterIDs = []string{"ours", "former"}
	}
	expect{"", "2 rules", []string{
		"LoadBalancerRule " + lbWeb + "-80: Service default/web", "LoadBalancerRule " + lbGone + "-80: its Service is gone",
	}}.of(t, "LB-002", healthy, odd)
	expect{"", "1 rule", []string{"LoadBalancerRule " + lbWeb + "-443: another rule"}}.of(t, "LB-004", healthy, odd)
	expect{"", "3 objects", []string{
		"LoadBalancerRule " + lbGone + "-80: nodes of this cluster", "PublicIpAddress 203.0.113.50: default/old", "PublicIpAddress 203.0.113.54: default/old",
	}}.of(t, "LB-003", healthy, odd)
}

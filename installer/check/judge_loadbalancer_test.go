// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/podlog"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
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
	planned := func(p planner.Service) func(*Facts) {
		return func(f *Facts) { f.Planned = map[string]*planner.Service{"default/web": &p} }
	}
	open := plan.Step{Kind: plan.OpenFirewall, On: plan.On{IP: "203.0.113.11"}}
	held := open
	held.Held = true
	would := func(a ...plan.Step) planner.Service {
		return planner.Service{Preview: loadbalancer.Preview{Actions: a}}
	}
	address := func(f *Facts) { f.Services[0].Status.LoadBalancer.Ingress = nil }
	fresh := func(f *Facts) { f.Services[0].CreationTimestamp = metav1.NewTime(now) }
	is := func(c metav1.Condition) func(*Facts) {
		c.Type = service.ConditionReady
		return func(f *Facts) { f.Services[0].Status.Conditions = []metav1.Condition{c} }
	}
	tries := func(in string) func(*Facts) {
		values := map[string]string{"service": "default/web", "in": in}
		return ofLogs(Log{"p", []podlog.Line{wrote(30*time.Second, 'E', "it is tried again", values)}})
	}
	refused := planner.Service{
		Preview: loadbalancer.Preview{Refusal: &plan.RefusalError{Message: "port 80 is taken", Remedy: "use another port"}},
	}
	for name, tt := range map[string]struct {
		changes []func(f *Facts)
		want    expect
	}{
		"none": {[]func(*Facts){func(f *Facts) { f.Services = nil }}, expect{OK, "0 Services", nil}},
		"other kinds do not count": {[]func(*Facts){func(f *Facts) {
			f.Services[0].Spec.Type = corev1.ServiceTypeNodePort
			f.Services = append(f.Services, lbService(func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.org/other") }))
		}}, expect{OK, "0 Services", nil}},
		"new and without an address": {[]func(*Facts){address, fresh}, expect{OK, "0 Services", nil}},
		"old and without an address, with the reason": {
			[]func(*Facts){address, is(metav1.Condition{Status: "False", Reason: "PortTaken", Message: "a message\nin two lines"})},
			expect{"", "1 of 1 Service", []string{web + "has no address since 1h0m0s; PortTaken: a message in two lines"}},
		},
		"tried again": {
			[]func(*Facts){address, tries("2m0s")}, expect{"", "", []string{web + "next try at 03:05:35Z, in 1m30s"}},
		},
		"a time that has passed": {
			[]func(*Facts){address, tries("20s")}, expect{"", "", []string{web + "has no address since 1h0m0s"}},
		},
		"the plan is empty": {[]func(*Facts){planned(planner.Service{})}, expect{OK, "1 Service", nil}},
		"the plan has actions": {
			[]func(*Facts){planned(would(open, plan.Step{Kind: plan.TagRules}, held, open))},
			expect{"", "1 of 1 Service", []string{web + "would open port 0 on 203.0.113.11 to "}},
		},
		"a Service that was just changed is being worked on": {
			[]func(*Facts){
				planned(would(open)), is(metav1.Condition{Status: "False", LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}),
			},
			expect{OK, "0 Services", nil},
		},
		"a new Service that is refused is given no time": {
			[]func(*Facts){address, fresh, planned(refused)}, expect{"", "1 of 1 Service", []string{web + "refused: port 80 is taken"}},
		},
		"no plan": {
			[]func(*Facts){planned(planner.Service{Error: "no answer"})},
			expect{"", "1 of 1 Service", []string{web + "cannot be compared: no answer"}},
		},
		"no plan at all": {
			[]func(*Facts){func(f *Facts) { f.PlanErr = errors.New("no Deployment") }},
			expect{Unknown, "1 Service; the controller's plan could not be made: no Deployment", nil},
		},
		"Ready in a large cluster": {
			[]func(*Facts){is(metav1.Condition{Status: "True"})},
			expect{OK, "1 Service; 1 of them are Ready and were not compared, --only LB compares all", nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.of(t, "LB-001", append([]func(*Facts){healthy}, tt.changes...)...)
		})
	}
}

func TestRuleNames(t *testing.T) {
	t.Parallel()
	tagged := func(address, clusterID, uid string) cloudstack.PublicIP {
		return cloudstack.PublicIP{Address: address, Tags: map[string]string{plan.TagCluster: clusterID, plan.TagServiceUID: uid, plan.TagService: "default/old"}}
	}
	odd := func(f *Facts) {
		f.Rules = []cloudstack.LoadBalancerRule{
			lbRule("1", lbWeb+"-80", 80), lbRule("2", lbWeb+"-443", 443), lbRule("3", lbWeb+"-tcp-443", 443),
			lbRule("4", lbGone+"-80", 80), lbRule("5", "affffffffffffffffffffffffffffff1-80", 80),
		}
		f.Rules[1].PublicIP = "203.0.113.99"
		f.OddMembers = lbrules.Members{"4": members(idA, idB), "5": members(idA, "dddddddd-0000-4000-8000-000000000004")}
		f.Addresses = []cloudstack.PublicIP{
			tagged("203.0.113.50", "ours", "gone"), tagged("203.0.113.51", "former", uidWeb), tagged("203.0.113.54", "former", "gone"), tagged("203.0.113.52", "another", "gone"), {Address: "203.0.113.53"},
		}
		f.ClusterIDs = []string{"ours", "former"}
	}
	old := []string{"LoadBalancerRule " + lbWeb + "-80: Service default/web"}
	expect{"", "1 rule too many", append([]string{"LoadBalancerRule " + lbWeb + "-443: serves the same port"}, old...)}.of(t, "LB-002", healthy, odd)
	expect{"", "3 objects", []string{
		"LoadBalancerRule " + lbGone + "-80: nodes of this cluster", "PublicIpAddress 203.0.113.50: default/old", "PublicIpAddress 203.0.113.54: default/old",
	}}.of(t, "LB-003", healthy, odd)
}

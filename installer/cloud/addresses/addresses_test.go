// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	webUID  = "7c3e1b52-0000-4000-8000-00000000abcd"
	mailUID = "9d3e1b52-0000-4000-8000-00000000abcd"
)

func newService(name, uid string, recorded bool) corev1.Service {
	s := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "default",
			Name:        name,
			UID:         types.UID(uid),
			Annotations: map[string]string{},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	if recorded {
		s.Annotations[annotation.AssociatedByController] = "true"
	}
	return s
}

func ruleOf(s corev1.Service, address, port string) cloudstack.LoadBalancerRule {
	return cloudstack.LoadBalancerRule{
		Name:       cloudprovider.DefaultLoadBalancerName(&s) + "-tcp-" + port,
		PublicIPID: address,
	}
}

func TestMakePlan(t *testing.T) {
	t.Parallel()
	web, mail := newService("web", webUID, true), newService("mail", mailUID, false)
	forward := func(port int, address string, of *corev1.Service) func(*Facts) {
		f := cloudstack.PortForwarding{PublicIPID: address, StartPort: port, VMName: "db"}
		if of != nil {
			f.Tags = plan.RuleTags("c1", loadbalancer.ServiceOf(of))
		}
		return func(facts *Facts) { facts.Forwards = []cloudstack.PortForwarding{f} }
	}

	alone := func(change func(*Facts)) func(*Facts) { return func(f *Facts) { f.Rules = nil; change(f) } }
	for name, tc := range map[string]struct {
		address cloudstack.PublicIP
		more    func(*Facts)
		verdict Verdict
		why     string
		service func(*corev1.Service) // changes the planned Service
		doubt   string
	}{
		"what the old provider acquired": {verdict: Adopt},
		"asked for by its field": {
			verdict: Adopt,
			doubt:   "by name",
			service: func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.7" },
		},
		"asked for by an annotation": {
			verdict: Adopt,
			doubt:   "by name",
			service: func(s *corev1.Service) { s.Annotations[annotation.Address] = "203.0.113.7" },
		},
		"recorded by Leaseweb's": {verdict: Adopt, service: func(s *corev1.Service) {
			s.Annotations[annotation.Address], s.Annotations[annotation.LeasewebNetworkID] = "203.0.113.7", "net"
		}},
		"recorded by Leaseweb's, and asked for": {verdict: Adopt, doubt: "by name", service: func(s *corev1.Service) {
			s.Annotations[annotation.Address], s.Annotations[annotation.LeasewebNetworkID] = "203.0.113.7", "net"
			s.Spec.LoadBalancerIP = "203.0.113.7"
		}},
		"kept by an annotation": {
			verdict: Adopt,
			doubt:   "keep-ip",
			service: func(s *corev1.Service) { s.Annotations[annotation.KeepIP] = "true" },
		},
		"shared within the cluster": {
			verdict: Adopt,
			doubt:   "other Services use it",
			more:    func(f *Facts) { f.Rules = append(f.Rules, ruleOf(mail, "ip", "25")) },
		},
		"handed over already": {
			verdict: Done,
			address: cloudstack.PublicIP{Tags: plan.Tags("c1", loadbalancer.ServiceOf(&web))},
		},
		"handed over under a former id": {
			verdict: Done,
			address: cloudstack.PublicIP{Tags: plan.Tags("former", loadbalancer.ServiceOf(&web))},
		},
		"source NAT": {
			verdict: Refused,
			why:     "source NAT",
			address: cloudstack.PublicIP{SourceNAT: true},
		},
		"static NAT": {
			verdict: Refused,
			why:     "static NAT",
			address: cloudstack.PublicIP{StaticNAT: true},
		},
		"another Service's": {
			verdict: Refused,
			why:     "another Service",
			address: cloudstack.PublicIP{Tags: plan.Tags("c1", loadbalancer.ServiceOf(&mail))},
		},
		"kept for another Service": {
			verdict: Refused,
			why:     "another Service",
			address: cloudstack.PublicIP{Tags: map[string]string{plan.TagKeptBy: "default/old"}},
		},
		"another cluster's": {
			verdict: Refused,
			why:     "cluster c2",
			address: cloudstack.PublicIP{Tags: map[string]string{plan.TagCluster: "c2"}},
		},
		"a forwarded port": {
			verdict: Refused,
			why:     "forwarded to VM db",
			more:    forward(22, "ip", nil),
		},
		"a forwarded port elsewhere":        {verdict: Adopt, more: forward(22, "other", nil)},
		"a forwarded port of the Service's": {verdict: Adopt, more: forward(53, "ip", &web)},
		"forwarded ports alone":             {verdict: Adopt, more: alone(forward(53, "ip", &web))},
		"another Service's forwarded ports alone": {
			verdict: Refused,
			why:     "no port forwardings",
			more:    alone(forward(53, "ip", &mail)),
		},
		"a rule by hand": {verdict: Refused, why: "by-hand", more: func(f *Facts) {
			f.Rules = append(f.Rules, cloudstack.LoadBalancerRule{Name: "by-hand", PublicIPID: "ip"})
		}},
		"a rule of a Service that is gone": {verdict: Refused, why: "no Service", more: func(f *Facts) {
			f.Rules = append(f.Rules,
				ruleOf(newService("old", "0e3e1b52-0000-4000-8000-00000000abcd", false), "ip", "1"))
		}},
		"no rules": {verdict: Refused, why: "migrate-rules", more: func(f *Facts) { f.Rules = nil }},
		"rules on two addresses": {
			verdict: Refused,
			why:     "several addresses",
			more:    func(f *Facts) { f.Rules = append(f.Rules, ruleOf(web, "other", "443")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := tc.address
			a.ID, a.Address = "ip", "203.0.113.7"
			if a.Tags == nil {
				a.Tags = map[string]string{plan.TagManagedBy: "x"}
			}

			f := Facts{
				ClusterIDs: []string{"c1", "former"},
				Services:   []corev1.Service{web, mail},
				Addresses:  []cloudstack.PublicIP{{ID: "other"}, a},
				Rules:      []cloudstack.LoadBalancerRule{ruleOf(web, "ip", "80")},
			}

			if tc.more != nil {
				tc.more(&f)
			}

			asked := web.DeepCopy()
			if tc.service != nil {
				tc.service(asked)
			}

			items := MakePlan(&f, []*corev1.Service{asked, &mail}, false)
			require.Len(t, items, 1, "mail's annotation says nothing")
			assert.Equal(t, tc.verdict, items[0].Verdict, items[0].Why)
			assert.Contains(t, items[0].Why, tc.why)
			assert.Contains(t, items[0].Doubt, tc.doubt)
			assert.Equal(t, tc.doubt == "", items[0].Doubt == "", items[0].Doubt)
			if tc.verdict == Adopt {
				assert.Equal(t, map[string]string{
					plan.TagCluster:     "c1",
					plan.TagService:     "default/web",
					plan.TagServiceUID:  webUID,
					plan.TagAllocatedBy: plan.ManagedBy,
				}, items[0].tags, "a tag that is there is left")
			}
		})
	}

	require.Len(t, MakePlan(&Facts{ClusterIDs: []string{"c1"}}, []*corev1.Service{&mail}, true), 1)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// needing are the differences that need consent, as "Service kind port: was -> becomes".
func needing(p *Plan) []string {
	var out []string
	for _, s := range p.Services {
		for _, d := range s.Differences {
			if d.Consent {
				out = append(out, s.Service+" "+d.key()+" "+d.Was+" -> "+d.Becomes)
			}
		}
	}
	return out
}

// changesOf lists what a plan does for a Service, as "sign kind".
func changesOf(p *Plan, service string) []string {
	var out []string
	for i := range p.Services {
		for j := range p.Services[i].Changes {
			if c := &p.Services[i].Changes[j]; p.Services[i].Service == service {
				out = append(out, c.sign()+" "+c.Kind)
			}
		}
	}
	return out
}

func textOf(t *testing.T, p *Plan) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, p.WriteText(&b, report.Style{}))
	return b.String()
}

func TestPlanOfRecordedStates(t *testing.T) {
	t.Parallel()
	protocol, ranges := "default/documented protocol:8080 tcp -> tcp-proxy", "default/cidrs ranges:8443 0.0.0.0/0 -> 10.0.0.0/8,172.16.0.0/12"
	withoutProxy := map[string]string{annotation.ProxyProtocol: "false"}
	for state, tt := range map[string]struct {
		needing []string
		values  map[string]string
		renames int
		pins    map[string]map[string]string
	}{
		leftby.Apache: {
			values: map[string]string{"instanceTypeFormat": "upstream"}, needing: []string{protocol},
			pins: map[string]map[string]string{"default/documented": withoutProxy},
		},
		leftby.Leaseweb: {
			values: map[string]string{"providerIDFormat": "cloudstack"}, renames: 7, needing: []string{ranges, protocol},
			pins: map[string]map[string]string{"default/cidrs": {annotation.SourceCIDRs: "0.0.0.0/0"}, "default/documented": withoutProxy},
		},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			f := newEnv(t, state).facts()
			p := NewPlan(f)
			require.Equal(t, tt.needing, needing(p))
			require.Equal(t, tt.values, p.Values)
			require.Equal(t, tt.renames, p.Rules.Count(rules.VerdictRename))
			require.Len(t, p.Services, 6)
			rules := 0
			for i := range p.Services {
				s := &p.Services[i]
				rules += len(s.Rules)
				require.NotEmpty(t, s.Address, s.Service)
				require.Equal(t, tt.pins[s.Service], s.Pins(), s.Service)
			}
			require.Equal(t, 7, rules)
			require.Len(t, p.Undecided(nil, nil), len(tt.needing), "default/restricted keeps its wide rule: the firewall filters")
			require.Empty(t, p.Undecided(nil, []string{All}))
			require.Empty(t, p.Undecided([]string{All}, nil))
			slices.Reverse(f.Services)
			slices.Reverse(f.Rules)
			slices.Reverse(f.Addresses)
			slices.Reverse(f.Firewall)
			slices.Reverse(f.Nodes)
			require.Equal(t, p.Services, NewPlan(f).Services, "the order of the input does not matter")
		})
	}
}

// Every object that is made, changed or deleted is shown, also where no user would notice. With --pin the plan is the one
// that the controller then makes.
func TestPlanShowsEveryChange(t *testing.T) {
	t.Parallel()
	p := newEnv(t, leftby.Apache).plan()
	cidrs := []string{"+ open-firewall", "- close-firewall", "~ tag-rules", "~ tag-firewall"}
	require.Equal(t, cidrs, changesOf(p, "default/cidrs"), "the firewall rule is replaced by one of the ranges that the load balancer rule already has")
	require.Equal(t, []string{"~ update-rule", "~ tag-rules", "~ tag-firewall"}, changesOf(p, "default/documented"))
	text := textOf(t, p)
	require.Contains(t, text, "4 changes\n")
	require.Contains(t, text, "3 changes, need consent\n")
	require.Contains(t, text, `Changes of default/cidrs:
  + open port 8443 on 192.168.2.12 to 10.0.0.0/8,172.16.0.0/12
  - close port 8443 on 192.168.2.12 for 0.0.0.0/0
  ~ tag 1 rule on 192.168.2.12
  ~ tag 1 firewall rule on 192.168.2.12
`)
	p.Pin([]string{"default/cidrs", "default/documented"})
	require.Equal(t, []string{"~ annotate-service", "~ tag-rules", "~ tag-firewall"}, changesOf(p, "default/documented"))
	require.Equal(t, cidrs, changesOf(p, "default/cidrs"), "there is nothing to keep")
	text = textOf(t, p)
	require.NotContains(t, text, "need consent")
	require.Contains(t, text, "but for the annotation that --pin sets: service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol=\"false\"")

	p = newEnv(t, leftby.Leaseweb).plan()
	require.Equal(t, []string{"~ rename-rule", "~ rename-rule", "~ tag-rules", "~ tag-firewall"}, changesOf(p, "default/web"))
}

// Items of network ACL lists are part of the plan where the role may read them.
func TestPlanShowsACLItems(t *testing.T) {
	t.Parallel()
	f := newEnv(t, leftby.Apache).facts()
	for id, n := range f.Networks {
		n.VPCID, n.ACLID, n.ACLName, n.Firewall = "vpc", "list", "k8s", false
		f.Networks[id] = n
	}
	f.Firewall = nil
	require.Contains(t, changesOf(NewPlan(f), "default/web"), "+ open-acl")
	f.aclsRefused = &cloudstack.Error{Kind: cloudstack.KindNotPermitted, Command: "listNetworkACLs"}
	require.NotContains(t, changesOf(NewPlan(f), "default/web"), "+ open-acl")
}

// The plan names the other controller and the order, or the command says that there is none; never both.
func TestOrder(t *testing.T) {
	t.Parallel()
	usual, other := lease.Default, lease.Name{Namespace: "x", Name: "y"}
	old := func(f family.Family, wanted int32, l *lease.Name) family.Predecessor {
		return family.Predecessor{Family: f, Kind: "Deployment", Namespace: "n", Name: "old", Wanted: wanted, Lease: l}
	}
	const named, ours, theirs = "Other controller: Deployment n/old", "csccm's controller starts before the old one ends: both use lease", "the old controller ends before csccm's starts"
	for name, tt := range map[string]struct {
		old      []family.Predecessor
		want     Order
		problems int
		running  int
		says     []string
	}{
		"none":               {nil, Nothing, 0, 0, nil},
		"same lease":         {[]family.Predecessor{old(family.Apache, 1, &usual)}, OursFirst, 0, 1, []string{named, "Order: " + ours}},
		"no lease":           {[]family.Predecessor{old(family.Leaseweb, 1, nil)}, OldFirst, 0, 1, []string{named, "Order: " + theirs}},
		"another lease":      {[]family.Predecessor{old(family.Apache, 1, &other)}, OldFirst, 0, 1, []string{named, "Order: " + theirs}},
		"one of two without": {[]family.Predecessor{old(family.Leaseweb, 1, nil), old(family.Apache, 1, &usual)}, OldFirst, 0, 2, []string{named, "Order: " + theirs}},
		"stopped":            {[]family.Predecessor{old(family.Apache, 0, &usual)}, OldFirst, 0, 0, []string{named, "Order: " + theirs}},
		"in-tree":            {[]family.Predecessor{old(family.InTree, 1, nil)}, Nothing, 1, 0, []string{named, "a cloud provider of its own"}},
		"another cloud's":    {[]family.Predecessor{old(family.Other, 1, nil)}, Nothing, 1, 0, []string{named, "that csccm does not know"}},
	} {
		p := NewPlan(&Facts{Controllers: family.Controllers{Predecessors: tt.old, Own: family.Own{Lease: usual}}})
		require.Equal(t, tt.want, p.Order, name)
		require.Len(t, p.Problems, tt.problems, name)
		require.Len(t, p.Running(), tt.running, name)
		text := textOf(t, p)
		for _, s := range tt.says {
			require.Contains(t, text, s, name)
		}
		require.Equal(t, tt.want != Nothing, strings.Contains(text, "Order: "), name)
		require.NotContains(t, text, "no other", name)
		if tt.problems > 0 {
			require.ErrorContains(t, (&Taker{Plan: p}).Check(), "nothing was changed", name)
		}
	}
}

// A port never leaves the load balancer without consent, and port forwardings of others are shown, and stay.
func TestPlanWithForwards(t *testing.T) {
	t.Parallel()
	of := func(f *Facts, kind Kind) (found []Difference, pins map[string]string) {
		p := NewPlan(f)
		for i := range p.Services {
			if s := &p.Services[i]; s.Service == "default/web" {
				for _, d := range s.Differences {
					if d.Kind == kind {
						found = append(found, d)
					}
				}
				return found, s.Pins()
			}
		}
		return nil, nil
	}
	f := newEnv(t, leftby.Apache).facts()
	at := slices.IndexFunc(f.Services, func(s corev1.Service) bool { return s.Namespace+"/"+s.Name == "default/web" })
	web := &f.Services[at]
	address := f.Addresses[slices.IndexFunc(f.Addresses, func(a cloudstack.PublicIP) bool { return a.Address == web.Status.LoadBalancer.Ingress[0].IP })]
	f.Forwards = []cloudstack.PortForwarding{{ID: "f", PublicIPID: address.ID, Protocol: "TCP", StartPort: 22, EndPort: 22, VMName: "db"}}
	beside, _ := of(f, KindForwards)
	require.Len(t, beside, 1)
	require.Equal(t, "1 port forwarding of address "+address.Address+" stays: 22/tcp to VM db", beside[0].Text)
	require.False(t, beside[0].Consent)
	modes, _ := of(f, KindMode)
	require.Empty(t, modes, "TCP ports stay where they are")

	f.mode = annotation.Direct
	modes, pins := of(f, KindMode)
	require.NotEmpty(t, modes)
	require.True(t, modes[0].Consent)
	require.Equal(t, map[string]string{annotation.Mode: annotation.Proxy}, pins)

	f.mode = ""
	web.Spec.Ports = append(web.Spec.Ports, corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: web.Spec.Ports[0].Port, NodePort: 31999})
	modes, pins = of(f, KindMode)
	require.Len(t, modes, 1, "the port has a rule for TCP, and cannot keep it beside UDP")
	require.True(t, modes[0].Consent)
	require.Nil(t, pins, "with mode proxy the Service would be refused")
}

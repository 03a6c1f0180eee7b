// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/annotation"
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
				out = append(out, c.sign+" "+c.Kind)
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
			p := newEnv(t, state).plan()
			require.Equal(t, tt.needing, needing(p))
			require.Equal(t, tt.values, p.Values)
			require.Equal(t, tt.renames, p.Rules.Count(rules.VerdictRename))
			require.Len(t, p.Services, 6)
			rules := 0
			for i := range p.Services {
				s := &p.Services[i]
				rules += len(s.Rules)
				require.NotEmpty(t, s.Address, s.Service)
				_, pins, pinnable := s.needs()
				require.True(t, pinnable, s.Service)
				require.Len(t, pins, len(tt.pins[s.Service]), s.Service)
				require.Subset(t, pins, tt.pins[s.Service], s.Service)
			}
			require.Equal(t, 7, rules)
			require.Len(t, p.undecided(Options{}), len(tt.needing), "default/restricted keeps its wide rule: the firewall filters")
			require.Empty(t, p.undecided(Options{Pin: []string{All}}))
			require.Empty(t, p.undecided(Options{Accept: []string{All}}))
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
	p = newEnv(t, leftby.Apache).plan("default/cidrs", "default/documented")
	require.Equal(t, []string{"~ annotate-service", "~ tag-rules", "~ tag-firewall"}, changesOf(p, "default/documented"))
	require.Equal(t, cidrs, changesOf(p, "default/cidrs"), "there is nothing to keep")
	text = textOf(t, p)
	require.NotContains(t, text, "need consent")
	require.Contains(t, text, "but for the annotation that --pin sets: service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol=\"false\"")

	p = newEnv(t, leftby.Leaseweb).plan()
	require.Equal(t, []string{"~ rename-rule", "~ rename-rule", "~ tag-rules", "~ tag-firewall"}, changesOf(p, "default/web"))
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
		says     []string
	}{
		"none":               {nil, Nothing, 0, nil},
		"same lease":         {[]family.Predecessor{old(family.Apache, 1, &usual)}, OursFirst, 0, []string{named, "Order: " + ours}},
		"no lease":           {[]family.Predecessor{old(family.Leaseweb, 1, nil)}, OldFirst, 0, []string{named, "Order: " + theirs}},
		"another lease":      {[]family.Predecessor{old(family.Apache, 1, &other)}, OldFirst, 0, []string{named, "Order: " + theirs}},
		"one of two without": {[]family.Predecessor{old(family.Leaseweb, 1, nil), old(family.Apache, 1, &usual)}, OldFirst, 0, []string{named, "Order: " + theirs}},
		"stopped":            {[]family.Predecessor{old(family.Apache, 0, &usual)}, OldFirst, 0, []string{named, "Order: " + theirs}},
		"another cloud's":    {[]family.Predecessor{old(family.Other, 1, nil)}, Nothing, 1, []string{named, "that csccm does not know"}},
	} {
		p := PlanOrder(&family.Controllers{Predecessors: tt.old, Own: family.Own{Lease: usual}})
		require.Equal(t, tt.want, p.Order, name)
		require.Len(t, p.Problems, tt.problems, name)
		text := textOf(t, p)
		for _, s := range tt.says {
			require.Contains(t, text, s, name)
		}
		require.Equal(t, tt.want != Nothing, strings.Contains(text, "Order: "), name)
		require.NotContains(t, text, "no other", name)
		if tt.problems > 0 {
			require.ErrorContains(t, (&Taker{Plan: p}).check(), "nothing was changed", name)
		}
	}
}

// A port never leaves the load balancer without consent.
func TestPlanWithForwards(t *testing.T) {
	t.Parallel()
	of := func(e *env) (modes []Difference, pins map[string]string, pinnable bool) {
		p := e.plan()
		for i := range p.Services {
			if s := &p.Services[i]; s.Service == "default/web" {
				for _, d := range s.Differences {
					if d.Kind == KindMode {
						modes = append(modes, d)
					}
				}
				_, pins, pinnable = s.needs()
			}
		}
		return modes, pins, pinnable
	}
	e := newEnv(t, leftby.Apache)
	modes, _, _ := of(e)
	require.Empty(t, modes, "TCP ports stay where they are")

	e.source.Config.LBMode = annotation.Direct
	modes, pins, pinnable := of(e)
	require.NotEmpty(t, modes)
	require.True(t, modes[0].Consent && pinnable)
	require.Equal(t, map[string]string{annotation.Mode: annotation.Proxy}, pins)

	e.source.Config.LBMode = ""
	web, err := e.kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	web.Spec.Ports = append(web.Spec.Ports, corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: web.Spec.Ports[0].Port, NodePort: 31999})
	_, err = e.kube.CoreV1().Services("default").Update(t.Context(), web, metav1.UpdateOptions{})
	require.NoError(t, err)
	modes, _, pinnable = of(e)
	require.Len(t, modes, 1, "the port has a rule for TCP, and cannot keep it beside UDP")
	require.True(t, modes[0].Consent)
	require.False(t, pinnable, "with mode proxy the Service would be refused")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/annotation"
)

// needing returns the differences that need consent, as "Service: text".
func needing(p *Plan) []string {
	_, changes := p.undecided(Options{})
	return changes
}

func changesOf(p *Plan, service string) []string {
	for _, svc := range p.Services {
		if svc.Service == service {
			return svc.Changes
		}
	}
	return nil
}

func textOf(t *testing.T, p *Plan) string {
	t.Helper()
	var shown engine.Plan
	p.AddTo(&shown)
	return shown.Text(report.Style{})
}

func TestPlanOfRecordedStates(t *testing.T) {
	t.Parallel()
	const protocol = "default/documented: the protocol of port 8080 changes from tcp to tcp-proxy"
	const ranges = "default/cidrs: who may connect to the rule of port 8443 changes from 0.0.0.0/0 to " +
		"10.0.0.0/8,172.16.0.0/12"
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
			values:  map[string]string{"providerIDFormat": "cloudstack"},
			renames: 7,
			needing: []string{ranges, protocol},
			pins: map[string]map[string]string{
				"default/cidrs":      {annotation.SourceCIDRs: "0.0.0.0/0"},
				"default/documented": withoutProxy,
			},
		},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			p := newEnv(t, state).plan()
			require.Equal(t, tt.needing, needing(p))
			require.Equal(t, tt.values, p.Values)
			require.Len(t, p.Steps, tt.renames)
			require.Len(t, p.Services, 6)
			rules := 0
			for _, s := range p.Services {
				rules += len(s.Rules)
				require.NotEmpty(t, s.Address, s.Service)
				require.Len(t, s.pins(), len(tt.pins[s.Service]), s.Service)
				require.Subset(t, s.pins(), tt.pins[s.Service], s.Service)
			}

			require.Equal(t, 7, rules)
			for _, o := range []Options{{Pin: []string{All}}, {Accept: []string{All}}} {
				names, _ := p.undecided(o)
				require.Empty(t, names)
			}
		})
	}
}

// Every object that is created, changed or deleted is shown, even if no user would notice. With --pin the plan is the
// one that the controller then makes.
func TestPlanShowsEveryChange(t *testing.T) {
	t.Parallel()
	p := newEnv(t, leftby.Apache).plan()
	cidrs := []string{
		"+ open port 8443 on 192.168.2.12 to 10.0.0.0/8,172.16.0.0/12",
		"- close port 8443 on 192.168.2.12 for 0.0.0.0/0",
		"~ tag 1 rule on 192.168.2.12", "~ tag 1 firewall rule on 192.168.2.12",
	}
	require.Equal(t, cidrs, changesOf(p, "default/cidrs"),
		"the firewall rule is replaced by one of the ranges that the load balancer rule already has")
	require.Len(t, changesOf(p, "default/documented"), 3)
	text := textOf(t, p)
	require.Contains(t, text, "1 rule: 4 changes\n")
	require.Contains(t, text, "1 rule: 3 changes, need consent\n")
	require.Contains(t, text,
		`(--pin keeps it: service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol="false")`)
	for _, line := range cidrs {
		require.Contains(t, text, "              "+line+"\n")
	}
	p = newEnv(t, leftby.Apache).plan("default/cidrs", "default/documented")
	require.Equal(t, `~ set annotation `+annotation.ProxyProtocol+`="false" on the Service`,
		changesOf(p, "default/documented")[0])
	require.Equal(t, cidrs, changesOf(p, "default/cidrs"), "there is nothing to keep")
	require.NotContains(t, textOf(t, p), "need consent")

	p = newEnv(t, leftby.Leaseweb).plan()
	require.Contains(t, strings.Join(changesOf(p, "default/web")[:2], "\n"), "~ rename rule K8s_svc_")
	require.Len(t, changesOf(p, "default/web"), 5)
	require.Contains(t, changesOf(p, "default/web"), "~ tag address 192.168.2.9", "the Service's annotation names it")
}

// If there is another controller, the plan names it and the order of the steps. If there is none, the command says so
// instead.
func TestOrder(t *testing.T) {
	t.Parallel()
	usual, other := lease.Default, lease.Name{Namespace: "x", Name: "y"}
	old := func(f family.Family, wanted int32, l *lease.Name) family.Predecessor {
		return family.Predecessor{Family: f, Kind: "Deployment", Namespace: "n", Name: "old", Wanted: wanted, Lease: l}
	}
	const named, ours, theirs = "Stop        Deployment n/old", "csccm's controller starts before the old one ends: " +
		"both use lease", "the old controller ends before csccm's starts"
	for name, tt := range map[string]struct {
		old     []family.Predecessor
		rivals  []family.Rival
		want    Order
		problem string
		says    []string
	}{
		"none": {nil, nil, "", "", nil},
		"same lease": {[]family.Predecessor{old(family.Apache, 1, &usual)}, nil, OursFirst, "",
			[]string{named, "Order       " + ours}},
		"no lease": {[]family.Predecessor{old(family.Leaseweb, 1, nil)}, nil, OldFirst, "",
			[]string{named, "Order       " + theirs}},
		"another lease": {[]family.Predecessor{old(family.Apache, 1, &other)}, nil, OldFirst, "",
			[]string{named, "Order       " + theirs}},
		"one of two without": {[]family.Predecessor{old(family.Leaseweb, 1, nil), old(family.Apache, 1, &usual)}, nil,
			OldFirst, "", []string{named, "Order       " + theirs}},
		"a DaemonSet without a node": {
			[]family.Predecessor{{Family: family.Apache, Kind: "DaemonSet", Name: "old", Lease: &usual}},
			nil, OursFirst, "",
			[]string{"Stop        DaemonSet", "Order       " + ours}},
		"a stopped one beside one that runs": {
			[]family.Predecessor{old(family.Leaseweb, 0, &other), old(family.Apache, 1, &usual)}, nil, OursFirst, "",
			[]string{named, "Order       " + ours}},
		"stopped": {[]family.Predecessor{old(family.Apache, 0, &usual)}, nil, OldFirst, "",
			[]string{named, "Order       " + theirs}},
		"another cloud's": {nil,
			[]family.Rival{{Family: family.Other, Kind: "Deployment", Name: "openstack", Fix: "stop it"}}, "",
			"that csccm does not know", nil},
		"a load balancer's": {nil, []family.Rival{{Family: family.Balancer, Kind: "Service", Name: "web"}}, "", "",
			[]string{"! Service web"}},
	} {
		p := PlanOrder(&family.Controllers{Predecessors: tt.old, Rivals: tt.rivals, Own: family.Own{Lease: usual}})
		require.Equal(t, tt.want, p.Order, name)
		text := textOf(t, p)
		for _, s := range tt.says {
			require.Contains(t, text, s, name)
		}

		require.Equal(t, tt.want != "", strings.Contains(text, "Order "), name)
		if tt.problem == "" {
			require.NoError(t, p.Problem, name)
		} else {
			require.ErrorContains(t, (&Taker{Plan: p}).check(), tt.problem, name)
		}
	}
}

// A port never leaves the load balancer without consent.
func TestPlanWithForwards(t *testing.T) {
	t.Parallel()
	of := func(e *env) (modes []Difference, pins map[string]string) {
		p := e.plan()
		for _, s := range p.Services {
			if s.Service == "default/web" {
				for _, d := range s.Differences {
					if d.Kind == KindMode {
						modes = append(modes, d)
					}
				}
				pins = s.pins()
			}
		}
		return modes, pins
	}
	e := newEnv(t, leftby.Apache)
	modes, _ := of(e)
	require.Empty(t, modes, "TCP ports stay where they are")

	e.source.Cloud.Config.LBMode = annotation.Direct
	modes, pins := of(e)
	require.NotEmpty(t, modes)
	require.True(t, modes[0].Consent)
	require.Equal(t, map[string]string{annotation.Mode: annotation.Proxy}, pins)

	e.source.Cloud.Config.LBMode = ""
	web, err := e.kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	web.Spec.Ports = append(web.Spec.Ports,
		corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: web.Spec.Ports[0].Port, NodePort: 31999})
	_, err = e.kube.CoreV1().Services("default").Update(t.Context(), web, metav1.UpdateOptions{})
	require.NoError(t, err)
	modes, pins = of(e)
	require.Len(t, modes, 1, "the port has a rule for TCP, and cannot keep it beside UDP")
	require.True(t, modes[0].Consent)
	require.Empty(t, pins, "with mode proxy the Service would be refused")
}

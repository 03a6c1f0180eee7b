// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func at(ip string, r Rule) Rule {
	r.PublicIP = ip
	return r
}

func TestMakePlan(t *testing.T) {
	t.Parallel()
	services := []corev1.Service{service("default", "web", uidWeb, "203.0.113.20"), service("shop", "cart", "99999999-0000-0000-0000-000000000000", "203.0.113.30")}
	nodes := map[string]bool{"21": true, "22": true}
	type row struct {
		verdict Verdict
		service string
		newName string
		reason  string
	}
	tests := []struct {
		name  string
		rules []Rule
		sel   Selection
		want  map[string]row // by rule id
	}{
		{
			name:  "legacy of a living Service, with and without protocol",
			rules: []Rule{rule("1", lbWeb+"-80", "", 80, "21"), rule("2", lbWeb+"-443", "tcp-proxy", 443)},
			want: map[string]row{
				"1": {VerdictRename, "default/web", lbWeb + "-tcp-80", "Service default/web"},
				"2": {VerdictRename, "default/web", lbWeb + "-tcp-proxy-443", "Service default/web"},
			},
		},
		{
			name:  "current and foreign names are left alone",
			rules: []Rule{rule("1", lbWeb+"-tcp-80", "tcp", 80), rule("2", "my rule", "tcp", 81)},
			want:  map[string]row{"1": {VerdictCurrent, "default/web", "", ""}, "2": {VerdictForeign, "", "", "not named"}},
		},
		{
			name:  "no Service here: left alone, with what speaks for it",
			rules: []Rule{rule("1", lbGone+"-80", "", 80, "21", "22"), rule("2", lbGone+"-81", "", 81, "21", "77"), rule("3", lbGone+"-82", "", 82, "77"), rule("4", lbGone+"-83", "", 83)},
			want: map[string]row{
				"1": {VerdictOrphan, "", "", "its Service is gone; --lb " + lbGone + " renames it all the same; --delete-orphans"},
				"2": {VerdictUnattributed, "", "", "1 of its 2 members"},
				"3": {VerdictUnattributed, "", "", "none of its members"},
				"4": {VerdictUnattributed, "", "", "no Service of this cluster"},
			},
		},
		{
			name:  "--lb takes one load balancer",
			rules: []Rule{rule("1", lbGone+"-80", "", 80), rule("2", strings.Replace(lbGone, "f0", "e0", 1)+"-80", "", 80)},
			sel:   Selection{LoadBalancers: []string{lbGone}},
			want:  map[string]row{"1": {VerdictRename, "", lbGone + "-tcp-80", "--lb"}, "2": {VerdictUnattributed, "", "", ""}},
		},
		{
			name:  "--include-unattributed takes all legacy names and nothing else",
			rules: []Rule{rule("1", lbGone+"-80", "", 80), rule("2", "my rule", "tcp", 81), rule("3", "K8s_svc_kubernetes_default_other-tcp-80", "tcp", 80)},
			sel:   Selection{IncludeUnattributed: true},
			want:  map[string]row{"1": {VerdictRename, "", lbGone + "-tcp-80", ""}, "2": {VerdictForeign, "", "", ""}, "3": {VerdictUnattributed, "", "", ""}},
		},
		{
			name:  "of rules with one port the one on the Service's address stays",
			rules: []Rule{rule("1", lbWeb+"-80", "", 80, "21"), at("203.0.113.99", rule("2", lbWeb+"-tcp-80", "tcp", 80, "21", "22"))},
			want: map[string]row{
				"1": {VerdictRename, "default/web", lbWeb + "-tcp-80", ""}, "2": {VerdictSurplus, "default/web", "", "its address is the Service's"},
			},
		},
		{
			name:  "on one address the one that serves stays, and its name decides last",
			rules: []Rule{rule("1", lbWeb+"-80", "", 80, "21"), rule("2", lbWeb+"-tcp-80", "tcp", 80), rule("3", lbWeb+"-443", "", 443, "21"), rule("4", lbWeb+"-tcp-443", "tcp", 443, "21")},
			want: map[string]row{
				"1": {VerdictRename, "default/web", lbWeb + "-tcp-80", ""}, "2": {VerdictSurplus, "default/web", "", ""},
				"3": {VerdictSurplus, "default/web", "", ""}, "4": {VerdictCurrent, "default/web", "", "stays"},
			},
		},
		{
			name: "duplicates that nothing decides are left alone",
			rules: []Rule{
				rule("1", lbGone+"-80", "", 80), rule("2", lbGone+"-80", "", 80), // no Service
				rule("3", lbWeb+"-80", "", 80), at("203.0.113.99", rule("4", lbWeb+"-tcp-80", "tcp", 80, "21")), // the better one is elsewhere
				at("203.0.113.98", rule("5", lbWeb+"-81", "", 81)), at("203.0.113.99", rule("6", lbWeb+"-tcp-81", "tcp", 81)), // none is there
			},
			sel: Selection{IncludeUnattributed: true, DeleteOrphans: true},
			want: map[string]row{
				"1": {VerdictDuplicate, "", "", "no Service"}, "2": {VerdictDuplicate, "", "", "no Service"},
				"3": {VerdictDuplicate, "default/web", "", "no members"}, "4": {VerdictDuplicate, "default/web", "", "no members"},
				"5": {VerdictDuplicate, "default/web", "", "none is on"}, "6": {VerdictDuplicate, "default/web", "", "none is on"},
			},
		},
		{
			name:  "--delete-orphans takes what has nodes of this cluster for members, and nothing else",
			rules: []Rule{rule("1", lbGone+"-80", "", 80, "21"), rule("2", lbGone+"-81", "", 81, "21", "77"), rule("3", lbGone+"-82", "", 82), rule("4", lbWeb+"-tcp-80", "tcp", 80, "21"), rule("5", "my rule", "tcp", 90, "21")},
			sel:   Selection{DeleteOrphans: true},
			want: map[string]row{
				"1": {VerdictOrphan, "", "", ""}, "2": {VerdictUnattributed, "", "", ""}, "3": {VerdictUnattributed, "", "", ""},
				"4": {VerdictCurrent, "default/web", "", ""}, "5": {VerdictForeign, "", "", ""},
			},
		},
		{
			name: "Leaseweb's need the Service's address too",
			rules: []Rule{
				rule("1", "K8s_svc_kubernetes_default_web-tcp-80", "tcp", 80),
				rule("2", "K8s_svc_kubernetes_shop_cart-tcp-80", "tcp", 80), // its Service has another address
			},
			want: map[string]row{"1": {VerdictRename, "default/web", lbWeb + "-tcp-80", ""}, "2": {VerdictUnattributed, "", "", ""}},
		},
		{
			name:  "Leaseweb's beside upstream's",
			rules: []Rule{rule("1", "K8s_svc_kubernetes_default_web-tcp-80", "tcp", 80, "21"), rule("2", lbWeb+"-tcp-80", "tcp", 80, "21")},
			want:  map[string]row{"1": {VerdictSurplus, "default/web", "", ""}, "2": {VerdictCurrent, "default/web", "", ""}},
		},
		{name: "nothing there", want: map[string]row{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check := func(rules []Rule) Plan {
				p := MakePlan(Inventory{Rules: rules, Services: services, NodeVMs: nodes}, tt.sel)
				require.Len(t, p.Items, len(tt.want))
				renames := 0
				for _, it := range p.Items {
					w := tt.want[it.RuleID]
					require.Equal(t, w.verdict, it.Verdict, "%+v", it)
					require.Equal(t, w.service, it.Service, "%+v", it)
					require.Equal(t, w.newName, it.NewName, "%+v", it)
					require.Contains(t, it.Reason, w.reason)
					if it.Verdict == VerdictRename {
						renames++
					}
				}
				deletions := 0
				for _, s := range p.Steps {
					if s.Action == ActionDelete {
						deletions++
						continue
					}
					require.Zero(t, deletions, "deletions come last")
					require.NotEmpty(t, s.Protocol, "an update without a protocol fails")
					require.Equal(t, "leastconn", s.Algorithm)
				}
				require.Len(t, p.Steps, renames+deletions)
				return p
			}
			p := check(tt.rules)
			reversed := slices.Clone(tt.rules)
			slices.Reverse(reversed)
			require.Equal(t, p.Steps, check(reversed).Steps, "the order of the input does not matter")
		})
	}
}

// The plan of what a plan has done is empty.
func TestPlanIsIdempotent(t *testing.T) {
	t.Parallel()
	rules := []Rule{rule("1", lbWeb+"-80", "", 80), rule("2", lbWeb+"-443", "ssl", 443), rule("3", lbGone+"-80", "", 80)}
	inv := Inventory{Rules: rules, Services: []corev1.Service{service("default", "web", uidWeb)}}
	sel := Selection{IncludeUnattributed: true}
	p := MakePlan(inv, sel)
	require.Len(t, p.Steps, 3)
	for _, s := range p.Steps {
		for i := range rules {
			if rules[i].ID == s.RuleID {
				rules[i].Name, rules[i].Protocol = s.To, s.Protocol
			}
		}
	}
	require.Empty(t, MakePlan(inv, sel).Steps)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
)

const (
	uidWeb = "01234567-89ab-cdef-0123-456789abcdef"
	lbWeb  = "a0123456789abcdef0123456789abcde" // cut at 32 characters
	lbGone = "affffffffffffffffffffffffffffff0"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	tests := map[string]Name{
		lbWeb + "-80":                           {Family: FamilyLegacy, LB: lbWeb, Port: 80},
		lbWeb + "-tcp-443":                      {Family: FamilyUpstream, LB: lbWeb, Port: 443},
		lbWeb + "-tcp-proxy-80":                 {Family: FamilyUpstream, LB: lbWeb, Port: 80},
		"K8s_svc_kubernetes_default_web-tcp-80": {Family: FamilyLeaseweb, Namespace: "default", Service: "web"},
		"K8s_svc_my_cluster_kube-system_a-tcp-b-tcp-proxy-8443": {
			Family:    FamilyLeaseweb,
			Namespace: "kube-system",
			Service:   "a-tcp-b",
		},
		lbWeb + "-0":       {Family: FamilyForeign},
		lbWeb + "-080":     {Family: FamilyForeign},
		lbWeb + "-70000":   {Family: FamilyForeign},
		lbWeb + "-sctp-80": {Family: FamilyForeign},
		lbWeb:              {Family: FamilyForeign},
		"web-80":           {Family: FamilyForeign},
		"abcdef-80":        {Family: FamilyForeign},
		"":                 {Family: FamilyForeign},
	}

	for name, want := range tests {
		require.Equal(t, want, ParseName(name), name)
	}
}

func service(namespace, name, uid string, ips ...string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
	for _, ip := range ips {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return s
}

func rule(id, name, protocol string, port int) cloudstack.LoadBalancerRule {
	return cloudstack.LoadBalancerRule{
		ID:         id,
		Name:       name,
		Protocol:   protocol,
		PublicIP:   "203.0.113.20",
		PublicPort: port,
	}
}

func at(ip string, r cloudstack.LoadBalancerRule) cloudstack.LoadBalancerRule {
	r.PublicIP = ip
	return r
}

func TestMakePlan(t *testing.T) {
	t.Parallel()
	services := []corev1.Service{service("default", "web", uidWeb, "203.0.113.20"),
		service("shop", "cart", "99999999-0000-0000-0000-000000000000", "203.0.113.30")}
	nodes := map[string]bool{"21": true, "22": true}
	type row struct {
		verdict Verdict
		service string
		newName string
		reason  string
	}

	tests := []struct {
		name    string
		rules   []cloudstack.LoadBalancerRule
		members Members
		want    map[string]row // by rule id
	}{
		{
			name: "legacy of a living Service, with and without protocol",
			rules: []cloudstack.LoadBalancerRule{rule("1", lbWeb+"-80", "", 80),
				rule("2", lbWeb+"-443", "tcp-proxy", 443)},
			want: map[string]row{
				"1": {VerdictRename, "default/web", lbWeb + "-tcp-80", "becomes " + lbWeb + "-tcp-80"},
				"2": {VerdictRename, "default/web", lbWeb + "-tcp-proxy-443", ""},
			},
		},
		{
			name: "current and foreign names are left alone",
			rules: []cloudstack.LoadBalancerRule{rule("1", lbWeb+"-tcp-80", "tcp", 80),
				rule("2", "my rule", "tcp", 81)},
			want: map[string]row{
				"1": {VerdictCurrent, "default/web", "", ""},
				"2": {VerdictForeign, "", "", "not named"},
			},
		},
		{
			name:    "no Service here: left alone, with what speaks for it",
			members: Members{"1": {{VMID: "21"}, {VMID: "22"}}, "2": {{VMID: "21"}, {VMID: "77"}}, "3": {{VMID: "77"}}},
			rules: []cloudstack.LoadBalancerRule{rule("1", lbGone+"-80", "", 80), rule("2", lbGone+"-81", "", 81),
				rule("3", lbGone+"-82", "", 82), rule("4", lbGone+"-83", "", 83)},
			want: map[string]row{
				"1": {VerdictOrphan, "", "", "its Service no longer exists"},
				"2": {VerdictUnattributed, "", "", "1 of its members"},
				"3": {VerdictUnattributed, "", "", "0 of its members"},
				"4": {VerdictUnattributed, "", "", "no Service of this cluster"},
			},
		},
		{
			name: "of rules with one port the one on the Service's address stays",
			rules: []cloudstack.LoadBalancerRule{rule("1", lbWeb+"-80", "", 80),
				at("203.0.113.99", rule("2", lbWeb+"-tcp-80", "tcp", 80))},
			want: map[string]row{
				"1": {VerdictRename, "default/web", lbWeb + "-tcp-80", ""},
				"2": {VerdictSurplus, "default/web", "", "its address is the Service's"},
			},
		},
		{
			name: "duplicates that nothing decides are left alone",
			rules: []cloudstack.LoadBalancerRule{
				// rules without a Service
				rule("1", lbGone+"-80", "", 80), rule("2", lbGone+"-80", "", 80),
				// no rule is on the Service's address
				at("203.0.113.98", rule("5", lbWeb+"-81", "", 81)),
				at("203.0.113.99", rule("6", lbWeb+"-tcp-81", "tcp", 81)),
			},
			want: map[string]row{
				"1": {VerdictDuplicate, "", "", "no Service"}, "2": {VerdictDuplicate, "", "", "no Service"},
				"5": {VerdictDuplicate, "default/web", "", "neither is on"},
				"6": {VerdictDuplicate, "default/web", "", "neither is on"},
			},
		},
		{
			name: "Leaseweb's need the Service's address too",
			rules: []cloudstack.LoadBalancerRule{
				rule("1", "K8s_svc_kubernetes_default_web-tcp-80", "tcp", 80),
				rule("2", "K8s_svc_kubernetes_shop_cart-tcp-80", "tcp", 80), // its Service has another address
			},
			want: map[string]row{
				"1": {VerdictRename, "default/web", lbWeb + "-tcp-80", ""},
				"2": {VerdictUnattributed, "", "", ""},
			},
		},
		{
			name: "Leaseweb's beside upstream's, on the address of another",
			rules: []cloudstack.LoadBalancerRule{at("203.0.113.99", rule("1", lbWeb+"-tcp-80", "tcp", 80)),
				rule("2", "K8s_svc_kubernetes_default_web-tcp-80", "tcp", 80)},
			want: map[string]row{
				"1": {VerdictSurplus, "default/web", "", ""},
				"2": {VerdictRename, "default/web", lbWeb + "-tcp-80", ""},
			},
		},
		{name: "nothing there", want: map[string]row{}},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check := func(rules []cloudstack.LoadBalancerRule) Plan {
				p := MakePlan(rules, services, nil, tt.members, nodes)
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
				require.Len(t, p.Steps, renames)
				return p
			}

			p := check(tt.rules)
			reversed := slices.Clone(tt.rules)
			slices.Reverse(reversed)
			require.Equal(t, p.Steps, check(reversed).Steps, "the order of the input does not matter")
		})
	}
}

// Everyone who can edit a Service can write null into the record.
func TestRecordOfNull(t *testing.T) {
	t.Parallel()
	svc := service("default", "web", uidWeb)
	svc.Annotations = map[string]string{"record": `{"annotations":null,"rules":null}`}
	r, recorded := RecordOf(&svc, "record")
	require.True(t, recorded)
	require.Equal(t, Record{Annotations: map[string]Change{}, Rules: map[string]string{}}, r)
}

func TestUndo(t *testing.T) {
	t.Parallel()
	svc := service("default", "web", uidWeb)
	back := Step{
		RuleID:   "1",
		Name:     lbWeb + "-tcp-80",
		NewName:  lbWeb + "-80",
		PublicIP: "a",
		Port:     80,
		Service:  "default/web",
	}

	leaseweb := back
	leaseweb.NewName = "K8s_svc_kubernetes_default_web-tcp-80"
	for name, tc := range map[string]struct {
		was, now string
		todo     []Step
		stays    string
	}{
		"back":                        {back.NewName, back.Name, []Step{back}, ""},
		"back to Leaseweb's":          {leaseweb.NewName, back.Name, []Step{leaseweb}, ""},
		"nothing":                     {back.NewName, back.NewName, nil, ""},
		"the rule is not there":       {back.NewName, "", nil, "no longer exists"},
		"a third name":                {back.NewName, "third", nil, "was renamed by somebody else"},
		"the rule of another Service": {back.NewName, lbGone + "-tcp-80", nil, "was renamed by somebody else"},
		"the rule of another cluster": {back.NewName, "K8s_svc_other_default_web-tcp-80", nil, "was renamed by " +
			"somebody else"},
		"to the name of another Service": {lbGone + "-80", back.Name, nil, "was renamed by somebody else"},
		"to another's name of Leaseweb": {"K8s_svc_kubernetes_shop_web-tcp-80", back.Name, nil, "was renamed by " +
			"somebody else"},
	} {
		var now []cloudstack.LoadBalancerRule
		if tc.now != "" {
			now = []cloudstack.LoadBalancerRule{{ID: "1", Name: tc.now, PublicIP: "a", PublicPort: 80}}
		}
		todo, stays := Undo(&svc, map[string]string{"1": tc.was}, now)
		require.Equal(t, tc.todo, todo, name)
		require.Contains(t, strings.Join(stays, ""), tc.stays, name)
		require.Equal(t, tc.stays == "", len(stays) == 0, name)
	}
}

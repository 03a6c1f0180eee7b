// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

// asRelease makes the server one of CloudStack's releases.
func asRelease(version string) envOption {
	return withWorld(func(w string) string { return strings.Replace(w, "version: 4.22.0.0", "version: "+version+".0.0", 1) })
}

// since reports whether a release, 4.x, has a feature of another release.
func since(version, brought string) bool { return len(version) == len(brought) && version >= brought }

// The life of a Service on every supported release: the state after each step is the same on all of them, except for the source ranges of rules (docs/support-policy.md).
func TestServiceOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		parallel(t, version, func(t *testing.T) {
			env := newEnv(t, asRelease(version))
			env.create("web", []int{80, 81}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
			env.mustSync("web")
			ip := env.ip("web")
			ranges := func(of string) string {
				if since(version, "4.18") {
					return of
				}
				return "[]"
			}
			rule := func(port, to, of string) string {
				return "rule " + webLB + "-tcp-" + port + " " + port + "->" + to + " tcp roundrobin " + ranges(of) + " [w1 w2]"
			}
			assert.Equal(t, []string{
				"address Allocated " + webTags, "firewall tcp 80-81 [10.0.0.0/8]",
				rule("80", "30080", "[10.0.0.0/8]"), rule("81", "30081", "[10.0.0.0/8]"),
			}, of(env.dump(), ip))
			assert.Empty(t, env.event(plan.ReasonSourceRanges), "the firewall serves them")

			// Tighter, then wider: the firewall follows, and the rules where they can.
			for _, want := range [][]string{{"10.1.0.0/16"}, {"10.0.0.0/8", "192.168.0.0/16"}} {
				env.changed(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = want })
				text := "[" + strings.Join(want, " ") + "]"
				lines := of(env.dump(), ip)
				assert.Contains(t, lines, "firewall tcp 80-81 "+text)
				assert.Contains(t, lines, rule("80", "30080", text))
				assert.Len(t, lines, 4)
			}

			// Nothing to do, also after a restart.
			env.restart()
			env.mustSync("web")
			env.reset()
			env.mustSync("web")
			for _, call := range env.calls() {
				assert.True(t, strings.HasPrefix(call, "list") || strings.HasPrefix(call, "query"), call)
			}

			// A certificate is refused before anything changes, or taken.
			env.edit("web", annotate(annotation.SSLCertificate, "no-such-certificate"))
			lines := of(env.dump(), ip)
			require.Error(t, env.sync("web"))
			assert.Equal(t, lines, of(env.dump(), ip))
			env.edit("web", func(s *corev1.Service) { delete(s.Annotations, annotation.SSLCertificate) })

			env.removed("web")
		})
	}
}

// Before 4.22 the router learns of a changed protocol only with another algorithm. The port stays open on all releases. A
// server that does not say what it can is taken for an older one.
func TestProtocolOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range append(simulator.Releases(), "4.22 without listApis") {
		parallel(t, version, func(t *testing.T) {
			release, unknown := strings.CutSuffix(version, " without listApis")
			env := served(t, []int{80}, asRelease(release))
			if unknown {
				env.Inject(simulator.Fault{Command: "listApis", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 432, Text: "The API [listApis] does not exist or is not available"})
			}
			inPlace := since(release, "4.22") && !unknown
			for _, protocol := range []string{"tcp-proxy", "tcp"} {
				var sent []string
				env.look = func(form url.Values, _ *http.Response) {
					if strings.HasSuffix(form.Get("command"), "LoadBalancerRule") {
						sent = append(sent, form.Get("command")+" "+form.Get("protocol")+" "+form.Get("algorithm"))
					}
				}
				env.edit("web", annotate(annotation.ProxyProtocol, strconv.FormatBool(protocol == "tcp-proxy")))
				env.events()
				env.mustSync("web")
				want := []string{"updateLoadBalancerRule " + protocol + " leastconn", "updateLoadBalancerRule " + protocol + " roundrobin"}
				if inPlace {
					want = want[1:]
				}
				assert.Equal(t, want, sent)
				assert.Equal(t, inPlace, env.event(plan.ReasonRuleReapplied) == "")
			}
			env.look = nil
			env.removed("web")
		})
	}
}

// In a VPC the ranges of the rule are the only filter. A release that ignores them is refused before anybody gets in; one that
// cannot change them replaces the rule.
func TestRangesInAVPCOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		parallel(t, version, func(t *testing.T) {
			env := newEnv(t, asRelease(version), withVPC)
			env.create("web", []int{80}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
			if !since(version, "4.18") {
				for range 2 { // with what the first one left, too
					var refusal *plan.RefusalError
					require.ErrorAs(t, env.sync("web", "v1", "v2"), &refusal)
					assert.Equal(t, plan.ReasonSourceRanges, refusal.Reason)
					assert.Contains(t, refusal.Remedy, "4.18")
					rules := grep(env.dump(), " "+webLB+"-tcp-80 ")
					require.Len(t, rules, 1)
					assert.True(t, strings.HasSuffix(rules[0], " [] []"), "nobody gets in who should not: %s", rules[0])
				}
				env.removed("web")
				return
			}
			env.mustSync("web", "v1", "v2")
			env.events()
			env.edit("web", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.1.0.0/16"} })
			env.mustSync("web", "v1", "v2")
			rules := grep(of(env.dump(), env.ip("web")), "rule ")
			require.Len(t, rules, 1)
			assert.Contains(t, rules[0], "[10.1.0.0/16] [v1 v2]")
			assert.Equal(t, !since(version, "4.22"), env.event(plan.ReasonRuleReplaced) != "")
			env.removed("web")
		})
	}
}

// withVPC adds a VPC: a tier with an ACL list of the operator's, one that balances internally, and one under each
// default list.
func withVPC(env *serviceEnv, w *string) {
	env.vpc = true
	*w += "\n  - {address: 203.0.113.50, vpc: vpc-1}\n" + vpcHead + `
          - {number: 5, protocol: tcp, startPort: 80, endPort: 80, cidrs: [192.0.2.0/24], action: Deny, reason: "Service default/web (csccm other ` + webUID + `)"}
          - {number: 10, protocol: all, action: Deny, reason: wall}
`
	*w = strings.Replace(*w, "networks:\n", "networks:\n"+vpcTiers+"  - {name: denied, vpc: vpc-1, account: k8s, cidr: 10.2.3.0/24, acl: default_deny}\n", 1)
	*w = strings.Replace(*w, "virtualMachines:\n", "virtualMachines:\n"+vpcMachines+"  - {name: d1, account: k8s, nics: [{network: denied, ip: 10.2.3.21}]}\n", 1)
}

func TestServiceOnATier(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withVPC)
	env.create("web", []int{80, 81}, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} })
	env.mustSync("web", "v1", "v2")
	ip := env.ip("web")
	assert.Equal(t, []string{
		"address Allocated " + webTags,
		"rule " + webLB + "-tcp-80 80->30080 tcp roundrobin [10.0.0.0/8] [v1 v2]",
		"rule " + webLB + "-tcp-81 81->30081 tcp roundrobin [10.0.0.0/8] [v1 v2]",
	}, of(env.dump(), ip))
	assert.Equal(t, []string{"acl acl-1 9 allow tcp 80-81 [10.0.0.0/8] " + ownReason}, grep(env.dump(), ownReason), "before the wall, behind what the operator denies")

	// Nothing to do, also after a restart.
	env.reset()
	env.restart()
	env.mustSync("web", "v1", "v2")
	assert.Empty(t, grep(env.calls(), "create"))

	// Ranges, ports.
	env.changed(func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "192.168.0.0/16"}
		s.Spec.Ports = s.Spec.Ports[:1]
	}, "v1", "v2")
	assert.Len(t, of(env.dump(), ip), 2)
	assert.Equal(t, []string{"acl acl-1 8 allow tcp 80-80 [10.0.0.0/8 192.168.0.0/16] " + ownReason}, grep(env.dump(), ownReason))

	// Deny all: no members, as nothing else would keep anybody out.
	env.edit("web", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil })
	env.changed(annotate(annotation.SourceCIDRs, ""), "v1", "v2")
	assert.Contains(t, of(env.dump(), ip)[1], "[]")
	assert.Empty(t, grep(env.dump(), ownReason))

	env.removed("web")
}

func TestAddressesOfAVPC(t *testing.T) {
	t.Parallel()
	address := func(ip string) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }
	parallel(t, "held: bound to the tier and left unbound", func(t *testing.T) {
		env := served(t, []int{80}, withVPC, by("v1"), as(address("203.0.113.50")))
		assert.Len(t, of(env.dump(), "203.0.113.50"), 2)
		env.removed("web")
	})
	parallel(t, "the source NAT address is refused", func(t *testing.T) {
		env := newEnv(t, withVPC)
		ips, err := env.inspect.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
		require.NoError(t, err)
		nat := ""
		for i := range ips {
			if ips[i].VPCID != "" && ips[i].SourceNAT {
				nat = ips[i].Address
			}
		}
		require.NotEmpty(t, nat)
		before := env.dump()
		env.create("web", []int{80}, address(nat))
		require.ErrorContains(t, env.sync("web", "v1"), "source NAT address of the VPC")
		assert.Equal(t, before, env.dump())
	})
	parallel(t, "an isolated network's is refused", func(t *testing.T) {
		env := newEnv(t, withVPC)
		env.create("web", []int{80}, address("203.0.113.31"))
		require.ErrorContains(t, env.sync("web", "v1"), "does not belong to the nodes' VPC")
	})
	parallel(t, "under default_deny Event and condition name the remedy", func(t *testing.T) {
		env := served(t, []int{80}, withVPC, by("d1"))
		assert.Contains(t, env.event(plan.ReasonDefaultACL), "list of its own")
		ready := func() *metav1.Condition {
			return apimeta.FindStatusCondition(env.get("web").Status.Conditions, service.ConditionReady)
		}
		require.NotNil(t, ready())
		assert.Equal(t, metav1.ConditionFalse, ready().Status)
		assert.Equal(t, string(plan.ReasonDefaultACL), ready().Reason)
		assert.Contains(t, ready().Message, "list of its own")
		env.mustSync("web", "d1")
		assert.Equal(t, metav1.ConditionFalse, ready().Status, "also when there is nothing to do")

		// With a list that can be changed the next drift round ends the condition.
		env.Admin("replaceNetworkACLList", "networkid", env.net("denied").ID, "aclid", env.net("tier").ACLID)
		env.round(5 * time.Minute)
		assert.Equal(t, metav1.ConditionTrue, ready().Status)
	})
	parallel(t, "under default_deny nobody is missed who is not to come in", func(t *testing.T) {
		env := served(t, []int{80}, withVPC, by("d1"), as(annotate(annotation.SourceCIDRs, "")))
		assert.Empty(t, env.event(plan.ReasonDefaultACL))
		assert.True(t, apimeta.IsStatusConditionTrue(env.get("web").Status.Conditions, service.ConditionReady))
	})
	parallel(t, "ACLs can be left alone", func(t *testing.T) {
		env := served(t, []int{80}, withVPC, withDeps(func(d *service.Deps) { d.Known.LeaveACLs = true }), by("v1"))
		assert.Empty(t, grep(env.dump(), ownReason))
		assert.Zero(t, env.Ledger().Count("createNetworkACL"))
	})
}

func TestInternalLoadBalancer(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withVPC)
	env.create("web", []int{80, 81}, annotate(annotation.Internal, "true"), func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.2.0.0/16"} })
	env.mustSync("web", "i1", "i2")
	ip := env.ip("web")
	assert.True(t, strings.HasPrefix(ip, "10.2.2."), ip)
	assert.Equal(t, []string{
		"internal " + webLB + "-tcp-80 80->30080 roundrobin [i1 i2]",
		"internal " + webLB + "-tcp-81 81->30081 roundrobin [i1 i2]",
	}, of(env.dump(), ip))
	assert.Equal(t, []string{"acl acl-1 9 allow tcp 80-81 [10.2.0.0/16] " + ownReason}, grep(env.dump(), ownReason))
	env.restart()
	env.reset()
	env.mustSync("web", "i1", "i2")
	assert.Empty(t, grep(env.calls(), "create"))

	env.changed(func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.Ports = s.Spec.Ports[:1]
	}, "i2")
	assert.Equal(t, []string{"internal " + webLB + "-tcp-80 80->30080 source [i2]"}, of(env.dump(), ip))

	// Public nodes have no such balancer.
	env.removed("web")
	env.edit("web", func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} })
	require.ErrorContains(t, env.sync("web", "v1"), "InternalLbVm")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// withOtherProject adds a project beside what the cluster has.
func withOtherProject(env *serviceEnv, w *string) {
	withProject(env, w)
	env.project = ""
}

// What a Service names and CloudStack does not have, or cannot do, is refused with the annotation, its value and the
// remedy, and without CloudStack's own text.
func TestRefusalsNameTheAnnotation(t *testing.T) {
	t.Parallel()
	const unknown = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"
	set := func(key, value string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			annotate(annotation.Prefix+strings.TrimPrefix(key, annotation.Prefix), value)(s)
		}
	}
	for _, c := range []struct {
		name   string
		living bool // the Service is served before
		change func(*corev1.Service)
		reason plan.Reason
		wants  []string
	}{
		{"unknown certificate", false, annotate(annotation.SSLCertificate, unknown), plan.ReasonNoSuchCertificate, []string{annotation.SSLCertificate, unknown, "upload"}},
		{"unknown project by name", false, set(annotation.Project, "nowhere"), plan.ReasonNoSuchProject, []string{annotation.Project, `"nowhere"`, "correct the annotation"}},
		{"unknown project by id", false, set(annotation.Project, unknown), plan.ReasonNoSuchProject, []string{annotation.Project, unknown, "correct the annotation"}},
		{"project without the nodes", false, set(annotation.Project, "dev"), plan.ReasonNoBackends, []string{annotation.Project, `"dev"`, "correct or remove the annotation"}},
		{"project changed", true, set(annotation.Project, "dev"), plan.ReasonProjectChanged, []string{annotation.Project, `"dev"`, "remove the annotation"}},
		{"project changed to an unknown one", true, set(annotation.Project, "nowhere"), plan.ReasonProjectChanged, []string{annotation.Project, `"nowhere"`, "remove the annotation"}},
		{"project changed to an unknown id", true, set(annotation.Project, unknown), plan.ReasonProjectChanged, []string{annotation.Project, unknown, "remove the annotation"}},
	} {
		parallel(t, c.name, func(t *testing.T) {
			env := newEnv(t, withOtherProject)
			env.create("web", []int{443})
			if c.living {
				env.mustSync("web")
			}
			env.edit("web", c.change)
			env.events()
			require.Error(t, env.sync("web"))
			event := env.event(c.reason)
			for _, want := range c.wants {
				assert.Contains(t, event, want)
			}
			for _, raw := range []string{"cloudstack ", "code 4", "code 5", "Unable to"} {
				assert.NotContains(t, event, raw)
			}
		})
	}
}

// The refusal of a taken port names the Service that has it only in the same namespace.
func TestPortTakenNamesTheNeighbour(t *testing.T) {
	t.Parallel()
	for namespace, named := range map[string]bool{"default": true, "elsewhere": false} {
		parallel(t, namespace, func(t *testing.T) {
			env := newEnv(t)
			mail := namespace + "/mail"
			env.create(mail, []int{80}, annotate(annotation.ShareWith, "default"))
			env.mustSync(mail)
			ip := env.ip(mail)
			env.create("web", []int{80}, annotate(annotation.Address, ip))
			env.events()
			require.Error(t, env.sync("web"))
			event := env.event(plan.ReasonPortTaken)
			assert.Contains(t, event, "port 80 of address "+ip)
			assert.Equal(t, named, strings.Contains(event, "Service default/mail"), event)
			assert.NotContains(t, event, "elsewhere")
		})
	}
}

// If the nodes are in two tiers and the chosen one cannot serve, the refusal names the annotation that selects the tier.
func TestRefusedTierNamesTheOther(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withVPC, withWorld(func(w string) string {
		return strings.Replace(w, "virtualMachines:\n", `virtualMachines:
  - {name: x1, account: k8s, nics: [{network: tier, ip: 10.2.1.31}, {network: inner, ip: 10.2.2.31}]}
  - {name: x2, account: k8s, nics: [{network: tier, ip: 10.2.1.32}, {network: inner, ip: 10.2.2.32}]}
`, 1)
	}))
	env.create("web", []int{80}, annotate(annotation.Internal, "true"))
	require.Error(t, env.sync("web", "x1", "x2"))
	assert.Contains(t, env.event(plan.ReasonUnsupportedNetwork), "another network that all nodes have in "+annotation.Network+": inner")
	env.changed(annotate(annotation.Network, "inner"), "x1", "x2")
}

// A Service whose request for an address is removed keeps the address, and one Normal Event says so.
func TestRemovedAddressIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ set, unset func(*corev1.Service) }{
		"annotation": {annotate(annotation.Address, "203.0.113.40"), func(s *corev1.Service) { delete(s.Annotations, annotation.Address) }},
		"spec":       {func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.40" }, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "" }},
	} {
		parallel(t, name, func(t *testing.T) {
			env := served(t, []int{80}, by("w1"), as(c.set))
			env.mustSync("web", "w1")
			assert.Empty(t, env.event(plan.ReasonAddressKept))
			env.changed(c.unset, "w1")
			assert.Equal(t, "203.0.113.40", env.ip("web"))
			event := env.event(plan.ReasonAddressKept)
			assert.True(t, strings.HasPrefix(event, "Normal "), event)
			assert.Contains(t, event, "keeps 203.0.113.40")
			env.mustSync("web", "w1")
			assert.Empty(t, env.event(plan.ReasonAddressKept), "once")
		})
	}
}

// An Event announces that the virtual machine of an internal load balancer is destroyed with its last rule.
func TestInterruptionOfAnInternalBalancerIsAnnounced(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, withVPC, by("i1", "i2"), as(annotate(annotation.Internal, "true")))
	env.edit("web", annotate(annotation.Algorithm, "leastconn"))
	env.events()
	env.killer.arm("deleteLoadBalancer", 1, false) // what comes before the first deletion
	require.Error(t, env.sync("web", "i1", "i2"))
	event := env.event(plan.ReasonRuleReplaced)
	assert.Contains(t, event, "virtual machine")
	assert.Contains(t, event, "algorithm")
	list, err := env.inspect.ListInternalLoadBalancers(t.Context(), cloudstack.InternalLoadBalancerQuery{})
	require.NoError(t, err)
	require.Len(t, list, 1, "it is still there")
	env.restart()
	env.mustSync("web", "i1", "i2")

	env.changed(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81) }, "i1", "i2")
	env.events()
	env.changed(func(s *corev1.Service) { s.Spec.Ports[1].NodePort = 31999 }, "i1", "i2")
	for _, e := range env.events() {
		assert.NotContains(t, e, "virtual machine")
	}
}

func withTenancy(t *testing.T, text string) envOption {
	t.Helper()
	settings, err := (&Options{Tenancy: text}).parse()
	require.NoError(t, err)
	return func(env *serviceEnv, _ *string) { env.deps = func(d *service.Deps) { d.Tenancy = settings.tenancy } }
}

func (env *serviceEnv) namespaceReads() int {
	n := 0
	for _, a := range env.kube.Actions() {
		if a.Matches("get", "namespaces") {
			n++
		}
	}
	return n
}

// A refusal names the rule, and comes before any call to CloudStack.
func TestTenancyRefusesBeforeAnyCall(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, policy, rule string }{
		{"default", "", "tenancy.annotations.network"},
		{"by name", `{"annotations":{"network":{"allow":["other"]}}}`, "tenancy.annotations.network"},
		{"by label", `{"annotations":{"network":{"allow":["team=blue"]}}}`, "tenancy.annotations.network"},
		{"by value", `{"annotations":{"network":{"values":["other-net"]}}}`, "tenancy.annotations.network"},
		{"ports", `{"limits":{"maxPortsPerService":1}}`, "tenancy.limits.maxPortsPerService"},
	} {
		parallel(t, tc.name, func(t *testing.T) {
			env := newEnv(t, withTenancy(t, tc.policy))
			env.namespace("default", map[string]string{"team": "red"})
			env.create("web", []int{80, 81}, annotate(annotation.Network, "k8s-net"))
			env.reset()
			err := env.sync("web", "w1")
			var refusal *plan.RefusalError
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, plan.ReasonNotAllowed, refusal.Reason)
			assert.Contains(t, refusal.Message, tc.rule)
			assert.Contains(t, refusal.Remedy, "operator")
			assert.Contains(t, env.event(plan.ReasonNotAllowed), tc.rule)
			assert.Empty(t, env.calls())
		})
	}
}

// Labels of namespaces are read only for a policy that selects by them, and then once a minute at most.
func TestTenancyReadsLabels(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, withTenancy(t, `{"annotations":{"network":{"allow":["other"]}}}`), by("w1"))
	assert.Zero(t, env.namespaceReads())

	env = newEnv(t, withTenancy(t, `{"annotations":{"network":{"allow":["team=red"]}}}`))
	env.namespace("default", map[string]string{"team": "red"})
	env.create("web", []int{80}, annotate(annotation.Network, "k8s-net"))
	env.mustSync("web", "w1")
	env.mustSync("web")
	assert.Equal(t, 1, env.namespaceReads())
	ns, err := env.kube.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	require.NoError(t, err)
	ns.Labels["team"] = "blue"
	_, err = env.kube.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
	require.NoError(t, err)
	env.mustSync("web", "w1")
	env.advance(time.Minute)
	require.ErrorContains(t, env.sync("web", "w1"), "tenancy.annotations.network")
	require.NoError(t, env.remove("web"), "what is refused can be deleted")
}

// Without the labels nothing is decided: the sync fails and is tried again.
func TestTenancyWithoutLabels(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withTenancy(t, `{"trustedNamespaces":["team=red"],"annotations":{"network":{"deny":true}}}`))
	env.namespace("default", map[string]string{"team": "red"})
	fail := true
	env.react("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fail, nil, errors.New("the API server is away")
	})
	env.create("web", []int{80}, annotate(annotation.Network, "k8s-net"))
	env.reset()
	err := env.sync("web", "w1")
	require.ErrorContains(t, err, "namespace default")
	require.ErrorContains(t, err, "the API server is away")
	assert.Empty(t, env.calls())
	fail = false
	env.mustSync("web", "w1")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

func withTenancy(t *testing.T, text string) envOption {
	t.Helper()
	policy, err := parseTenancy(text)
	require.NoError(t, err)
	return func(env *serviceEnv, _ *string) { env.deps = func(d *loadBalancerDeps) { d.Tenancy = &policy } }
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
		{"by label", `{"annotations":{"network":{"allow":[{"matchLabels":{"team":"blue"}}]}}}`, "tenancy.annotations.network"},
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
	env := newEnv(t, withTenancy(t, `{"annotations":{"network":{"allow":["other"]}}}`))
	env.create("web", []int{80})
	env.mustSync("web", "w1")
	assert.Zero(t, env.namespaceReads())

	env = newEnv(t, withTenancy(t, `{"annotations":{"network":{"allow":[{"matchLabels":{"team":"red"}}]}}}`))
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
	env.advance(namespaceAge)
	require.ErrorContains(t, env.sync("web", "w1"), "tenancy.annotations.network")
	require.NoError(t, env.remove("web"), "what is refused can be deleted")
}

// Without the labels nothing is decided: the sync fails and is tried again.
func TestTenancyWithoutLabels(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withTenancy(t, `{"trustedNamespaces":[{"matchLabels":{"team":"red"}}],"annotations":{"network":{"deny":true}}}`))
	env.namespace("default", map[string]string{"team": "red"})
	fail := true
	env.kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
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

func TestGrants(t *testing.T) {
	t.Parallel()
	parse := func(text string) tenancy.Policy {
		p, err := parseTenancy(text)
		require.NoError(t, err)
		return p
	}
	shop := tenancy.Namespace{Name: "shop"}
	assert.Equal(t, plan.Grants{MaxAddresses: -1, MaxKept: 2}, grantsOf(parse(""), shop, ""))
	assert.Equal(t, plan.AllGrants(), grantsOf(parse(""), tenancy.Namespace{Name: "kube-system"}, ""))
	assert.Equal(t, plan.AllGrants(), grantsOf(parse("{}"), shop, ""))
	p := parse(`{"sourceNATAddress":{"allow":["shop"],"deny":true},"foreignAddress":{"values":["203.0.113.9"]},"limits":{"maxAddressesPerNamespace":3,"keepIP":{"maxPerNamespace":0}}}`)
	assert.Equal(t, plan.Grants{SourceNAT: true, ForeignAddress: true, MaxAddresses: 3}, grantsOf(p, shop, "203.0.113.9"))
	assert.Equal(t, plan.Grants{MaxAddresses: 3}, grantsOf(p, tenancy.Namespace{Name: "blog"}, "203.0.113.8"))
}

func TestTenancyFlag(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	assert.Equal(t, tenancy.Default(), *o.tenancy())
	o.Tenancy = `{"annotations":{"networks":{"deny":true}}}`
	require.ErrorContains(t, o.Validate(), `--tenancy: tenancy.annotations: there is no annotation "networks"`)
	o.Tenancy = `{}`
	require.NoError(t, o.Validate())
	assert.Equal(t, tenancy.Policy{}, *o.tenancy())
}

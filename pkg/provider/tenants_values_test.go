// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/seal"
)

// What CloudStack would write unchanged into the router's haproxy.cfg is refused.
func TestTenantDStickinessOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string][2]string{
		"a quote":              {"lb-cookie", `cookie-name="SRV`},
		"a comment":            {"lb-cookie", "cookie-name=SRV#x"},
		"a backslash":          {"lb-cookie", `cookie-name=SRV\`},
		"a semicolon":          {"lb-cookie", "cookie-name=SRV;x"},
		"a variable":           {"lb-cookie", "cookie-name=${HOME}"},
		"a carriage return":    {"lb-cookie", "cookie-name=SRV\rx"},
		"a line":               {"lb-cookie", "cookie-name=SRV\nmode http"},
		"a vertical tab":       {"lb-cookie", "cookie-name=SRV\vx"},
		"a zero":               {"lb-cookie", "cookie-name=SRV\x00"},
		"another script":       {"lb-cookie", "cookie-name=ЅRV"},
		"a long name":          {"lb-cookie", "cookie-name=" + strings.Repeat("x", 5000)},
		"a domain":             {"lb-cookie", "domain=a_b..example"},
		"a domain with quotes": {"lb-cookie", `domain="example.org`},
		"a long domain":        {"lb-cookie", "domain=" + strings.Repeat("x.", 200) + "org"},
		"a mode":               {"lb-cookie", "mode=insert;x"},
		"an expiry":            {"source", "expire=x"},
		"an expiry with text":  {"source", "expire=30m#"},
		"a negative table":     {"source", "tablesize=-1"},
		"a table of text":      {"source", "tablesize=many"},
		"a huge table":         {"source", "tablesize=999999999999999999999"},
	} {
		parallel(t, name, func(t *testing.T) {
			env := newTenantEnv(t)
			env.create("attacker/web", []int{80}, annotate(annotation.StickinessMethod, tc[0], annotation.StickinessOptions, tc[1]))
			env.refused("attacker/web", plan.ReasonInvalidAnnotation)
		})
	}
	for name, options := range map[string][2]string{
		"cookie": {"lb-cookie", "cookie-name=SRV_1.a-b,domain=example.org,mode=insert,nocache"},
		"source": {"source", "expire=30m,tablesize=200k"},
	} {
		parallel(t, "good "+name, func(t *testing.T) {
			env := newTenantEnv(t)
			env.create("attacker/web", []int{80}, annotate(annotation.StickinessMethod, options[0], annotation.StickinessOptions, options[1]))
			env.mustSync("attacker/web")
		})
	}
}

// HAProxy has not had app-cookie since 1.6: one such rule keeps the router from taking any change of the network.
func TestTenantDAppCookieOnAVirtualRouter(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{attackerNS, trustedNS} {
		env := newTenantEnv(t)
		key := namespace + "/web"
		env.create(key, []int{80}, annotate(annotation.StickinessMethod, "app-cookie", annotation.StickinessOptions, "cookie-name=SRV,holdtime=3h,length=52"))
		env.refused(key, plan.ReasonInvalidAnnotation, plan.ReasonUnsupportedNetwork)
		env.edit(key, unset(annotation.StickinessMethod, annotation.StickinessOptions))
		env.mustSync(key)
		before := env.dump()
		env.edit(key, annotate(annotation.StickinessMethod, "app-cookie", annotation.StickinessOptions, "cookie-name=SRV,holdtime=3h,length=52"))
		require.Error(t, env.sync(key), "a running Service")
		env.same(before, "the refused change")
	}
}

// Records outlive a change of the keys: they are checked with the previous key, and signed again with the new one. The
// role may not tag, so that nothing but the records proves who acquired the address.
func TestTenantBRecordsSurviveNewKeys(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		var keys atomic.Pointer[[]string]
		use := func(secrets ...string) {
			var derived []string
			for _, s := range secrets {
				derived = append(derived, seal.DeriveKey(s))
			}
			keys.Store(&derived)
		}
		use("old")
		env := newEnv(t, withoutTags, withDeps(func(d *loadBalancerDeps) { d.Seal = seal.New(func() []string { return *keys.Load() }) }))
		env.create("web", []int{80})
		env.mustSync("web", "w1")
		signed := env.get("web").Annotations[annotation.Addresses]
		require.Contains(t, signed, `"mac"`)

		use("new", "old")
		if restart {
			env.restart()
		}
		env.advance(6 * time.Minute)
		env.mustSync("web", "w1")
		assert.NotEqual(t, signed, env.get("web").Annotations[annotation.Addresses], "the record is signed again")

		use("new")
		env.restart()
		env.mustSync("web", "w1")
		env.removed("web")
	}
}

// The keys of the process: the current one first, then those of its life and the one that csccm rotate-keys wrote.
func TestRecordKeys(t *testing.T) {
	t.Parallel()
	var k recordKeys
	k.use(&cloudstack.Config{SecretKey: "a"})
	k.use(&cloudstack.Config{SecretKey: "b", PreviousRecordKey: "from-file"})
	k.use(&cloudstack.Config{SecretKey: "b", PreviousRecordKey: "from-file"})
	assert.Equal(t, []string{seal.DeriveKey("b"), "from-file", seal.DeriveKey("a")}, k.list())
	k.use(&cloudstack.Config{SecretKey: "a"})
	assert.Equal(t, []string{seal.DeriveKey("a"), seal.DeriveKey("b"), "from-file"}, k.list())
}

// called makes a controller of a cluster with that id, which was called kubernetes before.
func called(id string) func(*loadBalancerDeps) {
	return func(d *loadBalancerDeps) {
		d.ClusterID, d.FormerClusterID = func() string { return id }, commonClusterID
	}
}

// What the controller made under the former default name goes on being its own, and gets the new name.
func TestTenantCFormerNameOfTheCluster(t *testing.T) {
	t.Parallel()
	for _, record := range []string{"with its record", "without its record"} {
		parallel(t, record, func(t *testing.T) {
			env := served(t, []int{80}, withDeps(called(commonClusterID)), by("w1"))
			ip := env.ip("web")
			require.Contains(t, strings.Join(of(env.dump(), ip), "\n"), "csccm-cluster=kubernetes")
			if record == "without its record" {
				env.edit("web", func(s *corev1.Service) { delete(s.Annotations, annotation.Addresses) })
			}
			env.deps = called("uid-of-kube-system")
			env.restart()
			env.mustSync("web", "w1")
			assert.Equal(t, ip, env.ip("web"))
			now := strings.Join(of(env.dump(), ip), "\n")
			assert.Contains(t, now, "csccm-cluster=uid-of-kube-system")
			assert.NotContains(t, now, "csccm-cluster=kubernetes")
			env.restart()
			env.reset()
			env.mustSync("web", "w1")
			assert.Zero(t, env.Ledger().Count("createTags", "deleteTags"))
			env.removed("web")
		})
	}
}

// Another cluster that has no id either is called kubernetes too: its addresses are not ours.
func TestTenantCAnotherClusterOfTheFormerName(t *testing.T) {
	t.Parallel()
	other := plan.Tags(commonClusterID, plan.Service{Namespace: "default", Name: "web", UID: mailUID})
	var tags []string
	for k, v := range other {
		tags = append(tags, k+": "+v)
	}
	slices.Sort(tags)
	env := newEnv(t, withWorld(func(w string) string {
		return w + "  - {address: 203.0.113.44, network: k8s-net, tags: {" + strings.Join(tags, ", ") + "}}\n"
	}), withDeps(called("uid-of-kube-system")))
	env.create("web", []int{80}, annotate(annotation.Address, "203.0.113.44"))
	require.ErrorContains(t, env.sync("web", "w1"), "another cluster")
	assert.Equal(t, env.before, env.dump())
}

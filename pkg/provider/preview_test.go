// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// preview asks what would be done for the Service web, and makes sure that asking changed nothing.
func (env *serviceEnv) preview(nodes ...string) loadbalancer.Preview {
	env.t.Helper()
	o := DefaultOptions()
	o.ClusterID = "test"
	p, err := NewPreviewer(env.t.Context(), &cloudstack.Config{SecretKey: testSecret}, o, env.client(testAPIKey, testSecret), env.kube)
	require.NoError(env.t, err)
	assert.Equal(env.t, "test", p.ClusterID())
	before := env.get("web")
	env.reset()
	out, err := p.Round(time.Time{}).Service(env.t.Context(), before, nodesNamed(nodes...))
	require.NoError(env.t, err)
	for _, c := range env.calls() {
		assert.True(env.t, strings.HasPrefix(c, "list"), "%s is no read", c)
	}
	assert.Equal(env.t, before, env.get("web"), "the Service is as it was")
	return out
}

func kinds(actions []plan.Step) []string {
	var out []string
	for i := range actions {
		out = append(out, actions[i].Kind)
	}
	return out
}

func TestPreviewIsWhatIsDone(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80, 81})
	p := env.preview("w1", "w2")
	assert.Equal(t, "default/web", p.Service)
	assert.Contains(t, kinds(p.Actions), "allocate-address")
	assert.Nil(t, p.Refusal)

	env.mustSync("web")
	assert.Empty(t, env.preview("w1", "w2").Actions)

	// What the preview says of a change is what a sync then does.
	env.edit("web", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] })
	env.edit("web", annotate(annotation.Algorithm, "leastconn"))
	assert.Equal(t, []string{"delete-rule", "update-rule"}, slices.DeleteFunc(kinds(env.preview("w1", "w2").Actions), ofFirewall))
	env.mustSync("web")
	assert.Empty(t, env.preview("w1", "w2").Actions)

	// What a sync refuses, csccm plan refuses for the same reason, without an action.
	env.edit("web", at(sourceNAT), func(s *corev1.Service) { s.Spec.Ports = servicePorts(53) })
	refused := env.preview("w1", "w2")
	require.NotNil(t, refused.Refusal)
	assert.Equal(t, plan.ReasonReservedPort, refused.Refusal.Reason)
	assert.Empty(t, refused.Actions)
	env.edit("web", unset(annotation.Address), func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })

	// A Service that goes: everything goes.
	env.edit("web", func(s *corev1.Service) {
		s.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer}
		s.Spec.Type = corev1.ServiceTypeClusterIP
	})
	p = env.preview("w1", "w2")
	assert.Contains(t, kinds(p.Actions), "release-address")
	assert.True(t, p.Desired.Absent)
	require.NoError(t, env.remove("web"))
	env.edit("web", ofType(corev1.ServiceTypeClusterIP))
	assert.Empty(t, env.preview("w1", "w2").Actions)
}

func ofFirewall(k string) bool {
	return k == "open-firewall" || k == "close-firewall" || k == "tag-firewall"
}

// The Events of a sync are in the preview: here of a node that has no VM, beside one that has.
func TestPreviewTellsWhatEventsWould(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80})
	p := env.preview("w1", "nobody")
	require.NotEmpty(t, p.Notices)
	assert.True(t, p.Notices[0].Warning)
	assert.Contains(t, p.Notices[0].Message, "nobody")
	assert.NotEmpty(t, p.Actions)
	assert.Empty(t, env.events(), "and in no Event")
}

// Under the policies dry-run and no-delete nothing is done, or nothing taken away.
func TestPolicies(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80, 81}, withDeps(func(d *service.Deps) { d.Policy = plan.PolicyDryRun }), by("w1"))
	assert.Equal(t, env.before, env.dump())
	assert.Contains(t, env.event(service.DryRun), "acquire an address")
	require.NoError(t, env.remove("web"), "nothing is there")

	env.deps = func(d *service.Deps) { d.Policy = plan.PolicyNoDelete }
	env.restart()
	env.mustSync("web")
	full := env.dump()
	env.changed(annotate(annotation.SourceCIDRs, "10.0.0.0/8"), "w1")
	assert.Subset(t, env.dump(), grep(full, "firewall"))
	assert.Contains(t, strings.Join(env.dump(), "\n"), "[w1 w2]")
	require.Error(t, env.remove("web"))
}

// withOtherProject adds a project beside what the cluster has.
func withOtherProject(env *serviceEnv, w *string) {
	withProject(env, w)
	env.project = ""
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/installer/testenv/stepclock"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// env is a recorded state, in the simulator and in a fake API server.
type env struct {
	t      *testing.T
	kube   *fakekube.Clientset
	source *Taker // without options and without a plan
	sim    *testenv.Cloud
	clock  *stepclock.Clock

	mu  sync.Mutex
	log []string // writes to workloads, leases and rules, in order
}

func newEnv(t *testing.T, state string, old ...runtime.Object) *env {
	t.Helper()
	sim, s := testenv.Left(t, state)
	cs := &access.Cloud{Client: sim.Client(t, leftby.Account), Config: sim.Config(t, leftby.Account)}
	e := &env{
		t:     t,
		sim:   sim,
		clock: stepclock.New(nil),
		kube:  fakekube.New(append(append(old, testenv.KubeSystem()), s.Objects()...)...),
	}

	e.source = &Taker{
		Env: &engine.Env{
			Cluster:  fakecluster.New(e.kube),
			Release:  "cloudstack-ccm",
			Out:      io.Discard,
			Yes:      true,
			Clock:    e.clock,
			Progress: report.NoProgress(),
		},
		Cloud: cs,
	}

	e.source.Cluster.Namespace = "kube-system"
	leftby.Play(e.kube, func(s string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.log = append(e.log, s)
	})

	return e
}

// standby returns an env in which Apache's controller leads. csccm's controller, as Helm created it, waits for the
// lease.
func standby(t *testing.T, state string) *env {
	t.Helper()
	d := ours()
	d.Annotations = map[string]string{"meta.helm.sh/release-name": "cloudstack-ccm"}
	return newEnv(t, state, append(leftby.ApacheObjects(), d)...)
}

func ours() *appsv1.Deployment {
	return leftby.Controller("cloudstack-cloud-controller-manager", "x",
		map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "cloudstack-ccm"},
		"--leader-elect=true")
}

func (e *env) notes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.log)
}

// inOrder checks that the first writes of these kinds came in this order.
func (e *env) inOrder(want ...string) {
	e.t.Helper()
	log, last := e.notes(), -1
	for _, what := range want {
		at := slices.IndexFunc(log, func(s string) bool { return strings.HasPrefix(s, what) })
		require.Greater(e.t, at, last, "%s: %v", what, log)
		last = at
	}
}

func (e *env) facts() *Facts {
	e.t.Helper()
	f, err := e.source.Detect(e.t.Context())
	require.NoError(e.t, err)
	return f
}

func (e *env) plan(pin ...string) *Plan {
	e.t.Helper()
	return e.taker(pin...).Plan
}

// taker returns a takeover of the current plan, with consent to all changes.
func (e *env) taker(pin ...string) *Taker {
	e.t.Helper()
	taker := *e.source
	taker.Accept, taker.Pin = []string{All}, pin
	require.NoError(e.t, taker.MakePlan(e.t.Context(), e.facts()))
	return &taker
}

func (e *env) run(ctx context.Context, steps ...engine.Step) error {
	return e.source.Run(ctx, engine.Operation{Name: "takeover", Plan: &engine.Plan{}, Steps: steps})
}

func (e *env) do(steps ...engine.Step) {
	e.t.Helper()
	require.NoError(e.t, e.run(e.t.Context(), steps...))
}

// on runs do at each call of a verb on a resource. If do returns an error, the call fails.
func (e *env) on(verb, resource string, do func() error) {
	e.kube.PrependReactor(verb, resource, func(ktesting.Action) (bool, runtime.Object, error) {
		err := do()
		return err != nil, nil, err
	})
}

// rules returns the rules by id.
func (e *env) rules() map[string]cloudstack.LoadBalancerRule {
	e.t.Helper()
	list, err := e.source.Cloud.Client.ListLoadBalancerRules(e.t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(e.t, err)
	out := map[string]cloudstack.LoadBalancerRule{}
	for _, r := range list {
		out[r.ID] = r
	}
	return out
}

// ruleNames returns the ids, names and addresses of the rules.
func (e *env) ruleNames() []string {
	e.t.Helper()
	var out []string
	for id, r := range e.rules() {
		out = append(out, id+" "+r.Name+" "+r.PublicIP+" "+r.Algorithm)
	}
	slices.Sort(out)
	return out
}

// old returns Apache's Deployment.
func (e *env) old() (*appsv1.Deployment, error) {
	return e.kube.AppsV1().Deployments("kube-system").Get(e.t.Context(), "cloud-controller-manager",
		metav1.GetOptions{})
}

// documented returns a Service whose PROXY protocol annotation means something else to csccm's controller.
func (e *env) documented() *corev1.Service {
	e.t.Helper()
	svc, err := e.kube.CoreV1().Services("default").Get(e.t.Context(), "documented", metav1.GetOptions{})
	require.NoError(e.t, err)
	return svc.DeepCopy()
}

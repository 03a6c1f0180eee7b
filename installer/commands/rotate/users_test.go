// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

const namespace = "kube-system"

func podOf(kind, owner, name string, change func(p *corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	reading(&p, kind, owner)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if change != nil {
		change(&p)
	}
	return p
}

func TestJudge(t *testing.T) {
	t.Parallel()
	ours := func(p *corev1.Pod) {
		p.Labels = map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "ccm"}
	}
	other, controller := podOf("DaemonSet", "csi", "p", nil), podOf("DaemonSet", "csi", "p", ours)
	for name, tc := range map[string]struct {
		release string
		pods    []corev1.Pod
		needs   string
	}{
		"the controller":               {"ccm", []corev1.Pod{controller}, reloads},
		"another release's controller": {"other", []corev1.Pod{controller}, restart},
		"not all are the controller's": {"ccm", []corev1.Pod{other, controller}, restart},
		"a DaemonSet":                  {"ccm", []corev1.Pod{other}, restart},
	} {
		f := &secretusers.Found{Users: secretusers.Of(tc.pods, namespace, credentials.SecretName)}
		judge(f, tc.release)
		require.Len(t, f.Users, 1, name)
		require.Equal(t, tc.needs, f.Users[0].Needs, name)
	}
	f := &secretusers.Found{Copies: []secretusers.Copy{{Users: secretusers.Of([]corev1.Pod{other}, namespace, credentials.SecretName)}}}
	judge(f, "ccm")
	require.Equal(t, update, f.Users[0].Needs)
}

func TestInUse(t *testing.T) {
	t.Parallel()
	changed := time.Unix(1_700_000_000, 0)
	at := func(seconds int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(changed.Add(time.Duration(seconds) * time.Second))}}
	}
	use := func(needs string, pods ...*corev1.Pod) secretusers.Found {
		u := secretusers.User{Kind: "DaemonSet", Namespace: "kube-system", Name: "csi", Secret: "cloudstack-secret", Needs: needs, Pods: pods}
		return secretusers.Found{Users: []secretusers.User{u}}
	}
	old := []string{"DaemonSet kube-system/csi: 1 Pod read Secret cloudstack-secret before it was changed"}
	withCopy := use(update, at(-5))
	withCopy.Copies = []secretusers.Copy{{Namespace: "x", Name: "y", Keys: []string{"a", "b"}}}
	for name, tc := range map[string]struct {
		f       secretusers.Found
		changed time.Time
		want    []string
	}{
		"nothing":            {secretusers.Found{}, changed, []string{}},
		"it reloads":         {use(reloads, at(-5)), changed, []string{}},
		"older":              {use(restart, at(-5), at(5)), changed, old},
		"of the same second": {use(restart, at(0), at(1)), changed, old},
		"younger":            {use(restart, at(1)), changed, []string{}},
		"before the change":  {use(restart, at(1)), time.Time{}, old},
		"a copy":             {withCopy, changed, []string{"Secret x/y holds a copy of the old keys (a, b), which csccm does not write"}},
	} {
		require.Equal(t, tc.want, inUse(&tc.f, tc.changed), name)
	}
}

// consumer is a Pod of a DaemonSet that reads the Secret at its start.
type consumer struct {
	*testEnv
	pods int
}

func (c *consumer) start() {
	c.pods++
	p := podOf("DaemonSet", "csi", "csi-"+string(rune('0'+c.pods)), nil)
	p.CreationTimestamp = metav1.NewTime(c.clock.Now())
	require.NoError(c.t, c.kube.Tracker().Add(&p))
}

func newConsumer(t *testing.T) *consumer {
	t.Helper()
	c := &consumer{testEnv: newEnv(t)}
	c.start()
	return c
}

// Old keys stay while something works with them, and the next run ends them.
func TestRotateKeepsOldKeysForOthers(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	first := c.config("k8s-owner")
	require.NoError(t, c.run(t.Context(), func(e *engine.Env, _ *Options) { e.DryRun, e.Output = true, "json" }))
	plan := c.result()
	require.Len(t, plan.Users, 2)
	require.Equal(t, []string{reloads, restart}, []string{plan.Users[1].Needs, plan.Users[0].Needs})
	require.Equal(t, []string{"DaemonSet kube-system/csi: 1 Pod read Secret cloudstack-secret before it was changed"}, plan.KeptFor)
	c.out.Reset()

	c.rotate(nil)
	require.True(t, c.works(first))
	require.Contains(t, c.out.String(), `the keys of user "k8s-owner" still work`)
	require.Contains(t, c.out.String(), "csccm rotate-keys --finish")
	s, second := c.secret()
	require.Empty(t, credentials.RotationOf(s).From)

	c.out.Reset()
	err := c.run(t.Context(), func(_ *engine.Env, o *Options) { o.Finish = true })
	var e *report.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, report.ExitCheckFailed, e.ExitCode())
	require.ErrorContains(t, err, "DaemonSet kube-system/csi: 1 Pod read Secret")
	require.Contains(t, e.Remedy(), "--force")
	require.True(t, c.works(first))

	// Somebody restarts it.
	c.clock.Step(10 * time.Second)
	require.NoError(t, c.kube.CoreV1().Pods(namespace).Delete(t.Context(), "csi-1", metav1.DeleteOptions{}))
	c.start()
	c.out.Reset()
	c.rotate(func(_ *engine.Env, o *Options) { o.Finish = true })
	require.False(t, c.works(first))
	require.True(t, c.works(second))
}

// --force ends keys that are in use.
func TestFinishByForce(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	first := c.config("k8s-owner")
	c.rotate(nil)
	c.out.Reset()
	c.rotate(func(e *engine.Env, o *Options) { o.Finish, o.Force, e.Output = true, true, "json" })
	require.False(t, c.works(first))
	require.Equal(t, []string{"k8s-owner"}, c.result().Ended)
}

// Copies of the keys, and what may not be looked at, keep the old keys.
func TestRotateKeepsOldKeysForCopies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(env *testEnv, apiKey string)
		why    string
		force  bool
	}{
		"a copy": {func(env *testEnv, apiKey string) {
			require.NoError(env.t, env.kube.Tracker().Add(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "csi-keys"}, Data: map[string][]byte{"cloud.conf": []byte("[Global]\napi-key = " + apiKey)},
			}))
			p := podOf("DaemonSet", "csi", "csi-1", func(p *corev1.Pod) { p.Namespace, p.Spec.Volumes[0].Secret.SecretName = "storage", "csi-keys" })
			require.NoError(env.t, env.kube.Tracker().Add(&p))
		}, "Secret storage/csi-keys holds a copy of the old keys (cloud.conf), which csccm does not write", true},
		"other namespaces": {func(env *testEnv, _ string) { env.granted(false) }, "csccm may not read Secrets in namespaces other than kube-system", false},
		"no Secrets": {func(env *testEnv, _ string) {
			env.granted(false)
			env.kube.PrependReactor("list", "secrets", func(ktesting.Action) (bool, kruntime.Object, error) {
				return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
			})
		}, "csccm may not read Secrets in namespace kube-system", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t)
			first := env.config("k8s-owner")
			tc.change(env, first.APIKey)
			env.rotate(nil)
			require.True(t, env.works(first))
			require.Contains(t, env.out.String(), tc.why)
			err := env.run(t.Context(), func(_ *engine.Env, o *Options) { o.Finish = true })
			if tc.force {
				require.ErrorContains(t, err, tc.why)
				require.True(t, env.works(first))
				return
			}
			require.NoError(t, err, "the user has been told and has decided")
			require.Contains(t, env.out.String(), "Not looked at:\n  - Secrets in")
			require.False(t, env.works(first))
		})
	}
}

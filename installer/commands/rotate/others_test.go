// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/secretusers"
	"github.com/csccm/csccm/installer/testenv"
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
	pods := func(kind, owner string) []corev1.Pod { return []corev1.Pod{podOf(kind, owner, "p", nil)} }
	controllers := []corev1.Pod{podOf("DaemonSet", "csi", "p", ours)}
	for name, tc := range map[string]struct {
		release string
		pods    []corev1.Pod
		needs   string
		why     string
	}{
		"the controller":               {"ccm", controllers, reloads, ""},
		"another release's controller": {"other", controllers, restart, ""},
		"not all are the controller's": {"ccm", append(pods("DaemonSet", "csi"), controllers...), restart, ""},
		"a DaemonSet":                  {"ccm", pods("DaemonSet", "csi"), restart, ""},
		"a Deployment":                 {"ccm", pods("Deployment", "csi"), restart, ""},
		"a StatefulSet":                {"ccm", pods("StatefulSet", "csi"), restart, ""},
		"a Job":                        {"ccm", pods("Job", "sync"), recreate, "csccm restarts no Job"},
		"a Pod":                        {"ccm", pods("", ""), recreate, "nothing would create it again"},
		"another kind":                 {"ccm", pods("CloneSet", "c"), recreate, "csccm restarts no CloneSet"},
	} {
		o := judge(&secretusers.Found{Users: secretusers.Of(tc.pods, namespace, credentials.SecretName)}, tc.release)
		require.Len(t, o.Workloads, 1, name)
		require.Equal(t, tc.needs, o.Workloads[0].Needs, name)
		require.Equal(t, tc.why, o.Workloads[0].Why, name)
	}
	copied := secretusers.Copy{Users: secretusers.Of(pods("DaemonSet", "csi"), namespace, credentials.SecretName)}
	require.Equal(t, update, judge(&secretusers.Found{Copies: []secretusers.Copy{copied}}, "ccm").Workloads[0].Needs)
}

func TestBreaks(t *testing.T) {
	t.Parallel()
	changed := time.Unix(1_700_000_000, 0)
	at := func(seconds int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(changed.Add(time.Duration(seconds) * time.Second))}}
	}
	use := func(needs, why string, pods ...*corev1.Pod) Others {
		u := secretusers.User{Kind: "DaemonSet", Namespace: "kube-system", Name: "csi", Secret: "cloudstack-secret", Pods: pods}
		return Others{Workloads: []Use{{User: u, Needs: needs, Why: why}}}
	}
	old := "DaemonSet kube-system/csi: 1 Pod read Secret cloudstack-secret before it was changed"
	withCopy := use(update, "", at(9))
	withCopy.Copies = []secretusers.Copy{
		{Namespace: "kube-system", Name: "cloudstack-secret", Keys: []string{"a", "b"}}, {Namespace: "x", Name: "y", Keys: []string{"c"}, Users: []secretusers.User{withCopy.Workloads[0].User}},
	}
	for name, tc := range map[string]struct {
		o        Others
		changed  time.Time
		restarts bool
		want     []string
	}{
		"nothing":                  {Others{}, changed, false, []string{}},
		"it reloads":               {use(reloads, "", at(-5)), changed, false, []string{}},
		"older":                    {use(restart, "", at(-5), at(5)), changed, false, []string{old}},
		"of the same second":       {use(restart, "", at(0), at(1)), changed, false, []string{old}},
		"younger":                  {use(restart, "", at(1)), changed, false, []string{}},
		"before the change":        {use(restart, "", at(1)), time.Time{}, false, []string{old}},
		"it is restarted":          {use(restart, "", at(-5)), changed, true, []string{}},
		"it is nothing to restart": {use(recreate, "a Job is not restarted", at(-5)), changed, true, []string{old + "; a Job is not restarted"}},
		"and is younger":           {use(recreate, "a Job is not restarted", at(5)), changed, true, []string{}},
		"copies, also in the Secret": {withCopy, changed, true, []string{
			"Secret kube-system/cloudstack-secret holds a copy of the old keys (a, b), which csccm does not write",
			"Secret x/y holds a copy of the old keys (c), which csccm does not write; used by DaemonSet kube-system/csi",
		}},
	} {
		require.Equal(t, tc.want, tc.o.breaks(tc.changed, tc.restarts), name)
	}
}

// consumer is a DaemonSet that reads the Secret at its start.
type consumer struct {
	*testEnv
	pods  int
	stays bool // a restart does not replace its Pod
}

func (c *consumer) start() {
	c.pods++
	p := podOf("DaemonSet", "csi", "csi-"+string(rune('0'+c.pods)), nil)
	p.CreationTimestamp = metav1.NewTime(c.clock.Now())
	p.Labels = map[string]string{"app": "csi"}
	require.NoError(c.t, c.kube.Tracker().Add(&p))
}

func newConsumer(t *testing.T) *consumer {
	t.Helper()
	c := &consumer{testEnv: newEnv(t)}
	c.start()
	status := appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberAvailable: 1}
	require.NoError(t, c.kube.Tracker().Add(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "csi"}, Status: status,
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "csi"}}},
	}))
	c.kube.PrependReactor("patch", "daemonsets", func(ktesting.Action) (bool, kruntime.Object, error) {
		if !c.stays {
			require.NoError(t, c.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), namespace, "csi-"+string(rune('0'+c.pods))))
			c.start()
		}
		return false, nil, nil
	})
	return c
}

// Old keys stay while something works with them, and the next run ends them.
func TestRotateKeepsOldKeysForOthers(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	first := c.config("k8s-owner")
	require.NoError(t, c.run(t.Context(), func(e *engine.Env, _ *Options) { e.DryRun, e.Output = true, "json" }))
	plan := c.result()
	require.Len(t, plan.Workloads, 2)
	require.Equal(t, []string{reloads, restart}, []string{plan.Workloads[1].Needs, plan.Workloads[0].Needs})
	require.Equal(t, []string{"DaemonSet kube-system/csi: 1 Pod read Secret cloudstack-secret before it was changed"}, plan.KeptFor)
	c.out.Reset()

	c.rotate(nil)
	require.True(t, c.works(first))
	require.Contains(t, c.out.String(), `the keys of user "k8s-owner" still work`)
	require.Contains(t, c.out.String(), "csccm rotate-keys --finish")
	s, second := c.secret()
	require.NotContains(t, s.Annotations, annotationFrom)
	require.NotEmpty(t, s.Annotations[annotationAt])

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

// What does not reload is restarted, and the old keys end in the same run.
func TestRotateRestartsOthers(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	first := c.config("k8s-owner")
	c.rotate(func(e *engine.Env, o *Options) { o.RestartOthers, e.Output = true, "json" })
	require.False(t, c.works(first))
	result := c.result()
	require.Equal(t, []string{"DaemonSet kube-system/csi"}, result.Restarted)
	require.Empty(t, result.KeptFor)
	require.Equal(t, 2, c.pods)
}

// Pods that a restart does not replace keep the old keys.
func TestRotateKeepsOldKeysWhereARestartFails(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	first := c.config("k8s-owner")
	c.stays = true
	err := c.run(t.Context(), func(_ *engine.Env, o *Options) { o.RestartOthers = true })
	require.ErrorContains(t, err, "DaemonSet kube-system/csi: after its restart 1 Pod of before the change of the Secret still run")
	testenv.RequireRefusal(t, err, `the keys of user "k8s-owner" still work`, "csccm rotate-keys --finish", report.ExitFailure)
	require.True(t, c.works(first))
	s, _ := c.secret()
	require.NotContains(t, s.Annotations, annotationFrom)
}

// A run that ended before the others were restarted goes on there.
func TestRotateContinuesWithOthers(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	first := c.config("k8s-owner")
	ctx, cancel := context.WithCancel(t.Context())
	logs := c.logs
	c.logs = func(pod string, changes int32) string {
		if changes > 0 {
			cancel()
		}
		return logs(pod, changes)
	}
	require.Error(t, c.run(ctx, func(_ *engine.Env, o *Options) { o.RestartOthers = true }))
	require.True(t, c.works(first))
	err := c.run(t.Context(), func(_ *engine.Env, o *Options) { o.Finish = true })
	require.ErrorContains(t, err, "a rotation has not ended")
	c.logs = func(pod string, changes int32) string { return saysWorks + "\n" }
	c.rotate(func(_ *engine.Env, o *Options) { o.RestartOthers = true })
	require.False(t, c.works(first))
	require.Equal(t, 2, c.pods)
	require.Equal(t, 1, c.sim.Ledger().Count("createUser"))
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
		}, "Secret storage/csi-keys holds a copy of the old keys (cloud.conf), which csccm does not write; used by DaemonSet storage/csi", true},
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
			require.Contains(t, env.out.String(), "Not looked at: Secrets in")
			require.False(t, env.works(first))
		})
	}
}

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

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/engine"
)

const namespace = "kube-system"

func podOf(kind, owner, name string, change func(p *corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	reading(&p, kind, owner)
	p.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
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
		f := &access.Found{Users: access.UsersOf(tc.pods, namespace, access.SecretName)}
		judge(f, tc.release)
		require.Len(t, f.Users, 1, name)
		require.Equal(t, tc.needs, f.Users[0].Needs, name)
	}

	f := &access.Found{
		Copies: []access.Copy{{Users: access.UsersOf([]corev1.Pod{other}, namespace, access.SecretName)}},
	}
	judge(f, "ccm")
	require.Equal(t, update, f.Users[0].Needs)
}

func TestInUse(t *testing.T) {
	t.Parallel()
	changed := time.Unix(1_700_000_000, 0)
	at := func(seconds int) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				CreationTimestamp: metav1.NewTime(changed.Add(time.Duration(seconds) * time.Second)),
			},
		}
	}

	use := func(needs string, pods ...*corev1.Pod) access.Found {
		u := access.User{
			Kind:      "DaemonSet",
			Namespace: "kube-system",
			Name:      "csi",
			Secret:    "cloudstack-secret",
			Needs:     needs,
			Pods:      pods,
		}
		return access.Found{Users: []access.User{u}}
	}

	old := []string{"DaemonSet kube-system/csi: 1 Pod read Secret cloudstack-secret before it was changed"}
	withCopy := use(update, at(-5))
	withCopy.Copies = []access.Copy{{Namespace: "x", Name: "y", Keys: []string{"a", "b"}}}
	for name, tc := range map[string]struct {
		f       access.Found
		changed time.Time
		want    []string
	}{
		"nothing":            {access.Found{}, changed, []string{}},
		"it reloads":         {use(reloads, at(-5)), changed, []string{}},
		"older":              {use(restart, at(-5), at(5)), changed, old},
		"of the same second": {use(restart, at(0), at(1)), changed, old},
		"younger":            {use(restart, at(1)), changed, []string{}},
		"before the change":  {use(restart, at(1)), time.Time{}, old},
		"a copy": {withCopy, changed,
			[]string{"Secret x/y holds a copy of the old keys (a, b), which csccm does not write"}},
	} {
		require.Equal(t, tc.want, inUse(&tc.f, tc.changed), name)
	}
}

// Old keys are kept while something uses them: --finish is refused then, and --force revokes them.
func TestFinishByForce(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	csi := podOf("DaemonSet", "csi", "csi-1",
		func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(env.clock.Now()) })
	require.NoError(t, env.kube.Tracker().Add(&csi))
	first := env.config("k8s-owner")
	env.rotate(nil)
	require.ErrorContains(t, env.run(t.Context(), func(_ *engine.Env, o *Options) { o.Finish = true }),
		"DaemonSet kube-system/csi: 1 Pod read Secret")
	require.True(t, env.works(first))
	env.out.Reset()
	env.rotate(func(e *engine.Env, o *Options) { o.Finish, o.Force, e.Output = true, true, "json" })
	require.False(t, env.works(first))
	require.Equal(t, []string{"k8s-owner"}, env.result().Ended)
}

// If csccm may not list all users of the keys, the old keys are kept, and --finish names what could not be read.
func TestRotateKeepsOldKeysForTheUnseen(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.granted(false)
	env.kube.PrependReactor("list", "secrets", func(ktesting.Action) (bool, kruntime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
	})
	first := env.config("k8s-owner")
	env.rotate(nil)
	require.True(t, env.works(first))
	require.Contains(t, env.out.String(), "csccm may not read Secrets in namespace kube-system")
	env.rotate(func(_ *engine.Env, o *Options) { o.Finish = true })
	require.Contains(t, env.out.String(), "! not looked at: Secrets in")
	require.False(t, env.works(first))
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/engine/stepclock"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/seal"
	"github.com/csccm/csccm/pkg/simulator"
)

// bench is a cluster with a controller that follows its Secret, and the simulator.
type bench struct {
	sim   *simulator.Simulator
	url   string
	kube  *fake.Clientset
	clock *stepclock.Clock
	out   bytes.Buffer
	err   bytes.Buffer
	// logs is what a Pod says after the Secret was changed n times.
	logs    func(pod string, changes int32) string
	changes atomic.Int32
}

func newBench(t *testing.T) *bench {
	t.Helper()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { server.Close(); sim.Close() })
	b := &bench{sim: sim, url: server.URL + "/client/api", clock: stepclock.New(nil)}
	cfg := b.config(t, "k8s-owner")
	labels := map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "cloudstack-ccm"}
	replicas := int32(2)
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels}, Status: ready}
	}
	b.kube = fake.NewClientset(
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: credentials.SecretName},
			Data:       map[string][]byte{credentials.SecretKey: cfg.Render(), "other": []byte("kept")},
		},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloudstack-cloud-controller-manager", Labels: labels},
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
			Status:     appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
		},
		pod("p1"), pod("p2"))
	b.kube.PrependReactor("update", "secrets", func(a ktesting.Action) (bool, kruntime.Object, error) {
		u, ok := a.(ktesting.UpdateAction)
		require.True(t, ok)
		s, ok := u.GetObject().(*corev1.Secret)
		require.True(t, ok)
		now, err := b.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), s.Namespace, s.Name)
		require.NoError(t, err)
		if !bytes.Equal(now.(*corev1.Secret).Data[credentials.SecretKey], s.Data[credentials.SecretKey]) {
			b.changes.Add(1)
		}
		return false, nil, nil
	})
	// A restart replaces the Pods.
	b.kube.PrependReactor("patch", "deployments", func(ktesting.Action) (bool, kruntime.Object, error) {
		for _, name := range []string{"p1", "p2"} {
			_ = b.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "kube-system", name)
		}
		require.NoError(t, b.kube.Tracker().Add(pod("new1")))
		require.NoError(t, b.kube.Tracker().Add(pod("new2")))
		return false, nil, nil
	})
	b.logs = reloads
	return b
}

// reloads is a controller that takes changed keys over.
func reloads(_ string, changes int32) string {
	return "I1121 CloudStack can be used\n" + strings.Repeat("I1121 "+saysReloaded+"\n", int(changes)) // what it said first, too
}

func (b *bench) config(t *testing.T, user string) *cloudstack.Config {
	t.Helper()
	api, secret, ok := b.sim.Keys(user)
	require.True(t, ok)
	cfg := cloudconfig.Default()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey = b.url, api, secret
	return &cfg
}

func (b *bench) run(ctx context.Context, t *testing.T, change func(*engine.Env, *Options)) error {
	t.Helper()
	journal := filepath.Join(t.TempDir(), "journal")
	e := &engine.Env{
		Cluster: cluster.NewForTest(b.kube), Prompt: prompt.NewRefusing(), Clock: b.clock, Release: "cloudstack-ccm", Yes: true,
		Progress: report.NewProgress(&b.err, report.Style{}, b.clock), Out: &b.out, ErrOut: &b.err, Journal: journal,
		PodLogs: func(_ context.Context, p *corev1.Pod, _ int64) (string, error) {
			return b.logs(p.Name, b.changes.Load()), nil
		},
	}
	o := Options{
		Connect: func(cfg *cloudstack.Config) (credentials.User, error) { return cloudstack.NewClient(cfg) },
		Admin: func(ctx context.Context, cfg *cloudstack.Config) (Admin, func(), error) {
			require.Empty(t, cfg.SecretKey)
			a, err := cloudstack.Login(ctx, cfg, "admin", "password", "ROOT")
			return a, func() { _ = a.Logout(context.WithoutCancel(ctx)) }, err
		},
		Required: provider.RequiredCommands, Optional: provider.OptionalCommands,
	}
	if change != nil {
		change(e, &o)
	}
	err := Run(ctx, e, o)
	text, rerr := os.ReadFile(journal) // #nosec G304 -- a file of the test
	if rerr == nil {
		b.err.Write(text)
	}
	if err != nil {
		b.err.WriteString(err.Error())
	}
	for _, user := range []string{"k8s-owner", "k8s-owner-2"} {
		if api, secret, ok := b.sim.Keys(user); ok && api != "" {
			require.NotContains(t, b.out.String()+b.err.String(), api)
			require.NotContains(t, b.out.String()+b.err.String(), secret)
		}
	}
	return err
}

func (b *bench) secret(t *testing.T) (*corev1.Secret, *cloudstack.Config) {
	t.Helper()
	s, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), credentials.SecretName, metav1.GetOptions{})
	require.NoError(t, err)
	cfg, err := cloudconfig.Parse(bytes.NewReader(s.Data[credentials.SecretKey]))
	require.NoError(t, err)
	return s, cfg
}

func (b *bench) works(t *testing.T, cfg *cloudstack.Config) bool {
	t.Helper()
	c, err := cloudstack.NewClient(cfg)
	require.NoError(t, err)
	_, err = c.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	return err == nil
}

func TestRotate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.config(t, "k8s-owner")
	b.kube.PrependReactor("update", "secrets", func(ktesting.Action) (bool, kruntime.Object, error) {
		if b.changes.Load() == 0 {
			require.True(t, b.works(t, first), "the old keys work until the controller has the new ones")
		}
		return false, nil, nil
	})
	require.NoError(t, b.run(t.Context(), t, nil), b.err.String())
	s, second := b.secret(t)
	require.Equal(t, "the controller works with the keys of user \"k8s-owner-2\" (reload of 2 Pods); the keys of user \"k8s-owner\" are worthless\n", b.out.String())
	require.True(t, b.works(t, second))
	require.False(t, b.works(t, first))
	require.Equal(t, "kept", string(s.Data["other"]))
	require.Equal(t, seal.DeriveKey(first.SecretKey), second.PreviousRecordKey, "records of before are believed after a restart")
	require.Equal(t, "k8s-owner", s.Annotations[annotationSpare])
	require.Equal(t, "k8s-owner", s.Annotations[credentials.AnnotationFormerUsers])

	// The next one goes back to the first user and makes none.
	require.NoError(t, b.run(t.Context(), t, nil), b.err.String())
	s, third := b.secret(t)
	require.True(t, b.works(t, third))
	require.False(t, b.works(t, second))
	require.Equal(t, seal.DeriveKey(second.SecretKey), third.PreviousRecordKey)
	require.Equal(t, "k8s-owner-2", s.Annotations[annotationSpare])
	require.Equal(t, "k8s-owner-2", s.Annotations[credentials.AnnotationFormerUsers], "the user of the keys is none of the former")
	require.Equal(t, 1, b.sim.Ledger().Count("createUser"))
}

func TestRotateKeepsOldKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.config(t, "k8s-owner")
	require.NoError(t, b.run(t.Context(), t, func(e *engine.Env, o *Options) { o.KeepOld, e.Output = true, "json" }), b.err.String())
	require.True(t, b.works(t, first))
	require.JSONEq(t, `{"schemaVersion":1,"account":"k8s","user":"k8s-owner-2","oldUser":"k8s-owner","oldKeysWork":true,"proof":"reload","secret":"kube-system/cloudstack-secret","pods":2,"nextRotation":""}`, b.out.String())
	s, _ := b.secret(t)
	require.NotContains(t, s.Annotations, annotationSpare, "a user whose keys others may have is not taken unasked")
}

// A controller that does not follow its Secret is restarted.
func TestRotateRestarts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.logs = func(string, int32) string { return "I1121 " + saysFails + "\nI1121 " + saysWorks + "\n" }
	require.NoError(t, b.run(t.Context(), t, nil), b.err.String())
	require.Contains(t, b.out.String(), "(restart of 2 Pods)")
	require.Contains(t, b.err.String(), "restarting it, one Pod at a time")
}

// A controller that refuses the keys gets the old ones back.
func TestRotateRefused(t *testing.T) {
	t.Parallel()
	for name, logs := range map[string]func(string, int32) string{
		"by the reload": func(pod string, n int32) string {
			return strings.Repeat("E1121 "+saysRefused+" sees none\n", int(n))
		},
		"after a restart": func(string, int32) string { return "E1121 " + saysFails + " sees none" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			first := b.config(t, "k8s-owner")
			b.logs = logs
			err := b.run(t.Context(), t, nil)
			var e *report.Error
			require.ErrorAs(t, err, &e)
			require.ErrorContains(t, err, "sees none; the Secret holds the old keys again, which still work")
			s, cfg := b.secret(t)
			require.Equal(t, first.APIKey, cfg.APIKey)
			require.NotEmpty(t, cfg.PreviousRecordKey, "records that were signed with the refused keys are believed")
			require.True(t, b.works(t, first))
			require.Equal(t, "k8s-owner-2", s.Annotations[annotationTo])

			// The next run takes the same user.
			b.logs = reloads
			b.changes.Store(0)
			require.NoError(t, b.run(t.Context(), t, nil), b.err.String())
			require.Equal(t, 1, b.sim.Ledger().Count("createUser"))
		})
	}
}

// A run that ended after the Secret was written is continued, not begun again.
func TestRotateContinues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.config(t, "k8s-owner")
	ctx, cancel := context.WithCancelCause(t.Context())
	b.logs = func(pod string, n int32) string {
		if n > 0 {
			cancel(errors.New("interrupted"))
		}
		return ""
	}
	err := b.run(ctx, t, nil)
	var stopped *report.Error
	require.ErrorAs(t, err, &stopped)
	require.Contains(t, stopped.Remedy(), "run the same command again")
	require.True(t, b.works(t, first))
	s, second := b.secret(t)
	require.Equal(t, "k8s-owner", s.Annotations[annotationFrom])

	b.logs = func(string, int32) string { return saysWorks }
	require.NoError(t, b.run(t.Context(), t, nil), b.err.String())
	_, now := b.secret(t)
	require.Equal(t, second.APIKey, now.APIKey)
	require.False(t, b.works(t, first))
	require.Equal(t, 1, b.sim.Ledger().Count("createUser"))
}

func TestRotateDryRunAndRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.run(t.Context(), t, func(e *engine.Env, _ *Options) { e.DryRun = true }))
	require.Contains(t, b.out.String(), `create user "k8s-owner-2" in account "k8s"`)
	require.Zero(t, b.sim.Ledger().Count("createUser", "registerUserKeys"))

	for name, tc := range map[string]struct {
		change func(*engine.Env, *Options)
		err    string
		fix    string
	}{
		"nobody agreed":   {func(e *engine.Env, _ *Options) { e.Yes = false }, "not given, and there is no terminal", "--yes"},
		"its own user":    {func(_ *engine.Env, o *Options) { o.User = "k8s-owner" }, "is the one whose keys are in use", "--user"},
		"another's user":  {func(_ *engine.Env, o *Options) { o.User = "admin" }, "is of another account", "--user"},
		"journal is full": {func(e *engine.Env, _ *Options) { e.Journal = "/dev/full" }, "nothing has been changed", "--journal"},
	} {
		err := b.run(t.Context(), t, tc.change)
		require.ErrorContains(t, err, tc.err, name)
		var r interface{ Remedy() string }
		require.ErrorAs(t, err, &r, name)
		require.Contains(t, r.Remedy(), tc.fix, name)
	}
	require.Zero(t, b.sim.Ledger().Count("createUser", "registerUserKeys"))

	// Keys that no user has any more.
	admin, err := cloudstack.Login(t.Context(), b.config(t, "k8s-owner"), "admin", "password", "ROOT")
	require.NoError(t, err)
	users, err := admin.ListUsers(t.Context(), "k8s-owner", "", "")
	require.NoError(t, err)
	_, err = admin.RegisterUserKeys(t.Context(), users[0].ID)
	require.NoError(t, err)
	require.ErrorContains(t, b.run(t.Context(), t, nil), "belong to no user that this administrator sees")
}

// Without a controller that could prove new keys none are made, and a dry run says so too.
func TestNoControllerNoNewKeys(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		without func(*testing.T, *bench)
		code    int
		says    string
	}{
		"no Deployment": {func(t *testing.T, b *bench) {
			require.NoError(t, b.kube.AppsV1().Deployments("kube-system").Delete(t.Context(), "cloudstack-cloud-controller-manager", metav1.DeleteOptions{}))
		}, report.ExitUsage, "release cloudstack-ccm has no controller in namespace kube-system"},
		"no Pod": {func(t *testing.T, b *bench) {
			for _, pod := range []string{"p1", "p2"} {
				require.NoError(t, b.kube.CoreV1().Pods("kube-system").Delete(t.Context(), pod, metav1.DeleteOptions{}))
			}
		}, report.ExitCheckFailed, "no Pod of the controller runs"},
	} {
		for _, dry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dry run %t", name, dry), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				tt.without(t, b)
				b.sim.Ledger().Reset()
				err := b.run(t.Context(), t, func(e *engine.Env, _ *Options) { e.DryRun = dry })
				require.ErrorContains(t, err, tt.says)
				var problem *report.Error
				require.ErrorAs(t, err, &problem)
				require.Equal(t, tt.code, problem.ExitCode())
				require.NotEmpty(t, problem.Remedy())
				require.Zero(t, b.sim.Ledger().Count("createUser", "registerUserKeys"))
			})
		}
	}
}

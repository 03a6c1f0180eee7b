// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/stepclock"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/testenv/cases"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// testEnv is a cluster with a controller that follows its Secret, and the simulator.
type testEnv struct {
	t     *testing.T
	sim   *testenv.Cloud
	kube  *fakekube.Clientset
	clock *stepclock.Clock
	out   bytes.Buffer
	err   bytes.Buffer
	// logs returns the log of a Pod after n changes of the Secret.
	logs    func(pod string, changes int32) string
	changes atomic.Int32
}

func newEnv(t *testing.T) *testEnv {
	t.Helper()
	env := &testEnv{t: t, sim: testenv.NewCloud(t, nil), clock: stepclock.New(nil)}
	pod := func(name string) *corev1.Pod {
		p := testenv.ReadyPod(name)
		reading(p, "Deployment", "cloudstack-cloud-controller-manager")
		return p
	}

	env.kube = fakekube.New(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: access.SecretName},
		Data:       map[string][]byte{access.SecretKey: env.config("k8s-owner").Render(), "other": []byte("kept")},
	}, testenv.Deployment(2), pod("p1"), pod("p2"))

	users, err := env.sim.Admin(t).ListUsers(t.Context(), "")
	require.NoError(t, err)
	u := testenv.Named(t, users, "k8s-owner", func(u cloudapi.User) string { return u.Username })
	made := []*credentials.CreatedObject{
		{Kind: credentials.CreatedUser, Name: u.Username, ID: u.ID, Account: u.Account, DomainID: u.DomainID},
	}
	require.NoError(t,
		credentials.Recorded(t.Context(), fakecluster.New(env.kube), env.config(u.Username), made,
			func() error { return nil }))
	env.kube.PrependReactor("update", "secrets", func(a ktesting.Action) (bool, kruntime.Object, error) {
		s := a.(ktesting.UpdateAction).GetObject().(*corev1.Secret)
		now, err := env.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), s.Namespace, s.Name)
		require.NoError(t, err)
		if !bytes.Equal(now.(*corev1.Secret).Data[access.SecretKey], s.Data[access.SecretKey]) {
			env.changes.Add(1)
			s.ManagedFields = []metav1.ManagedFieldsEntry{{ // the API server records the time of the write
				Manager:  keysManager,
				Time:     &metav1.Time{Time: env.clock.Now()},
				FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:cloud-config":{}}}`),
			}}
		}
		return false, nil, nil
	})

	env.granted(true)

	// A rollout restart replaces the Pods.
	env.kube.PrependReactor("patch", "deployments", func(ktesting.Action) (bool, kruntime.Object, error) {
		for _, name := range []string{"p1", "p2"} {
			_ = env.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "kube-system", name)
		}
		require.NoError(t, env.kube.Tracker().Add(pod("new1")))
		require.NoError(t, env.kube.Tracker().Add(pod("new2")))
		return false, nil, nil
	})

	env.logs = takesOver
	return env
}

// granted sets whether the user may read Secrets and Pods in all namespaces.
func (env *testEnv) granted(allowed bool) {
	env.kube.PrependReactor("create", "selfsubjectaccessreviews", func(ktesting.Action) (bool, kruntime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{
			Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed},
		}, nil
	})
}

// result returns what -o json wrote.
func (env *testEnv) result() (r Rotation) {
	env.t.Helper()
	plan := engine.Plan{Details: &r}
	require.NoError(env.t, json.Unmarshal(env.out.Bytes(), &plan))
	return r
}

// reading makes a Pod mount the Secret and belong to a workload.
func reading(p *corev1.Pod, kind, name string) {
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
	p.Spec.Volumes = []corev1.Volume{
		{
			Name:         "keys",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: access.SecretName}},
		},
	}
	p.Spec.Containers = []corev1.Container{{Name: "main", VolumeMounts: []corev1.VolumeMount{{Name: "keys"}}}}
}

// takesOver returns the log of a controller that reloads changed keys.
func takesOver(_ string, changes int32) string {
	// The log begins with a line from the start of the controller.
	return "I1121 CloudStack can be used\n" + strings.Repeat("I1121 "+saysReloaded+"\n", int(changes))
}

func (env *testEnv) config(user string) *cloudstack.Config { return env.sim.Config(env.t, user) }

func (env *testEnv) run(ctx context.Context, change func(*engine.Env, *Options)) error {
	t := env.t
	t.Helper()
	journal := filepath.Join(t.TempDir(), "journal")
	e := &engine.Env{
		Cluster:  fakecluster.New(env.kube),
		Prompt:   prompt.NewRefusing(),
		Clock:    env.clock,
		Release:  "cloudstack-ccm",
		Yes:      true,
		Progress: report.NewProgress(&env.err, report.Style{}, env.clock),
		Out:      &env.out,
		Journal:  journal,
		PodLogs: func(_ context.Context, p *corev1.Pod, _ int64) (string, error) {
			return env.logs(p.Name, env.changes.Load()), nil
		},
	}

	o := Options{
		Admin: func(ctx context.Context, _ *engine.Env, cfg *cloudstack.Config) (*cloudapi.Client, func(), error) {
			require.Empty(t, cfg.SecretKey)
			a, err := cloudapi.Login(ctx, cfg, "admin", "password", "ROOT")
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
		env.err.Write(text)
	}

	if err != nil {
		env.err.WriteString(err.Error())
	}

	for _, user := range []string{"k8s-owner", "k8s-owner-2"} {
		if api, secret, ok := env.sim.Keys(user); ok && api != "" {
			require.NotContains(t, env.out.String()+env.err.String(), api)
			require.NotContains(t, env.out.String()+env.err.String(), secret)
		}
	}

	return err
}

// rotate runs a rotation that must succeed.
func (env *testEnv) rotate(change func(*engine.Env, *Options)) {
	env.t.Helper()
	require.NoError(env.t, env.run(env.t.Context(), change), env.err.String())
}

func (env *testEnv) secret() (*corev1.Secret, *cloudstack.Config) {
	t := env.t
	t.Helper()
	s, err := env.kube.CoreV1().Secrets("kube-system").Get(t.Context(), access.SecretName, metav1.GetOptions{})
	require.NoError(t, err)
	cfg, err := cloudconfig.Parse(bytes.NewReader(s.Data[access.SecretKey]))
	require.NoError(t, err)
	return s, cfg
}

func (env *testEnv) works(cfg *cloudstack.Config) bool {
	t := env.t
	t.Helper()
	c, err := cloudapi.NewClient(cfg)
	require.NoError(t, err)
	_, err = c.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	return err == nil
}

func TestRotate(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	first := env.config("k8s-owner")
	env.kube.PrependReactor("update", "secrets", func(ktesting.Action) (bool, kruntime.Object, error) {
		if env.changes.Load() == 0 {
			require.True(t, env.works(first), "the old keys work until the controller has the new ones")
		}
		return false, nil, nil
	})
	env.rotate(nil)
	s, second := env.secret()
	require.Contains(t, env.out.String(),
		"the controller works with the keys of user \"k8s-owner-2\" (reload of 2 Pods); the keys of user "+
			"\"k8s-owner\" are revoked\n")
	require.True(t, env.works(second))
	require.False(t, env.works(first))
	require.Equal(t, "kept", string(s.Data["other"]))
	record := access.RotationOf(s)
	require.Equal(t, "k8s-owner", record.Spare)
	require.Equal(t, "k8s-owner", record.Former[0].User)

	// The next rotation uses the first user again and creates no user.
	env.rotate(nil)
	s, third := env.secret()
	require.True(t, env.works(third))
	require.False(t, env.works(second))
	require.Equal(t, "k8s-owner-2", access.RotationOf(s).Spare)
	require.Equal(t, 1, env.sim.Ledger().Count("createUser"))
}

func TestRotateKeepsOldKeys(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	first := env.config("k8s-owner")
	env.rotate(func(e *engine.Env, o *Options) { o.KeepOld, e.Output = true, "json" })
	require.True(t, env.works(first))
	result := env.result()
	require.Equal(t, []string{"k8s-owner", "k8s-owner-2", "reload", "--keep-old"},
		append([]string{result.From, result.To, result.Proof}, result.UsedBy...))
	require.Equal(t, 2, result.Pods)
	require.Empty(t, result.Ended)
	s, _ := env.secret()
	require.Empty(t, access.RotationOf(s).Spare, "a user whose keys others may have is not taken unasked")

	env.out.Reset()
	env.rotate(func(_ *engine.Env, o *Options) { o.Finish = true })
	require.False(t, env.works(first))
	s, second := env.secret()
	require.True(t, env.works(second))
	require.Equal(t, "k8s-owner", access.RotationOf(s).Spare)
	require.Contains(t, env.out.String(), "the old keys of k8s-owner are revoked\n")
	env.out.Reset()
	env.rotate(func(_ *engine.Env, o *Options) { o.Finish = true })
	require.Contains(t, env.out.String(), "nothing to do")
	require.Equal(t, 2, env.sim.Ledger().Count("registerUserKeys"))
}

// A controller that does not reload its Secret is restarted.
func TestRotateRestarts(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.logs = func(string, int32) string { return "I1121 " + saysFails + "\nI1121 " + saysWorks + "\n" }
	env.rotate(nil)
	require.Contains(t, env.out.String(), "(restart of 2 Pods)")
	require.Contains(t, env.err.String(), "restarting it, one Pod at a time")
}

// If the controller refuses the new keys, the old keys are written back.
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
			env := newEnv(t)
			first := env.config("k8s-owner")
			env.logs = logs
			err := env.run(t.Context(), nil)
			var e *report.Error
			require.ErrorAs(t, err, &e)
			require.ErrorContains(t, err, "sees none; the Secret holds the old keys again, which still work")
			s, cfg := env.secret()
			require.Equal(t, first.APIKey, cfg.APIKey)
			require.True(t, env.works(first))
			require.Equal(t, "k8s-owner-2", access.RotationOf(s).To)

			// The next run uses the same user.
			env.logs = takesOver
			env.changes.Store(0)
			env.rotate(nil)
			require.Equal(t, 1, env.sim.Ledger().Count("createUser"))
		})
	}
}

// A rotation that was interrupted after the Secret was written is continued, not started again.
func TestRotateContinues(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	first := env.config("k8s-owner")
	ctx, cancel := context.WithCancelCause(t.Context())
	env.logs = func(pod string, n int32) string {
		if n > 0 {
			cancel(errors.New("interrupted"))
		}
		return ""
	}
	err := env.run(ctx, nil)
	var stopped *report.Error
	require.ErrorAs(t, err, &stopped)
	require.Contains(t, stopped.Remedy(), "run the same command again")
	require.True(t, env.works(first))
	s, second := env.secret()
	require.Equal(t, "k8s-owner", access.RotationOf(s).From)
	require.ErrorContains(t, env.run(t.Context(), func(_ *engine.Env, o *Options) { o.Finish = true }),
		"a rotation has not ended")

	env.logs = func(string, int32) string { return saysWorks }
	env.rotate(nil)
	_, now := env.secret()
	require.Equal(t, second.APIKey, now.APIKey)
	require.False(t, env.works(first))
	require.Equal(t, 1, env.sim.Ledger().Count("createUser"))
}

// The user of the new keys is one that csccm made for this cluster, in the holder's account, and that may log in.
func TestUserOfTheNewKeys(t *testing.T) {
	holder := cloudapi.User{ID: "1", Username: "kubeadmin", Account: "k8s"}
	cases.Run(t, "testdata/spare-users.yaml", func(t *testing.T, _ string, c struct {
		User cloudapi.User `json:"user"`
		Want string        `json:"want"`
	}) {
		t.Helper()
		c.User.ID, c.User.Username = "2", "kubeadmin-2"
		created, record := &credentials.Created{Cluster: "c3b7"}, access.Rotation{Spare: c.User.Username}
		require.Equal(t, c.Want, next(&holder, []cloudapi.User{holder, c.User}, created, record))
	})
}

func TestRotateDryRunAndKeysOfNobody(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	require.NoError(t, env.run(t.Context(), func(e *engine.Env, _ *Options) { e.DryRun = true }))
	require.Contains(t, env.out.String(), `create user "k8s-owner-2" in account "k8s"`)
	require.Zero(t, env.sim.Ledger().Count("createUser", "registerUserKeys"))

	// Replace the user's keys, so that those in the Secret belong to no user.
	admin, err := cloudapi.Login(t.Context(), env.config("k8s-owner"), "admin", "password", "ROOT")
	require.NoError(t, err)
	users, err := admin.ListUsers(t.Context(), "")
	require.NoError(t, err)
	_, err = admin.RegisterUserKeys(t.Context(),
		testenv.Named(t, users, "k8s-owner", func(u cloudapi.User) string { return u.Username }).ID)
	require.NoError(t, err)
	require.ErrorContains(t, env.run(t.Context(), nil), "belong to no user that this administrator sees")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
)

// The demo's command: admin login, new and existing nodes; then the same again.
func TestInstallAsAdmin(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	o := b.admin()
	o.SnapshotDir = t.TempDir()
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	require.Equal(t, 3, b.initialised(t))
	require.Equal(t, 1, b.helm.applied)
	require.NotContains(t, b.helm.release.Values, "apiKey")
	require.Contains(t, b.out.String(), "3 of 3 nodes initialised")
	require.Contains(t, b.out.String(), "csccm install --api-url "+b.url+" --admin-user admin --admin-password-file FILE --account k8s --zone zone-1 --set hostNetwork=false --set 'bindAddress=$(POD_IP)' --yes")
	b.requireNoSecrets(t)
	require.Equal(t, 1, b.sim.Ledger().Count("logout"), "the session is ended")

	calls := b.sim.Ledger().Count("createUser", "registerUserKeys")
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	require.Equal(t, 1, b.helm.applied, "nothing to do: no new revision")
	require.Equal(t, calls, b.sim.Ledger().Count("createUser", "registerUserKeys"))
}

func TestInstallWithKeysAndThenTheSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	require.NoError(t, b.installer(t, b.keys(t)).Run(t.Context()), b.err.String())
	b.requireNoSecrets(t)
	b.out.Reset()
	in := b.installer(t, Options{Yes: true})
	require.NoError(t, in.Run(t.Context()), b.err.String())
	require.Equal(t, []string{"csccm", "install", "--yes"}, in.FlagLine())
	require.Equal(t, 1, b.helm.applied)
}

func TestInstallAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	in := b.installer(t, Options{})
	in.Interactive = true
	in.Prompt = prompt.NewLines(strings.NewReader(strings.Join([]string{
		"1", // administrator
		"nonsense", b.url,
		"", "", "password", // admin
		"k8s",
		"yes", // make the user
		"yes", // go on
	}, "\n")+"\n"), &b.err)
	require.NoError(t, in.Run(t.Context()), b.err.String())
	require.Contains(t, b.err.String(), "it must start with https:// or http://")
	require.Contains(t, b.err.String(), `create user "kubeadmin" in account "k8s" of domain ROOT`)
	require.Contains(t, b.err.String(), "Secret      create kube-system/cloudstack-secret")
	require.Contains(t, b.err.String(), "Node        demo-worker-1 is initialised by a taint (PreferNoSchedule), first")
	require.Contains(t, b.out.String(), "--account k8s --yes")
	b.requireNoSecrets(t)
}

// A domain administrator names their domain for the login and nothing else: the account is looked for there.
func TestInstallAsDomainAdmin(t *testing.T) {
	t.Parallel()
	w := simulator.ExampleWorld()
	w.Domains = append(w.Domains, simulator.Domain{Path: "ROOT/tenants"})
	for i := range w.Accounts {
		if w.Accounts[i].Name == "k8s" {
			w.Accounts[i].Domain = "ROOT/tenants"
		}
	}
	w.Accounts = append(w.Accounts, simulator.Account{
		Name: "boss", Role: "Domain Admin", Domain: "ROOT/tenants", Users: []simulator.User{{Name: "boss", Password: "password"}},
	})
	b := newBenchOf(t, w, "tenants/k8s-owner", demoNodes()...)
	o := b.admin()
	o.Credentials.AdminUser, o.Credentials.AdminDomain = "boss", "ROOT/tenants"
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	require.Contains(t, b.err.String(), `user "kubeadmin" in account "k8s" of domain ROOT/tenants`)
	require.Equal(t, 3, b.initialised(t))

	b = newBenchOf(t, w, "tenants/k8s-owner", demoNodes()...)
	o = b.admin()
	o.Credentials.AdminUser = "boss"
	err := b.installer(t, o).Run(t.Context())
	require.ErrorContains(t, err, `refuses the login of user "boss" in domain "ROOT"`)
	var r interface{ Remedy() string }
	require.ErrorAs(t, err, &r)
	require.Contains(t, r.Remedy(), "--admin-domain")
}

// Keys that are pasted with blanks around them are taken without them.
func TestInstallAsksForKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	k := b.keys(t).Credentials.Keys
	in := b.installer(t, Options{})
	in.Prompt = prompt.NewLines(strings.NewReader(strings.Join([]string{"2", b.url, " " + k.APIKey, k.SecretKey + "\t", "yes"}, "\n")+"\n"), &b.err)
	require.NoError(t, in.Run(t.Context()), b.err.String())
	require.Contains(t, b.err.String(), "API key: blanks or a byte order mark around the key were removed")
	require.Contains(t, b.err.String(), "Secret key: blanks or a byte order mark around the key were removed")
	require.Equal(t, k.APIKey, in.config.APIKey)
	require.Equal(t, k.SecretKey, in.config.SecretKey)
	b.requireNoSecrets(t)
}

func TestInstallDeclined(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	in := b.installer(t, func() Options { o := b.admin(); o.Yes = false; return o }())
	in.Prompt = prompt.NewLines(strings.NewReader("no\n"), &b.err)
	require.EqualError(t, in.Run(t.Context()), "nothing was changed: not confirmed")
	require.Zero(t, b.sim.Ledger().Count("createUser", "registerUserKeys"))
	require.Zero(t, b.helm.applied)
}

func TestInstallRefusesWithoutTerminal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		flag   string
	}{
		"nothing given": {func(o *Options) { *o = Options{} }, "--admin-user"},
		"no URL":        {func(o *Options) { o.Credentials.APIURL = "" }, "--api-url"},
		"no password":   {func(o *Options) { o.Credentials.AdminPassword = "" }, "--admin-password-file"},
		"no account":    {func(o *Options) { o.Credentials.Account = "" }, "--account"},
		"one key": {func(o *Options) {
			o.Credentials = CredentialOptions{APIURL: o.Credentials.APIURL, Keys: Keys{APIKey: "x"}}
		}, "--secret-key-file"},
		"not agreed": {func(o *Options) { o.Yes = false }, "--yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, demoNodes()...)
			o := b.admin()
			tc.change(&o)
			err := b.installer(t, o).Run(t.Context())
			var missing *prompt.MissingError
			require.ErrorAs(t, err, &missing)
			require.Contains(t, missing.Remedy(), tc.flag)
			require.Zero(t, b.helm.applied)
		})
	}
}

func TestInstallStopsBeforeAnyChange(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*testing.T, *bench, *Options)
		err    string
		code   int
	}{
		"wrong password": {func(_ *testing.T, _ *bench, o *Options) { o.Credentials.AdminPassword = "wrong-canary" }, "refuses the login", 1},
		"wrong URL":      {func(_ *testing.T, _ *bench, o *Options) { o.Credentials.APIURL = "ftp://x" }, "--api-url", 2},
		"unknown zone":   {func(_ *testing.T, _ *bench, o *Options) { o.Zone = "zone-9" }, `no zone "zone-9"`, 2},
		"failed check": {func(_ *testing.T, b *bench, _ *Options) {
			b.failing = []check.Result{{Code: "CCM-003", Outcome: check.Failed, Message: "another controller", Remedy: "stop it"}}
		}, "nothing was installed: CCM-003 failed: another controller", 3},
		"kubelet not external": {func(_ *testing.T, b *bench, o *Options) {
			o.RequireExternal = true
			b.verdicts = func(nodes []corev1.Node) []kubelet.NodeVerdict {
				return []kubelet.NodeVerdict{{Node: nodes[0].Name, Verdict: kubelet.NotExternal, Remedy: "edit the flags"}}
			}
		}, "the kubelet of node demo-cp-1 is not-external", 3},
		"node without VM": {func(t *testing.T, b *bench, _ *Options) {
			_, err := b.kube.CoreV1().Nodes().Create(t.Context(), aNode("stranger", "10.1.1.99"), metav1.CreateOptions{})
			require.NoError(t, err)
		}, "cannot be initialised safely", 3},
		"other credentials in the Secret": {func(t *testing.T, b *bench, _ *Options) {
			_, err := b.kube.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: credentials.SecretName},
				Data:       map[string][]byte{credentials.SecretKey: []byte("[Global]\napi-url=" + b.url + "\napi-key=a-canary\nsecret-key=b-canary\n")},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}, "Secret kube-system/cloudstack-secret exists and differs", 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, demoNodes()...)
			o := b.admin()
			tc.change(t, b, &o)
			before := len(b.kube.Actions())
			err := b.installer(t, o).Run(t.Context())
			require.ErrorContains(t, err, tc.err)
			var coder interface {
				ExitCode() int
				Remedy() string
			}
			require.ErrorAs(t, err, &coder)
			require.Equal(t, tc.code, coder.ExitCode())
			require.NotEmpty(t, coder.Remedy())
			require.Zero(t, b.helm.applied)
			requireOnlyTheList(t, b.kube.Actions()[before:])
			b.requireNoSecrets(t, "canary")
			require.NotContains(t, err.Error()+coder.Remedy(), "canary")
		})
	}
}

func TestInstallSkipsCheckAndOverwrites(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	_, err := b.kube.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: credentials.SecretName},
		Data:       map[string][]byte{credentials.SecretKey: []byte("[Global]\napi-url=" + b.url + "\napi-key=a\nsecret-key=b\nrate-limit=7\n")},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	b.failing = []check.Result{{Code: "CCM-003", Outcome: check.Failed, Message: "another controller"}}
	o := b.admin()
	o.SkipChecks, o.OverwriteSecret = []string{"CCM-003"}, true
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	secret, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), credentials.SecretName, metav1.GetOptions{})
	require.NoError(t, err)
	cfg, err := cloudconfig.Parse(bytes.NewReader(secret.Data[credentials.SecretKey]))
	require.NoError(t, err)
	require.InDelta(t, 7, cfg.RateLimit, 0, "what csccm has no flag for is kept")
	require.NotEqual(t, "a", cfg.APIKey)
}

func TestInstallDryRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	o := b.admin()
	o.Yes, o.DryRun, o.Output = false, true, "json"
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	var p Plan
	require.NoError(t, json.Unmarshal(b.out.Bytes(), &p))
	require.Equal(t, "install", p.Chart.Action)
	require.Equal(t, "create", p.Secret.Action)
	require.Len(t, p.CloudStack.Steps, 2)
	require.Nil(t, p.Nodes)
	require.Zero(t, b.sim.Ledger().Count("createUser"))

	// With keys, the nodes are planned too.
	b.out.Reset()
	o = b.keys(t)
	o.DryRun, o.Output = true, "json"
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	require.NoError(t, json.Unmarshal(b.out.Bytes(), &p))
	require.Equal(t, "demo-worker-1", p.Nodes.Canary)
	require.Zero(t, b.helm.applied)
	b.requireNoSecrets(t, o.Credentials.Keys.APIKey, o.Credentials.Keys.SecretKey)
	for _, a := range b.kube.Actions() {
		require.Contains(t, []string{"get", "list", "watch"}, a.GetVerb(), "%v", a)
	}
}

// ^C ends the run at the next step; run again, it continues.
func TestInstallInterruptedThenContinued(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	b.kube.PrependReactor("create", "secrets", func(ktesting.Action) (bool, kruntime.Object, error) {
		cancel(why) // in the middle of a step
		return false, nil, nil
	})
	err := b.installer(t, b.admin()).Run(ctx)
	var stop *report.Error
	require.ErrorAs(t, err, &stop)
	require.ErrorIs(t, err, why)
	require.ErrorContains(t, err, `stopped before the end of step "Helm release"`, "the step in progress is finished")
	require.Contains(t, stop.Remedy(), "continues")
	require.Zero(t, b.helm.applied)

	require.NoError(t, b.installer(t, b.admin()).Run(t.Context()), b.err.String())
	require.Equal(t, 1, b.sim.Ledger().Count("createUser"))
	require.Equal(t, 3, b.initialised(t))
}

func waiting(reason, message string, restarts int32) corev1.PodStatus {
	return corev1.PodStatus{
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{
			RestartCount:         restarts,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			LastTerminationState: corev1.ContainerState{Terminated: terminated(restarts)},
		}},
	}
}

func terminated(restarts int32) *corev1.ContainerStateTerminated {
	if restarts == 0 {
		return nil
	}
	return &corev1.ContainerStateTerminated{ExitCode: 1}
}

func TestRolloutFailures(t *testing.T) {
	t.Parallel()
	ready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	pending := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "1 node(s) didn't have free ports",
	}}}
	tests := map[string]struct {
		pods      []corev1.PodStatus
		available int32
		err       string
		code      int
		shown     string
	}{
		"image is not there": {
			pods: []corev1.PodStatus{waiting("ImagePullBackOff", "not found", 0)},
			err:  "the controller did not come up within 5m0s: 2 of 2 Pods updated, 0 available; Pod p0: ImagePullBackOff: not found", code: 124,
			shown: "Event Failed: pull refused for ***",
		},
		"it keeps ending": {
			pods: []corev1.PodStatus{waiting("CrashLoopBackOff", "", 3)},
			err:  "the controller does not come up: 2 of 2 Pods updated, 0 available; Pod p0: CrashLoopBackOff (last exit code 1)", code: 1,
			shown: "cannot use *** here",
		},
		"one replica more than nodes": {pods: []corev1.PodStatus{ready, pending}, available: 1, shown: "1 of 2 running; no node can take more now"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, demoNodes()...)
			b.helm.pods = func(d *appsv1.Deployment) []*corev1.Pod {
				d.Status.AvailableReplicas = tc.available
				var pods []*corev1.Pod
				for i, s := range tc.pods {
					pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p" + string(rune('0'+i))}, Status: s})
				}
				return pods
			}
			o := b.keys(t)
			secret := o.Credentials.Keys.SecretKey
			_, err := b.kube.CoreV1().Events("kube-system").Create(t.Context(), &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "e"}, Type: corev1.EventTypeWarning, Reason: "Failed", Message: "pull refused for " + secret,
				InvolvedObject: corev1.ObjectReference{Name: "p0"},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			in := b.installer(t, o)
			in.PodLogs = func(context.Context, *corev1.Pod, int64) (string, error) {
				return "cannot use " + secret + " here\n", nil
			}
			err = in.Run(t.Context())
			require.Contains(t, b.err.String(), tc.shown)
			b.requireNoSecrets(t)
			if tc.err == "" {
				require.NoError(t, err, b.err.String())
				return
			}
			require.EqualError(t, err, tc.err)
			var e *rollout.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tc.code, e.ExitCode())
			require.Contains(t, e.Remedy(), "kubectl -n kube-system describe deployment")
			require.Equal(t, 0, b.initialised(t), "no node is touched by a controller that does not run")
		})
	}
}

func TestHelmFailureIsTheError(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	b.helm.fail = &helm.ValuesError{Problems: []string{"replicaCount: got string, want integer"}}
	err := b.installer(t, b.keys(t)).Run(t.Context())
	require.EqualError(t, err, "chart values: replicaCount: got string, want integer")
}

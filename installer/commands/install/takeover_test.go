// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/commands/takeover/leftby"
	"github.com/csccm/csccm/installer/engine/journal"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
)

// takenBench is a cluster in which another provider runs, as recorded, and its CloudStack.
func takenBench(t *testing.T, state string, old ...kruntime.Object) (b *bench, notes func() []string) {
	t.Helper()
	s, err := leftby.Load(state)
	require.NoError(t, err)
	world, err := s.World()
	require.NoError(t, err)
	sim, err := simulator.New(simulator.Options{World: world})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { server.Close(); sim.Close() })
	b = newBench(t)
	b.sim, b.url = sim, server.URL+"/client/api"
	objects := old
	for i := range s.Kubernetes.Services {
		objects = append(objects, &s.Kubernetes.Services[i])
	}
	for i := range s.Kubernetes.Nodes {
		objects = append(objects, &s.Kubernetes.Nodes[i])
	}
	for i := range s.Kubernetes.Leases {
		objects = append(objects, &s.Kubernetes.Leases[i])
	}
	api, secret, ok := sim.Keys(leftby.Account)
	require.True(t, ok)
	for _, o := range objects {
		if s, is := o.(*corev1.Secret); is && s.Name == credentials.SecretName {
			s.Data = map[string][]byte{credentials.SecretKey: []byte("[Global]\napi-url=" + b.url + "\napi-key=" + api + "\nsecret-key=" + secret + "\nrate-limit=1000\nrate-burst=1000\n")}
		}
		require.NoError(t, b.kube.Tracker().Add(o))
	}
	var mu sync.Mutex
	var log []string
	leftby.Play(b.kube, func(s string) { mu.Lock(); defer mu.Unlock(); log = append(log, s) })
	return b, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(log) }
}

// taking are the options of an unattended install with the credentials that the other provider has.
func (b *bench) taking(t *testing.T) Options {
	t.Helper()
	return Options{Yes: true, SnapshotDir: t.TempDir(), Pin: []string{takeover.All}, Accept: []string{takeover.All}}
}

// rules are the rules of the recorded account by id.
func (b *bench) rules(t *testing.T) map[string]cloudstack.LoadBalancerRule {
	t.Helper()
	cfg := cloudconfig.Default()
	cfg.APIURL = b.url
	cfg.APIKey, cfg.SecretKey, _ = b.sim.Keys(leftby.Account)
	client, err := cloudstack.NewClient(&cfg)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	list, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	out := map[string]cloudstack.LoadBalancerRule{}
	for _, r := range list {
		out[r.ID] = r
	}
	return out
}

func requireKept(t *testing.T, before, after map[string]cloudstack.LoadBalancerRule) {
	t.Helper()
	require.Len(t, after, len(before))
	for id, was := range before {
		now, there := after[id]
		require.True(t, there, was.Name)
		require.Equal(t, was.PublicIP, now.PublicIP)
		require.Equal(t, was.Protocol, now.Protocol, now.Name)
		require.Equal(t, was.Algorithm, now.Algorithm, now.Name)
		require.Equal(t, was.CIDRs, now.CIDRs, now.Name)
		require.NotContains(t, now.Name, "K8s_svc")
	}
}

func TestInstallTakesOver(t *testing.T) {
	t.Parallel()
	for _, state := range []string{leftby.Apache, leftby.Leaseweb} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			b, notes := takenBench(t, state, leftby.ApacheObjects()...)
			before := b.rules(t)
			in := b.installer(t, b.taking(t))
			require.NoError(t, in.Run(t.Context()), b.err.String())
			requireKept(t, before, b.rules(t))
			require.Contains(t, b.err.String(), "found Deployment kube-system/cloud-controller-manager, another provider for CloudStack (apache")
			require.Contains(t, b.err.String(), "default/documented: the protocol of port 8080 changes", "--yes shows what it agrees to")
			require.Contains(t, b.out.String(), "Took the place of Deployment kube-system/cloud-controller-manager.")
			require.Contains(t, b.out.String(), "--accept all --pin all")
			if state == leftby.Apache {
				require.Equal(t, "upstream", b.helm.release.Values["instanceTypeFormat"], "nodes keep the form of their labels")
			}
			svc, err := b.kube.CoreV1().Services("default").Get(t.Context(), "documented", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, "false", svc.Annotations[annotation.ProxyProtocol])
			_, err = b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err))
			// Ours is there before the old one ends, and csccm holds the lease between them.
			held := false // renewals are as many as time goes by
			log := slices.DeleteFunc(notes(), func(s string) bool {
				again := held && strings.HasPrefix(s, "lease of")
				held = held || strings.HasPrefix(s, "lease of")
				return again || !strings.Contains(s, "lease ") && s != "create deployments" && s != "patch deployments" && s != "delete deployments"
			})
			require.Equal(t, []string{"create deployments", "lease of csccm-takeover_", "patch deployments", "lease free", "delete deployments"}, log)
			b.requireNoSecrets(t)

			// The second install finds nobody to replace.
			n := b.helm.applied
			again := b.installer(t, Options{Yes: true, SnapshotDir: t.TempDir()})
			require.NoError(t, again.Run(t.Context()), b.err.String())
			require.Nil(t, again.plan.Takeover)
			require.Equal(t, n, b.helm.applied, "no new revision")
		})
	}
}

// Without somebody's consent nothing is changed, and the flags are named.
func TestInstallWithoutConsent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"unattended": func(*Options) {},
		"dry run":    func(o *Options) { o.DryRun, o.Yes = true, false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, notes := takenBench(t, leftby.Apache, leftby.ApacheObjects()...)
			o := b.taking(t)
			o.Accept, o.Pin = nil, nil
			change(&o)
			err := b.installer(t, o).Run(t.Context())
			var consent *report.Error
			require.ErrorAs(t, err, &consent)
			require.Equal(t, 3, consent.ExitCode())
			require.Contains(t, consent.Remedy(), "--accept default/")
			require.Contains(t, b.err.String()+b.out.String(), "default/documented: the protocol of port 8080 changes from tcp to tcp-proxy")
			require.Empty(t, notes())
			for _, call := range b.sim.Ledger().Calls() {
				require.Regexp(t, "^list", call.Command)
			}
		})
	}
}

// A login makes the user before its keys can compare anything: that is said before, and the cluster stays as it is.
func TestInstallWithoutConsentSaysThatTheUserStays(t *testing.T) {
	t.Parallel()
	b, notes := takenBench(t, leftby.Apache, leftby.ApacheObjects()...)
	o := b.taking(t)
	o.Accept, o.Pin, o.OverwriteSecret = nil, nil, true
	o.Credentials = CredentialOptions{APIURL: b.url, AdminUser: "admin", AdminPassword: "password", Account: leftby.Account, User: "ccm"}
	err := b.installer(t, o).Run(t.Context())
	var consent *report.Error
	require.ErrorAs(t, err, &consent)
	said, made := strings.Index(b.err.String(), "without consent the user in CloudStack stays"), strings.Index(b.err.String(), `made user "ccm"`)
	require.True(t, 0 < said && said < made, b.err.String())
	require.Equal(t, 1, b.sim.Ledger().Count("createUser"))
	require.NotContains(t, strings.Join(notes(), "; "), "deployments")
}

func TestInstallAsksAboutTheTakeover(t *testing.T) {
	t.Parallel()
	b, _ := takenBench(t, leftby.Apache, leftby.ApacheObjects()...)
	o := b.taking(t)
	o.Yes, o.Pin, o.Accept, o.KeepOld = false, nil, nil, true
	in := b.installer(t, o)
	in.Interactive = true
	// "keep the current state" is the first choice where there is one, else "agree".
	in.Prompt = prompt.NewLines(strings.NewReader("1\n"+"yes\n"), &b.err)
	require.NoError(t, in.Run(t.Context()), b.err.String())
	require.Contains(t, b.err.String(), "Service default/documented")
	require.Contains(t, b.err.String(), `keep the current state (sets service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol="false")`)
	require.Contains(t, b.out.String(), "--pin default/documented", "the flag line repeats the answers")
	require.Contains(t, b.out.String(), "--keep-old")
	require.Contains(t, b.out.String(), "Back to it:  csccm takeover --undo\n")
	d, err := b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	require.NoError(t, err)
	require.Zero(t, *d.Spec.Replicas)

	// What was kept on purpose is not taken over again.
	again := b.installer(t, Options{Yes: true, SnapshotDir: t.TempDir()})
	require.NoError(t, again.Run(t.Context()), b.err.String())
	require.Nil(t, again.plan.Takeover)
	_, err = b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	require.NoError(t, err)
}

func inTreeManager() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager-cp", Labels: map[string]string{"component": "kube-controller-manager"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-controller-manager", Args: []string{"--cloud-provider=cloudstack"}}}},
	}
}

func TestInstallStopsAtInTreeProvider(t *testing.T) {
	t.Parallel()
	b, notes := takenBench(t, leftby.Apache, append(leftby.ApacheObjects(), inTreeManager())...)
	err := b.installer(t, b.taking(t)).Run(t.Context())
	var blocked *report.Error
	require.ErrorAs(t, err, &blocked)
	require.Contains(t, blocked.Remedy(), "--cloud-provider=external")
	require.Empty(t, notes())
}

// The checks before the install know whose place is taken; those after it do not let him pass.
func TestChecksKnowWhoIsReplaced(t *testing.T) {
	t.Parallel()
	b, _ := takenBench(t, leftby.Apache, leftby.ApacheObjects()...)
	in := b.installer(t, b.taking(t))
	replaced := map[check.Phase][]check.Object{}
	checks := in.Checks
	in.Checks = func(ctx context.Context, env *check.Env, sel check.Selection, progress func(check.Result)) check.Report {
		replaced[sel.Phase] = env.Replaces
		return checks(ctx, env, sel, progress)
	}
	require.NoError(t, in.Run(t.Context()), b.err.String())
	require.Equal(t, []check.Object{{Kind: "Deployment", Namespace: "kube-system", Name: "cloud-controller-manager"}}, replaced[check.PhasePreflight])
	require.Empty(t, replaced[check.PhaseInstalled])
}

func TestTakeoverPlanAsJSON(t *testing.T) {
	t.Parallel()
	b, _ := takenBench(t, leftby.Apache, leftby.ApacheObjects()...)
	o := b.taking(t)
	o.Yes, o.DryRun, o.Output = false, true, "json"
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	var p Plan
	require.NoError(t, json.Unmarshal(b.out.Bytes(), &p))
	require.Equal(t, takeover.OursFirst, p.Takeover.Order)
	require.Len(t, p.Takeover.Services, 6)
	require.Equal(t, "upstream", p.Chart.Values["instanceTypeFormat"])
}

// Whatever write to the cluster is the last one of an install that takes over, the next run completes:
// the rules are those that were, and the old controller is gone.
func TestCrashAtEveryWriteOfATakeover(t *testing.T) { //nolint:tparallel // one write after the other, until none is left
	t.Parallel()
	died := errors.New("the program is dead")
	atEveryWrite(t, func(t *testing.T, n int) (last bool) {
		b, notes := takenBench(t, leftby.Apache, leftby.ApacheObjects()...)
		before := b.rules(t)
		revive, completed := dieAfter(b.kube, n, died)
		o := b.taking(t)
		o.Journal = filepath.Join(t.TempDir(), "journal")
		err := b.installer(t, o).Run(t.Context())
		if completed() {
			require.NoError(t, err)
			require.Greater(t, n, 10, "writes of a takeover")
			return true
		}
		revive()
		require.NoError(t, b.installer(t, b.taking(t)).Run(t.Context()), "after write %d (%v): %s", n, notes(), &b.err)
		requireKept(t, before, b.rules(t))
		_, err = b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "after write %d", n)
		require.Equal(t, "deployed", b.helm.release.Status)
		require.Empty(t, journal.Last(t.Context(), b.kube, "kube-system", Command).Describe())
		return false
	})
}

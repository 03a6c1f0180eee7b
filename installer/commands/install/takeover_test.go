// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/service"
)

// takenEnv returns a recorded cluster in which another provider runs, with its CloudStack.
func takenEnv(t *testing.T, state string, old ...kruntime.Object) (e *env, notes func() []string) {
	t.Helper()
	e = newEnvOf(t, nil, testenv.Owner)
	var s *leftby.State
	e.cloud, s = testenv.Left(t, state)
	e.life = (&life{}).bound(e.Kube)
	api := httptest.NewServer(e.life.cloud(e.cloud.Handler()))
	t.Cleanup(api.Close)
	e.cloud.URL = api.URL + "/client/api"
	objects := append(old, s.Objects()...)
	cfg := e.cloud.Config(t, leftby.Account)
	cfg.RateLimit, cfg.RateBurst = 1000, 1000
	for _, o := range objects {
		if s, is := o.(*corev1.Secret); is && s.Name == access.SecretName {
			s.Data = map[string][]byte{access.SecretKey: cfg.Render()}
		}
		require.NoError(t, e.Kube.Tracker().Add(o))
	}

	var mu sync.Mutex
	var log []string
	leftby.Play(e.Kube, func(s string) { mu.Lock(); defer mu.Unlock(); log = append(log, s) })
	return e, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(log) }
}

// taking returns the options of an unattended install with the credentials that the other provider has.
func (e *env) taking(t *testing.T) Config {
	t.Helper()
	return Config{Pin: []string{takeover.All}, Accept: []string{takeover.All}}
}

// rules returns the rules of the recorded account by id.
func (e *env) rules(t *testing.T) map[string]cloudstack.LoadBalancerRule {
	t.Helper()
	list, err := e.cloud.Client(t, leftby.Account).ListLoadBalancerRules(t.Context(),
		cloudstack.LoadBalancerRuleQuery{})
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
			e, notes := takenEnv(t, state, leftby.ApacheObjects()...)
			before := e.rules(t)
			testenv.RequireRefusal(t, e.installer(t, Config{}).Run(t.Context()), "", "--accept default/", 3)
			require.Empty(t, notes(), "without consent nothing is changed")
			e.install(t, e.taking(t))
			requireKept(t, before, e.rules(t))
			if state == leftby.Apache {
				require.Equal(t, "upstream", e.Releases.Release().Values["instanceTypeFormat"],
					"nodes keep the form of their labels")
			}
			svc, err := e.Kube.CoreV1().Services("default").Get(t.Context(), "documented", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, "false", svc.Annotations[annotation.ProxyProtocol])
			e.requireReplicas(t, 0)
			// csccm's controller is ready before the old one is stopped; csccm releases the lease after that.
			log := slices.DeleteFunc(notes(),
				func(s string) bool { return s != "lease free" && !strings.HasSuffix(s, " deployments") })
			require.Equal(t,
				[]string{"create deployments", "patch deployments", "lease free", "patch deployments",
					"patch deployments"}, log)
			e.requireNoSecrets(t)

			// The second install finds no other provider.
			n := e.Releases.Applied
			e.Stdout.Reset()
			e.install(t, Config{})
			require.NotContains(t, e.Stdout.String(), "Replaced ")
			require.Equal(t, n, e.Releases.Applied, "no new revision")
		})
	}
}

// With a login, the user must be created before its keys can compare Services: the plan says so, and the cluster is not
// changed.
func TestInstallWithoutConsentSaysThatTheUserStays(t *testing.T) {
	t.Parallel()
	e, notes := takenEnv(t, leftby.Apache, leftby.ApacheObjects()...)
	o := Config{
		AdminUser:       "admin",
		AdminPassword:   "password",
		Account:         leftby.Account,
		User:            "ccm",
		OverwriteSecret: true,
	}

	o.Answer("api-url", e.cloud.URL)
	err := e.installer(t, o).Run(t.Context())
	var consent *report.Error
	require.ErrorAs(t, err, &consent)
	said, made := strings.Index(e.Stderr.String(),
		"without it, the user in CloudStack is kept"), strings.Index(e.Stderr.String(), `made user "ccm"`)
	require.True(t, 0 < said && said < made, e.Stderr.String())
	require.Equal(t, 1, e.cloud.Ledger().Count("createUser"))
	require.NotContains(t, strings.Join(notes(), "; "), "deployments")
}

// requireReplicas checks that each old controller exists and has so many Pods.
func (e *env) requireReplicas(t *testing.T, want int32) {
	t.Helper()
	all, err := family.Replaceable(t.Context(), e.Kube)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, old := range all {
		require.Equal(t, want, old.Wanted, &old)
	}
}

// The checks before the install accept the provider that is being replaced; those after it report one that still runs.
func TestChecksKnowWhoIsReplaced(t *testing.T) {
	t.Parallel()
	e, _ := takenEnv(t, leftby.Apache, leftby.ApacheObjects()...)
	in := e.installer(t, e.taking(t))
	replaced := map[check.Phase][]check.Object{}
	checks := in.checks
	in.checks = func(
		ctx context.Context, env *inspect.Env, sel check.Selection, progress func(check.Result),
	) (check.Report, *check.Facts) {
		replaced[sel.Phase] = env.Replaces
		return checks(ctx, env, sel, progress)
	}
	require.NoError(t, in.Run(t.Context()), e.Stderr.String())
	require.Equal(t, []check.Object{{Kind: "Deployment", Namespace: "kube-system", Name: "cloud-controller-manager"}},
		replaced[check.PhasePreflight])
	require.Empty(t, replaced[check.PhaseInstalled])
}

// If an install that takes over is killed after any write to the cluster or to CloudStack, the next run completes it,
// and an undo reverts it; so does the next undo if an undo is killed. In all cases a controller works, and rules and
// addresses are unchanged. The same is true for two providers at once.
func TestCrashAtEveryWriteOfATakeover(t *testing.T) {
	t.Parallel()
	e, _ := takenEnv(t, leftby.Apache, leftby.ApacheObjects()...)
	e.install(t, e.taking(t))
	handedOver := e.cloud.HandedOver(t, leftby.Account)
	require.NotEmpty(t, handedOver)
	for name, electing := range map[string][]string{
		"lease": {"true"}, "no lease": {"false"}, "two": {"true", "false"},
	} {
		for _, killed := range []string{"takeover", "takeover that is undone", "undo"} {
			t.Run(name+", "+killed, func(t *testing.T) {
				t.Parallel()
				atEveryWrite(t, func(t *testing.T, n int) (last bool) {
					objects := leftby.ApacheObjects()
					for i, elects := range electing {
						old, _ := objects[0].(*appsv1.Deployment)
						old = old.DeepCopy()
						old.Spec.Template.Spec.Containers[0].Args[0] = "--leader-elect=" + elects
						if i == 0 {
							objects[0] = old
						} else {
							old.Name = "second"
							objects = append(objects, old)
						}
					}

					e, _ := takenEnv(t, leftby.Apache, objects...)
					before := e.rules(t)
					var err error
					if killed == "undo" {
						e.install(t, e.taking(t))
						e.life.n = n
						err = e.undo(t)
					} else {
						e.life.n = n
						err = e.installer(t, e.taking(t)).Run(t.Context())
					}

					if last = !e.life.ended(); last {
						require.NoError(t, err)
						require.Greater(t, n, 3+len(handedOver), "writes")
					} else if killed == "takeover" {
						e.install(t, e.taking(t))
						requireKept(t, before, e.rules(t))
						e.requireReplicas(t, 0)
						require.Equal(t, handedOver, e.cloud.HandedOver(t, leftby.Account))
						require.Equal(t, "deployed", e.Releases.Release().Status)
					} else {
						require.NoError(t, e.undo(t))
						e.requireReplicas(t, 1)
						require.Empty(t, e.cloud.HandedOver(t, leftby.Account))
					}

					return last
				})
			})
		}
	}
}

// undo runs csccm takeover --undo.
func (e *env) undo(t *testing.T) error {
	t.Helper()
	cs := &access.Cloud{Client: e.cloud.Client(t, leftby.Account), Config: e.cloud.Config(t, leftby.Account)}
	return takeover.Run(t.Context(), e.Env.Env, cs, takeover.Options{Undo: true})
}

// If the old controller must be stopped first, the self-test prevents a takeover by a controller that cannot run; later
// failures name the undo.
func TestOldControllerThatEndsFirst(t *testing.T) {
	t.Parallel()
	objects := leftby.ApacheObjects()
	old, _ := objects[0].(*appsv1.Deployment)
	old.Spec.Template.Spec.Containers[0].Args[0] = "--leader-elect=false"
	e, notes := takenEnv(t, leftby.Apache, objects...)
	e.testing(corev1.PodPending, "")
	require.ErrorContains(t, e.installer(t, e.taking(t)).Run(t.Context()),
		"the self-test did not run: Pod x-self-test did not end within 2m0s")
	require.NotContains(t, notes(), "patch deployments", "the old controller goes on")
	e.requireReplicas(t, 1)

	o := e.taking(t)
	o.SkipSelfTest = true
	e.Releases.Err = errors.New("quota exceeded")
	err := e.installer(t, o).Run(t.Context())
	require.ErrorContains(t, err, "quota exceeded")
	require.Contains(t, report.RemedyOf(err), "csccm takeover --undo")
	e.requireReplicas(t, 0)
	require.NoError(t, e.undo(t))
	e.requireReplicas(t, 1)
}

// Two controllers that listen on the same port of the node cannot run at the same time.
func TestOldControllerOnTheSamePort(t *testing.T) {
	t.Parallel()
	objects := leftby.ApacheObjects()
	old, _ := objects[0].(*appsv1.Deployment)
	old.Spec.Template.Spec.HostNetwork = true
	e, _ := takenEnv(t, leftby.Apache, objects...)
	e.Releases.Render = true
	o := e.taking(t)
	e.DryRun = true
	require.NoError(t, e.installer(t, o).Run(t.Context()))
	require.Contains(t, e.Stdout.String(),
		"the old controller ends before csccm's starts: both listen on port 10258 of the node")

	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "proxy-1"}, Spec: corev1.PodSpec{
		HostNetwork: true,
		Containers:  []corev1.Container{{Name: "proxy", Ports: []corev1.ContainerPort{{ContainerPort: 10258}}}},
	}}
	require.NoError(t, e.Kube.Tracker().Add(other))
	const taken = "port 10258 of the nodes, on which the controller would listen, is Pod kube-system/proxy-1's"
	require.ErrorContains(t, e.installer(t, o).Run(t.Context()), taken)
	other.Spec.HostNetwork = false
	other.Spec.Containers[0].Ports[0] = corev1.ContainerPort{ContainerPort: 80, HostPort: 10258}
	require.NoError(t, e.Kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), other, other.Namespace))
	require.ErrorContains(t, e.installer(t, o).Run(t.Context()), taken)
	o.Values = map[string]any{"securePort": 10358}
	e.Stdout.Reset()
	require.NoError(t, e.installer(t, o).Run(t.Context()))
	require.Contains(t, e.Stdout.String(), "csccm's controller starts before the old one ends")
}

// The checks wait until the controller has synced the Services.
func TestServicesAreJudgedWhenTheControllerHasServedThem(t *testing.T) {
	t.Parallel()
	e, _ := takenEnv(t, leftby.Leaseweb, leftby.ApacheObjects()...)
	serve := e.Poll
	e.Poll = func() { // the controller syncs one Service after the other
		serve()
		list, err := e.Kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if err != nil || !strings.Contains(e.Stderr.String(), " of 6 done") {
			return
		}
		for _, it := range list.Items {
			s := &it
			if len(s.Status.Conditions) == 0 {
				s.Status.Conditions = []metav1.Condition{{Type: service.ConditionReady, Status: metav1.ConditionTrue}}
				_, _ = e.Kube.CoreV1().Services(s.Namespace).UpdateStatus(t.Context(), s, metav1.UpdateOptions{})
				return
			}
		}
	}

	in := e.installer(t, e.taking(t))
	checks, unserved := in.checks, -1
	in.checks = func(
		ctx context.Context, env *inspect.Env, sel check.Selection, progress func(check.Result),
	) (check.Report, *check.Facts) {
		if sel.Phase == check.PhaseInstalled && sel.Only == nil {
			list, err := e.Kube.CoreV1().Services("").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			unserved = len(slices.DeleteFunc(list.Items,
				func(s corev1.Service) bool { return len(s.Status.Conditions) > 0 }))
		}
		return checks(ctx, env, sel, progress)
	}

	require.NoError(t, in.Run(t.Context()), e.Stderr.String())
	require.Zero(t, unserved)
	require.Contains(t, e.Stderr.String(), "5 of 6 done")
}

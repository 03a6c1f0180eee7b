// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/commands/takeover/testenv/leftby"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// reconcile does what the new controller does with every Service, and gives what it did.
func (e *env) reconcile(f *Facts) map[string][]plan.Step {
	t := e.t
	t.Helper()
	inv := inventory.New(e.source.API, inventory.Options{})
	r := loadbalancer.New(loadbalancer.FromClient(e.source.API.Client), loadbalancer.Options{
		ClusterIDs: func() []string { return f.ClusterIDs }, Project: func(ctx context.Context, _ string) (string, error) { return inv.ProjectID(ctx) },
		Network: func(_ context.Context, _, id string, _ time.Duration) (plan.Network, error) {
			return f.Networks[id], nil
		},
	})
	out := map[string][]plan.Step{}
	services, err := e.kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range services.Items {
		svc := &services.Items[i]
		spec, err := annotation.Parse(svc)
		require.NoError(t, err)
		result, err := r.Reconcile(t.Context(), loadbalancer.Request{
			Service: loadbalancer.ServiceOf(svc), Spec: spec, Members: members(f), Records: noRecords{}, Grants: plan.AllGrants(), Notify: func(plan.Notice) {},
		})
		require.NoError(t, err, svc.Name)
		out[svc.Namespace+"/"+svc.Name] = result.Plan
	}
	return out
}

type noRecords struct{}

func (noRecords) Load(context.Context) (annotation.Records, error) { return annotation.Records{}, nil }
func (noRecords) Save(context.Context, annotation.Records) error   { return nil }

// What the plan announced is what the controller then does, and nothing else that anybody would notice.
func TestTakeoverKeepsWhatStands(t *testing.T) {
	t.Parallel()
	for _, state := range []string{leftby.Apache, leftby.Leaseweb} {
		for _, pin := range []bool{true, false} {
			t.Run(state, func(t *testing.T) {
				t.Parallel()
				e := standby(t, state)
				f := e.facts()
				before := e.rules()
				taker := e.taker()
				p := taker.Plan
				require.Equal(t, OursFirst, p.Order, p.Why)
				if pin {
					taker.Pin = []string{All}
				}
				e.do(taker.Before()...)
				require.NotContains(t, e.notes(), "patch deployments", "nothing stops before ours runs")
				e.do(taker.After()...)
				did, after := e.reconcile(f), e.rules()
				for id, was := range before {
					now, there := after[id]
					kinds := map[Kind]bool{}
					for i := range p.Services {
						if s := &p.Services[i]; slices.Contains(s.Rules, id) {
							for _, d := range s.Differences {
								kinds[d.Kind] = !pin || d.Pin == nil
							}
						}
					}
					require.Equal(t, kinds[KindGap], !there, was.Name)
					if !there {
						continue
					}
					require.Equal(t, was.PublicIP, now.PublicIP)
					require.Equal(t, kinds[KindProtocol], was.Protocol != now.Protocol, was.Name)
					require.Equal(t, was.Algorithm, now.Algorithm)
					_, _, _, legacy, ok := plan.ParseRuleName(now.Name)
					require.True(t, ok && !legacy, now.Name)
				}
				for service, actions := range did {
					for _, a := range actions {
						require.NotContains(t, []string{"allocate-address", "release-address"}, a.Kind, service)
					}
				}
				require.Len(t, after, len(before))
				require.Empty(t, needing(e.plan()), "nothing differs any more")
			})
		}
	}
}

func TestTakeoverOrder(t *testing.T) {
	t.Parallel()
	e := standby(t, leftby.Apache)
	taker := e.taker()
	taker.Pin = []string{"default/documented"}
	e.do(append(taker.Before(), taker.After()...)...)
	require.Equal(t, []string{
		"patch services", // record and pin
		"lease of csccm-takeover_", "update leases", "patch deployments", "lease free", "update leases",
		"delete clusterroles", "delete rolebindings", "delete clusterrolebindings", "delete serviceaccounts", "delete deployments",
	}, withoutRenewals(e.notes()))
	_, err := e.kube.RbacV1().ClusterRoleBindings().Get(t.Context(), "both", metav1.GetOptions{})
	require.NoError(t, err)
	_, err = e.kube.RbacV1().ClusterRoles().Get(t.Context(), "shared", metav1.GetOptions{})
	require.NoError(t, err)
	_, err = e.kube.CoreV1().Secrets("kube-system").Get(t.Context(), "cloudstack-secret", metav1.GetOptions{})
	require.NoError(t, err, "the Secret may be ours too")
	require.Equal(t, "false", e.documented().Annotations[annotation.ProxyProtocol])

	require.Equal(t, "enabled", *beforeOf(e.documented()).Annotations[annotation.ProxyProtocol].Was)

	// A second takeover finds nothing to do but to look.
	n := len(e.notes())
	again := e.taker()
	require.Equal(t, Nothing, again.Plan.Order)
	e.do(again.After()...)
	require.Len(t, e.notes(), n)
}

// withoutRenewals drops the renewals of csccm's hold on the lease, which take their time, from notes.
func withoutRenewals(notes []string) (out []string) {
	const renewal = "lease of csccm-takeover_"
	for i := 0; i < len(notes); i++ {
		if notes[i] == renewal && slices.Contains(out, renewal) {
			i++ // and its update
			continue
		}
		out = append(out, notes[i])
	}
	return out
}

// A controller that elects no leader ends before ours is there.
func TestOldFirst(t *testing.T) {
	t.Parallel()
	old := leftby.Controller("ccm", "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1", map[string]string{"k8s-app": "ccm"}, "--cloud-provider=cloudstack", "--leader-elect=false")
	old.Annotations = map[string]string{helmReleaseKey: "lw"}
	record := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "sh.helm.release.v1.lw.v1", Labels: map[string]string{"owner": "helm", "name": "lw"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "old-pod", Labels: map[string]string{"k8s-app": "ccm"}}}
	e := newEnv(t, leftby.Leaseweb, old, record, pod)
	taker := e.taker()
	require.Equal(t, OldFirst, taker.Plan.Order)
	e.do(taker.Before()...)
	require.Equal(t, []string{"patch services", "patch deployments"}, slices.Compact(e.notes()), "no lease is touched")
	require.NotContains(t, strings.Join(e.ruleNames(), "\n"), "K8s_svc")
	_, err := e.kube.CoreV1().Secrets("kube-system").Get(t.Context(), record.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, taker.removeOld(t.Context()))
	_, err = e.kube.CoreV1().Secrets("kube-system").Get(t.Context(), record.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "Helm must not find a release whose objects are gone")
}

// Whatever fails between, the lease is given up again: the cluster is not left without a leader.
func TestLeaseIsGivenUpAfterAFailure(t *testing.T) {
	t.Parallel()
	e := standby(t, leftby.Leaseweb)
	remove := e.sim.Inject(simulator.Fault{Command: "updateLoadBalancerRule", Nth: 1, Kind: simulator.FaultErrorBefore, HTTPStatus: 530, Text: "router is down"})
	taker := e.taker()
	e.do(taker.Before()...)
	err := run(t.Context(), taker.After()...)
	remove()
	require.ErrorContains(t, err, "router is down")
	var remedied interface{ Remedy() string }
	require.ErrorAs(t, err, &remedied)
	require.Contains(t, remedied.Remedy(), "takeover --undo")
	require.Equal(t, []string{"lease free", "update leases"}, e.notes()[len(e.notes())-2:])

	// The next run goes on: the old one is stopped by now.
	taker = e.taker()
	require.Equal(t, OldFirst, taker.Plan.Order)
	e.do(append(taker.Before(), taker.After()...)...)
	_, err = e.old()
	require.True(t, apierrors.IsNotFound(err))
}

func TestOldControllerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	e := standby(t, leftby.Apache)
	taker := e.taker()
	stuck := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "stuck", Labels: map[string]string{"k8s-app": "cloud-controller-manager"}}}
	require.NoError(t, e.kube.Tracker().Add(stuck))
	require.ErrorContains(t, taker.stop(t.Context(), &taker.Plan.Predecessors[0]), "Pod stuck of Deployment kube-system/cloud-controller-manager does not end")
}

// Somebody who takes the lease while csccm holds it may have acted meanwhile: that is said, not passed over.
func TestHoldThatIsLostIsSaid(t *testing.T) {
	t.Parallel()
	e := standby(t, leftby.Apache)
	taker := e.taker()
	e.do(taker.Before()...)
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	e.on("patch", "deployments", func() error {
		name := taker.Plan.Own.Lease
		object, err := e.kube.Tracker().Get(leases, name.Namespace, name.Name)
		if err != nil {
			return err
		}
		l := object.(*coordinationv1.Lease).DeepCopy()
		l.Spec.HolderIdentity = ptr.To("node-1_other")
		return e.kube.Tracker().Update(leases, l, name.Namespace)
	})
	require.ErrorContains(t, run(t.Context(), taker.After()...), `is held by "node-1_other": another csccm, or a controller that took it`)
}

// A csccm that was killed leaves the lease held: the next one waits until it is sure of that, and takes it.
// One that is at work keeps it, whatever its clock says.
func TestLeaseOfAnotherCSCCM(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alive bool
		skew  time.Duration // of the other's clock
	}{
		"killed":                           {},
		"killed, its clock was ahead":      {skew: time.Hour},
		"killed, its clock was behind":     {skew: -time.Hour},
		"at work":                          {alive: true},
		"at work, and its clock is ahead":  {alive: true, skew: time.Hour},
		"at work, and its clock is behind": {alive: true, skew: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				kube, own := fake.NewClientset(), clock.RealClock{}
				first, err := seize(t.Context(), kube, skewed{own, c.skew}, DefaultLease, identityPrefix+"1")
				require.NoError(t, err)
				defer first.stop()
				if !c.alive {
					first.stop()
					<-first.done
				}
				begun := own.Now()
				second, err := seize(t.Context(), kube, own, DefaultLease, identityPrefix+"2")
				if c.alive {
					require.ErrorContains(t, err, "another csccm is at work: csccm-takeover_1")
					require.NoError(t, first.check(t.Context()))
					return
				}
				require.NoError(t, err)
				require.NoError(t, second.check(t.Context()))
				require.NoError(t, second.release(t.Context()))
				require.InDelta(t, leaseMissed, own.Since(begun), float64(leaderPoll))
			})
		})
	}
}

// A Pod of ours that leads, because the old controller did not, does not write any more when the hold ends.
func TestHoldOutlastsTheLeader(t *testing.T) {
	t.Parallel()
	const period = 15 * time.Second
	for name, c := range map[string]struct {
		holder string
		want   time.Duration
	}{
		"nobody": {"", 0}, "another csccm": {identityPrefix + "1", 0}, "the old controller's Pod": {"cloud-controller-manager-1a2b-xyz_1", 0},
		"a Pod of ours":             {"cloudstack-cloud-controller-manager-1a2b-xyz_1", period},
		"a Pod on a node's network": {"node-1_1", period},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				kube, own := fake.NewClientset(), clock.RealClock{}
				now := metav1.NewMicroTime(own.Now())
				_, err := kube.CoordinationV1().Leases(DefaultLease.Namespace).Create(t.Context(), &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: DefaultLease.Namespace, Name: DefaultLease.Name},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: &c.holder, RenewTime: &now, LeaseDurationSeconds: ptr.To(int32(period / time.Second))},
				}, metav1.CreateOptions{})
				require.NoError(t, err)
				h, err := seize(t.Context(), kube, own, DefaultLease, identityPrefix+"2")
				require.NoError(t, err)
				defer h.stop()
				begun := own.Now()
				require.NoError(t, h.outlast(t.Context(), []string{"cloud-controller-manager"}))
				require.Equal(t, c.want, own.Since(begun))
			})
		})
	}
}

// skewed is the clock of a machine whose clock is wrong.
type skewed struct {
	clock.RealClock
	by time.Duration
}

func (s skewed) Now() time.Time                     { return s.RealClock.Now().Add(s.by) }
func (s skewed) Since(from time.Time) time.Duration { return s.Now().Sub(from) }

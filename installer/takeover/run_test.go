// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/simulator"
)

// noBook is the address book of a cluster without Services.
type noBook struct{}

func (noBook) Use(string, evidence.Instant, string) plan.AddressUse { return plan.AddressUse{} }
func (noBook) ByUID(string) *plan.Holder                            { return nil }
func (noBook) Find(func(*plan.Holder) bool) *plan.Holder            { return nil }
func (noBook) Reserve(string, plan.Wish) error                      { return nil }

// reconcile syncs every Service as the new controller does, and returns the executed steps.
func (e *env) reconcile(f *Facts) map[string][]plan.Step {
	t := e.t
	t.Helper()
	inv := inventory.New(e.source.Cloud.Client, inventory.Options{})
	r := loadbalancer.New(loadbalancer.Options{
		API:        apply.API{Reader: e.source.Cloud.Client.Client, Client: e.source.Cloud.Client.Client},
		Clock:      clock.RealClock{},
		Book:       noBook{},
		ClusterIDs: func() []string { return []string{"the-cluster"} },
	})

	out, members := map[string][]plan.Step{}, []plan.Member{}
	for _, it := range f.Nodes {
		if vm, err := node.Match(f.VMs, &it); err == nil {
			members = append(members, node.MemberOf(&it, &vm))
		}
	}

	services, err := e.kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, svc := range services.Items {
		spec, err := annotation.Parse(&svc)
		require.NoError(t, err)
		result, err := r.Reconcile(t.Context(), loadbalancer.Request{
			Facts:     plan.Facts{Service: loadbalancer.ServiceOf(&svc), Spec: spec, Members: members},
			Records:   func(context.Context, annotation.Records, bool) error { return nil },
			Grants:    plan.AllGrants(),
			Inventory: inv,
			Fresh:     true,
		})
		require.NoError(t, err, svc.Name)
		out[svc.Namespace+"/"+svc.Name] = result.Plan
	}

	return out
}

// The controller does what the plan has announced, and nothing else that a user would notice.
func TestTakeoverKeepsWhatStands(t *testing.T) {
	t.Parallel()
	for _, state := range []string{leftby.Apache, leftby.Leaseweb} {
		for _, pin := range []bool{true, false} {
			t.Run(state, func(t *testing.T) {
				t.Parallel()
				e := standby(t, state)
				f := e.facts()
				before := e.rules()
				var pins []string
				if pin {
					pins = []string{All}
				}

				taker := e.taker(pins...)
				p := taker.Plan
				require.Equal(t, OursFirst, p.Order, p.Why)
				e.do(taker.Before()...)
				require.NotContains(t, e.notes(), "patch deployments", "nothing stops before ours runs")
				e.do(taker.After()...)
				did, after := e.reconcile(f), e.rules()
				for id, was := range before {
					now, there := after[id]
					kinds := map[Kind]bool{}
					for _, s := range p.Services {
						if slices.Contains(s.Rules, id) {
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
	taker := e.taker("default/documented")
	e.do(append(taker.Before(), taker.After()...)...)
	e.inOrder("patch services", "lease of csccm-takeover_", "patch deployments", "lease free")
	require.Equal(t, "patch deployments", e.notes()[len(e.notes())-1], "the mark on the old one")
	require.NotContains(t, strings.Join(e.notes(), "\n"), "delete")
	require.Equal(t, "false", e.documented().Annotations[annotation.ProxyProtocol])
	was, _ := rules.RecordOf(e.documented(), BeforeAnnotation)
	require.Equal(t, "enabled", *was.Annotations[annotation.ProxyProtocol].Was)

	// A second takeover changes nothing.
	n := len(e.notes())
	again := e.taker()
	require.Empty(t, again.Plan.Order)
	e.do(again.After()...)
	require.Len(t, e.notes(), n)
}

// A controller without leader election is stopped before csccm's starts.
func TestOldFirst(t *testing.T) {
	t.Parallel()
	old := leftby.Controller("ccm", "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1",
		map[string]string{"k8s-app": "ccm"}, "--cloud-provider=cloudstack", "--leader-elect=false")
	old.Annotations = map[string]string{"meta.helm.sh/release-name": "lw"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system",
			Name:      "old-pod",
			Labels:    map[string]string{"k8s-app": "ccm"},
		},
	}
	e := newEnv(t, leftby.Leaseweb, old, pod)
	taker := e.taker()
	require.Equal(t, OldFirst, taker.Plan.Order)
	e.do(taker.Before()...)
	require.Equal(t, []string{"patch services", "patch deployments"}, slices.Compact(e.notes()), "no lease is touched")
	require.NotContains(t, strings.Join(e.ruleNames(), "\n"), "K8s_svc")
}

// Whatever fails in between, csccm releases the lease, so the cluster is not left without a leader.
func TestLeaseIsGivenUpAfterAFailure(t *testing.T) {
	t.Parallel()
	e := standby(t, leftby.Leaseweb)
	remove := e.sim.Inject(simulator.Fault{
		Command:    "updateLoadBalancerRule",
		Nth:        1,
		Kind:       simulator.FaultErrorBefore,
		HTTPStatus: 530,
		Text:       "router is down",
	})
	taker := e.taker()
	e.do(taker.Before()...)
	err := e.run(t.Context(), taker.After()...)
	remove()
	require.ErrorContains(t, err, "router is down")
	var remedied interface{ Remedy() string }
	require.ErrorAs(t, err, &remedied)
	require.Contains(t, remedied.Remedy(), "takeover --undo")
	require.Equal(t, []string{"lease free", "update leases"}, e.notes()[len(e.notes())-2:])

	// The next run continues: the old controller is stopped by now.
	taker = e.taker()
	require.Equal(t, OldFirst, taker.Plan.Order)
	e.do(append(taker.Before(), taker.After()...)...)
	require.Empty(t, e.plan().Order)
}

func TestOldControllerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	e := standby(t, leftby.Apache)
	taker := e.taker()
	stuck := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system",
			Name:      "stuck",
			Labels:    map[string]string{"k8s-app": "cloud-controller-manager"},
		},
	}
	require.NoError(t, e.kube.Tracker().Add(stuck))
	require.ErrorContains(t, taker.stop(t.Context(), taker.Plan.Predecessors),
		"Pod stuck of Deployment kube-system/cloud-controller-manager does not end")
}

// If another process takes the lease while csccm holds it, that process may have made changes, so csccm returns an
// error.
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
	require.ErrorContains(t, e.run(t.Context(), taker.After()...),
		`is held by "node-1_other": another csccm, or a controller that took it`)
}

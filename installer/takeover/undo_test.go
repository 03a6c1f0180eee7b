// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/addresses"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

var errCut = errors.New("the line is cut")

// takenOver returns an env after a takeover, and the names that its rules had before.
func takenOver(t *testing.T, state string) (e *env, before []string) {
	t.Helper()
	e = standby(t, state)
	before = e.ruleNames()
	taker := e.taker(All)
	e.do(append(taker.Before(), taker.After()...)...)
	e.mu.Lock()
	e.log = nil
	e.mu.Unlock()
	return e, before
}

func (e *env) undoer() *Taker {
	e.t.Helper()
	taker := *e.source
	taker.Plan = PlanUndo(e.facts())
	return &taker
}

// isBack checks that everything is as it was before the takeover.
func (e *env) isBack(rules []string) {
	t := e.t
	t.Helper()
	require.Equal(t, rules, e.ruleNames())
	old, err := e.old()
	require.NoError(t, err)
	require.EqualValues(t, 1, *old.Spec.Replicas)
	require.NotContains(t, old.Annotations, family.ReplicasAnnotation)
	require.NotContains(t, old.Annotations, family.ReplacedAnnotation)
	_, err = e.kube.AppsV1().Deployments("kube-system").Get(t.Context(), ours().Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "ours has ended")
	require.Equal(t, "enabled", e.documented().Annotations[annotation.ProxyProtocol])
	require.NotContains(t, e.documented().Annotations, BeforeAnnotation)
}

// An undo puts back what the takeover changed, in the order that keeps two controllers from acting at once. If it is
// killed or fails at any step, the next undo completes it.
func TestUndo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ state, fails string }{
		{leftby.Apache, ""}, {leftby.Leaseweb, ""},
		{leftby.Leaseweb, "delete deployments"}, {leftby.Leaseweb, "patch services"},
		{leftby.Leaseweb, "patch deployments"},
	} {
		t.Run(tc.state+" "+tc.fails, func(t *testing.T) {
			t.Parallel()
			e, before := takenOver(t, tc.state)
			if verb, resource, fails := strings.Cut(tc.fails, " "); fails {
				failed := false
				e.on(verb, resource, func() error {
					if failed {
						return nil
					}
					failed = true
					return errCut
				})
				require.ErrorIs(t, e.run(t.Context(), e.undoer().Back()...), errCut)
				e.do(e.undoer().Back()...)
				e.isBack(before)
				return
			}

			u := e.undoer()
			require.NoError(t, u.Plan.Problem)
			require.Equal(t, tc.state == leftby.Leaseweb, len(u.Plan.Steps) > 0)
			require.Empty(t, e.notes(), "a plan changes nothing")
			e.do(u.Back()...)
			e.isBack(before)
			e.inOrder("lease of csccm-takeover_", "delete deployments", "patch services", "lease free",
				"patch deployments")
			require.Equal(t, OursFirst, e.plan().Order, "it can be taken over again")
		})
	}
}

// A controller without a lease works only if its Pod stays ready: without a readiness probe, a Pod that ends at once is
// ready for a moment.
func TestUndoWaitsForAPodThatStays(t *testing.T) {
	t.Parallel()
	e, _ := takenOver(t, leftby.Leaseweb)
	old, err := e.old()
	require.NoError(t, err)
	u := e.undoer()
	u.Plan.Predecessors[0].Lease = nil
	old.Spec.Replicas, old.Annotations = ptr.To(int32(1)), nil
	looked := int32(0)
	e.on("list", "deployments", func() error {
		looked++
		old.Status.ReadyReplicas = looked % 3 / 2
		resource := appsv1.SchemeGroupVersion.WithResource("deployments")
		return e.kube.Tracker().Update(resource, old.DeepCopy(), old.Namespace)
	})
	require.ErrorContains(t, u.start(t.Context(), &u.Plan.Predecessors[0]), "stays ready within 2m0s")
}

// While a Pod of csccm's controller exists, the old controller is not started and no rule is renamed.
func TestUndoWaitsForOurPods(t *testing.T) {
	t.Parallel()
	e, _ := takenOver(t, leftby.Leaseweb)
	require.NoError(t,
		e.kube.Tracker().Add(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ours-1", Labels: ours().Labels},
		}))
	renamed := e.ruleNames()
	u := e.undoer()
	ctx, cancel := context.WithCancel(t.Context())
	e.on("list", "pods", func() error { cancel(); return nil }) // ^C while it waits
	require.ErrorIs(t, e.run(ctx, u.Back()...), context.Canceled)
	require.Equal(t, renamed, e.ruleNames())
	old, err := e.old()
	require.NoError(t, err)
	require.Zero(t, *old.Spec.Replicas)
	require.Equal(t, "update leases", e.notes()[len(e.notes())-1], "the lease is given up")
}

// An undo is refused if csccm's chart was not installed by Helm: the program that applied the chart would start csccm's
// controller again, beside the old one.
func TestUndoIsRefusedWhereHelmDidNotInstall(t *testing.T) {
	t.Parallel()
	e, _ := takenOver(t, leftby.Leaseweb)
	_, err := e.kube.AppsV1().Deployments("kube-system").Update(t.Context(), ours(), metav1.UpdateOptions{})
	require.NoError(t, err)
	rules, n := e.ruleNames(), len(e.notes())
	u := e.undoer()
	testenv.RequireRefusal(t, e.run(t.Context(), u.Back()...), "belongs to no Helm release",
		"remove csccm's chart from", report.ExitCheckFailed)
	require.Len(t, e.notes(), n, "nothing was written")
	require.Equal(t, rules, e.ruleNames())
}

// Changes that others made since are kept and named. The state that the first takeover recorded counts, not that of
// later ones.
func TestUndoPlanOfChangedThings(t *testing.T) {
	t.Parallel()
	e, _ := takenOver(t, leftby.Leaseweb)
	pins := map[string]map[string]string{"default/documented": {annotation.ProxyProtocol: "no"}}
	_, err := rules.Keep(t.Context(), e.kube, BeforeAnnotation, nil, pins)
	require.NoError(t, err)
	was, _ := rules.RecordOf(e.documented(), BeforeAnnotation)
	require.Equal(t, "enabled", *was.Annotations[annotation.ProxyProtocol].Was)
	svc := e.documented()
	svc.Annotations[annotation.ProxyProtocol] = "v2"
	was.Annotations[annotation.Addresses] = rules.Change{Set: "forged"} // written by a user who may edit the Service
	forged, err := json.Marshal(was)
	require.NoError(t, err)
	svc.Annotations[annotation.Addresses], svc.Annotations[BeforeAnnotation] = "forged", string(forged)
	_, err = e.kube.CoreV1().Services("default").Update(t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(t, err)
	p := e.undoer().Plan
	require.Contains(t, textOf(t, p), "default/documented: somebody changed annotation "+annotation.ProxyProtocol)
	require.NotContains(t, textOf(t, p), "address none, 0 rules")
	require.NotContains(t, textOf(t, p), annotation.Addresses)
	require.Len(t, p.Predecessors, 1)
	require.EqualValues(t, 1, p.Predecessors[0].Wanted)
	require.Len(t, p.Steps, 7)
	f := e.facts()
	for i := range f.Rules {
		if f.Rules[i].ID == p.Steps[0].RuleID {
			f.Rules[i].Name = "third"
		}
	}

	p = PlanUndo(f)
	require.Len(t, p.Steps, 6)
	require.Contains(t, textOf(t, p), "was renamed by somebody else")
}

// A takeover marks addresses that only the old controller can have acquired as csccm's, unless the user declines that.
// An undo removes the marks that the takeover has set and no others, whatever the Services' annotations say.
func TestAddressesAreMarkedAndGivenBack(t *testing.T) {
	t.Parallel()
	for _, state := range []string{leftby.Apache, leftby.Leaseweb} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			addressesAreMarkedAndGivenBack(t, state)
		})
	}
}

// The controller may tag an address after csccm has read it. CloudStack then refuses csccm's tags, and csccm must still
// mark the address.
func TestAddressIsMarkedBesideTheController(t *testing.T) {
	t.Parallel()
	e := standby(t, leftby.Apache)
	client := e.source.Cloud.Client
	services, err := e.kube.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	web := &services.Items[slices.IndexFunc(services.Items, func(s corev1.Service) bool { return s.Name == "web" })]

	facts, err := addresses.Read(t.Context(), client, "")
	require.NoError(t, err)
	facts.ClusterIDs, facts.Services = []string{"test"}, services.Items
	items := addresses.MakePlan(facts, []*corev1.Service{web}, true)
	require.Len(t, items, 1)
	require.Equal(t, addresses.Adopt, items[0].Verdict, items[0].Why)

	theirs := plan.Tags("test", loadbalancer.ServiceOf(web))
	delete(theirs, plan.TagAllocatedBy)
	job, err := client.CreateTags(t.Context(), plan.ResourcePublicIP, []string{items[0].AddressID}, theirs)
	require.NoError(t, err)
	_, err = client.Jobs().Wait(t.Context(), "createTags", job.JobID)
	require.NoError(t, err)

	require.NoError(t, addresses.Tag(t.Context(), client, &items[0]))
	now, err := client.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{ID: items[0].AddressID})
	require.NoError(t, err)
	require.True(t, addresses.Marked(&now[0], web), "%v", now[0].Tags)
}

func addressesAreMarkedAndGivenBack(t *testing.T, state string) {
	t.Helper()
	e := standby(t, state)
	tags := func() []string { return e.sim.HandedOver(t, leftby.Account) }
	named := e.documented()
	named.Spec.LoadBalancerIP = "203.0.113.1"
	_, err := e.kube.CoreV1().Services("default").Update(t.Context(), named, metav1.UpdateOptions{})
	require.NoError(t, err)

	declined := e.taker(All)
	declined.Adopt = "no"
	require.Contains(t, textOf(t, declined.Plan),
		"of Service default/documented stays allocated when the Service is deleted: the Service asks for it by name; "+
			"csccm adopt default/documented")
	wanted := declined.Plan.adopting()
	require.NotEmpty(t, wanted)
	require.NotContains(t, wanted, "default/documented")
	e.do(append(declined.Before(), declined.After()...)...)
	require.Empty(t, tags())
	require.Contains(t, declined.Afterwards(), "stay allocated")
	e.do(e.undoer().Back()...)

	denied := e.sim.Inject(simulator.Fault{
		Command:    "createTags",
		Kind:       simulator.FaultErrorBefore,
		HTTPStatus: 432,
		Text:       "The API [createTags] does not exist or is not available for the account",
	})
	taker := e.taker(All)
	e.do(append(taker.Before(), taker.After()...)...)
	require.Empty(t, tags(), "a role without tags is enough for the rest")
	denied()
	e.do(e.undoer().Back()...)

	taker = e.taker(All)
	e.do(append(taker.Before(), taker.After()...)...)
	marked := tags()
	require.Len(t, marked, len(wanted))
	u := e.undoer()
	require.Len(t, u.Plan.Adopted, len(wanted))
	require.Contains(t, textOf(t, u.Plan), "address "+marked[0]+" of Service")
	e.do(u.Back()...)
	require.Empty(t, tags())
	old, err := e.old()
	require.NoError(t, err)
	require.NotContains(t, old.Annotations, family.AdoptedAnnotation)
}

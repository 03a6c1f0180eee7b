// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/commands/takeover/leftby"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/annotation"
)

// installed is ours, as Helm made it.
func installed() *appsv1.Deployment {
	d := ours()
	d.Annotations = map[string]string{helmReleaseKey: "cloudstack-ccm"}
	return d
}

// takenOver is a bed after a takeover.
func takenOver(t *testing.T, state string, keepOld bool, own *appsv1.Deployment) (*bed, *Taker) {
	t.Helper()
	b := newBed(t, state, append(leftby.ApacheObjects(), own)...)
	taker := b.taker(t, NewPlan(b.facts(t)))
	taker.Accept, taker.Pin, taker.KeepOld = []string{All}, []string{All}, keepOld
	require.NoError(t, run(t.Context(), append(taker.Before(), taker.After()...)))
	b.mu.Lock()
	b.log = nil
	b.mu.Unlock()
	return b, taker
}

func (b *bed) undoer(t *testing.T) (*UndoPlan, *Undoer) {
	t.Helper()
	records, err := ReadRecords(t.Context(), b.kube, "kube-system")
	require.NoError(t, err)
	p := NewUndoPlan(records, b.facts(t))
	u, err := NewUndoer(t.Context(), b.source(), p, b.options(t))
	require.NoError(t, err)
	return p, u
}

func names(rules map[string]string) []string {
	var out []string
	for id, name := range rules {
		out = append(out, id+" "+name)
	}
	slices.Sort(out)
	return out
}

func (b *bed) ruleNames(t *testing.T) []string {
	t.Helper()
	out := map[string]string{}
	for id, r := range b.rules(t) {
		out[id] = r.Name + " " + r.PublicIP + " " + r.Algorithm
	}
	return names(out)
}

func (b *bed) old(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d, err := b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	require.NoError(t, err)
	return d
}

// isBack compares with what was before the takeover.
func (b *bed) isBack(t *testing.T, rules []string) {
	t.Helper()
	require.Equal(t, rules, b.ruleNames(t))
	old := b.old(t)
	require.EqualValues(t, 1, *old.Spec.Replicas)
	require.NotContains(t, old.Annotations, replicasAnnotation)
	require.NotContains(t, old.Annotations, keptAnnotation)
	_, err := b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), ours().Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "ours has ended")
	svc, err := b.kube.CoreV1().Services("default").Get(t.Context(), "documented", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "enabled", svc.Annotations[annotation.ProxyProtocol])
	_, err = ReadRecords(t.Context(), b.kube, "kube-system")
	var none *report.Error
	require.ErrorAs(t, err, &none)
}

// An undo puts back what the takeover changed, in the order that keeps two controllers from acting at once.
func TestUndo(t *testing.T) {
	t.Parallel()
	for _, state := range []string{leftby.Apache, leftby.Leaseweb} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			before := newBed(t, state).ruleNames(t)
			b, _ := takenOver(t, state, true, installed())
			p, u := b.undoer(t)
			require.NoError(t, Blocked(p.Problems))
			require.Equal(t, []string{"Deployment kube-system/" + ours().Name}, p.Ours)
			if state == leftby.Leaseweb {
				require.NotEmpty(t, p.Rules)
				require.NotEqual(t, before, b.ruleNames(t))
			}
			require.NotEmpty(t, p.Annotations)
			require.Empty(t, b.notes(), "a plan changes nothing")
			require.NoError(t, run(t.Context(), u.Steps()))
			b.isBack(t, before)

			log := b.notes()
			at := func(what string) int {
				return slices.IndexFunc(log, func(s string) bool { return strings.HasPrefix(s, what) })
			}
			order := []int{at("lease of csccm-takeover_"), at("delete deployments"), at("patch services"), at("lease free"), at("patch deployments"), at("update configmaps")}
			require.True(t, slices.IsSorted(order) && order[0] >= 0, "%v: %v", order, log)

			again := NewPlan(b.facts(t))
			require.Equal(t, OursFirst, again.Order, "it can be taken over anew")
		})
	}
}

// Killed or failing anywhere, the next undo completes.
func TestUndoGoesOn(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"delete deployments", "patch services", "patch deployments", "update configmaps"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			before := newBed(t, leftby.Leaseweb).ruleNames(t)
			b, _ := takenOver(t, leftby.Leaseweb, true, installed())
			failed := false
			verb, resource, _ := strings.Cut(at, " ")
			b.kube.PrependReactor(verb, resource, func(ktesting.Action) (bool, runtime.Object, error) {
				if failed {
					return false, nil, nil
				}
				failed = true
				return true, nil, errors.New("the line is cut")
			})
			_, u := b.undoer(t)
			require.ErrorContains(t, run(t.Context(), u.Steps()), "the line is cut")
			_, u = b.undoer(t)
			require.NoError(t, run(t.Context(), u.Steps()))
			b.isBack(t, before)
		})
	}
}

// While a Pod of ours is there the old one does not start, and nothing is renamed.
func TestUndoWaitsForOurPods(t *testing.T) {
	t.Parallel()
	b, _ := takenOver(t, leftby.Leaseweb, true, installed())
	require.NoError(t, b.kube.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ours-1", Labels: map[string]string{
		"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "cloudstack-ccm",
	}}}))
	renamed := b.ruleNames(t)
	_, u := b.undoer(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.kube.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		cancel() // ^C while it waits
		return false, nil, nil
	})
	require.ErrorIs(t, run(ctx, u.Steps()), context.Canceled)
	require.Equal(t, renamed, b.ruleNames(t))
	require.Zero(t, *b.old(t).Spec.Replicas)
	require.Equal(t, "update leases", b.notes()[len(b.notes())-1], "the lease is given up")
}

func TestUndoIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		keep   bool
		own    *appsv1.Deployment
		change func(*testing.T, *bed)
		says   string
		fix    string
	}{
		"the old one was removed": {own: installed(), says: "was removed: the takeover was without --keep-old", fix: "replicas: 0"},
		"ours is not Helm's":      {keep: true, own: ours(), says: "is of no Helm release", fix: "take csccm's chart out"},
		"the old one runs already": {keep: true, own: installed(), says: "runs already", fix: "stop it first", change: func(t *testing.T, b *bed) {
			t.Helper()
			d := b.old(t).DeepCopy()
			*d.Spec.Replicas = 1
			_, err := b.kube.AppsV1().Deployments("kube-system").Update(t.Context(), d, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := takenOver(t, leftby.Leaseweb, tc.keep, tc.own)
			if tc.change != nil {
				tc.change(t, b)
			}
			rules, n := b.ruleNames(t), len(b.notes())
			p, u := b.undoer(t)
			require.ErrorContains(t, Blocked(p.Problems), tc.says)
			require.Contains(t, p.Problems[0].Remedy, tc.fix)
			require.ErrorContains(t, run(t.Context(), u.Steps()), tc.says)
			require.Len(t, b.notes(), n, "nothing was written")
			require.Equal(t, rules, b.ruleNames(t))
		})
	}
	b := newBed(t, leftby.Apache, append(leftby.ApacheObjects(), installed())...)
	_, err := ReadRecords(t.Context(), b.kube, "kube-system")
	require.ErrorContains(t, err, "ConfigMap kube-system/csccm-takeover holds no record of a takeover")
}

// What somebody changed since stays, and is named; what a first record says of how it was counts, whatever later ones say.
func TestUndoPlanOfChangedThings(t *testing.T) {
	t.Parallel()
	b, taker := takenOver(t, leftby.Leaseweb, true, installed())
	require.NoError(t, b.taker(t, NewPlan(b.facts(t))).keep(t.Context(), `{"schemaVersion":2,"time":"2999-01-01T00:00:00Z",
		"pinned":[{"service":"default/documented","annotation":"`+annotation.ProxyProtocol+`","value":"false","before":"false"}],
		"predecessors":[{"family":"apache","kind":"Deployment","namespace":"kube-system","name":"cloud-controller-manager","wanted":0}]}`))
	svc, err := b.kube.CoreV1().Services("default").Get(t.Context(), "documented", metav1.GetOptions{})
	require.NoError(t, err)
	svc = svc.DeepCopy()
	svc.Annotations[annotation.ProxyProtocol] = "v2"
	_, err = b.kube.CoreV1().Services("default").Update(t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(t, err)
	p, _ := b.undoer(t)
	require.Contains(t, strings.Join(p.Stays, "\n"), "default/documented: somebody changed annotation "+annotation.ProxyProtocol)
	require.Len(t, p.Predecessors, 1)
	require.EqualValues(t, 1, p.Predecessors[0].Wanted)
	require.Len(t, p.Rules, len(taker.Plan.Rules.Steps))
	f := b.facts(t)
	f.Rules[0].Name = "third"
	records, err := ReadRecords(t.Context(), b.kube, "kube-system")
	require.NoError(t, err)
	p = NewUndoPlan(records, f)
	require.Len(t, p.Rules, len(taker.Plan.Rules.Steps)-1)
	require.Contains(t, strings.Join(p.Stays, "\n"), "has a third name by now")
}

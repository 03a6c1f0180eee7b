// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// got returns the result of a sync with these numbers of planned and done actions.
func got(planned, done int) loadbalancer.Result {
	return loadbalancer.Result{Plan: make([]plan.Step, planned), Done: done}
}

func TestDelays(t *testing.T) {
	t.Parallel()
	for kind, seconds := range map[trigger][]int{ // after 1, 2, 3 ... failures
		byTime:   {2, 4, 8, 16, 32, 64, 128, 256, 300, 300},
		byAnswer: {1, 2, 4, 8, 16, 30, 30},
		byOthers: {120, 480, 500, 500},
		byNodes:  {30, 120, 480, 500, 500},
		byChange: {120, 480, 500, 500},
	} {
		for i, want := range append(seconds, seconds[len(seconds)-1]) {
			assert.Equal(t, time.Duration(want)*time.Second, backoffs[kind].after(i+1), "trigger %d, failure %d", kind,
				i+1)
		}
		assert.LessOrEqual(t, backoffs[kind].after(1<<40)*6/5, 10*time.Minute, "with jitter")
	}

	var r retry
	for _, want := range []time.Duration{3 * time.Second, 3 * time.Second, 4 * time.Second} {
		assert.Equal(t, want,
			r.failed(attempt{}, &plan.WaitError{After: 3 * time.Second}, loadbalancer.Result{}, testTime),
			"as asked for")
	}
}

func TestErrorsDecideWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	refusal := func(r plan.Reason) error { return &plan.RefusalError{Reason: r} }
	failed := func(k cloudstack.Kind) error {
		return fmt.Errorf("acquire an address: %w", &cloudstack.Error{Kind: k, Command: "associateIpAddress"})
	}

	for _, c := range []struct {
		name string
		err  error
		want trigger
	}{
		{"limit", failed(cloudstack.KindLimit), byOthers},
		{"capacity", failed(cloudstack.KindCapacity), byOthers},
		{"conflict", failed(cloudstack.KindConflict), byOthers},
		{"not permitted", failed(cloudstack.KindNotPermitted), byChange},
		{"invalid", failed(cloudstack.KindInvalid), byChange},
		{"530", failed(cloudstack.KindUnknown), byTime},
		{"failed job", failed(cloudstack.KindJobFailed), byTime},
		{"cut connection", failed(cloudstack.KindTransient), byTime},
		{"throttled", failed(cloudstack.KindThrottled), byTime},
		{"keys", failed(cloudstack.KindAuth), byTime},
		{"gone", failed(cloudstack.KindNotFound), byTime},
		{"no such project", &cloudstack.Error{Kind: cloudstack.KindNotFound, Command: "listProjects"}, byChange},
		{"may have happened", &cloudstack.Error{Kind: cloudstack.KindLimit, MayHaveHappened: true}, byTime},
		{"API server", errors.New("conflict"), byTime},
		{"answer", &plan.WaitError{Message: "not listed yet"}, byAnswer},
		{"address refused", errors.Join(refusal(plan.ReasonAddressUnavailable), errors.New("and more")), byOthers},
		{"not allowed: a limit of addresses", refusal(plan.ReasonNotAllowed), byOthers},
		{"port refused", refusal(plan.ReasonPortTaken), byOthers},
		{"no node", refusal(plan.ReasonNoNodes), byNodes},
		{"no VM", refusal(plan.ReasonNoBackends), byNodes},
		{"annotation", refusal(plan.ReasonInvalidAnnotation), byChange},
		{"no room in an ACL list", refusal(plan.ReasonSourceRanges), byChange},
		{"another cluster's id", refusal(plan.ReasonOtherClusterID), byChange},
	} {
		assert.Equal(t, c.want, triggerOf(c.err), c.name)
	}
}

// After a transient failure, the next attempt comes soon if the sync got further than all previous syncs.
func TestProgressShortensTheWait(t *testing.T) {
	t.Parallel()
	broken := &cloudstack.Error{Kind: cloudstack.KindTransient}
	var r retry
	for i, step := range []struct {
		what   string
		result loadbalancer.Result
		want   time.Duration
	}{
		{"no plan", got(0, 0), 2 * time.Second},
		{"a plan, nothing done", got(9, 0), 4 * time.Second},
		{"some done", got(9, 3), time.Second},
		{"a read fails", got(0, 0), 2 * time.Second},
		{"nothing more", got(6, 0), 4 * time.Second},
		{"what lost its answer was done", got(5, 0), time.Second},
		{"done, and undone by others", got(9, 4), 2 * time.Second},
		{"nearly all", got(5, 4), time.Second},
	} {
		assert.Equal(t, step.want, r.failed(attempt{}, broken, step.result, testTime), "%d: %s", i+1, step.what)
	}

	assert.Equal(t, time.Second, r.failed(attempt{fingerprint: "changed"}, broken, got(9, 1), testTime),
		"a changed Service starts again")
	var first retry
	assert.Equal(t, time.Second, first.failed(attempt{}, broken, got(9, 1), testTime))
}

// The wait of a Service ends early only if the reason for the wait may have changed.
func TestWaitEndsEarly(t *testing.T) {
	t.Parallel()
	limit := &cloudstack.Error{Kind: cloudstack.KindLimit}
	const nodes = "w1"
	for _, c := range []struct {
		name   string
		err    error
		change func(*corev1.Service)
		nodes  string
		begins bool
	}{
		{name: "nothing changed", err: limit},
		{name: "spec", err: limit, change: func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, begins: true},
		{name: "nodes do not help", err: limit, nodes: "w1, w2"},
		{name: "nodes help", err: &plan.RefusalError{Reason: plan.ReasonNoNodes}, nodes: "w1, w2", begins: true},
		{name: "transient", err: &cloudstack.Error{Kind: cloudstack.KindTransient}, begins: true},
	} {
		svc := aService("a", "web")
		var r retry
		of := func(names string) attempt {
			a := attempt{fingerprint: annotation.Fingerprint(svc)}
			for name := range strings.SplitSeq(names, ", ") {
				a.nodes = append(a.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			return a
		}
		first := of(nodes)
		assert.Zero(t, r.remainingWait(first, testTime), "%s: nothing failed yet", c.name)
		require.Positive(t, r.failed(first, c.err, loadbalancer.Result{}, testTime), c.name)
		if c.change != nil {
			c.change(svc)
		}

		if c.nodes == "" {
			c.nodes = nodes
		}

		now := testTime.Add(early.base)
		wait := r.remainingWait(of(c.nodes), now)
		assert.Equal(t, c.begins, wait == 0, "%s: %s", c.name, wait)
		assert.Zero(t, r.remainingWait(attempt{fingerprint: "delete"}, now), "%s: a deletion does not wait", c.name)
		assert.Zero(t, r.remainingWait(first, now.Add(3*time.Minute)), "%s: its time has come", c.name)
	}
}

// An owner who changes the Service again and again does not get more attempts than others: the pause grows.
func TestChangesByTheOwnerDoNotResetThePause(t *testing.T) {
	t.Parallel()
	notAllowed := &plan.RefusalError{Reason: plan.ReasonNotAllowed}
	for name, errs := range map[string][]error{
		"one error":                    {notAllowed},
		"errors of two kinds in turns": {notAllowed, &plan.RefusalError{Reason: plan.ReasonInvalidAnnotation}},
	} {
		var r retry
		now, attempts := testTime, 0
		for i := 0; now.Before(testTime.Add(time.Hour)); i++ { // a change every 2 s
			a := attempt{fingerprint: fmt.Sprint(i)}
			if r.remainingWait(a, now) == 0 {
				r.failed(a, errs[attempts%len(errs)], loadbalancer.Result{}, now)
				attempts++
			}
			now = now.Add(2 * time.Second)
		}

		assert.LessOrEqual(t, attempts, 40, name)
	}
}

// When one Service frees an address, all Services that wait for one are tried one after the other: each attempt begins
// when the one before has ended.
func TestFreedIsTriedByOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c, clk := idleController(t)
	work := func(name string) *work {
		svc := aService("a", name)
		w := newWork(newVersion(svc), c.stateOf(KeyOf(svc)), nil, silent{})
		w.began, w.state.retry.began = clk.Now(), clk.Now()
		return w
	}

	reasons := map[string]error{
		"limit":    &cloudstack.Error{Kind: cloudstack.KindLimit},
		"conflict": &cloudstack.Error{Kind: cloudstack.KindConflict},
		"refused":  &plan.RefusalError{Reason: plan.ReasonAddressUnavailable},
	}

	for i, step := range []struct{ what, of, project, next string }{
		{"refused", "refused", "", ""},
		{"limit", "c", "", ""},
		{"limit", "a", "", ""},
		{"limit", "b", "", ""},
		{"limit", "x", "other project", ""},
		{"conflict", "port", "", ""},
		{"freed", "", "", "c"}, // this Service has waited longest for any address
		{"succeeds", "c", "", "a"},
		{"freed", "", "", "a"},
		{"succeeds", "a", "", "b"},
		{"limit", "b", "", "x"}, // the project has no address left
		{"limit", "x", "other project", "refused"},
		{"deleted", "refused", "", "port"},
		{"refused", "port", "", ""}, // every waiting Service has had its attempt
		{"freed", "", "", "b"},
	} {
		switch step.what {
		case "freed":
			clk.Step(time.Second)
			c.tryNext(true)
		case "succeeds":
			c.succeeded(work(step.of))
		case "deleted":
			c.deleteState(Key{"a", types.UID(step.of)})
		default: // the attempt takes a second
			w := work(step.of)
			clk.Step(time.Second)
			w.attempt.project = step.project
			c.failed(w, reasons[step.what])
		}
		c.tryNext(false)
		next, _ := c.waiter()
		require.Equal(t, step.next, string(next.UID), "step %d", i)
	}

	b := c.states[Key{"a", "b"}].retry
	assert.Equal(t, early.base, b.until.Sub(b.last), "not sooner after its last attempt")
}

// If an address or a port becomes free during an attempt that fails, a Service that needs it tries again soon.
func TestFreedDuringAnAttempt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		soon bool
	}{
		"an address":      {&cloudstack.Error{Kind: cloudstack.KindLimit}, true},
		"a port":          {&plan.RefusalError{Reason: plan.ReasonPortTaken}, true},
		"of no use to it": {&plan.RefusalError{Reason: plan.ReasonInvalidAnnotation}, false},
	} {
		c, clk := idleController(t)
		svc := aService("a", "web")
		w := newWork(newVersion(svc), c.stateOf(KeyOf(svc)), nil, silent{})
		w.state.version = w.version
		_, err := c.begin(w)
		require.NoError(t, err)

		clk.Step(time.Second)
		c.tryNext(true)
		clk.Step(time.Second)
		wait, err := c.settle(t.Context(), w, tc.err)
		require.ErrorIs(t, err, tc.err)
		assert.Equal(t, tc.soon, wait == early.base, name)
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	base := annotation.Fingerprint(aService("a", "web"))

	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		same   bool
	}{
		"nothing":              {func(*corev1.Service) {}, true},
		"a foreign annotation": {annotated("example.org/x", "1"), true},
		"a label":              {func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }, true},
		"the status": {func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip1}}
		}, true},
		"a finalizer":               {func(s *corev1.Service) { s.Finalizers = []string{"x"} }, true},
		"a record of ours":          {recording(true, ip1), true},
		"a record that is not JSON": {annotated(annotation.Addresses, "x"), false},
		"an annotation":             {annotated(annotation.KeepIP, "true"), false},
		"source ranges":             {annotated(annotation.SourceRangesBeta, "10.0.0.0/8"), false},
		"a port":                    {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, false},
		"a node port":               {func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 31000 }, false},
		"the traffic policy": {func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}, false},
		"deletion": {func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: testTime} },
			false},
	} {
		assert.Equal(t, tc.same, base == annotation.Fingerprint(aService("a", "web", tc.change)), name)
	}
}

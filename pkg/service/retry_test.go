// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func noJitter(time.Duration) time.Duration { return 0 }

// got is how far a sync got: how many actions it planned, and how many of them it did.
func got(planned, done int) loadbalancer.Result {
	return loadbalancer.Result{Plan: make([]plan.Step, planned), Done: done}
}

func TestDelays(t *testing.T) {
	t.Parallel()
	most := func(limit time.Duration) time.Duration { return limit }
	for _, c := range []struct {
		name     string
		kind     trigger
		progress bool
		asked    time.Duration
		jitter   func(time.Duration) time.Duration
		want     []time.Duration // after 1, 2, 3 ... failures
	}{
		{name: "transient", kind: byTime, want: []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 128 * time.Second, 256 * time.Second, 5 * time.Minute}},
		{name: "transient with progress", kind: byTime, progress: true, want: []time.Duration{time.Second, time.Second}},
		{name: "an answer is awaited", kind: byAnswer, asked: 3 * time.Second, want: []time.Duration{3 * time.Second, 3 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second}},
		{name: "an answer is awaited for long", kind: byAnswer, asked: time.Minute, want: []time.Duration{time.Minute, time.Minute}},
		{name: "address", kind: byAddress, want: []time.Duration{2 * time.Minute, 8 * time.Minute, 500 * time.Second, 500 * time.Second}},
		{name: "address, longest jitter", kind: byAddress, jitter: most, want: []time.Duration{144 * time.Second, 576 * time.Second, 10 * time.Minute, 10 * time.Minute}},
		{name: "port, progress changes nothing", kind: byPort, progress: true, want: []time.Duration{2 * time.Minute, 8 * time.Minute}},
		{name: "change", kind: byChange, want: []time.Duration{2 * time.Minute, 8 * time.Minute}},
		{name: "nodes", kind: byNodes, want: []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute, 500 * time.Second}},
	} {
		if c.jitter == nil {
			c.jitter = noJitter
		}
		for i, want := range c.want {
			assert.Equal(t, want, delay(c.kind, i+1, c.progress, c.asked, c.jitter), "%s, failure %d", c.name, i+1)
		}
		assert.LessOrEqual(t, delay(c.kind, 1<<40, c.progress, c.asked, most), 10*time.Minute, c.name)
	}
	for range 100 {
		d := randomJitter(time.Second)
		assert.True(t, d >= 0 && d <= time.Second, d)
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
		{"limit", failed(cloudstack.KindLimit), byAddress},
		{"capacity", failed(cloudstack.KindCapacity), byAddress},
		{"conflict", failed(cloudstack.KindConflict), byPort},
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
		{"address refused", errors.Join(refusal(plan.ReasonAddressUnavailable), errors.New("and more")), byAddress},
		{"not allowed: a limit of addresses", refusal(plan.ReasonNotAllowed), byAddress},
		{"port refused", refusal(plan.ReasonPortTaken), byPort},
		{"no node", refusal(plan.ReasonNoNodes), byNodes},
		{"no VM", refusal(plan.ReasonNoBackends), byNodes},
		{"annotation", refusal(plan.ReasonInvalidAnnotation), byChange},
		{"no room in an ACL list", refusal(plan.ReasonSourceRanges), byChange},
		{"another cluster's id", refusal(plan.ReasonOtherClusterID), byChange},
	} {
		assert.Equal(t, c.want, triggerOf(c.err), c.name)
	}
}

// A transient failure is followed by another attempt soon when the sync got further than all before it.
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
		assert.Equal(t, step.want, r.failed(attempt{}, broken, step.result, testTime, noJitter), "%d: %s", i+1, step.what)
	}
	assert.Equal(t, time.Second, r.failed(attempt{fingerprint: "changed"}, broken, got(9, 1), testTime, noJitter), "a changed Service starts again")
	var first retry
	assert.Equal(t, time.Second, first.failed(attempt{}, broken, got(9, 1), testTime, noJitter))
}

// What a Service waits for ends its wait, and nothing else does.
func TestWaitEndsEarly(t *testing.T) {
	t.Parallel()
	limit := &cloudstack.Error{Kind: cloudstack.KindLimit}
	const nodes = "w1"
	for _, c := range []struct {
		name   string
		err    error
		serves bool
		change func(*corev1.Service)
		nodes  string
		begins bool
	}{
		{name: "nothing changed", err: limit},
		{name: "another annotation", err: limit, change: annotated("example.org/note", "x")},
		{name: "a record", err: limit, change: annotated(annotation.Allocation, "[]")},
		{name: "an annotation of ours", err: limit, change: annotated(annotation.KeepIP, "true"), begins: true},
		{name: "Kubernetes' own annotation", err: limit, change: annotated(annotation.SourceRangesBeta, "10.0.0.0/8"), begins: true},
		{name: "spec", err: limit, change: func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, begins: true},
		{name: "nodes do not help", err: limit, nodes: "w1, w2"},
		{name: "nodes help", err: &plan.RefusalError{Reason: plan.ReasonNoNodes}, nodes: "w1, w2", begins: true},
		{name: "rules follow the nodes", err: limit, serves: true, nodes: "w1, w2", begins: true},
		{name: "transient", err: &cloudstack.Error{Kind: cloudstack.KindTransient}, begins: true},
	} {
		svc := aService("a", "web")
		if c.serves {
			svc.Annotations[annotation.Addresses] = "[]"
		}
		var r retry
		assert.Zero(t, r.held(attemptOf(svc, nodes), testTime), "%s: nothing failed yet", c.name)
		first := attemptOf(svc, nodes)
		require.Positive(t, r.failed(first, c.err, loadbalancer.Result{}, testTime, noJitter), c.name)
		if c.change != nil {
			c.change(svc)
		}
		if c.nodes == "" {
			c.nodes = nodes
		}
		now := testTime.Add(r.pause())
		wait := r.held(attemptOf(svc, c.nodes), now)
		assert.Equal(t, c.begins, wait == 0, "%s: %s", c.name, wait)
		assert.Zero(t, r.held(attempt{fingerprint: "delete"}, now), "%s: a deletion does not wait", c.name)
		assert.Zero(t, r.held(first, now.Add(2*time.Minute)), "%s: its time has come", c.name)
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
			if r.held(a, now) == 0 {
				r.failed(a, errs[attempts%len(errs)], loadbalancer.Result{}, now, noJitter)
				attempts++
			}
			now = now.Add(2 * time.Second)
		}
		assert.LessOrEqual(t, attempts, 40, name)
	}
}

// Who corrects a Service that has failed for hours, or adds the first node, does not wait for the next regular attempt.
func TestCorrectionAfterLongFailureIsTriedSoon(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		then attempt
	}{
		"the Service is corrected": {&plan.RefusalError{Reason: plan.ReasonInvalidAnnotation}, attempt{fingerprint: "right", nodes: "w1"}},
		"a node joins":             {&plan.RefusalError{Reason: plan.ReasonNoNodes}, attempt{fingerprint: "wrong", nodes: "w1, w2"}},
	} {
		var r retry
		now := testTime
		for range 10 {
			now = now.Add(r.failed(attempt{fingerprint: "wrong", nodes: "w1"}, tc.err, loadbalancer.Result{}, now, noJitter))
		}
		r.failed(attempt{fingerprint: "wrong", nodes: "w1"}, tc.err, loadbalancer.Result{}, now, noJitter)
		assert.Equal(t, earlyPause, r.held(tc.then, now), name)
	}
}

// What one Service frees is for one of each group, the longest waiting first; the next is tried after that one's attempt.
func TestFreedWakesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c, clk := idleController(t)
	limit := &cloudstack.Error{Kind: cloudstack.KindLimit}
	fails := func(name, group string, err error) *work {
		k := Key{"a", aService("a", name).UID}
		w := &work{key: k, state: c.stateOf(k), svc: aService("a", name), events: events{silent{}, aService("a", name)}}
		c.failed(w, attempt{group: group}, outcome{}, err)
		return w
	}
	woken := func() (out []string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, name := range []string{"a", "b", "c", "x", "port"} {
			if s := c.states[Key{"a", aService("a", name).UID}]; s != nil && !s.retry.woken.IsZero() {
				out = append(out, name)
			}
		}
		return out
	}
	works := map[string]*work{}
	for _, name := range []string{"c", "a", "b"} {
		works[name] = fails(name, "project", limit)
		clk.Step(10 * time.Second)
	}
	fails("x", "address", limit)
	fails("port", "address", &cloudstack.Error{Kind: cloudstack.KindConflict})
	clk.Step(time.Second)
	c.freed(byAddress)
	assert.Equal(t, []string{"c", "x"}, woken())
	assert.Equal(t, earlyPause-time.Second, c.states[Key{"a", "x"}].retry.until.Sub(clk.Now()), "not sooner after its last attempt")
	c.succeeded(works["c"], attempt{group: "project"}, outcome{})
	assert.Equal(t, []string{"a", "x"}, woken())
	c.freed(byAddress)
	assert.Equal(t, []string{"a", "b", "x"}, woken(), "another one became free")
	c.freed(byPort)
	assert.Equal(t, []string{"a", "b", "x", "port"}, woken())
}

// A Service that cannot use what became free passes the turn on, and does not come back for it.
func TestRefusedServicePassesTheTurnOn(t *testing.T) {
	t.Parallel()
	c, clk := idleController(t)
	refused := &plan.RefusalError{Reason: plan.ReasonAddressUnavailable}
	works := map[string]*work{}
	fail := func(name string, err error) {
		w := works[name]
		if w == nil {
			k := Key{"a", aService("a", name).UID}
			w = &work{key: k, state: c.stateOf(k), svc: aService("a", name), events: events{silent{}, aService("a", name)}}
			works[name] = w
		}
		c.failed(w, attempt{group: "project"}, outcome{}, err)
		clk.Step(time.Second)
	}
	woken := func() (out []string) {
		for _, name := range []string{"1", "2", "3"} {
			if s := c.states[works[name].key]; s != nil && !s.retry.woken.IsZero() {
				out = append(out, name)
			}
		}
		return out
	}
	for _, name := range []string{"1", "2", "3"} {
		fail(name, refused)
	}
	clk.Step(time.Minute)
	c.freed(byAddress)
	require.Equal(t, []string{"1"}, woken())
	fail("1", refused)
	require.Equal(t, []string{"2"}, woken())
	c.forget(works["2"].key) // deleted meanwhile
	require.Equal(t, []string{"3"}, woken())
	fail("3", refused)
	assert.Empty(t, woken(), "each had its attempt")
	clk.Step(time.Minute)
	c.freed(byAddress)
	require.Equal(t, []string{"1"}, woken())
	fail("1", &cloudstack.Error{Kind: cloudstack.KindLimit})
	assert.Empty(t, woken(), "there is no address: the others need not be tried")
}

// What becomes free during an attempt that fails is not missed.
func TestFreedDuringAnAttempt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind trigger
		err  error
		want time.Duration
	}{
		"an address":      {byAddress, &cloudstack.Error{Kind: cloudstack.KindLimit}, earlyPause},
		"a port":          {byPort, &plan.RefusalError{Reason: plan.ReasonPortTaken}, earlyPause},
		"something else":  {byPort, &cloudstack.Error{Kind: cloudstack.KindLimit}, waitBase},
		"of no use to it": {byAddress, &plan.RefusalError{Reason: plan.ReasonInvalidAnnotation}, waitBase},
	} {
		c, clk := idleController(t)
		svc := aService("a", "web")
		w := &work{key: KeyOf(svc), state: c.stateOf(KeyOf(svc)), svc: svc, events: events{silent{}, svc}}
		wait, err := c.attempt(t.Context(), w, func(context.Context, *work) (outcome, error) {
			clk.Step(time.Second)
			c.freed(tc.kind)
			clk.Step(time.Second)
			return outcome{}, tc.err
		})
		require.ErrorIs(t, err, tc.err)
		assert.Equal(t, tc.want, wait, name)
	}
}

// Services that name one address ask for it at once. The one that gets it wakes the others, which share it.
func TestSharedAddressWakesTheOthers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		succeeds attempt
		done     int
		wakes    bool
	}{
		"acquired":            {attempt{group: "address", named: true}, 4, true},
		"nothing to do":       {attempt{group: "address", named: true}, 0, false},
		"another address":     {attempt{group: "other address", named: true}, 4, false},
		"no address is named": {attempt{group: "address"}, 4, false},
	} {
		c, clk := idleController(t)
		second := Key{"a", "second"}
		w := &work{key: second, state: c.stateOf(second), svc: aService("a", "second"), events: events{silent{}, aService("a", "second")}}
		c.failed(w, attempt{group: "address", named: true}, outcome{}, &plan.RefusalError{Reason: plan.ReasonAddressUnavailable})
		first := Key{"a", "first"}
		c.succeeded(&work{key: first, state: c.stateOf(first)}, tc.succeeds, outcome{Result: loadbalancer.Result{Done: tc.done}})
		assert.Equal(t, tc.wakes, !w.state.retry.woken.IsZero(), name)
		if tc.wakes {
			assert.Equal(t, clk.Now().Add(earlyPause), w.state.retry.until, name)
		}
	}
}

func TestGroupsOfAttempts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		svc  *corev1.Service
		want attempt
	}{
		"any address":      {aService("a", "web"), attempt{group: "project "}},
		"another project":  {aService("a", "web", annotated(annotation.Project, " p ")), attempt{group: "project p"}},
		"address":          {aService("a", "web", annotated(annotation.Address, ip1)), attempt{group: "address " + ip1 + " in project ", named: true}},
		"loadBalancerIP":   {aService("a", "web", func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip1 }), attempt{group: "address " + ip1 + " in project ", named: true}},
		"with a record":    {aService("a", "web", recording(true, ip1)), attempt{group: "project ", serves: true}},
		"with a status":    {aService("a", "web", showing(true, ip1)), attempt{group: "project ", serves: true}},
		"is to be deleted": {aService("a", "web", func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: testTime} }), attempt{group: "project ", fingerprint: "delete"}},
	} {
		got := attemptOf(tc.svc, "nodes")
		tc.want.nodes, tc.want.limits = "nodes", "limits of a"
		if tc.want.fingerprint == "" {
			tc.want.fingerprint = annotation.Fingerprint(tc.svc)
		}
		assert.Equal(t, tc.want, got, name)
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	base := annotation.Fingerprint(aService("a", "web"))
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		same   bool
	}{
		"nothing":                   {func(*corev1.Service) {}, true},
		"a foreign annotation":      {annotated("example.org/x", "1"), true},
		"a label":                   {func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }, true},
		"the status":                {func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip1}} }, true},
		"a finalizer":               {func(s *corev1.Service) { s.Finalizers = []string{"x"} }, true},
		"a record of ours":          {recording(true, ip1), true},
		"a record that is not JSON": {annotated(annotation.Addresses, "x"), false},
		"an annotation":             {annotated(annotation.KeepIP, "true"), false},
		"source ranges":             {annotated(annotation.SourceRangesBeta, "10.0.0.0/8"), false},
		"a port":                    {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, false},
		"a node port":               {func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 31000 }, false},
		"the traffic policy":        {func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }, false},
		"deletion":                  {func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: testTime} }, false},
	} {
		assert.Equal(t, tc.same, base == annotation.Fingerprint(aService("a", "web", tc.change)), name)
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func TestBackoffDelays(t *testing.T) {
	t.Parallel()
	none := func(time.Duration) time.Duration { return 0 }
	most := func(limit time.Duration) time.Duration { return limit }
	for _, c := range []struct {
		name     string
		kind     Trigger
		progress bool
		asked    time.Duration
		jitter   func(time.Duration) time.Duration
		want     []time.Duration // after 1, 2, 3 ... failures
	}{
		{name: "transient", kind: ByTime, want: []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 128 * time.Second, 256 * time.Second, 5 * time.Minute}},
		{name: "transient with progress", kind: ByTime, progress: true, want: []time.Duration{time.Second, time.Second}},
		{name: "an answer is awaited", kind: ByAnswer, asked: 3 * time.Second, want: []time.Duration{3 * time.Second, 3 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second}},
		{name: "an answer is awaited for long", kind: ByAnswer, asked: time.Minute, want: []time.Duration{time.Minute, time.Minute}},
		{name: "address", kind: ByAddress, want: []time.Duration{2 * time.Minute, 8 * time.Minute, 500 * time.Second, 500 * time.Second}},
		{name: "address, longest jitter", kind: ByAddress, jitter: most, want: []time.Duration{144 * time.Second, 576 * time.Second, 10 * time.Minute, 10 * time.Minute}},
		{name: "port, progress changes nothing", kind: ByPort, progress: true, want: []time.Duration{2 * time.Minute, 8 * time.Minute}},
		{name: "change", kind: ByChange, want: []time.Duration{2 * time.Minute, 8 * time.Minute}},
		{name: "nodes", kind: ByNodes, want: []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute, 500 * time.Second}},
	} {
		if c.jitter == nil {
			c.jitter = none
		}
		for i, want := range c.want {
			assert.Equal(t, want, delay(c.kind, i+1, c.progress, c.asked, c.jitter), "%s, failure %d", c.name, i+1)
		}
		assert.LessOrEqual(t, delay(c.kind, 1<<40, c.progress, c.asked, most), 10*time.Minute, c.name)
	}
}

func TestBackoffKinds(t *testing.T) {
	t.Parallel()
	refusal := func(r plan.Reason) error { return &plan.RefusalError{Reason: r} }
	failed := func(k cloudstack.Kind) error {
		return fmt.Errorf("acquire an address: %w", &cloudstack.Error{Kind: k, Command: "associateIpAddress"})
	}
	for _, c := range []struct {
		name string
		err  error
		want Trigger
	}{
		{"limit", failed(cloudstack.KindLimit), ByAddress},
		{"capacity", failed(cloudstack.KindCapacity), ByAddress},
		{"conflict", failed(cloudstack.KindConflict), ByPort},
		{"not permitted", failed(cloudstack.KindNotPermitted), ByChange},
		{"invalid", failed(cloudstack.KindInvalid), ByChange},
		{"530", failed(cloudstack.KindUnknown), ByTime},
		{"failed job", failed(cloudstack.KindJobFailed), ByTime},
		{"cut connection", failed(cloudstack.KindTransient), ByTime},
		{"throttled", failed(cloudstack.KindThrottled), ByTime},
		{"keys", failed(cloudstack.KindAuth), ByTime},
		{"gone", failed(cloudstack.KindNotFound), ByTime},
		{"no such project", &cloudstack.Error{Kind: cloudstack.KindNotFound, Command: "listProjects"}, ByChange},
		{"may have happened", &cloudstack.Error{Kind: cloudstack.KindLimit, MayHaveHappened: true}, ByTime},
		{"API server", errors.New("conflict"), ByTime},
		{"answer", &plan.WaitError{Message: "not listed yet"}, ByAnswer},
		{"address refused", errors.Join(refusal(plan.ReasonAddressUnavailable), errors.New("and more")), ByAddress},
		{"port refused", refusal(plan.ReasonPortTaken), ByPort},
		{"no node", refusal(plan.ReasonNoNodes), ByNodes},
		{"no VM", refusal(plan.ReasonNoBackends), ByNodes},
		{"annotation", refusal(plan.ReasonInvalidAnnotation), ByChange},
	} {
		assert.Equal(t, c.want, TriggerOf(c.err), c.name)
	}
}

// A transient failure is followed by another attempt soon when the sync got further than all before it.
func TestBackoffRestartsAfterProgress(t *testing.T) {
	t.Parallel()
	broken := &cloudstack.Error{Kind: cloudstack.KindTransient}
	b := New(clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
	a := Attempt{uid: "web"}
	for i, step := range []struct {
		what string
		did  Work
		want time.Duration
	}{
		{"no plan", Work{}, 2 * time.Second},
		{"a plan, nothing done", Work{Planned: 9}, 4 * time.Second},
		{"some done", Work{Planned: 9, Done: 3}, time.Second},
		{"a read fails", Work{}, 2 * time.Second},
		{"nothing more", Work{Planned: 6}, 4 * time.Second},
		{"what lost its answer was done", Work{Planned: 5}, time.Second},
		{"done, and undone by others", Work{Planned: 9, Done: 4}, 2 * time.Second},
		{"nearly all", Work{Planned: 5, Done: 4}, time.Second},
	} {
		assert.Equal(t, step.want, b.Failed(a, broken, step.did), "%d: %s", i+1, step.what)
	}
	other := a
	other.fingerprint = "changed"
	assert.Equal(t, time.Second, b.Failed(other, broken, Work{Planned: 9, Done: 1}), "a changed Service starts again")
	first := Attempt{uid: "other"}
	assert.Equal(t, time.Second, b.Failed(first, broken, Work{Planned: 9, Done: 1}))
}

func annotate(name, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[name] = value }
}

// What a Service waits for ends its wait, and nothing else does.
func TestBackoffEndsEarly(t *testing.T) {
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
		{name: "another annotation", err: limit, change: annotate("example.org/note", "x")},
		{name: "a record", err: limit, change: annotate(annotation.Allocation, "[]")},
		{name: "an annotation of ours", err: limit, change: annotate(annotation.KeepIP, "true"), begins: true},
		{name: "Kubernetes' own annotation", err: limit, change: annotate(annotation.SourceRangesBeta, "10.0.0.0/8"), begins: true},
		{name: "spec", err: limit, change: func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, begins: true},
		{name: "nodes do not help", err: limit, nodes: "w1, w2"},
		{name: "nodes help", err: &plan.RefusalError{Reason: plan.ReasonNoNodes}, nodes: "w1, w2", begins: true},
		{name: "rules follow the nodes", err: limit, serves: true, nodes: "w1, w2", begins: true},
		{name: "transient", err: &cloudstack.Error{Kind: cloudstack.KindTransient}, begins: true},
	} {
		clk := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
		b := New(clk)
		b.jitter = func(time.Duration) time.Duration { return 0 }
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		svc.Annotations = map[string]string{}
		if c.serves {
			svc.Annotations[annotation.Addresses] = "[]"
		}
		first := AttemptOf(svc, nodes)
		require.Positive(t, b.Failed(first, c.err, Work{}), c.name)
		if c.change != nil {
			c.change(svc)
		}
		if c.nodes == "" {
			c.nodes = nodes
		}
		clk.SetTime(clk.Now().Add(earlyPause))
		wait, err := b.Held(AttemptOf(svc, c.nodes))
		assert.Equal(t, c.begins, wait == 0, "%s: %s", c.name, wait)
		if !c.begins {
			assert.Equal(t, c.err, err, c.name)
		}
		wait, _ = b.Held(DeletionOf(svc))
		assert.Zero(t, wait, "%s: a deletion does not wait", c.name)
		clk.SetTime(clk.Now().Add(2 * time.Minute))
		wait, _ = b.Held(first)
		assert.Zero(t, wait, "%s: its time has come", c.name)
	}
}

// What one Service frees wakes one of each group, the longest waiting first, and another only after that succeeded.
func TestBackoffWakesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	b := New(clk)
	limit := &cloudstack.Error{Kind: cloudstack.KindLimit}
	for _, uid := range []types.UID{"c", "a", "b"} {
		b.Failed(Attempt{uid: uid, group: "project"}, limit, Work{})
		clk.SetTime(clk.Now().Add(10 * time.Second))
	}
	b.Failed(Attempt{uid: "x", group: "address"}, limit, Work{})
	b.Failed(Attempt{uid: "port", group: "address"}, &cloudstack.Error{Kind: cloudstack.KindConflict}, Work{})
	clk.SetTime(clk.Now().Add(time.Second))
	assert.Equal(t, map[types.UID]time.Duration{"c": 0, "x": earlyPause - time.Second}, b.Freed(ByAddress))
	next, wait, ok := b.Succeeded(Attempt{uid: "c"}, Work{})
	assert.True(t, ok)
	assert.Equal(t, types.UID("a"), next)
	assert.Zero(t, wait)
	b.Forget("a")
	assert.Contains(t, b.Freed(ByAddress), types.UID("b"))
	assert.Equal(t, map[types.UID]time.Duration{"port": earlyPause - time.Second}, b.Freed(ByPort))
	for _, uid := range []types.UID{"b", "x", "port"} {
		b.Forget(uid)
	}
	assert.Empty(t, b.waits)
}

// Services that name one address ask for it at once. The one that gets it wakes the others, which share it.
func TestBackoffWakesThoseThatShareAnAddress(t *testing.T) {
	t.Parallel()
	taken := &plan.RefusalError{Reason: plan.ReasonAddressUnavailable}
	for name, tc := range map[string]struct {
		succeeds Attempt
		did      Work
		wakes    bool
	}{
		"acquired":            {Attempt{uid: "first", group: "address", named: true}, Work{Planned: 4, Done: 4}, true},
		"nothing to do":       {Attempt{uid: "first", group: "address", named: true}, Work{}, false},
		"another address":     {Attempt{uid: "first", group: "other address", named: true}, Work{Planned: 4, Done: 4}, false},
		"no address is named": {Attempt{uid: "first", group: "address"}, Work{Planned: 4, Done: 4}, false},
	} {
		b := New(clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
		b.Failed(Attempt{uid: "second", group: "address", named: true}, taken, Work{})
		next, wait, ok := b.Succeeded(tc.succeeds, tc.did)
		assert.Equal(t, tc.wakes, ok, name)
		if ok {
			assert.Equal(t, types.UID("second"), next, name)
			assert.Equal(t, earlyPause, wait, name)
		}
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

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
		kind     helpedBy
		progress bool
		asked    time.Duration
		jitter   func(time.Duration) time.Duration
		want     []time.Duration // after 1, 2, 3 ... failures
	}{
		{name: "transient", kind: helpedByTime, want: []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 128 * time.Second, 256 * time.Second, 5 * time.Minute}},
		{name: "transient with progress", kind: helpedByTime, progress: true, want: []time.Duration{time.Second, time.Second}},
		{name: "an answer is awaited", kind: helpedByAnswer, asked: 3 * time.Second, want: []time.Duration{3 * time.Second, 3 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second}},
		{name: "an answer is awaited for long", kind: helpedByAnswer, asked: time.Minute, want: []time.Duration{time.Minute, time.Minute}},
		{name: "address", kind: helpedByAddress, want: []time.Duration{2 * time.Minute, 8 * time.Minute, 500 * time.Second, 500 * time.Second}},
		{name: "address, longest jitter", kind: helpedByAddress, jitter: most, want: []time.Duration{144 * time.Second, 576 * time.Second, 10 * time.Minute, 10 * time.Minute}},
		{name: "port, progress changes nothing", kind: helpedByPort, progress: true, want: []time.Duration{2 * time.Minute, 8 * time.Minute}},
		{name: "change", kind: helpedByChange, want: []time.Duration{2 * time.Minute, 8 * time.Minute}},
		{name: "nodes", kind: helpedByNodes, want: []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute, 500 * time.Second}},
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
		want helpedBy
	}{
		{"limit", failed(cloudstack.KindLimit), helpedByAddress},
		{"capacity", failed(cloudstack.KindCapacity), helpedByAddress},
		{"conflict", failed(cloudstack.KindConflict), helpedByPort},
		{"not permitted", failed(cloudstack.KindNotPermitted), helpedByChange},
		{"invalid", failed(cloudstack.KindInvalid), helpedByChange},
		{"530", failed(cloudstack.KindUnknown), helpedByTime},
		{"failed job", failed(cloudstack.KindJobFailed), helpedByTime},
		{"cut connection", failed(cloudstack.KindTransient), helpedByTime},
		{"throttled", failed(cloudstack.KindThrottled), helpedByTime},
		{"keys", failed(cloudstack.KindAuth), helpedByTime},
		{"gone", failed(cloudstack.KindNotFound), helpedByTime},
		{"no such project", &cloudstack.Error{Kind: cloudstack.KindNotFound, Command: "listProjects"}, helpedByChange},
		{"may have happened", &cloudstack.Error{Kind: cloudstack.KindLimit, MayHaveHappened: true}, helpedByTime},
		{"API server", errors.New("conflict"), helpedByTime},
		{"answer", &plan.WaitError{Message: "not listed yet"}, helpedByAnswer},
		{"address refused", errors.Join(refusal(plan.ReasonAddressUnavailable), errors.New("and more")), helpedByAddress},
		{"port refused", refusal(plan.ReasonPortTaken), helpedByPort},
		{"no node", refusal(plan.ReasonNoNodes), helpedByNodes},
		{"no VM", refusal(plan.ReasonNoBackends), helpedByNodes},
		{"annotation", refusal(plan.ReasonInvalidAnnotation), helpedByChange},
	} {
		assert.Equal(t, c.want, helps(c.err), c.name)
	}
}

// A transient failure is followed by another attempt soon when the sync got further than all before it.
func TestBackoffRestartsAfterProgress(t *testing.T) {
	t.Parallel()
	broken := &cloudstack.Error{Kind: cloudstack.KindTransient}
	b := newBackoff(clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
	a := attempt{uid: "web"}
	for i, step := range []struct {
		what string
		did  work
		want time.Duration
	}{
		{"no plan", work{}, 2 * time.Second},
		{"a plan, nothing done", work{planned: 9}, 4 * time.Second},
		{"some done", work{planned: 9, done: 3}, time.Second},
		{"a read fails", work{}, 2 * time.Second},
		{"nothing more", work{planned: 6}, 4 * time.Second},
		{"what lost its answer was done", work{planned: 5}, time.Second},
		{"done, and undone by others", work{planned: 9, done: 4}, 2 * time.Second},
		{"nearly all", work{planned: 5, done: 4}, time.Second},
	} {
		assert.Equal(t, step.want, b.failed(a, broken, step.did), "%d: %s", i+1, step.what)
	}
	other := a
	other.fingerprint = "changed"
	assert.Equal(t, time.Second, b.failed(other, broken, work{planned: 9, done: 1}), "a changed Service starts again")
	first := attempt{uid: "other"}
	assert.Equal(t, time.Second, b.failed(first, broken, work{planned: 9, done: 1}))
}

// What a Service waits for ends its wait, and nothing else does.
func TestBackoffEndsEarly(t *testing.T) {
	t.Parallel()
	limit := &cloudstack.Error{Kind: cloudstack.KindLimit}
	nodes := nodesNamed("w1")
	for _, c := range []struct {
		name   string
		err    error
		serves bool
		change func(*corev1.Service)
		nodes  []*corev1.Node
		begins bool
	}{
		{name: "nothing changed", err: limit},
		{name: "another annotation", err: limit, change: annotate("example.org/note", "x")},
		{name: "a record", err: limit, change: annotate(annotation.Allocation, "[]")},
		{name: "an annotation of ours", err: limit, change: annotate(annotation.KeepIP, "true"), begins: true},
		{name: "Kubernetes' own annotation", err: limit, change: annotate(annotation.SourceRangesBeta, "10.0.0.0/8"), begins: true},
		{name: "spec", err: limit, change: func(s *corev1.Service) { s.Spec.Ports = servicePorts(81) }, begins: true},
		{name: "nodes do not help", err: limit, nodes: nodesNamed("w1", "w2")},
		{name: "nodes help", err: &plan.RefusalError{Reason: plan.ReasonNoNodes}, nodes: nodesNamed("w1", "w2"), begins: true},
		{name: "rules follow the nodes", err: limit, serves: true, nodes: nodesNamed("w1", "w2"), begins: true},
		{name: "transient", err: &cloudstack.Error{Kind: cloudstack.KindTransient}, begins: true},
	} {
		clk := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
		b := newBackoff(clk)
		b.jitter = func(time.Duration) time.Duration { return 0 }
		svc := newService([]int{80})
		if c.serves {
			svc.Annotations[annotation.Addresses] = "[]"
		}
		first := attemptOf(svc, nodes)
		require.Positive(t, b.failed(first, c.err, work{}), c.name)
		if c.change != nil {
			c.change(svc)
		}
		if c.nodes == nil {
			c.nodes = nodes
		}
		clk.SetTime(clk.Now().Add(earlyPause))
		wait, err := b.held(attemptOf(svc, c.nodes))
		assert.Equal(t, c.begins, wait == 0, "%s: %s", c.name, wait)
		if !c.begins {
			assert.Equal(t, c.err, err, c.name)
		}
		wait, _ = b.held(deletionOf(svc))
		assert.Zero(t, wait, "%s: a deletion does not wait", c.name)
		clk.SetTime(clk.Now().Add(2 * time.Minute))
		wait, _ = b.held(first)
		assert.Zero(t, wait, "%s: its time has come", c.name)
	}
}

// What one Service frees wakes one of each group, the longest waiting first, and another only after that succeeded.
func TestBackoffWakesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	b := newBackoff(clk)
	limit := &cloudstack.Error{Kind: cloudstack.KindLimit}
	for _, uid := range []types.UID{"c", "a", "b"} {
		b.failed(attempt{uid: uid, group: "project"}, limit, work{})
		clk.SetTime(clk.Now().Add(10 * time.Second))
	}
	b.failed(attempt{uid: "x", group: "address"}, limit, work{})
	b.failed(attempt{uid: "port", group: "address"}, &cloudstack.Error{Kind: cloudstack.KindConflict}, work{})
	clk.SetTime(clk.Now().Add(time.Second))
	assert.Equal(t, map[types.UID]time.Duration{"c": 0, "x": earlyPause - time.Second}, b.freed(helpedByAddress))
	next, wait, ok := b.succeeded("c")
	assert.True(t, ok)
	assert.Equal(t, types.UID("a"), next)
	assert.Zero(t, wait)
	b.forget("a")
	assert.Contains(t, b.freed(helpedByAddress), types.UID("b"))
	assert.Equal(t, map[types.UID]time.Duration{"port": earlyPause - time.Second}, b.freed(helpedByPort))
	for _, uid := range []types.UID{"b", "x", "port"} {
		b.forget(uid)
	}
	assert.Empty(t, b.waits)
}

func TestRecordsStayOutOfTheFrameworksCache(t *testing.T) {
	t.Parallel()
	var changed []types.UID
	c := newRecordsCache()
	c.onChange(func(uid types.UID) { changed = append(changed, uid) })
	svc := newService([]int{80}, annotate(annotation.KeepIP, "true", annotation.Allocation, "[1]"))
	out, err := c.strip(svc)
	require.NoError(t, err)
	cached := serviceOf(out)
	assert.Equal(t, map[string]string{annotation.KeepIP: "true"}, cached.Annotations)
	assert.Contains(t, svc.Annotations, annotation.Allocation, "the object of others is not changed")
	assert.Equal(t, svc.Annotations, c.restore(cached).Annotations)
	assert.NotContains(t, cached.Annotations, annotation.Allocation)
	assert.Same(t, svc, c.restore(svc), "one with records is used unchanged")
	_, _ = c.strip(svc)
	assert.Len(t, changed, 1)

	plain := newService([]int{80})
	out, _ = c.strip(plain)
	assert.Nil(t, serviceOf(out).Annotations)
	assert.Len(t, changed, 2)
	assert.Empty(t, c.byUID)
	assert.Same(t, plain, (*recordsCache)(nil).restore(plain))
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
)

// trigger is what could make the next sync of a Service succeed.
type trigger int

const (
	byTime   trigger = iota // transient failures: the same call may succeed in a moment
	byAnswer                // the result of a call is not known yet
	byOthers                // a limit, no capacity, a taken address or port: another Service may free it
	byNodes                 // a refusal because of the nodes
	byChange                // the Service, the role or the network must change
)

// backoff computes the wait after a number of failures in a row: base, multiplied by growth for each failure after the
// first, and limited to most.
type backoff struct {
	base, most time.Duration
	growth     float64
}

// backoffs are the waits by trigger. After a refusal there are two attempts in the first ten minutes, then one every
// ten minutes. This is only polling: an event that may help, such as a freed address, ends the wait early. Waits are
// lengthened by up to a fifth, depending on the time at which they begin, so that Services that failed together are not
// retried together.
var backoffs = map[trigger]backoff{
	byTime:   {2 * time.Second, 5 * time.Minute, 2},
	byAnswer: {time.Second, 30 * time.Second, 2},
	byOthers: {2 * time.Minute, 500 * time.Second, 4},
	byNodes:  {30 * time.Second, 500 * time.Second, 4}, // VMs may appear without a change of any Node
	byChange: {2 * time.Minute, 500 * time.Second, 4},
}

// early is the minimum time between a failed attempt and one that a change triggers. It grows with each attempt in a
// row after a change by the owner, whatever the error. Otherwise an owner could get more attempts by changing the
// Service.
var early = backoff{5 * time.Second, 10 * time.Minute, 2}

// progressPause is the wait after a transient failure of a sync that completed more steps than any before it.
const progressPause = time.Second

// after returns the wait after a number of failures in a row.
func (b backoff) after(failures int) time.Duration {
	return time.Duration(min(float64(b.most), float64(b.base)*math.Pow(b.growth, float64(failures-1))))
}

// triggerOf returns what could make the next sync succeed after the error of a sync.
func triggerOf(err error) trigger {
	if plan.WaitOf(err) != nil {
		return byAnswer
	}

	if refusal := plan.RefusalOf(err); refusal != nil {
		switch refusal.Reason {
		case plan.ReasonAddressUnavailable, plan.ReasonPortTaken, plan.ReasonNotAllowed:
			// A policy may limit the number of addresses, so a Service that is NotAllowed may succeed when another
			// Service frees one.
			return byOthers
		case plan.ReasonNoNodes, plan.ReasonNoBackends, plan.ReasonSeveralNetworks, plan.ReasonNoSuchNetwork,
			plan.ReasonUnsupportedNetwork:
			return byNodes
		default:
			return byChange
		}
	}

	switch {
	case !loadbalancer.Lasting(err):
		return byTime
	case shortage(err) || cloudstack.IsKind(err, cloudstack.KindConflict):
		return byOthers
	}

	return byChange
}

// shortage reports whether an error says that CloudStack has no free address for the project.
func shortage(err error) bool {
	return cloudstack.IsKind(err, cloudstack.KindLimit) || cloudstack.IsKind(err, cloudstack.KindCapacity)
}

// deletion is the fingerprint of a Service that no longer wants a load balancer.
const deletion = "delete"

// attempt is what the result of a sync depends on. The backoff continues only while it stays the same.
type attempt struct {
	fingerprint string
	nodes       []*corev1.Node // those that the Service chooses
	project     string         // the project that the Service names, which has its own limits and addresses
}

// retry is when and why a Service whose last sync failed is synced again. The zero value does not wait.
type retry struct {
	// fingerprint and project are those of the last attempt. nodes identifies its nodes if it failed because of them.
	fingerprint, project, nodes string

	kind        trigger
	err         error // nil while nothing failed
	failures    int   // failures of this kind in a row
	changes     int   // attempts in a row after a change by the owner
	since       time.Time
	began       time.Time // start of the attempt; only what others free after it may help
	last, until time.Time
	remaining   int // the lowest number of actions that remained after any attempt; 0 if none had a plan
}

// waiting reports whether the last sync failed.
func (r *retry) waiting() bool { return r.err != nil }

// aheadOf reports whether a Service is tried before another one that waits for a freed address or port too.
func (r *retry) aheadOf(other *retry) bool {
	if short := shortage(r.err); short != shortage(other.err) {
		return short
	}
	return r.since.Before(other.since)
}

// remainingWait returns how much longer an attempt has to wait.
func (r *retry) remainingWait(a attempt, now time.Time) time.Duration {
	if !r.waiting() {
		return 0
	}
	soon := r.until
	switch {
	case a.fingerprint == deletion && r.fingerprint != deletion: // earlier changes by the owner do not delay a deletion
		soon = r.last.Add(early.base)
	case r.fingerprint != a.fingerprint, r.kind == byNodes && r.nodes != node.Key(a.nodes):
		soon = r.last.Add(early.after(r.changes + 1))
	}
	return max(0, min(soon.Sub(now), r.until.Sub(now)))
}

// failed records a failed attempt and returns how long the Service waits. result shows how far the attempt got. It
// counts as progress only if fewer actions remain than after any earlier attempt. Otherwise a Service whose syncs
// change something and then fail would be synced every second.
func (r *retry) failed(a attempt, err error, result loadbalancer.Result, now time.Time) time.Duration {
	next := retry{
		fingerprint: a.fingerprint, project: a.project, kind: triggerOf(err), err: err, failures: 1,
		since: now, began: r.began, last: now,
	}
	another := !r.waiting() || r.fingerprint == a.fingerprint && r.err.Error() != err.Error()
	refusal := plan.RefusalOf(err)
	if next.kind == byChange && refusal == nil && another {
		next.kind = byTime // others may have removed what was just read, so the next attempt reads again
	}

	if r.waiting() {
		if r.fingerprint != a.fingerprint {
			next.changes = r.changes + 1
		} else {
			next.remaining = r.remaining
		}
		if r.kind == next.kind {
			next.failures, next.since = r.failures+1, r.since
		}
	}

	if next.kind == byNodes {
		next.nodes = node.Key(a.nodes)
	}

	progress := false
	if planned := len(result.Plan); planned > 0 {
		known, remaining := cmp.Or(next.remaining, planned), planned-result.Done
		progress, next.remaining = next.kind == byTime && remaining < known, min(known, remaining)
	}

	d := backoffs[next.kind].after(next.failures)
	if pending := plan.WaitOf(err); pending != nil {
		d = max(d, pending.After)
	}
	switch {
	case progress:
		next.failures, d = 0, progressPause
	case next.kind >= byOthers:
		d = d * time.Duration(100+now.UnixMilli()%21) / 100
	}

	if refusal != nil && refusal.After > 0 {
		d = min(d, refusal.After)
	}

	next.until = now.Add(d)
	*r = next
	return d
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// trigger is what could make the next sync of a Service succeed.
type trigger int

const (
	byTime    trigger = iota // transient failures: the same call may succeed in a moment
	byAnswer                 // CloudStack has not said yet what became of a call
	byAddress                // a limit, no capacity, a taken address: another Service may release one
	byPort                   // a port of an address is taken: another Service may give it up
	byNodes                  // a refusal because of the nodes
	byChange                 // the Service, the role or the network must change
)

const (
	quickBase, quickMax = 2 * time.Second, 5 * time.Minute
	progressPause       = time.Second // after a transient failure of a sync that got further than those before it
	answerMax           = 30 * time.Second
	// Two attempts in the first ten minutes, then one in each: what helps ends the wait, and the rest is polling.
	waitBase, waitMax = 2 * time.Minute, 10 * time.Minute // the jitter is part of waitMax
	waitGrowth        = 4
	nodesBase         = 30 * time.Second // VMs may appear without a change of any Node
	// earlyPause is how soon after a failed attempt another may follow that something seems to help. It doubles with each
	// attempt in a row at a Service that its owner has changed, whatever the error, or changes would buy attempts.
	earlyPause = 5 * time.Second
)

// triggerOf classifies the error of a sync.
func triggerOf(err error) trigger {
	if _, pending := errors.AsType[*plan.WaitError](err); pending {
		return byAnswer
	}
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok {
		switch refusal.Reason {
		case plan.ReasonAddressUnavailable, plan.ReasonNotAllowed: // a policy may limit the number of addresses
			return byAddress
		case plan.ReasonPortTaken:
			return byPort
		case plan.ReasonNoNodes, plan.ReasonNoBackends, plan.ReasonSeveralNetworks, plan.ReasonNoSuchNetwork, plan.ReasonUnsupportedNetwork:
			return byNodes
		default:
			return byChange
		}
	}
	if e, ok := errors.AsType[*cloudstack.Error](err); ok && !e.MayHaveHappened {
		switch e.Kind {
		case cloudstack.KindLimit, cloudstack.KindCapacity:
			return byAddress
		case cloudstack.KindConflict:
			return byPort
		case cloudstack.KindNotPermitted, cloudstack.KindInvalid:
			return byChange
		case cloudstack.KindNotFound:
			if e.Command == "listProjects" { // other things vanish while they are worked on; a project was misspelt
				return byChange
			}
		default:
		}
	}
	return byTime
}

// shortage reports whether an error says that CloudStack has no address left for the project.
func shortage(err error) bool {
	return cloudstack.IsKind(err, cloudstack.KindLimit) || cloudstack.IsKind(err, cloudstack.KindCapacity)
}

// delay returns how long a Service waits after failures in a row of one kind. jitter returns a duration in [0, limit].
// progress reports whether the last attempt got further than all before it; asked is what a WaitError asks for.
func delay(kind trigger, failures int, progress bool, asked time.Duration, jitter func(limit time.Duration) time.Duration) time.Duration {
	switch kind {
	case byTime:
		if progress {
			return progressPause
		}
		return grown(quickBase, 2, failures, quickMax)
	case byAnswer:
		return max(asked, grown(time.Second, 2, failures, answerMax))
	default:
		base := waitBase
		if kind == byNodes {
			base = nodesBase
		}
		d := grown(base, waitGrowth, failures, waitMax*5/6)
		return d + jitter(d/5)
	}
}

// grown is base times factor for each failure after the first, at most limit.
func grown(base time.Duration, factor, failures int, limit time.Duration) time.Duration {
	for range min(failures-1, 32) {
		if base *= time.Duration(factor); base >= limit {
			return limit
		}
	}
	return base
}

func randomJitter(limit time.Duration) time.Duration {
	return rand.N(limit + 1) //nolint:gosec // jitter needs no secrecy
}

// attempt identifies a sync for the backoff: what it depends on.
type attempt struct {
	fingerprint string
	nodes       string // identifies the set of nodes that serve
	serves      bool   // the Service has an address: its rules follow the nodes even while something else fails
	group       string // Services of one group wait for the same thing
	named       bool   // group is of one address, which they may share
	limits      string // the group of those that wait for what their namespace may have
}

// attemptOf returns the attempt to bring a Service to its desired state.
func attemptOf(svc *corev1.Service, nodes string) attempt {
	group := "project " + strings.TrimSpace(svc.Annotations[annotation.Project])
	address := cmp.Or(strings.TrimSpace(svc.Annotations[annotation.Address]), strings.TrimSpace(svc.Spec.LoadBalancerIP))
	if address != "" {
		group = "address " + address + " in " + group
	}
	return attempt{
		fingerprint: annotation.Fingerprint(svc), nodes: nodes, group: group, named: address != "", limits: limitsOf(svc.Namespace),
		serves: svc.Annotations[annotation.Addresses] != "" || len(svc.Status.LoadBalancer.Ingress) > 0,
	}
}

// limitsOf is the group of the Services that wait for what their namespace may have.
func limitsOf(namespace string) string { return "limits of " + namespace }

// retry is when and why a Service whose last sync failed is tried again. The zero retry waits for nothing.
type retry struct {
	attempt     // the last one
	kind        trigger
	err         error // nil while nothing failed
	failures    int   // in a row, of this kind
	changes     int   // attempts in a row before which the owner had changed the Service
	since       time.Time
	last, until time.Time
	nearest     int // the fewest actions that an attempt has left to do; unknownLeft when no attempt got to a plan
	// woken is when another Service gave up what this one is tried for next, tried the same of the last attempt; zero for none.
	woken, tried time.Time
}

// unknownLeft is more than any plan has.
const unknownLeft = math.MaxInt

// waiting reports whether the last sync failed.
func (r *retry) waiting() bool { return r.err != nil }

// held returns how long an attempt would come too early.
func (r *retry) held(a attempt, now time.Time) time.Duration {
	if !r.waiting() {
		return 0
	}
	until := r.until
	if r.fingerprint != a.fingerprint || (r.kind == byNodes || r.serves) && r.nodes != a.nodes {
		if early := r.last.Add(r.pause()); early.Before(until) {
			until = early
		}
	}
	return max(0, until.Sub(now))
}

// pause is how soon another attempt may follow the last one.
func (r *retry) pause() time.Duration { return grown(earlyPause, 2, r.changes+1, waitMax) }

// failed notes a failed attempt and returns how long the Service waits. result is how far it got: the fewest actions left
// cannot become fewer for ever, so that a Service whose sync changes something and then fails, again and again, is not tried
// every second.
func (r *retry) failed(a attempt, err error, result loadbalancer.Result, now time.Time, jitter func(time.Duration) time.Duration) time.Duration {
	var asked time.Duration
	if pending, ok := errors.AsType[*plan.WaitError](err); ok {
		asked = pending.After
	}
	next := retry{attempt: a, kind: triggerOf(err), err: err, failures: 1, since: now, last: now, nearest: unknownLeft, tried: r.tried}
	if _, refused := errors.AsType[*plan.RefusalError](err); next.kind == byChange && !refused && !r.waiting() {
		next.kind = byTime // others may have removed what was read a moment ago: the next attempt reads it again
	}
	if !r.woken.IsZero() {
		next.tried = r.woken
	}
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok && refusal.Reason == plan.ReasonNotAllowed {
		next.group = a.limits
	}
	if r.waiting() && r.fingerprint != a.fingerprint {
		next.changes = r.changes + 1
	}
	same := r.waiting() && r.kind == next.kind
	if r.waiting() && r.fingerprint == a.fingerprint {
		next.nearest = r.nearest
	}
	planned, left := len(result.Plan), len(result.Plan)-result.Done
	nearer := planned > 0 && left < next.nearest
	if next.nearest == unknownLeft {
		nearer = result.Done > 0
	}
	progress := next.kind == byTime && nearer
	if planned > 0 {
		next.nearest = min(next.nearest, left)
	}
	switch {
	case progress:
		next.failures = 0
	case same:
		next.failures, next.since = r.failures+1, r.since
	}
	d := delay(next.kind, next.failures, progress, asked, jitter)
	next.until = now.Add(d)
	*r = next
	return d
}

// shorten makes the wait end as soon as another attempt may follow the last one, and returns when that is.
func (r *retry) shorten(now time.Time) time.Duration {
	if early := r.last.Add(earlyPause); early.Before(r.until) {
		r.until = early
	}
	return max(0, r.until.Sub(now))
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backoff decides when a Service whose sync failed is tried again: after a delay that depends on the failure, or
// as soon as what could make the next attempt succeed has happened.
package backoff

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cpapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Trigger is what could make the next sync of a Service succeed.
type Trigger int

// Triggers.
const (
	ByTime    Trigger = iota // transient failures: the same call may succeed in a moment
	ByAnswer                 // CloudStack has not said yet what became of a call
	ByAddress                // a limit, no capacity, a taken address: another Service may release one
	ByPort                   // a port of an address is taken: another Service may give it up
	ByNodes                  // a refusal because of the nodes
	ByChange                 // the Service, the role or the network must change
)

const (
	quickBase, quickMax = 2 * time.Second, 5 * time.Minute
	progressPause       = time.Second // after a transient failure of a sync that got further than those before it
	answerMax           = 30 * time.Second
	// Two attempts in the first ten minutes, then one in each: what helps ends the wait, and the rest is polling.
	waitBase, waitMax = 2 * time.Minute, 10 * time.Minute // the jitter is part of waitMax
	waitGrowth        = 4
	nodesBase         = 30 * time.Second // VMs may appear without a change of any Node
	// earlyPause is how soon after a failed attempt another may follow that something seems to help.
	earlyPause = 5 * time.Second
)

// held reports whether a Service with such a failure is left alone until its time has come.
func (h Trigger) held() bool { return h != ByTime && h != ByAnswer }

// TriggerOf classifies the error of a sync.
func TriggerOf(err error) Trigger {
	if _, pending := errors.AsType[*plan.WaitError](err); pending {
		return ByAnswer
	}
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok {
		switch refusal.Reason {
		case plan.ReasonAddressUnavailable, plan.ReasonNotAllowed: // a policy may limit the number of addresses
			return ByAddress
		case plan.ReasonPortTaken:
			return ByPort
		case plan.ReasonNoNodes, plan.ReasonNoBackends, plan.ReasonSeveralNetworks, plan.ReasonNoSuchNetwork, plan.ReasonUnsupportedNetwork:
			return ByNodes
		default:
			return ByChange
		}
	}
	if e, ok := errors.AsType[*cloudstack.Error](err); ok && !e.MayHaveHappened {
		switch e.Kind {
		case cloudstack.KindLimit, cloudstack.KindCapacity:
			return ByAddress
		case cloudstack.KindConflict:
			return ByPort
		case cloudstack.KindNotPermitted, cloudstack.KindInvalid:
			return ByChange
		case cloudstack.KindNotFound:
			if e.Command == "listProjects" { // other things vanish while they are worked on; a project was misspelt
				return ByChange
			}
		default:
		}
	}
	return ByTime
}

// delay returns how long a Service waits after failures in a row of one kind. jitter returns a duration in [0, limit].
// progress reports whether the last attempt got further than all before it; asked is what a WaitError asks for.
func delay(kind Trigger, failures int, progress bool, asked time.Duration, jitter func(limit time.Duration) time.Duration) time.Duration {
	switch kind {
	case ByTime:
		if progress {
			return progressPause
		}
		return grown(quickBase, 2, failures, quickMax)
	case ByAnswer:
		return max(asked, grown(time.Second, 2, failures, answerMax))
	default:
		base := waitBase
		if kind == ByNodes {
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

// Backoff knows which Services wait, and until when.
type Backoff struct {
	clock  clock.PassiveClock
	jitter func(limit time.Duration) time.Duration

	mu    sync.Mutex
	waits map[types.UID]*serviceWait
}

// serviceWait is a Service whose last sync failed.
type serviceWait struct {
	Attempt     // the last one
	kind        Trigger
	err         error
	failures    int       // in a row, of this kind
	since       time.Time // of the first of the failures
	last, until time.Time
	nearest     int // the fewest actions that an attempt has left to do; unknownLeft when no attempt got to a plan
}

// New returns a Backoff without waiting Services.
func New(c clock.PassiveClock) *Backoff {
	return &Backoff{clock: c, waits: map[types.UID]*serviceWait{}, jitter: func(limit time.Duration) time.Duration {
		return rand.N(limit + 1) //nolint:gosec // jitter needs no secrecy
	}}
}

// Attempt is one sync of a Service: what it depends on.
type Attempt struct {
	uid         types.UID
	fingerprint string
	nodes       string
	serves      bool   // the Service has an address: its rules follow the nodes even while something else fails
	group       string // Services of one group wait for the same thing
	named       bool   // group is of one address, which they may share
	deletes     bool
}

// AttemptOf is the attempt to bring a Service to its desired state. nodes identifies the set of nodes that serve it.
func AttemptOf(svc *corev1.Service, nodes string) Attempt {
	group := "project " + strings.TrimSpace(svc.Annotations[annotation.Project])
	address := cmp.Or(strings.TrimSpace(svc.Annotations[annotation.Address]), strings.TrimSpace(svc.Spec.LoadBalancerIP))
	if address != "" {
		group = "address " + address + " in " + group
	}
	return Attempt{
		uid: svc.UID, fingerprint: fingerprint(svc), nodes: nodes, group: group, named: address != "",
		serves: svc.Annotations[annotation.Addresses] != "" || len(svc.Status.LoadBalancer.Ingress) > 0,
	}
}

// DeletionOf is the attempt to delete everything of a Service.
func DeletionOf(svc *corev1.Service) Attempt {
	return Attempt{uid: svc.UID, fingerprint: "delete", deletes: true}
}

// fingerprint identifies what the user asks for: the spec and the annotations that mean something here.
func fingerprint(svc *corev1.Service) string {
	asked := map[string]string{}
	for name, value := range svc.Annotations {
		if !annotation.WrittenByController(name) && (strings.HasPrefix(name, annotation.Prefix) || name == annotation.SourceRangesBeta) {
			asked[name] = value
		}
	}
	text, err := json.Marshal(struct {
		Spec        corev1.ServiceSpec
		Annotations map[string]string
	}{svc.Spec, asked})
	if err != nil { // strings, numbers and maps of them only
		panic(err)
	}
	return string(text)
}

// Held returns how long the attempt would come too early and the error of the last one; 0 when it may begin.
func (b *Backoff) Held(a Attempt) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waits[a.uid]
	if w == nil || !w.kind.held() {
		return 0, nil
	}
	until := w.until
	changed := w.fingerprint != a.fingerprint || (w.kind == ByNodes || w.serves) && w.nodes != a.nodes
	if changed && a.deletes {
		return 0, nil
	}
	if early := w.last.Add(earlyPause); changed && early.Before(until) {
		until = early
	}
	return max(0, until.Sub(b.clock.Now())), w.err
}

// unknownLeft is more than any plan has.
const unknownLeft = math.MaxInt

// Work is how far a sync got.
type Work struct {
	Planned int // actions; 0 when the sync failed before there was a plan
	Done    int // actions of these that took effect
}

// nearer reports whether the work left fewer actions to do than the fewest before. It cannot be true for ever, so that a
// Service whose sync changes something and then fails, again and again, is not tried every second. An action whose
// answer was lost counts when the next plan no longer has it.
func (w Work) nearer(nearest int) bool {
	if nearest == unknownLeft {
		return w.Done > 0
	}
	return w.Planned > 0 && w.Planned-w.Done < nearest
}

// Failed notes a failed attempt and returns how long the Service waits.
func (b *Backoff) Failed(a Attempt, err error, did Work) time.Duration {
	kind := TriggerOf(err)
	var asked time.Duration
	if pending, ok := errors.AsType[*plan.WaitError](err); ok {
		asked = pending.After
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &serviceWait{Attempt: a, kind: kind, err: err, failures: 1, nearest: unknownLeft}
	last := b.waits[a.uid]
	if last != nil && last.fingerprint == a.fingerprint {
		w.nearest = last.nearest
	}
	progress := kind == ByTime && did.nearer(w.nearest)
	if progress {
		w.failures = 0
	}
	if did.Planned > 0 {
		w.nearest = min(w.nearest, did.Planned-did.Done)
	}
	if last != nil && last.kind == kind && last.fingerprint == a.fingerprint && !progress {
		w.failures, w.since = last.failures+1, last.since
	}
	w.last = b.clock.Now()
	if w.since.IsZero() {
		w.since = w.last
	}
	d := delay(kind, w.failures, progress, asked, b.jitter)
	w.until = w.last.Add(d)
	b.waits[a.uid] = w
	return d
}

// Forget ends the wait of a Service that is gone.
func (b *Backoff) Forget(uid types.UID) {
	b.mu.Lock()
	delete(b.waits, uid)
	b.mu.Unlock()
}

// Succeeded ends the wait of a Service. If it waited for an address or a port, there may be another for a Service of
// its group. If it has acquired the address that it names, others that name the address too can share it: their attempts
// to acquire it at the same time have failed. One of these Services is returned, with the time after which it may be tried.
func (b *Backoff) Succeeded(a Attempt, did Work) (next types.UID, after time.Duration, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waits[a.uid]
	delete(b.waits, a.uid)
	switch {
	case w != nil && (w.kind == ByAddress || w.kind == ByPort):
		return b.wakeLocked(w.kind, w.group)
	case a.named && did.Done > 0:
		return b.wakeLocked(ByAddress, a.group)
	}
	return "", 0, false
}

// Freed ends the wait of one Service in each group that waits for an address, or a port: the one that has waited
// longest. It returns them with the time after which each may be tried. What became free is enough for one Service;
// when that one succeeds, Succeeded names the next.
func (b *Backoff) Freed(kind Trigger) map[types.UID]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	groups := map[string]bool{}
	for _, w := range b.waits {
		if w.kind == kind {
			groups[w.group] = true
		}
	}
	out := map[types.UID]time.Duration{}
	for group := range groups {
		if uid, d, ok := b.wakeLocked(kind, group); ok {
			out[uid] = d
		}
	}
	return out
}

func (b *Backoff) wakeLocked(kind Trigger, group string) (types.UID, time.Duration, bool) {
	now := b.clock.Now()
	var waiting []types.UID
	for uid, w := range b.waits {
		if w.kind == kind && w.group == group && w.until.After(now) {
			waiting = append(waiting, uid)
		}
	}
	if len(waiting) == 0 {
		return "", 0, false
	}
	first := slices.MinFunc(waiting, func(x, y types.UID) int {
		return cmp.Or(b.waits[x].since.Compare(b.waits[y].since), cmp.Compare(x, y))
	})
	return first, b.waits[first].shorten(now), true
}

// shorten makes a wait end as soon as another attempt may follow the last, and returns when that is.
func (w *serviceWait) shorten(now time.Time) time.Duration {
	if early := w.last.Add(earlyPause); early.Before(w.until) {
		w.until = early
	}
	return max(0, w.until.Sub(now))
}

// Wake ends the wait of a Service whose last error is of that kind, and returns the time after which it may be tried.
func (b *Backoff) Wake(uid types.UID, which func(error) bool) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waits[uid]
	if w == nil || !w.kind.held() || !which(w.err) {
		return 0, false
	}
	return w.shorten(b.clock.Now()), true
}

// Waiting reports whether the last sync of a Service failed.
func (b *Backoff) Waiting(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waits[uid] != nil
}

// retryError is an error of a sync that the framework repeats after a given time. Both can be found in it.
type retryError struct {
	error
	retry *cpapi.RetryError
}

func (e *retryError) Unwrap() []error { return []error{e.error, e.retry} }

// RetryAfter returns err as one after which the framework tries again after d.
func RetryAfter(err error, d time.Duration) error {
	return &retryError{err, cpapi.NewRetryError(err.Error(), max(d, time.Millisecond))}
}

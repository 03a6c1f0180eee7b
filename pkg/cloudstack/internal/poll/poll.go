// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package poll asks a server about the jobs that callers wait for. It decides when to ask and for which job; what the
// answers mean is the API's business.
package poll

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// Min is the shortest time between two polls of the process.
	Min    = 200 * time.Millisecond
	most   = 2 * time.Second
	growth = 1.3 // of the interval, by each poll without a new job
)

// API is what is asked. J is the state of a job.
type API[J any] interface {
	// Query reads the state of one job, and whether that will not change any more.
	Query(ctx context.Context, id string) (state *J, ended bool, err error)
	// Running lists the ids of all jobs that run.
	Running(ctx context.Context) (map[string]struct{}, error)
	// Final reports whether a failure of Query will not pass.
	Final(err error) bool
	// Forbidden reports whether a failure of Running means that it is never allowed.
	Forbidden(err error) bool
}

// ErrTimeout ends a wait that took longer than the Poller allows.
var ErrTimeout = errors.New("the job has not ended in time")

// Poller follows jobs for all callers with shared polls (Running for several jobs, Query for one), at most one poll per
// Min, at most one result read per job.
//
// One goroutine polls, and only while somebody waits. A poll that fails in
// passing fails no waiter; the next poll asks again, until the waiter's time is up.
type Poller[J any] struct {
	api     API[J]
	clock   clock.Clock
	timeout time.Duration // of one job, from the begin of Await

	mu        sync.Mutex
	jobs      map[string]*job[J]
	seq       int
	stop      context.CancelFunc // of the polling goroutine; nil while there is none
	wake      chan struct{}      // tells the polling goroutine of a new job; capacity 1
	interval  time.Duration
	lastPoll  time.Time // also while nobody polls: the next one begins no sooner than Min after it
	nextPoll  time.Time
	forbidden bool // Running is: ask job by job
	hides     bool // Running did not show a job that ran: what it does not show may run
	turn      int  // seq of the job that was asked last
	lastErr   error
}

// job is one that somebody waits for.
type job[J any] struct {
	id      string
	seq     int
	waiters map[chan Outcome[J]]struct{}
	read    bool // somebody needs the result
	// unlisted is set when Running does not show the job although it runs
	// (a job of another account, say): only its own query tells its state.
	unlisted bool
}

// Outcome is how a wait ended. It is empty for a job that has ended and whose result was not read.
type Outcome[J any] struct {
	// State is that of the job, which has ended.
	State *J
	// Lost says why nobody can tell whether the job has ended.
	Lost error
	// Stopped says why the wait ended before the job did: ErrTimeout, or the context's error. LastPoll is why the last
	// poll failed, if it did.
	Stopped, LastPoll error
}

// New returns a Poller of which nobody asks anything yet.
func New[J any](api API[J], cl clock.Clock, timeout time.Duration) *Poller[J] {
	return &Poller[J]{api: api, clock: cl, timeout: timeout, jobs: map[string]*job[J]{}}
}

// Await returns when the job has ended. due is how long it probably still runs: no poll is made for it before. unread means
// that this caller does not need the job's state.
func (p *Poller[J]) Await(ctx context.Context, id string, due time.Duration, unread bool) Outcome[J] {
	out := p.join(id, due, unread) //nolint:contextcheck // the poller serves all callers and outlives this one
	defer p.leave(id, out)
	timer := p.clock.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case o := <-out:
		return o
	case <-timer.C():
		return p.stopped(ErrTimeout)
	case <-ctx.Done():
		return p.stopped(ctx.Err())
	}
}

func (p *Poller[J]) stopped(why error) Outcome[J] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Outcome[J]{Stopped: why, LastPoll: p.lastErr}
}

// join registers a waiter and sees to it that somebody polls.
func (p *Poller[J]) join(id string, due time.Duration, unread bool) chan Outcome[J] {
	out := make(chan Outcome[J], 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	j, known := p.jobs[id]
	if !known {
		p.seq++
		j = &job[J]{id: id, seq: p.seq, waiters: map[chan Outcome[J]]struct{}{}}
		p.jobs[id] = j
	}
	j.waiters[out] = struct{}{}
	j.read = j.read || !unread
	if known {
		return out
	}
	p.interval = Min
	soon := p.clock.Now().Add(due)
	if earliest := p.lastPoll.Add(Min); soon.Before(earliest) {
		soon = earliest
	}
	if p.stop == nil {
		p.nextPoll = soon
		ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // stopLocked calls cancel
		p.stop, p.wake = cancel, make(chan struct{}, 1)
		go p.poll(ctx, p.wake)
		return out
	}
	if soon.Before(p.nextPoll) {
		p.nextPoll = soon
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	return out
}

// leave removes a waiter; with the last one polling ends.
func (p *Poller[J]) leave(id string, out chan Outcome[J]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j := p.jobs[id]; j != nil {
		delete(j.waiters, out)
		if len(j.waiters) == 0 {
			delete(p.jobs, id)
		}
	}
	if len(p.jobs) == 0 {
		p.stopLocked()
	}
}

func (p *Poller[J]) stopLocked() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.lastErr = nil
}

// poll is the one goroutine that asks the server.
func (p *Poller[J]) poll(ctx context.Context, wake <-chan struct{}) {
	for {
		p.mu.Lock()
		delay := p.nextPoll.Sub(p.clock.Now())
		p.mu.Unlock()
		if delay > 0 {
			timer := p.clock.NewTimer(delay)
			select {
			case <-timer.C():
			case <-wake: // perhaps earlier than planned
				timer.Stop()
				continue
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		p.pollOnce(ctx)
	}
}

// pollOnce asks once: for one job by its own query, for several by one list,
// and reads the results of those that have vanished from the list.
func (p *Poller[J]) pollOnce(ctx context.Context) {
	p.mu.Lock()
	now := p.clock.Now()
	p.nextPoll = now.Add(p.interval)
	p.interval = min(time.Duration(float64(p.interval)*growth), most)
	listed, single := p.planLocked()
	if single != "" || len(listed) > 0 {
		p.lastPoll = now
	}
	p.mu.Unlock()

	if single != "" {
		p.read(ctx, single)
		return
	}
	if len(listed) == 0 {
		return
	}
	running, err := p.api.Running(ctx)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.api.Forbidden(err):
			p.forbidden = true
		case ctx.Err() == nil:
			p.lastErr = err
		}
		return
	}
	for _, id := range listed {
		if _, runs := running[id]; runs {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if p.unread(id) {
			p.finish(id, Outcome[J]{})
			continue
		}
		if p.read(ctx, id) {
			p.mu.Lock()
			if j := p.jobs[id]; j != nil {
				j.unlisted, p.hides = true, true
			}
			p.mu.Unlock()
		}
	}
}

// unread reports whether nobody needs the result of a job that is no longer listed.
func (p *Poller[J]) unread(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobs[id]
	return j != nil && !j.read && !p.hides
}

// planLocked decides what this poll asks: a list for the given jobs, or a single job.
// Jobs that have to be asked one by one take turns with the list.
func (p *Poller[J]) planLocked() (listed []string, single string) {
	jobs := slices.SortedFunc(maps.Values(p.jobs), func(a, b *job[J]) int { return cmp.Compare(a.seq, b.seq) })
	if len(jobs) == 0 {
		return nil, ""
	}
	for _, j := range jobs {
		if !j.unlisted && !p.forbidden {
			listed = append(listed, j.id)
		}
	}
	if len(listed) >= 2 {
		jobs = slices.DeleteFunc(jobs, func(j *job[J]) bool { return !j.unlisted })
		if len(jobs) == 0 || p.turn >= jobs[len(jobs)-1].seq {
			p.turn = 0
			return listed, ""
		}
	}
	next := jobs[max(0, slices.IndexFunc(jobs, func(j *job[J]) bool { return j.seq > p.turn }))]
	p.turn = next.seq
	return nil, next.id
}

// read asks for one job and tells its waiters when it has ended or cannot be
// followed. It reports whether the job still runs.
func (p *Poller[J]) read(ctx context.Context, id string) (pending bool) {
	state, ended, err := p.api.Query(ctx, id)
	if err != nil && p.api.Final(err) {
		p.finish(id, Outcome[J]{Lost: err})
		return false
	}
	if err == nil || ctx.Err() == nil {
		p.mu.Lock()
		p.lastErr = err
		p.mu.Unlock()
	}
	if err == nil && ended {
		p.finish(id, Outcome[J]{State: state})
	}
	return err == nil && !ended
}

// finish tells the waiters of a job and forgets it.
func (p *Poller[J]) finish(id string, o Outcome[J]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobs[id]
	if j == nil {
		return
	}
	delete(p.jobs, id)
	for out := range j.waiters {
		out <- o // capacity 1, and a waiter gets one outcome
	}
	if len(p.jobs) == 0 {
		p.stopLocked()
	}
}

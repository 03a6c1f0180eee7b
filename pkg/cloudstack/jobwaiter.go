// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	minPoll    = 200 * time.Millisecond // the shortest time between two polls of the process
	maxPoll    = 2 * time.Second
	pollGrowth = 1.3 // of the interval, by each poll without a new job
)

// JobWaiter waits for jobs for all callers with shared polls: a list of the running jobs for several jobs, a query for one. It
// makes at most one poll per minPoll and reads each result at most once.
//
// One goroutine polls, and only while somebody waits. A poll that fails but may succeed later fails no waiter; the next poll
// asks again, until the waiter's time is up.
type JobWaiter struct {
	query   func(ctx context.Context, jobID string) (*Job, error)
	running func(ctx context.Context) (map[string]struct{}, error)
	clock   clock.Clock
	timeout time.Duration // of one job, from the begin of Await

	mu       sync.Mutex
	jobs     map[string]*waitedJob
	seq      int
	stop     context.CancelFunc // of the polling goroutine; nil while there is none
	wake     chan struct{}      // tells the polling goroutine of a new job; capacity 1
	interval time.Duration
	lastPoll time.Time // also while nobody polls: the next one begins no sooner than minPoll after it
	nextPoll time.Time
	single   bool // the role may not list jobs, or the list did not show one that ran: ask job by job
	asked    int  // seq of the job that was queried last
	lastErr  error
}

// waitedJob is a job that somebody waits for.
type waitedJob struct {
	id      string
	seq     int
	waiters map[chan outcome]struct{}
	read    bool // somebody needs the result
}

// outcome is the end of a wait. It is empty for a job that has ended and whose result was not read.
type outcome struct {
	state *Job
	lost  error // why the state of the job cannot be read
}

// Await says how to wait for a job.
type Await struct {
	Command, JobID string        // Command made the job; it is used in texts and metrics
	Age            time.Duration // since the job was submitted
	// Due is how long the job probably still runs: no poll is made for it before. Nil for the shortest interval of polls.
	Due *time.Duration
	// Unread means that the caller can see in CloudStack's state whether the job succeeded: its result is not read
	// for this caller, unless that is what shows that the job has ended.
	Unread bool
}

func newJobWaiter(query func(context.Context, string) (*Job, error), running func(context.Context) (map[string]struct{}, error), cl clock.Clock, timeout time.Duration) *JobWaiter {
	registerMetrics() // before anything is counted: registering creates them again
	return &JobWaiter{query: query, running: running, clock: cl, timeout: timeout, jobs: map[string]*waitedJob{}}
}

// Wait returns when the job has ended: the job, and an *Error when it did not succeed.
//   - KindJobFailed: the job failed; HTTPCode is its result code.
//   - KindTransient with MayHaveHappened: a restart of the management server broke the job off,
//     or ctx ended, or the configuration's job-timeout passed (errors.Is ErrJobTimeout) while it ran.
//   - KindNotFound: the server knows no such job.
//   - KindNotPermitted, KindAuth: the job may not be asked for.
//
// command is the API command that made the job; it is used in texts and metrics.
func (w *JobWaiter) Wait(ctx context.Context, command, jobID string) (*Job, error) {
	return w.Await(ctx, Await{Command: command, JobID: jobID})
}

// Result is Wait for a job that was seen to have ended: it reads the result at once.
func (w *JobWaiter) Result(ctx context.Context, command, jobID string) (*Job, error) {
	state, err := w.query(ctx, jobID)
	if err != nil || !state.ended() {
		return w.Wait(ctx, command, jobID)
	}
	return state, state.err(command)
}

// Await is Wait, the caller's way. It returns nil and no error for a job that has ended and whose result was not read.
func (w *JobWaiter) Await(ctx context.Context, a Await) (*Job, error) {
	if a.JobID == "" {
		return nil, &Error{Kind: KindInvalid, Command: a.Command, Text: "there is no job to wait for"}
	}
	start := w.clock.Now().Add(-a.Age)
	jobsWaiting.Inc()
	defer jobsWaiting.Dec()
	out := w.join(a) //nolint:contextcheck // the polling goroutine serves all callers and outlives this one
	defer w.leave(a.JobID, out)
	timer := w.clock.NewTimer(w.timeout)
	defer timer.Stop()
	failed := &Error{Kind: KindTransient, Command: a.Command, JobID: a.JobID, MayHaveHappened: true}
	select {
	case o := <-out:
		if lost, ok := errors.AsType[*Error](o.lost); ok {
			*failed = *lost // shared, too
			failed.Text = "the state of the job of " + a.Command + " cannot be read: " + lost.Text
			failed.JobID, failed.MayHaveHappened = a.JobID, true
			return nil, failed
		}
		jobDuration.WithLabelValues(a.Command).Observe(w.clock.Since(start).Seconds())
		if o.state == nil {
			return nil, nil //nolint:nilnil // the third outcome, which the caller has asked for
		}
		job := *o.state // shared by all waiters of the job
		return &job, job.err(a.Command)
	case <-timer.C():
		failed.Err, failed.Text = ErrJobTimeout, fmt.Sprintf("the job has not ended within %s and may still run", w.timeout)
	case <-ctx.Done():
		failed.Err, failed.Text = ctx.Err(), "stopped waiting for the job, which may still run"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastErr != nil {
		failed.Text += "; the last poll failed: " + w.lastErr.Error()
	}
	return nil, failed
}

// join registers a waiter, and starts the polling goroutine if there is none.
func (w *JobWaiter) join(a Await) chan outcome {
	out := make(chan outcome, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	j, known := w.jobs[a.JobID]
	if !known {
		w.seq++
		j = &waitedJob{id: a.JobID, seq: w.seq, waiters: map[chan outcome]struct{}{}}
		w.jobs[a.JobID] = j
	}
	j.waiters[out] = struct{}{}
	j.read = j.read || !a.Unread
	if known {
		return out
	}
	w.interval = minPoll
	soon := w.clock.Now().Add(*cmp.Or(a.Due, new(minPoll)))
	if earliest := w.lastPoll.Add(minPoll); soon.Before(earliest) {
		soon = earliest
	}
	if w.stop == nil {
		w.nextPoll = soon
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), singleTry{}, true))
		w.stop, w.wake = cancel, make(chan struct{}, 1)
		go w.poll(ctx, w.wake)
		return out
	}
	if soon.Before(w.nextPoll) {
		w.nextPoll = soon
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return out
}

// leave removes a waiter; with the last one polling ends.
func (w *JobWaiter) leave(id string, out chan outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[id]; j != nil {
		delete(j.waiters, out)
		if len(j.waiters) == 0 {
			delete(w.jobs, id)
		}
	}
	w.stopLocked()
}

// stopLocked ends polling if nobody waits.
func (w *JobWaiter) stopLocked() {
	if len(w.jobs) > 0 {
		return
	}
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	w.lastErr = nil
}

// poll is the one goroutine that asks the server.
func (w *JobWaiter) poll(ctx context.Context, wake <-chan struct{}) {
	for {
		w.mu.Lock()
		delay := w.nextPoll.Sub(w.clock.Now())
		w.mu.Unlock()
		if delay > 0 {
			timer := w.clock.NewTimer(delay)
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
		w.pollOnce(ctx)
	}
}

// pollOnce asks once, without a retry, which the next poll is: for one job by its own query, for several by one list. It reads
// the results of those that have vanished from the list.
func (w *JobWaiter) pollOnce(ctx context.Context) {
	w.mu.Lock()
	now := w.clock.Now()
	w.nextPoll = now.Add(w.interval)
	w.interval = min(time.Duration(float64(w.interval)*pollGrowth), maxPoll)
	jobs, list := w.planLocked()
	if len(jobs) > 0 {
		w.lastPoll = now
	}
	w.mu.Unlock()

	if !list {
		for _, id := range jobs {
			w.read(ctx, id)
		}
		return
	}
	running, err := w.running(ctx)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case IsKind(err, KindNotPermitted):
			w.single = true
		case ctx.Err() == nil:
			w.lastErr = err
		}
		return
	}
	for _, id := range jobs {
		if _, runs := running[id]; runs {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		j := w.jobs[id]
		unread := j != nil && !j.read && !w.single
		w.mu.Unlock()
		if unread {
			w.finish(id, outcome{})
			continue
		}
		if w.read(ctx, id) {
			w.mu.Lock()
			w.single = true // it is a job of another account, say
			w.mu.Unlock()
		}
	}
}

// planLocked decides what this poll asks: a list for all jobs, or for a single job, one after the other.
func (w *JobWaiter) planLocked() (ids []string, list bool) {
	jobs := slices.SortedFunc(maps.Values(w.jobs), func(a, b *waitedJob) int { return cmp.Compare(a.seq, b.seq) })
	if len(jobs) == 0 {
		return nil, false
	}
	if len(jobs) > 1 && !w.single {
		for _, j := range jobs {
			ids = append(ids, j.id)
		}
		return ids, true
	}
	next := jobs[max(0, slices.IndexFunc(jobs, func(j *waitedJob) bool { return j.seq > w.asked }))]
	w.asked = next.seq
	return []string{next.id}, false
}

// read asks for one job and tells its waiters when it has ended or cannot be
// followed. It reports whether the job still runs.
func (w *JobWaiter) read(ctx context.Context, id string) (pending bool) {
	state, err := w.query(ctx, id)
	for _, final := range []Kind{KindNotFound, KindNotPermitted, KindAuth, KindInvalid} {
		if IsKind(err, final) {
			w.finish(id, outcome{lost: err})
			return false
		}
	}
	if err == nil || ctx.Err() == nil {
		w.mu.Lock()
		w.lastErr = err
		w.mu.Unlock()
	}
	if err == nil && state.ended() {
		w.finish(id, outcome{state: state})
	}
	return err == nil && !state.ended()
}

// finish tells the waiters of a job and forgets it.
func (w *JobWaiter) finish(id string, o outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	if j == nil {
		return
	}
	delete(w.jobs, id)
	for out := range j.waiters {
		out <- o // capacity 1, and a waiter gets one outcome
	}
	w.stopLocked()
}

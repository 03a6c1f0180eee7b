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
	minPoll    = 200 * time.Millisecond // shortest time between two polls
	maxPoll    = 2 * time.Second
	pollGrowth = 1.3 // growth of the interval by each poll after which no job has ended
	longJob    = time.Minute
)

// longestPoll returns the longest time between two polls for a job of the given age. Old jobs are polled less often,
// because they may never end.
func longestPoll(age time.Duration) time.Duration {
	return min(max(maxPoll, age/30), time.Minute)
}

// JobWaiter waits for jobs on behalf of all callers with shared polls: for several jobs it lists the running ones, for
// one job it queries that job. It makes at most one poll per minPoll and reads each result at most once. If a query
// shows that a job has ended, its answer is used as the result.
//
// One goroutine polls, and only while a caller waits. A failed poll that may succeed later does not end a wait; polling
// continues until the waiter's time is up.
type JobWaiter struct {
	query   func(ctx context.Context, jobID string) (*Job, error)
	running func(ctx context.Context) (map[string]struct{}, error)
	clock   clock.Clock
	timeout time.Duration // for one job, from the start of Await
	role    *Role         // of the client; used to know whether jobs may be listed

	mu       sync.Mutex
	jobs     map[string]*waitedJob
	seq      int
	stop     context.CancelFunc // of the polling goroutine; nil while there is none
	wake     chan struct{}      // signals a new job to the polling goroutine; capacity 1
	interval time.Duration
	lastPoll time.Time // kept while nobody polls: the next poll begins at least minPoll later
	nextPoll time.Time
	lastErr  error
}

// waitedJob is a job that somebody waits for.
type waitedJob struct {
	id      string
	seq     int
	since   time.Time // when it was submitted
	waiters map[chan outcome]struct{}
	read    bool // somebody needs the result
	asked   int  // how many queries have found it running
}

// outcome is the end of a wait. It is empty for a job that has ended but whose result was not read.
type outcome struct {
	state *Job
	lost  error // why the job's state cannot be read
}

// Await describes how to wait for a job.
type Await struct {
	Command, JobID string        // Command made the job; it is used in texts and metrics
	Age            time.Duration // since the job was submitted
	// Due is how long the job is expected to run; it is not polled earlier. nil means minPoll.
	Due *time.Duration
	// Unread means that the caller does not need the result, because CloudStack's state shows whether the job
	// succeeded. The result is then read only if it is needed to see that the job has ended.
	Unread bool
}

func newJobWaiter(
	query func(context.Context, string) (*Job, error), running func(context.Context) (map[string]struct{}, error),
	cl clock.Clock, timeout time.Duration,
) *JobWaiter {
	registerMetrics() // before anything is counted, because registering resets the metrics
	return &JobWaiter{
		query:   query,
		running: running,
		clock:   cl,
		timeout: timeout,
		role:    NewRole(cl),
		jobs:    map[string]*waitedJob{},
	}
}

// Wait returns when the job has ended: the job, and an *Error when it did not succeed.
//   - KindJobFailed: the job failed; HTTPCode is its result code.
//   - KindTransient with MayHaveHappened: a restart of the management server aborted the job,
//     or ctx ended, or the configuration's job-timeout passed (errors.Is ErrJobTimeout) while it ran.
//   - KindNotFound: the server knows no such job.
//   - KindNotPermitted, KindAuth: the job may not be asked for.
//
// command is the API command that made the job; it is used in texts and metrics.
func (w *JobWaiter) Wait(ctx context.Context, command, jobID string) (*Job, error) {
	return w.Await(ctx, Await{Command: command, JobID: jobID})
}

// Result is like Wait for a job that is known to have ended: it reads the result at once.
func (w *JobWaiter) Result(ctx context.Context, command, jobID string) (*Job, error) {
	state, err := w.query(ctx, jobID)
	if err != nil || !state.ended() {
		return w.Wait(ctx, command, jobID)
	}
	return state, state.err(command)
}

// Await is like Wait, with options. It returns nil and no error for a job that has ended but whose result was not read.
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
			*failed = *lost // lost is shared by the waiters of the job
			failed.Text = "the state of the job of " + a.Command + " cannot be read: " + lost.Text
			failed.JobID, failed.MayHaveHappened = a.JobID, true
			return nil, failed
		}
		jobDuration.WithLabelValues(a.Command).Observe(w.clock.Since(start).Seconds())
		if o.state == nil {
			return nil, nil //nolint:nilnil // the third outcome, which callers request with Unread
		}
		job := *o.state // shared by all waiters of the job
		return &job, job.err(a.Command)
	case <-timer.C():
		failed.Err, failed.Text = ErrJobTimeout, fmt.Sprintf("the job has not ended within %s and may still run",
			w.timeout)
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
		j = &waitedJob{id: a.JobID, seq: w.seq, since: w.clock.Now().Add(-a.Age), waiters: map[chan outcome]struct{}{}}
		w.jobs[a.JobID] = j
	}

	j.waiters[out] = struct{}{}
	j.read = j.read || !a.Unread
	if known {
		return out
	}

	switch {
	case a.Age < longJob:
		w.interval = minPoll
	case len(w.jobs) == 1:
		w.interval = longestPoll(a.Age)
	}

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

// leave removes a waiter. Polling ends with the last one.
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

// stopLocked ends polling if nobody waits. The caller holds w.mu.
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

// poll polls the server until ctx ends. At most one goroutine runs it.
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

// pollOnce makes one poll. It does not retry, because the next poll follows anyway. For several jobs it lists the
// running jobs, if the role may do that, and reads the results of the jobs that are not in the list. Otherwise it
// queries one job after the other, the least queried ones first, until one still runs. The interval grows only when no
// job has ended.
func (w *JobWaiter) pollOnce(ctx context.Context) {
	w.mu.Lock()
	begun := w.clock.Now()
	w.lastPoll = begun
	jobs := slices.SortedFunc(maps.Values(w.jobs), func(a, b *waitedJob) int {
		return cmp.Or(cmp.Compare(a.asked, b.asked), cmp.Compare(a.seq, b.seq))
	})
	w.mu.Unlock()

	ended := w.ask(ctx, jobs)

	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return // nobody waits any more, or another goroutine polls for those who do
	}
	if !ended && len(jobs) > 0 {
		youngest := slices.MaxFunc(jobs, func(a, b *waitedJob) int { return a.since.Compare(b.since) })
		w.interval = min(time.Duration(float64(w.interval)*pollGrowth), longestPoll(begun.Sub(youngest.since)))
	}
	// A job that was added meanwhile may be due earlier.
	if next := begun.Add(w.interval); w.nextPoll.After(next) || !w.nextPoll.After(begun) {
		w.nextPoll = next
	}
}

// ask polls the jobs and reports whether one of them has ended.
func (w *JobWaiter) ask(ctx context.Context, jobs []*waitedJob) (ended bool) {
	var running map[string]struct{}
	list := len(jobs) > 1 && !w.role.Denied("", commandListJobs, time.Time{})
	if list {
		var err error
		if running, err = w.running(ctx); err != nil {
			w.role.Learn("", commandListJobs, err)
			w.failed(ctx, err)
			return false
		}
	}

	for _, j := range jobs {
		if _, runs := running[j.id]; runs {
			continue
		}

		w.mu.Lock()
		unread := list && !j.read
		w.mu.Unlock()
		if unread {
			w.finish(j.id, outcome{})
			ended = true
			continue
		}

		over, err := w.read(ctx, j)
		ended = ended || over
		switch {
		case over:
		case !list, ctx.Err() != nil:
			return ended
		case err == nil:
			// the list lacks a job that still runs, for example one of another account
			w.role.Note("", commandListJobs, false)
		}
	}

	return ended
}

// read queries one job. If the job has ended or cannot be queried, read sends the outcome to its waiters and returns
// true.
func (w *JobWaiter) read(ctx context.Context, j *waitedJob) (over bool, err error) {
	state, err := w.query(ctx, j.id)
	for _, final := range []Kind{KindNotFound, KindNotPermitted, KindAuth, KindInvalid} {
		if IsKind(err, final) {
			w.finish(j.id, outcome{lost: err})
			return true, nil
		}
	}
	w.failed(ctx, err)
	if err == nil && state.ended() {
		w.finish(j.id, outcome{state: state})
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j.asked++
	return false, err
}

// failed records the error of the last poll; nil if it succeeded.
func (w *JobWaiter) failed(ctx context.Context, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil || ctx.Err() == nil {
		w.lastErr = err
	}
}

// finish sends the outcome of a job to its waiters and removes the job.
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

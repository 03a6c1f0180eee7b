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

	"k8s.io/apimachinery/pkg/util/sets"
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
	running func(ctx context.Context) (sets.Set[string], error)
	clock   clock.Clock
	timeout time.Duration // for one job, from the beginning of the wait
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
	command string // that made the job
	seq     int
	since   time.Time // when it was submitted
	waiters sets.Set[*Followed]
	read    bool // somebody needs the result
	asked   int  // how many queries have found it running
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
	query func(context.Context, string) (*Job, error), running func(context.Context) (sets.Set[string], error),
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
	f := w.Follow(Await{Command: command, JobID: jobID}) //nolint:contextcheck // polls serve all callers
	defer f.Stop()

	timer := w.clock.NewTimer(w.timeout)
	defer timer.Stop()
	select {
	case <-f.Done():
		return f.Result()
	case <-timer.C():
		return nil, f.unfinished(ErrJobTimeout)
	case <-ctx.Done():
		return nil, f.unfinished(ctx.Err())
	}
}

// Result is like Wait for a job that is known to have ended: it reads the result at once.
func (w *JobWaiter) Result(ctx context.Context, command, jobID string) (*Job, error) {
	state, err := w.query(ctx, jobID)
	if err != nil || state.Status == JobPending {
		return w.Wait(ctx, command, jobID)
	}
	return state, state.err(command)
}

// Followed is a job that a caller waits for. Its context is done when the job has ended.
type Followed struct {
	context.Context
	Await
	end    context.CancelFunc
	waiter *JobWaiter
	begun  time.Time // when the wait began
	job    *Job
	err    error
}

// Follow begins to wait for a job, until it has ended or Stop is called. It starts the polling goroutine if there is
// none.
func (w *JobWaiter) Follow(a Await) *Followed {
	f := &Followed{Await: a, waiter: w, begun: w.clock.Now()}
	f.Context, f.end = context.WithCancel(context.Background())
	jobsWaiting.Inc()

	w.mu.Lock()
	defer w.mu.Unlock()
	j, known := w.jobs[a.JobID]
	if !known {
		w.seq++
		j = &waitedJob{
			id: a.JobID, command: a.Command, seq: w.seq, since: f.begun.Add(-a.Age), waiters: sets.Set[*Followed]{},
		}
		w.jobs[a.JobID] = j
	}

	j.waiters.Insert(f)
	j.read = j.read || !a.Unread
	if known {
		return f
	}

	switch {
	case a.Age < longJob:
		w.interval = minPoll
	case len(w.jobs) == 1:
		w.interval = longestPoll(a.Age)
	}

	soon := f.begun.Add(*cmp.Or(a.Due, new(minPoll)))
	if earliest := w.lastPoll.Add(minPoll); soon.Before(earliest) {
		soon = earliest
	}

	switch {
	case w.stop == nil:
		w.nextPoll = soon
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), singleTry{}, true))
		w.stop, w.wake = cancel, make(chan struct{}, 1)
		go w.poll(ctx, w.wake)
	case soon.Before(w.nextPoll):
		w.nextPoll = soon
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return f
}

// Stop ends the wait. Polling ends with the last one. Stop does nothing if the job has ended.
func (f *Followed) Stop() {
	w := f.waiter
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Err() != nil {
		return
	}
	jobsWaiting.Dec()
	waiters := w.jobs[f.JobID].waiters
	if waiters.Delete(f); len(waiters) == 0 {
		delete(w.jobs, f.JobID)
		w.stopLocked()
	}
}

// Result returns what Wait returns for a job that has ended; nothing if its result was not read.
func (f *Followed) Result() (*Job, error) { return f.job, f.err }

// Late returns an error if the job runs for longer than the configuration's job-timeout; otherwise nil.
func (f *Followed) Late() error {
	if f.Err() != nil || f.waiter.clock.Since(f.begun) < f.waiter.timeout {
		return nil //nolint:nilerr // a job that has ended is not late
	}
	return f.unfinished(ErrJobTimeout)
}

// unfinished returns the error of a wait that ends before the job.
func (f *Followed) unfinished(cause error) error {
	w := f.waiter
	text := fmt.Sprintf("the job has not ended within %s and may still run", min(w.timeout, w.clock.Since(f.begun)))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastErr != nil {
		text += "; the last poll failed: " + w.lastErr.Error()
	}
	return &Error{
		Kind: KindTransient, Command: f.Command, JobID: f.JobID, MayHaveHappened: true, Err: cause, Text: text,
	}
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
	if !ended {
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
	var running sets.Set[string]
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
		if running.Has(j.id) {
			continue
		}

		w.mu.Lock()
		unread := list && !j.read
		w.mu.Unlock()
		if unread {
			w.finish(j, nil, nil)
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

// read queries one job. If the job has ended or cannot be queried, read tells its waiters and returns true.
func (w *JobWaiter) read(ctx context.Context, j *waitedJob) (over bool, err error) {
	state, err := w.query(ctx, j.id)
	final := []Kind{KindNotFound, KindNotPermitted, KindAuth, KindInvalid}
	if e, ok := errors.AsType[*Error](err); ok && slices.Contains(final, e.Kind) {
		lost := *e
		lost.Text = "the state of the job of " + j.command + " cannot be read: " + e.Text
		lost.JobID, lost.MayHaveHappened = j.id, true
		w.finish(j, nil, &lost)
		return true, nil
	}

	w.failed(ctx, err)
	if err == nil && state.Status != JobPending {
		w.finish(j, state, state.err(j.command))
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

// finish removes a job that has ended, or whose state cannot be read, and tells its waiters.
func (w *JobWaiter) finish(j *waitedJob, state *Job, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[j.id] != j {
		return // nobody waits any more
	}
	delete(w.jobs, j.id)
	if state != nil || err == nil {
		jobDuration.WithLabelValues(j.command).Observe(w.clock.Since(j.since).Seconds())
	}
	for f := range j.waiters {
		f.job, f.err = state, err
		f.end()
		jobsWaiting.Dec()
	}
	w.stopLocked()
}

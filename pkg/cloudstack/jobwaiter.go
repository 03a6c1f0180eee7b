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

	"github.com/csccm/csccm/pkg/cloudstack/internal/sanitize"
)

const (
	pollMin    = 200 * time.Millisecond // between two polls of the process
	pollMax    = 2 * time.Second
	pollGrowth = 1.3 // of the interval, by each poll without a new job
)

// jobAPI is what the waiter needs of the client.
type jobAPI interface {
	queryJob(ctx context.Context, jobID string) (*jobState, error)
	runningJobs(ctx context.Context) (map[string]struct{}, error)
}

// JobWaiter follows jobs for all callers with shared polls (listAsyncJobs for several, the job's
// own query for one), at most one poll per 200 ms and process, at most one result read per job.
//
// One goroutine polls, and only while somebody waits. A poll that fails in
// passing fails no waiter; the next poll asks again, until the waiter's time is up.
type JobWaiter struct {
	api     jobAPI
	clock   clock.Clock
	timeout time.Duration // of one job, from the begin of Wait

	mu          sync.Mutex
	jobs        map[string]*waitedJob
	seq         int
	stop        context.CancelFunc // of the polling goroutine; nil while there is none
	wake        chan struct{}      // tells the polling goroutine of a new job; capacity 1
	interval    time.Duration
	lastPoll    time.Time // also while nobody polls: the next one begins no sooner than pollMin after it
	nextPoll    time.Time
	listRefused bool // the role forbids listAsyncJobs: ask job by job
	listHides   bool // listAsyncJobs did not show a job that ran: what it does not show may run
	turn        int  // seq of the job that was asked last
	lastErr     error
}

// waitedJob is a job somebody waits for.
type waitedJob struct {
	id      string
	seq     int
	waiters map[chan jobOutcome]struct{}
	read    bool // somebody needs the result
	// unlisted is set when listAsyncJobs does not show the job although it runs
	// (a job of another account, say): only its own query tells its state.
	unlisted bool
}

// Await says how to wait for a job.
type Await struct {
	Command, JobID string        // Command made the job; it is used in texts and metrics
	Age            time.Duration // since the job was submitted
	// Due is how long the job probably still runs: no poll is made for it before. Nil for pollMin.
	Due *time.Duration
	// Unread means that the caller can see in CloudStack's state whether the job succeeded: its result is not read
	// for this caller, unless that is what shows that the job has ended.
	Unread bool
}

// jobOutcome is what a waiter gets: a job that has ended, or why nobody can tell. It is empty for a job that has ended
// and whose result was not read.
type jobOutcome struct {
	state *jobState
	err   *Error
}

func newJobWaiter(api jobAPI, cl clock.Clock, timeout time.Duration) *JobWaiter {
	registerMetrics() // before anything is counted: registering creates them again
	return &JobWaiter{
		api: api, clock: cl, timeout: timeout,
		jobs: map[string]*waitedJob{},
	}
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
	state, err := w.api.queryJob(ctx, jobID)
	if err != nil || !state.ended() {
		return w.Wait(ctx, command, jobID)
	}
	return &state.Job, state.err(command)
}

// Await is Wait, the caller's way. It returns nil and no error for a job that has ended and whose result was not read.
func (w *JobWaiter) Await(ctx context.Context, a Await) (*Job, error) {
	command, jobID := a.Command, a.JobID
	if jobID == "" {
		return nil, &Error{Kind: KindInvalid, Command: command, Text: "there is no job to wait for"}
	}
	start := w.clock.Now().Add(-a.Age)
	out := w.join(a) //nolint:contextcheck // the poller serves all callers and outlives this one
	defer w.leave(jobID, out)
	jobsWaiting.Inc()
	defer jobsWaiting.Dec()
	timer := w.clock.NewTimer(w.timeout)
	defer timer.Stop()
	select {
	case o := <-out:
		if o.err != nil {
			e := *o.err // shared by all waiters of the job
			e.Text = "the state of the job of " + command + " cannot be read: " + e.Text
			e.JobID, e.MayHaveHappened = jobID, true
			return nil, &e
		}
		jobDuration.WithLabelValues(command).Observe(w.clock.Since(start).Seconds())
		if o.state == nil {
			return nil, nil //nolint:nilnil // the third outcome, which the caller has asked for
		}
		job := o.state.Job
		return &job, o.state.err(command)
	case <-timer.C():
		return nil, &Error{
			Kind: KindTransient, Command: command, JobID: jobID, MayHaveHappened: true, Err: ErrJobTimeout,
			Text: fmt.Sprintf("the job has not ended within %s and may still run%s", w.timeout, w.lastErrText()),
		}
	case <-ctx.Done():
		return nil, &Error{
			Kind: KindTransient, Command: command, JobID: jobID, MayHaveHappened: true, Err: ctx.Err(),
			Text: "stopped waiting for the job, which may still run" + w.lastErrText(),
		}
	}
}

func (w *JobWaiter) lastErrText() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastErr == nil {
		return ""
	}
	return "; the last poll failed: " + w.lastErr.Error()
}

// join registers a waiter and sees to it that somebody polls.
func (w *JobWaiter) join(a Await) chan jobOutcome {
	out := make(chan jobOutcome, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	j, known := w.jobs[a.JobID]
	if !known {
		w.seq++
		j = &waitedJob{id: a.JobID, seq: w.seq, waiters: map[chan jobOutcome]struct{}{}}
		w.jobs[a.JobID] = j
	}
	j.waiters[out] = struct{}{}
	j.read = j.read || !a.Unread
	if known {
		return out
	}
	w.interval = pollMin
	soon := w.clock.Now().Add(*cmp.Or(a.Due, new(pollMin)))
	if earliest := w.lastPoll.Add(pollMin); soon.Before(earliest) {
		soon = earliest
	}
	if w.stop == nil {
		w.nextPoll = soon
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), singleTry{}, true)) // the next poll asks again
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
func (w *JobWaiter) leave(jobID string, out chan jobOutcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[jobID]; j != nil {
		delete(j.waiters, out)
		if len(j.waiters) == 0 {
			delete(w.jobs, jobID)
		}
	}
	if len(w.jobs) == 0 {
		w.stopLocked()
	}
}

func (w *JobWaiter) stopLocked() {
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

// pollOnce asks once: for one job by its own query, for several by one list,
// and reads the results of those that have vanished from the list.
func (w *JobWaiter) pollOnce(ctx context.Context) {
	w.mu.Lock()
	now := w.clock.Now()
	w.nextPoll = now.Add(w.interval)
	w.interval = min(time.Duration(float64(w.interval)*pollGrowth), pollMax)
	listed, single := w.planLocked()
	if single != "" || len(listed) > 0 {
		w.lastPoll = now
	}
	w.mu.Unlock()

	if single != "" {
		w.read(ctx, single)
		return
	}
	if len(listed) == 0 {
		return
	}
	running, err := w.api.runningJobs(ctx)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case IsKind(err, KindNotPermitted):
			w.listRefused = true
		case ctx.Err() == nil:
			w.lastErr = err
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
		if w.unread(id) {
			w.finish(id, jobOutcome{})
			continue
		}
		if w.read(ctx, id) {
			w.mu.Lock()
			if j := w.jobs[id]; j != nil {
				j.unlisted, w.listHides = true, true
			}
			w.mu.Unlock()
		}
	}
}

// unread reports whether nobody needs the result of a job that is no longer listed.
func (w *JobWaiter) unread(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	return j != nil && !j.read && !w.listHides
}

// planLocked decides what this poll asks: a list for the given jobs, or a single job.
// Jobs that have to be asked one by one take turns with the list.
func (w *JobWaiter) planLocked() (listed []string, single string) {
	jobs := slices.SortedFunc(maps.Values(w.jobs), func(a, b *waitedJob) int { return cmp.Compare(a.seq, b.seq) })
	if len(jobs) == 0 {
		return nil, ""
	}
	for _, j := range jobs {
		if !j.unlisted && !w.listRefused {
			listed = append(listed, j.id)
		}
	}
	if len(listed) >= 2 {
		jobs = slices.DeleteFunc(jobs, func(j *waitedJob) bool { return !j.unlisted })
		if len(jobs) == 0 || w.turn >= jobs[len(jobs)-1].seq {
			w.turn = 0
			return listed, ""
		}
	}
	next := jobs[max(0, slices.IndexFunc(jobs, func(j *waitedJob) bool { return j.seq > w.turn }))]
	w.turn = next.seq
	return nil, next.id
}

// read asks for one job and tells its waiters when it has ended or cannot be
// followed. It reports whether the job still runs.
func (w *JobWaiter) read(ctx context.Context, id string) (pending bool) {
	state, err := w.api.queryJob(ctx, id)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Kind: KindUnknown, Command: commandQueryJob, Text: sanitize.Text(err.Error())}
		}
		switch e.Kind {
		case KindNotFound, KindNotPermitted, KindAuth, KindInvalid:
			w.finish(id, jobOutcome{err: e})
		case KindUnknown, KindThrottled, KindConflict, KindLimit, KindCapacity, KindTransient, KindJobFailed:
			if ctx.Err() == nil {
				w.mu.Lock()
				w.lastErr = e
				w.mu.Unlock()
			}
		}
		return false
	}
	w.mu.Lock()
	w.lastErr = nil
	w.mu.Unlock()
	if !state.ended() {
		return true
	}
	w.finish(id, jobOutcome{state: state})
	return false
}

// finish tells the waiters of a job and forgets it.
func (w *JobWaiter) finish(id string, o jobOutcome) {
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
	if len(w.jobs) == 0 {
		w.stopLocked()
	}
}

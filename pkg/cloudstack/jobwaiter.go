// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack/internal/poll"
)

// jobAPI is what the waiter needs of the client.
type jobAPI interface {
	queryJob(ctx context.Context, jobID string) (*jobState, error)
	runningJobs(ctx context.Context) (map[string]struct{}, error)
}

// JobWaiter waits for jobs with polls that all callers share.
type JobWaiter struct {
	api     jobAPI
	poller  *poll.Poller[jobState]
	clock   clock.Clock
	timeout time.Duration // of one job, from the begin of Wait
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

func newJobWaiter(api jobAPI, cl clock.Clock, timeout time.Duration) *JobWaiter {
	registerMetrics() // before anything is counted: registering creates them again
	return &JobWaiter{api: api, clock: cl, timeout: timeout, poller: poll.New(polledJobs{api}, cl, timeout)}
}

// polledJobs are the jobs as the poller asks for them.
type polledJobs struct{ api jobAPI }

// Query reads a job once, and does not try again: the next poll does.
func (j polledJobs) Query(ctx context.Context, id string) (*jobState, bool, error) {
	state, err := j.api.queryJob(context.WithValue(ctx, singleTry{}, true), id)
	return state, err == nil && state.ended(), err
}

// Running lists the jobs that run, and does not try again: the next poll does.
func (j polledJobs) Running(ctx context.Context) (map[string]struct{}, error) {
	return j.api.runningJobs(context.WithValue(ctx, singleTry{}, true))
}

// Final reports whether a job cannot be asked for at all.
func (polledJobs) Final(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Kind == KindNotFound || e.Kind == KindNotPermitted || e.Kind == KindAuth || e.Kind == KindInvalid)
}

// Forbidden reports whether the role may not list jobs.
func (polledJobs) Forbidden(err error) bool { return IsKind(err, KindNotPermitted) }

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
	if a.JobID == "" {
		return nil, &Error{Kind: KindInvalid, Command: a.Command, Text: "there is no job to wait for"}
	}
	start := w.clock.Now().Add(-a.Age)
	jobsWaiting.Inc()
	defer jobsWaiting.Dec()
	o := w.poller.Await(ctx, a.JobID, *cmp.Or(a.Due, new(poll.Min)), a.Unread)
	failed := &Error{Kind: KindTransient, Command: a.Command, JobID: a.JobID, MayHaveHappened: true, Err: o.Stopped}
	switch lost, _ := errors.AsType[*Error](o.Lost); {
	case lost != nil:
		e := *lost // shared by all waiters of the job
		e.Text = "the state of the job of " + a.Command + " cannot be read: " + e.Text
		e.JobID, e.MayHaveHappened = a.JobID, true
		return nil, &e
	case errors.Is(o.Stopped, poll.ErrTimeout):
		failed.Err = ErrJobTimeout
		failed.Text = fmt.Sprintf("the job has not ended within %s and may still run", w.timeout)
	case o.Stopped != nil:
		failed.Text = "stopped waiting for the job, which may still run"
	default:
		jobDuration.WithLabelValues(a.Command).Observe(w.clock.Since(start).Seconds())
		if o.State == nil {
			return nil, nil //nolint:nilnil // the third outcome, which the caller has asked for
		}
		job := o.State.Job
		return &job, o.State.err(a.Command)
	}
	if o.LastPoll != nil {
		failed.Text += "; the last poll failed: " + o.LastPoll.Error()
	}
	return nil, failed
}

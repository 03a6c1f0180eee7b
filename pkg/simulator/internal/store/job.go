// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"time"
)

// LastJobOn returns the pending job on the subject that ends last.
func (st *State) LastJobOn(subject any) *Job {
	var last *Job
	for _, j := range st.Due {
		if j.Subject == subject && (last == nil || !j.Ends.Before(last.Ends)) {
			last = j
		}
	}
	return last
}

// jobIndex finds the pending jobs of an object and the jobs to purge without a scan of all jobs.
type jobIndex struct {
	pending map[any][]*Job // by subject, in order of submission
	done    []*Job         // completed, but not purged, in the order of completion
}

// Began adds a job that was submitted.
func (x *jobIndex) Began(j *Job) {
	if j.Subject == nil {
		return
	}
	if x.pending == nil {
		x.pending = map[any][]*Job{}
	}
	x.pending[j.Subject] = append(x.pending[j.Subject], j)
}

// Ended removes a completed job from the pending jobs of its subject and keeps it until it is purged.
func (x *jobIndex) Ended(j *Job, subject any) {
	x.done = append(x.done, j)
	if subject == nil {
		return
	}
	remaining := slices.DeleteFunc(x.pending[subject], func(o *Job) bool { return o == j })
	if len(remaining) == 0 {
		delete(x.pending, subject)
		return
	}
	x.pending[subject] = remaining
}

// PendingOn returns the pending job of an object that ends first, if any.
func (x *jobIndex) PendingOn(subject any) *Job {
	var first *Job
	for _, j := range x.pending[subject] {
		if first == nil || j.Due.Before(first.Due) {
			first = j
		}
	}
	return first
}

// PurgeJobs deletes jobs that completed more than job.expire.minutes ago.
func (st *State) PurgeJobs(now time.Time) {
	limit := now.Add(-time.Duration(st.IntSetting("job.expire.minutes")) * time.Minute)
	n := 0
	for n < len(st.done) && !st.done[n].Completed.After(limit) {
		n++
	}
	if n == 0 {
		return
	}
	for _, j := range st.done[:n] {
		delete(st.Jobs.ByUUID, strings.ToLower(j.UUID))
		j.Removed = true
	}
	st.Jobs.Rows = slices.DeleteFunc(st.Jobs.Rows, func(j *Job) bool { return j.Removed })
	st.done = slices.Clone(st.done[n:])
}

// Job states.
const (
	JobPending = 0
	JobDone    = 1
	JobFailed  = 2
)

// Job is a row of async_job.
type Job struct {
	Entity
	Caller       Caller
	Command      string
	Class        string
	InstanceType string
	InstanceID   string
	Subject      any
	Due          time.Time // end of the current step, or of the job after the last step
	Ends         time.Time
	Steps        []JobStep     // the current step and those after it
	Passed       int           // number of steps that ended
	Last         time.Duration // time from the end of the last step to Run
	Run          func(now time.Time) (any, error)
	Undo         func()
	Broken       bool // the management server was restarted while the job ran
	Events       *JobEvents

	Status    int
	Code      int
	Result    json.RawMessage
	Completed time.Time
}

// JobStep is a part of a job's work. The job fails with the error of the first step that returns one.
type JobStep struct {
	Takes time.Duration
	Do    func(now time.Time) error // the effect of the step, when it ends
	// Outside, if not nil, starts when the step begins, and runs without the simulator's lock. When it returns, the
	// step ends with the effect that it returned. If it takes longer than Takes, the step ends with Do instead.
	Outside func(ctx context.Context) func(now time.Time) error
}

// Remaining returns how long the job takes from the beginning of its current step.
func (j *Job) Remaining() time.Duration {
	d := j.Last
	for _, s := range j.Steps {
		d += s.Takes
	}
	return d
}

// Enqueue adds a pending job to Due, which is sorted by the time at which the jobs are due.
func (st *State) Enqueue(j *Job) {
	i := sort.Search(len(st.Due), func(i int) bool { return st.Due[i].Due.After(j.Due) })
	st.Due = append(st.Due, nil)
	copy(st.Due[i+1:], st.Due[i:])
	st.Due[i] = j
}

// NextDue returns the time at which the next job is due in Unix nanoseconds, or 0 if none is pending.
func (st *State) NextDue() int64 {
	if len(st.Due) == 0 {
		return 0
	}
	return st.Due[0].Due.UnixNano()
}

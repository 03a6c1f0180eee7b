// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

// jobIndex finds the pending jobs of an object and the jobs to purge without a scan of all jobs.
type jobIndex struct {
	pending map[any][]*job // by subject, in order of submission
	done    []*job         // completed, but not purged, in the order of completion
}

// began adds a job that was submitted.
func (x *jobIndex) began(j *job) {
	if j.subject == nil {
		return
	}
	if x.pending == nil {
		x.pending = map[any][]*job{}
	}
	x.pending[j.subject] = append(x.pending[j.subject], j)
}

// ended removes a completed job from the pending jobs of its subject and keeps it until it is purged.
func (x *jobIndex) ended(j *job, subject any) {
	x.done = append(x.done, j)
	if subject == nil {
		return
	}
	left := slices.DeleteFunc(x.pending[subject], func(o *job) bool { return o == j })
	if len(left) == 0 {
		delete(x.pending, subject)
		return
	}
	x.pending[subject] = left
}

// pendingOn returns the pending job of an object that ends first, if any.
func (x *jobIndex) pendingOn(subject any) *job {
	var first *job
	for _, j := range x.pending[subject] {
		if first == nil || j.due.Before(first.due) {
			first = j
		}
	}
	return first
}

// purgeJobs deletes jobs that completed more than job.expire.minutes ago.
func (st *state) purgeJobs(now time.Time) {
	limit := now.Add(-st.settings.jobExpiry())
	n := 0
	for n < len(st.done) && !st.done[n].completed.After(limit) {
		n++
	}
	if n == 0 {
		return
	}
	for _, j := range st.done[:n] {
		delete(st.jobs.byUUID, strings.ToLower(j.uuid))
		j.removed = true
	}
	st.jobs.rows = slices.DeleteFunc(st.jobs.rows, func(j *job) bool { return j.removed })
	st.done = slices.Clone(st.done[n:])
}

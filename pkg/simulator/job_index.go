// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

// jobIndex finds the jobs of an object and those to purge without a look at all jobs.
type jobIndex struct {
	pending map[any][]*job // by subject, in order of submission
	done    []*job         // ended and not purged yet, in the order of their end
}

// began enters a job that was submitted.
func (x *jobIndex) began(j *job) {
	if j.subject == nil {
		return
	}
	if x.pending == nil {
		x.pending = map[any][]*job{}
	}
	x.pending[j.subject] = append(x.pending[j.subject], j)
}

// ended takes a job that has ended out of the pending ones of its subject and keeps it until it is purged.
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

// purgeJobs forgets jobs that ended longer ago than job.expire.minutes.
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

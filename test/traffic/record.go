// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Report is what the clients saw in a part of the run.
type Report struct {
	Name       string
	Took       time.Duration
	Requests   int
	Failures   int
	LongestGap time.Duration  // the longest time without an answer of any one target
	Cut        int            // open connections that broke
	Errors     map[string]int // by target and text
	Answers    map[string]int // by target and backend
}

// Err returns nil if no request failed and no connection was cut.
func (r *Report) Err() error {
	if r.Failures == 0 && r.Cut == 0 {
		return nil
	}
	var texts []string
	for _, k := range slices.Sorted(maps.Keys(r.Errors)) {
		texts = append(texts, fmt.Sprintf("%d x %s", r.Errors[k], k))
	}
	return fmt.Errorf("%s: %d of %d requests failed, %d connections were cut, longest gap %s:\n  %s",
		r.Name, r.Failures, r.Requests, r.Cut, r.LongestGap.Round(time.Millisecond), strings.Join(texts, "\n  "))
}

// record collects data for the report of a part of the run.
type record struct {
	mu     sync.Mutex
	began  time.Time
	report Report
	last   map[string]time.Time // the last answer of each target
	ended  bool                 // no more requests are sent: late answers count, but not as the end of a gap
}

func newRecord(name string, targets []string, now time.Time) *record {
	report := Report{Name: name, Errors: map[string]int{}, Answers: map[string]int{}}
	r := &record{began: now, report: report, last: map[string]time.Time{}}
	for _, t := range targets {
		r.last[t] = now
	}
	return r
}

// answered counts a request that a backend has answered.
func (r *record) answered(target, backend string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Requests++
	r.report.Answers[target+" "+backend]++
	r.gap(target, at)
	if at.After(r.last[target]) {
		r.last[target] = at
	}
}

func (r *record) gap(target string, at time.Time) {
	if r.ended {
		return
	}
	r.report.LongestGap = max(r.report.LongestGap, at.Sub(r.last[target]))
}

// endGaps ends the measurement of gaps at now, because no more requests are sent.
func (r *record) endGaps(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaps(now)
	r.ended = true
}

func (r *record) gaps(now time.Time) {
	for target := range r.last {
		r.gap(target, now)
	}
}

// failed counts a request without a correct answer.
func (r *record) failed(target string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Requests++
	r.report.Failures++
	r.report.Errors[target+": "+err.Error()]++
}

// cut counts an open connection that broke.
func (r *record) cut(target string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Cut++
	r.report.Errors[target+": an open connection: "+err.Error()]++
}

// end returns the part's report. The last gap of a target lasts until now.
func (r *record) end(now time.Time) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaps(now)
	out := r.report
	out.Took, out.Errors, out.Answers = now.Sub(r.began), maps.Clone(out.Errors), maps.Clone(out.Answers)
	return out
}

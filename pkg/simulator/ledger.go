// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Call is a request that the simulator answered.
type Call struct {
	Seq     int               `json:"seq"`              // 1 is the first call since the last reset
	At      time.Time         `json:"at"`               // when it was answered
	Took    time.Duration     `json:"took"`             // from the request to the answer
	Command string            `json:"command"`          // as sent; empty if there was none
	Caller  string            `json:"caller,omitempty"` // user name; empty for unauthenticated calls
	Params  map[string]string `json:"params"`           // by lower-case name, without secrets
	// Status is the HTTP status; 0 if the connection was closed without an answer.
	Status    int    `json:"status"`
	ErrorCode int    `json:"errorCode,omitempty"` // CloudStack's errorcode; 0 on success
	JobID     string `json:"jobID,omitempty"`     // the job that the call started
	JobStatus int    `json:"jobStatus,omitempty"` // its current jobstatus: 0 pending, 1 succeeded, 2 failed
	JobCode   int    `json:"jobCode,omitempty"`   // jobresultcode of a failed job
}

// ledgerLimit limits the memory of a simulator that runs for days; calls beyond it are still counted.
const ledgerLimit = 100_000

// ledgerEntry is the compact form in which calls are stored, because most are never read.
type ledgerEntry struct {
	at, took               int64 // Unix nanoseconds, and nanoseconds
	seq, status, code      int
	command, caller, jobID string
	params                 []wire.Param
}

// Ledger records every call, so that tests can assert API call budgets.
type Ledger struct {
	// jobs adds the outcomes of the jobs that the calls started.
	jobs func([]Call)

	mu     sync.Mutex
	seq    int
	calls  []ledgerEntry
	counts map[string]int
}

func newLedger() *Ledger { return &Ledger{counts: map[string]int{}} }

// Calls returns the calls since the last reset, in the order in which they were answered. If there were too many, it
// returns only the newest.
func (l *Ledger) Calls() []Call { return l.Find("", "") }

// Find returns the calls whose command matches a name or a pattern with * and that come from the caller; an empty
// string matches all.
func (l *Ledger) Find(command, caller string) []Call {
	pattern, out := Fault{Command: command}, []Call{}
	l.mu.Lock()
	for i := range l.calls {
		if e := &l.calls[i]; pattern.MatchesCommand(e.command) && (caller == "" || caller == e.caller) {
			out = append(out, e.call())
		}
	}
	l.mu.Unlock()
	return l.withJobs(out)
}

// Newest returns calls, newest first: all calls since a time, and older ones until there are atLeast.
func (l *Ledger) Newest(since time.Time, atLeast int) []Call {
	out := []Call{}
	l.mu.Lock()
	for i := len(l.calls) - 1; i >= 0 && (len(out) < atLeast || l.calls[i].at >= since.UnixNano()); i-- {
		out = append(out, l.calls[i].call())
	}
	l.mu.Unlock()
	return l.withJobs(out)
}

func (l *Ledger) withJobs(calls []Call) []Call {
	if l.jobs != nil {
		l.jobs(calls)
	}
	return calls
}

func (e *ledgerEntry) call() Call {
	params := make(map[string]string, len(e.params))
	for _, p := range e.params {
		params[p.Name] = p.Value
	}
	return Call{
		Seq:       e.seq,
		At:        time.Unix(0, e.at).UTC(),
		Took:      time.Duration(e.took),
		Command:   e.command,
		Caller:    e.caller,
		Params:    params,
		Status:    e.status,
		ErrorCode: e.code,
		JobID:     e.jobID,
	}
}

// Reset clears the ledger.
func (l *Ledger) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq, l.calls, l.counts = 0, nil, map[string]int{}
}

// Count returns the number of calls of the commands since the last reset; without names, of all calls.
func (l *Ledger) Count(commands ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(commands) == 0 {
		return l.seq
	}
	n := 0
	for _, c := range commands {
		n += l.counts[c]
	}
	return n
}

// Counts returns the number of calls of each command since the last reset.
func (l *Ledger) Counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

func (l *Ledger) add(e ledgerEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.seq = l.seq
	l.counts[e.command]++
	if len(l.calls) >= ledgerLimit {
		l.calls = append(l.calls[:0:0], l.calls[ledgerLimit/2:]...)
	}
	l.calls = append(l.calls, e)
}

// record records a call that began at the time began, with its outcome.
func (s *Simulator) record(ctx context.Context, req *wire.Request, o *outcome, began time.Time) {
	now := s.server.Clock.Now()
	e := ledgerEntry{
		command: req.Command,
		caller:  o.caller,
		status:  200,
		params:  public(req),
		at:      now.UnixNano(),
		took:    now.Sub(began).Nanoseconds(),
	}

	switch {
	case o.cut:
		e.status = 0
	case o.err != nil:
		e.status, e.code = o.err.Status, o.err.Status
	}

	if a, ok := o.body.(wire.Submitted); ok {
		e.jobID = a.JobID
	}

	s.ledger.add(e)
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.Debug("call", "command", e.command, "caller", e.caller, "status", e.status, "params", e.call().Params)
	}
}

// jobOutcomes sets the outcomes of the jobs that the calls started.
func (s *Simulator) jobOutcomes(calls []Call) {
	s.runDue()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range calls {
		if calls[i].JobID == "" {
			continue
		}
		if j, ok := s.st.Jobs.Get(calls[i].JobID); ok {
			calls[i].JobStatus, calls[i].JobCode = j.Status, j.Code
		}
	}
}

// public returns the parameters without secrets, by lower-case name.
func public(q *wire.Request) []wire.Param {
	out := make([]wire.Param, 0, len(q.Raw))
	for _, p := range q.Raw {
		name := strings.ToLower(p.Name)
		if !wire.SecretParams[name] {
			out = append(out, wire.Param{Name: name, Value: p.Value})
		}
	}
	return out
}

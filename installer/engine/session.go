// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/redact"
	"github.com/csccm/csccm/pkg/version"
)

// Step is a part of a run. It records its changes with Env.Note.
type Step struct {
	Name string
	// ReadOnly steps change nothing and are not in the journal.
	ReadOnly bool
	// Shielded steps that have begun run to their end if the run is interrupted.
	Shielded bool
	// Back says how to revert the step if it fails; "" if there is nothing to revert.
	Back string
	Do   func(ctx context.Context) error
}

// session is one run of a command. It writes an entry to the journal before and after each step, so that after ^C, a
// crash or a lost connection the operator knows where the run stopped. The journal is a file on the operator's machine.
// It contains names of steps and objects, never secrets.
type session struct {
	back  string // how to revert a run that was stopped; may be ""
	env   *Env
	name  string
	begun bool     // whether a step that changes something has begun
	file  *os.File // nil without a journal

	mu   sync.Mutex // protects done: a step may run goroutines
	done []string   // what the steps have noted
}

// entry is one line of the journal.
type entry struct {
	Time time.Time `json:"time"`
	// Event is run, begin, done, failed or end. A step with only a begin entry may be partly done.
	Event   string `json:"event"`
	Command string `json:"command,omitempty"` // only in run
	Version string `json:"version,omitempty"` // version of csccm; only in run
	Step    string `json:"step,omitempty"`
	// Detail lists what was changed, one change per line.
	Detail []string `json:"detail,omitempty"`
	Error  string   `json:"error,omitempty"`
}

// Note records a change made by the current step.
func (e *Env) Note(format string, args ...any) {
	if s := e.session; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done = append(s.done, fmt.Sprintf(format, args...))
	}
}

// begin records that a step begins. If it returns an error, the step must not run.
func (s *session) begin(step string) (err error) {
	path := s.env.Journal
	if !s.begun && path != "" {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			// #nosec G304 -- the user names it
			s.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		}
	}

	if err == nil && !s.begun {
		err = s.write(entry{Event: "run", Command: s.name, Version: version.Version})
	}

	if err == nil {
		err = s.write(entry{Event: "begin", Step: step})
	}

	if err == nil {
		s.begun = true
		return nil
	}

	state, again := "nothing has been changed", "run the command again"
	if s.begun {
		state, again = "stopped before the next step", again+": it continues where it stopped"
	}

	if cause, ok := errors.AsType[*os.PathError](err); ok { // the message already contains the path
		err = cause.Err
	}

	return report.Errorf(
		"free space on that disk, or name another file with --journal, and "+again,
		"cannot write the journal %s: %w; %s", path, err, state,
	)
}

// ended records how a step or the run ended. What was done cannot be undone, so an error of the journal is only a
// warning.
func (s *session) ended(e entry, err error) {
	if err != nil {
		e.Error = s.env.Scrubbed(err.Error())
	}
	if err := s.write(e); err != nil {
		s.env.Progress.Warn("cannot write the journal: %v", err)
	}
}

// write appends a line and syncs the file.
func (s *session) write(e entry) error {
	if s.file == nil {
		return nil
	}

	e.Time = s.env.Clock.Now().UTC()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = s.file.WriteString(redact.URLs(string(line)) + "\n")
	}
	if err == nil {
		err = s.file.Sync()
	}
	// Pipes and terminals cannot be synced.
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// close records how the run ended.
func (s *session) close(err error) {
	if s.begun {
		s.ended(entry{Event: "end"}, err)
	}
	_ = s.file.Close() // each line is already synced
}

// step runs a step. ^C ends the run before the next step.
func (s *session) step(ctx context.Context, step *Step) error {
	if ctx.Err() != nil {
		return s.stopped(ctx, step.Name)
	}
	if !step.ReadOnly {
		if err := s.begin(step.Name); err != nil {
			return err
		}
	}

	before, do := len(s.done), step.Do
	if step.Shielded {
		do = func(ctx context.Context) error { return Shielded(ctx, step.Do) }
	}
	err := s.env.Cluster.Explain(do(ctx))

	fix := report.RemedyOf(err)
	failed := err != nil && ctx.Err() == nil
	if failed && !strings.Contains(fix, step.Back) { // false if Back is empty
		err = report.Remedied(err, strings.TrimPrefix(fix+"; "+step.Back, "; "))
	}

	if !step.ReadOnly {
		event := "done"
		if err != nil {
			event = "failed"
		}
		s.ended(entry{Event: event, Step: step.Name, Detail: s.done[before:]}, err)
	}

	switch {
	case err == nil:
		s.env.Progress.Done("") // end the progress line of a step that has not ended it
	case ctx.Err() == nil:
		s.env.Progress.Fail("") // end the progress line that the step has begun
	case report.Interrupted(err), errors.Is(err, context.Cause(ctx)):
		return s.stopped(ctx, step.Name)
	}
	return err
}

// stopped returns the error for a run that ended before its last step.
func (s *session) stopped(ctx context.Context, step string) error {
	e := report.Errorf(
		"run the same command again: it continues where it stopped",
		"stopped before the end of step %q: %w", step, context.Cause(ctx),
	)
	if !s.begun {
		e.Err = fmt.Errorf("%w; nothing was changed", e.Err)
		return e
	}
	if s.back != "" {
		e.Fix += "; " + s.back
	}
	if s.file != nil {
		e.Fix += "; what was done is in " + s.file.Name()
	}
	return e
}

// Shielded runs do without the cancellation of ctx, with a time limit of its own.
func Shielded(ctx context.Context, do func(context.Context) error) error {
	const limit = 3 * time.Minute
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return do(sctx)
}

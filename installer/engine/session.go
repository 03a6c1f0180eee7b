// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/csccm/csccm/installer/engine/journal"
	"github.com/csccm/csccm/installer/engine/report"
)

// Note records what a step changed.
type Note = func(format string, args ...any)

// Step is a part of a run.
type Step struct {
	Name string
	// ReadOnly steps change nothing and are not in the journal.
	ReadOnly bool
	Do       func(ctx context.Context, note Note) error
}

// Session is one run of a command: steps with an entry in the journal before and after each.
type Session struct {
	env     *Env
	name    string
	back    string
	journal *journal.Journal // nil until something is changed
	done    []string         // what the steps have noted
}

// Session returns the session of a command. back says how to undo it, for a run that was stopped.
func (e *Env) Session(name, back string) *Session { return &Session{env: e, name: name, back: back} }

// Open opens the journal. The first step that changes something does it otherwise.
func (s *Session) Open() error {
	if s.journal != nil {
		return nil
	}
	e := s.env
	j := &journal.Journal{Path: e.Journal, Clock: e.Clock, Command: s.name, Scrub: e.Scrub, Warn: e.Progress.Warn}
	err := j.Open()
	if err == nil {
		s.journal = j
	}
	return err
}

// Close records how the run ended.
func (s *Session) Close(err error) {
	if s.journal != nil {
		s.journal.Close(err)
	}
}

// Done returns what the steps have changed.
func (s *Session) Done() []string { return s.done }

// Run carries steps out. ^C ends the run between two steps.
func (s *Session) Run(ctx context.Context, steps ...Step) error {
	for i := range steps {
		if err := s.step(ctx, &steps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) step(ctx context.Context, step *Step) error {
	if ctx.Err() != nil {
		return s.stopped(ctx, step.Name)
	}
	var mu sync.Mutex // steps may do several things at a time
	before := len(s.done)
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		s.done = append(s.done, fmt.Sprintf(format, args...))
	}
	if !step.ReadOnly {
		if err := s.Open(); err != nil {
			return err
		}
		if err := s.journal.Begin(step.Name); err != nil {
			return err
		}
	}
	err := step.Do(ctx, note)
	if !step.ReadOnly {
		s.journal.Finish(step.Name, err, s.done[before:]...)
	}
	if err != nil && ctx.Err() == nil {
		s.env.Progress.Fail("") // what the step has begun to show
	}
	if err == nil || ctx.Err() == nil {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx)) {
		return s.stopped(ctx, step.Name)
	}
	return err
}

// stopped is the error of a run that ended before its last step.
func (s *Session) stopped(ctx context.Context, step string) error {
	e := &report.Error{
		What: fmt.Sprintf("stopped before the end of step %q", step), Err: context.Cause(ctx),
		Fix: "run the same command again: it continues where it stopped",
	}
	if s.journal == nil {
		e.Err = fmt.Errorf("%w; nothing was changed", e.Err)
		return e
	}
	if s.back != "" {
		e.Fix += "; " + s.back
	}
	if path := s.journal.Path; path != "" {
		e.Fix += "; what was done is in " + path
	}
	return e
}

// Shielded runs do to its end although ctx is cancelled meanwhile; it has its own time limit.
func Shielded(ctx context.Context, do func(context.Context) error) error {
	const limit = 3 * time.Minute
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return do(sctx)
}

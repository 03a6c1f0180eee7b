// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal records what a command is about to do and did, so that after
// ^C, a crash or a lost connection the next run and the operator know where it
// ended. The record is in a file of the operator's machine, written before each
// step, and as a copy in a ConfigMap of the cluster, for another machine. It
// holds names of steps and objects, never a secret.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/version"
)

// Events of an Entry.
const (
	EventRun    = "run"    // a run begins
	EventBegin  = "begin"  // a step begins; without an end after it, the step may be half done
	EventDone   = "done"   // a step ended well
	EventFailed = "failed" // a step ended with an error
	EventEnd    = "end"    // the run ended, with an error or without
)

// Entry is one line of a journal.
type Entry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Command string    `json:"command,omitempty"` // of EventRun
	Version string    `json:"version,omitempty"` // of csccm, with EventRun
	Step    string    `json:"step,omitempty"`
	// Detail says what was changed, one thing a line.
	Detail []string `json:"detail,omitempty"`
	Error  string   `json:"error,omitempty"`
}

// Options say where a journal is kept.
type Options struct {
	// Path of the file, which is appended to; "" keeps none.
	Path string
	// Kube and Namespace are where Publish puts the copy.
	Kube      kubernetes.Interface
	Namespace string
	Clock     clock.PassiveClock
	Command   string // install, uninstall ...
	// Scrub removes secrets from the text of errors; may be nil.
	Scrub func(string) string
	// Warn says that the copy cannot be kept; may be nil.
	Warn func(format string, args ...any)
}

// Journal is the record of one run. It is for one goroutine.
type Journal struct {
	o       Options
	file    *os.File
	entries []Entry
	publish bool
	warned  bool
}

// Error is a journal that cannot be written.
type Error struct {
	Path    string
	Changed bool // something was changed before
	Err     error
}

func (e *Error) Error() string {
	state := "nothing has been changed"
	if e.Changed {
		state = "stopped before the next step"
	}
	return fmt.Sprintf("the journal %s cannot be written: %v; %s", e.Path, cause(e.Err), state)
}

func (e *Error) Unwrap() error { return e.Err }

// Remedy says what to do about the file.
func (e *Error) Remedy() string {
	again := "run the command again"
	if e.Changed {
		again += ": it continues where it stopped"
	}
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		return "free space on that disk, or name a file on another with --journal, and " + again
	default:
		return "name a file that can be written with --journal, and " + again
	}
}

// ExitCode is that of a failure.
func (e *Error) ExitCode() int { return report.ExitFailure }

// cause leaves out the path, which the message names already.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Open begins the record of a run. Its error means that nothing was changed.
func Open(o Options) (*Journal, error) {
	j := &Journal{o: o}
	if o.Path != "" {
		if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
			return nil, &Error{Path: o.Path, Err: err}
		}
		file, err := os.OpenFile(o.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, &Error{Path: o.Path, Err: err}
		}
		j.file = file
	}
	if err := j.append(Entry{Event: EventRun, Command: o.Command, Version: version.Version}); err != nil {
		_ = j.file.Close() // the first error is the one to tell
		return nil, &Error{Path: o.Path, Err: err}
	}
	return j, nil
}

// Path is the journal's file; "" when there is none.
func (j *Journal) Path() string { return j.o.Path }

// Publish keeps a copy in the cluster from now on: a command does not change a
// cluster by its journal before it changes anything else.
func (j *Journal) Publish(ctx context.Context) {
	j.publish = true
	j.copy(ctx)
}

// Begin is called before a step, which may not begin when there is an error.
func (j *Journal) Begin(ctx context.Context, step string, detail ...string) error {
	changed := len(j.entries) > 1
	if err := j.append(Entry{Event: EventBegin, Step: step, Detail: detail}); err != nil {
		return &Error{Path: j.o.Path, Changed: changed, Err: err}
	}
	j.copy(ctx)
	return nil
}

// Finish records how a step ended. What happened has happened, so a journal
// that cannot be written is only said.
func (j *Journal) Finish(ctx context.Context, step string, err error, detail ...string) {
	e := Entry{Event: EventDone, Step: step, Detail: detail}
	if err != nil {
		e.Event, e.Error = EventFailed, j.scrub(err.Error())
	}
	if err := j.append(e); err != nil {
		j.warn("the journal %s cannot be written: %v", j.o.Path, cause(err))
	}
	j.copy(ctx)
}

// Close records how the run ended and closes the file.
func (j *Journal) Close(ctx context.Context, err error) {
	if j == nil {
		return
	}
	e := Entry{Event: EventEnd}
	if err != nil {
		e.Error = j.scrub(err.Error())
	}
	if err := j.append(e); err != nil {
		j.warn("the journal %s cannot be written: %v", j.o.Path, cause(err))
	}
	j.copy(ctx)
	if j.file != nil {
		_ = j.file.Close() // each line was synced
	}
}

func (j *Journal) scrub(text string) string {
	if j.o.Scrub == nil {
		return text
	}
	return j.o.Scrub(text)
}

func (j *Journal) warn(format string, args ...any) {
	if j.o.Warn != nil && !j.warned {
		j.warned = true
		j.o.Warn(format, args...)
	}
}

// append writes a line and waits for the disk.
func (j *Journal) append(e Entry) error {
	e.Time = j.o.Clock.Now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if j.file != nil {
		if _, err := j.file.Write(append(line, '\n')); err != nil {
			return err
		}
		// A pipe or a terminal cannot be synced, and need not.
		if err := j.file.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
			return err
		}
	}
	j.entries = append(j.entries, e)
	return nil
}

// Run is what a journal says of a run.
type Run struct {
	Command string
	Began   time.Time
	Entries []Entry
}

// Ended tells whether the run came to its end by itself, well or with an error.
func (r *Run) Ended() bool {
	return len(r.Entries) > 0 && r.Entries[len(r.Entries)-1].Event == EventEnd
}

// Failure is the error that the run ended with; "" when it went through or was killed.
func (r *Run) Failure() string {
	if !r.Ended() {
		return ""
	}
	return r.Entries[len(r.Entries)-1].Error
}

// Step is the step that was begun last.
func (r *Run) Step() string {
	for i := len(r.Entries) - 1; i >= 0; i-- {
		if r.Entries[i].Event == EventBegin {
			return r.Entries[i].Step
		}
	}
	return ""
}

// Did is the detail of the last entry of a step with that event, and whether there is one.
func (r *Run) Did(step, event string) ([]string, bool) {
	if r == nil {
		return nil, false
	}
	for i := len(r.Entries) - 1; i >= 0; i-- {
		if r.Entries[i].Event == event && r.Entries[i].Step == step {
			return r.Entries[i].Detail, true
		}
	}
	return nil, false
}

// Parse reads the last run of a journal. A last line that was cut off is left out.
func Parse(text string) (*Run, error) {
	var r *Run
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range all {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			if i == len(all)-1 {
				break // the program was killed while it wrote this line
			}
			return nil, fmt.Errorf("journal line %d: %w", i+1, err)
		}
		if e.Event == EventRun {
			r = &Run{Command: e.Command, Began: e.Time}
			continue
		}
		if r == nil {
			return nil, errors.New("no journal of csccm: the first line begins no run")
		}
		r.Entries = append(r.Entries, e)
	}
	if r == nil {
		return nil, errors.New("the journal is empty")
	}
	return r, nil
}

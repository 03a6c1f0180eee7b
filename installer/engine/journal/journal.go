// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal records the steps of a command before and after they run, so that after
// ^C, a crash or a lost connection the next run and the operator know where it
// stopped. The journal is a file on the operator's machine, written before each
// step, with a copy in a ConfigMap of the cluster for runs from another machine. It
// contains names of steps and objects, never secrets.
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

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/version"
)

// Events of an Entry.
const (
	EventRun    = "run"    // a run begins
	EventBegin  = "begin"  // a step begins; without a later done or failed, the step may be partly done
	EventDone   = "done"   // a step succeeded
	EventFailed = "failed" // a step ended with an error
	EventBefore = "before" // how something was that a step is about to change
	EventEnd    = "end"    // the run ended, with or without an error
)

// Entry is one line of a journal.
type Entry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Command string    `json:"command,omitempty"` // only in EventRun
	Version string    `json:"version,omitempty"` // version of csccm; only in EventRun
	Step    string    `json:"step,omitempty"`
	// Detail lists what was changed, one change per line.
	Detail []string `json:"detail,omitempty"`
	Error  string   `json:"error,omitempty"`
	// Before is what an undo needs; only in EventBefore.
	Before json.RawMessage `json:"before,omitempty"`
}

// Options are the settings of a journal.
type Options struct {
	// Path is the file to append to; "" means no file.
	Path string
	// Kube and Namespace are where Publish writes the copy; a nil Kube has none.
	Kube      kubernetes.Interface
	Namespace string
	Clock     clock.PassiveClock
	Command   string // install, uninstall ...
	// Scrub removes secrets from the text of errors; may be nil.
	Scrub func(string) string
	// Warn prints a warning, for example that the copy cannot be written; may be nil.
	Warn func(format string, args ...any)
}

// Journal is the journal of one run. It must be used by one goroutine only.
type Journal struct {
	o       Options
	file    *os.File
	entries []Entry
	publish bool
	warned  bool
}

// unwritable is the error of a journal that cannot be written. changed: the run has already changed something.
func unwritable(path string, changed bool, err error) error {
	state, again := "nothing has been changed", "run the command again"
	if changed {
		state, again = "stopped before the next step", again+": it continues where it stopped"
	}
	fix := "name a file that can be written with --journal, and "
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		fix = "free space on that disk, or name a file on another with --journal, and "
	}
	return report.Remedied(fmt.Errorf("the journal %s cannot be written: %w; %s", path, cause(err), state), fix+again)
}

// cause removes the path, which the message already contains.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Open starts the journal of a run. If it returns an error, the run has changed nothing yet.
func Open(o Options) (*Journal, error) {
	j := &Journal{o: o}
	if o.Path != "" {
		if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
			return nil, unwritable(o.Path, false, err)
		}
		file, err := os.OpenFile(o.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, unwritable(o.Path, false, err)
		}
		j.file = file
	}
	if err := j.append(Entry{Event: EventRun, Command: o.Command, Version: version.Version}); err != nil {
		_ = j.file.Close() // report only the first error
		return nil, unwritable(o.Path, false, err)
	}
	return j, nil
}

// Path returns the journal's file; "" if there is none.
func (j *Journal) Path() string { return j.o.Path }

// Publish writes the copy in the cluster, now and after each later entry. Commands call it with their first change:
// the journal must not change a cluster that the command has not changed.
func (j *Journal) Publish(ctx context.Context) {
	j.publish = true
	j.copy(ctx)
}

// Begin records that a step begins. If it returns an error, the step must not run.
func (j *Journal) Begin(ctx context.Context, step string, detail ...string) error {
	changed := len(j.entries) > 1
	if err := j.append(Entry{Event: EventBegin, Step: step, Detail: detail}); err != nil {
		return unwritable(j.o.Path, changed, err)
	}
	j.copy(ctx)
	return nil
}

// Record keeps how something was that the step is about to change. If it returns an error, it must not be changed. The copy in the
// cluster does not have it: a ConfigMap is too small for many of them.
func (j *Journal) Record(before any) error {
	text, err := json.Marshal(before)
	if err == nil {
		err = j.append(Entry{Event: EventBefore, Before: text})
	}
	if err != nil {
		return unwritable(j.o.Path, true, err)
	}
	return nil
}

// Finish records how a step ended. The step cannot be undone any more, so an error of the
// journal is only a warning.
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
		_ = j.file.Close() // each line is already synced
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

// append writes a line and syncs the file.
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
		// Pipes and terminals do not support sync and do not need it.
		if err := j.file.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
			return err
		}
	}
	j.entries = append(j.entries, e)
	return nil
}

// Run is one run as read from a journal.
type Run struct {
	Command string
	Began   time.Time
	Entries []Entry
}

// Ended reports whether the run ended by itself, successfully or with an error, and was not killed.
func (r *Run) Ended() bool {
	return len(r.Entries) > 0 && r.Entries[len(r.Entries)-1].Event == EventEnd
}

// Failure returns the error that the run ended with; "" if it succeeded or was killed.
func (r *Run) Failure() string {
	if !r.Ended() {
		return ""
	}
	return r.Entries[len(r.Entries)-1].Error
}

// Step returns the step that began last.
func (r *Run) Step() string {
	for i := len(r.Entries) - 1; i >= 0; i-- {
		if r.Entries[i].Event == EventBegin {
			return r.Entries[i].Step
		}
	}
	return ""
}

// Parse returns the last run of a journal. It ignores an incomplete last line.
func Parse(text string) (*Run, error) {
	all, err := entries(text)
	if err != nil {
		return nil, err
	}
	var r *Run
	for i := range all {
		if e := &all[i]; e.Event == EventRun {
			r = &Run{Command: e.Command, Began: e.Time}
		} else {
			r.Entries = append(r.Entries, *e)
		}
	}
	return r, nil
}

// Records returns what all runs of a journal have kept by Record, in that order.
func Records(text string) ([]json.RawMessage, error) {
	all, err := entries(text)
	var out []json.RawMessage
	for i := range all {
		if all[i].Event == EventBefore {
			out = append(out, all[i].Before)
		}
	}
	return out, err
}

// entries are the lines of a journal, of which the first begins a run.
func entries(text string) ([]Entry, error) {
	var out []Entry
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range all {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			if i == len(all)-1 {
				break // the program was killed while it wrote this line
			}
			return nil, fmt.Errorf("journal line %d: %w", i+1, err)
		}
		if out = append(out, e); out[0].Event != EventRun {
			return nil, errors.New("not a journal of csccm: the first line does not begin a run")
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the journal is empty")
	}
	return out, nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal records the steps of a command before and after they run, so that after ^C, a crash or a lost connection the
// operator knows where it stopped, and an undo knows how things were. The journal is a file on the operator's machine, written
// before each step. It contains names of steps and objects, never secrets.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/version"
)

// Events of an entry.
const (
	eventRun    = "run"    // a run begins
	eventBegin  = "begin"  // a step begins; without a later done or failed, the step may be partly done
	eventDone   = "done"   // a step succeeded
	eventFailed = "failed" // a step ended with an error
	eventBefore = "before" // how something was that a step is about to change
	eventEnd    = "end"    // the run ended, with or without an error
)

// entry is one line of a journal.
type entry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Command string    `json:"command,omitempty"` // only in eventRun
	Version string    `json:"version,omitempty"` // version of csccm; only in eventRun
	Step    string    `json:"step,omitempty"`
	// Detail lists what was changed, one change per line.
	Detail []string `json:"detail,omitempty"`
	Error  string   `json:"error,omitempty"`
	// Before is what an undo needs; only in eventBefore.
	Before json.RawMessage `json:"before,omitempty"`
}

// Journal is the journal of one run. It must be used by one goroutine only.
type Journal struct {
	Path    string // file to append to; "" means no file
	Clock   clock.PassiveClock
	Command string                           // install, uninstall ...
	Scrub   func(string) string              // removes secrets from the text of errors; may be nil
	Warn    func(format string, args ...any) // prints a warning

	file  *os.File
	begun bool // a step has begun
}

// unwritable is the error of a journal that cannot be written. changed: the run has already changed something.
func unwritable(path string, changed bool, err error) error {
	state, again := "nothing has been changed", "run the command again"
	if changed {
		state, again = "stopped before the next step", again+": it continues where it stopped"
	}
	if cause, ok := errors.AsType[*os.PathError](err); ok { // the message already contains the path
		err = cause.Err
	}
	return report.Remedied(fmt.Errorf("the journal %s cannot be written: %w; %s", path, err, state),
		"free space on that disk, or name another file with --journal, and "+again)
}

// Open begins the run in the file. If it returns an error, the run has changed nothing yet.
func (j *Journal) Open() (err error) {
	if j.Path != "" {
		if err = os.MkdirAll(filepath.Dir(j.Path), 0o700); err == nil {
			j.file, err = os.OpenFile(j.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		}
	}
	if err == nil {
		err = j.append(entry{Event: eventRun, Command: j.Command, Version: version.Version})
	}
	if err != nil {
		_ = j.file.Close() // report only the first error
		return unwritable(j.Path, false, err)
	}
	return nil
}

// Begin records that a step begins. If it returns an error, the step must not run.
func (j *Journal) Begin(step string) error {
	if err := j.append(entry{Event: eventBegin, Step: step}); err != nil {
		return unwritable(j.Path, j.begun, err)
	}
	j.begun = true
	return nil
}

// Record keeps how something was that the step is about to change. If it returns an error, it must not be changed.
func (j *Journal) Record(before any) error {
	text, err := json.Marshal(before)
	if err == nil {
		err = j.append(entry{Event: eventBefore, Before: text})
	}
	if err != nil {
		return unwritable(j.Path, true, err)
	}
	return nil
}

// Finish records how a step ended, and Close how the run did. Neither can be undone any more, so an error of the journal is only a
// warning.
func (j *Journal) Finish(step string, err error, detail ...string) {
	e := entry{Event: eventDone, Step: step, Detail: detail}
	if err != nil {
		e.Event = eventFailed
	}
	j.end(e, err)
}

// Close records how the run ended and closes the file.
func (j *Journal) Close(err error) {
	j.end(entry{Event: eventEnd}, err)
	_ = j.file.Close() // each line is already synced
}

func (j *Journal) end(e entry, err error) {
	if err != nil {
		e.Error = err.Error()
		if j.Scrub != nil {
			e.Error = j.Scrub(e.Error)
		}
	}
	if err := j.append(e); err != nil {
		j.Warn("the journal cannot be written: %v", err)
	}
}

// append writes a line and syncs the file.
func (j *Journal) append(e entry) error {
	if j.file == nil {
		return nil
	}
	e.Time = j.Clock.Now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	// Pipes and terminals do not support sync and do not need it.
	if err := j.file.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// Records returns what all runs of a journal have kept by Record, in that order. It ignores an incomplete last line.
func Records(text string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range all {
		var e entry
		err := json.Unmarshal([]byte(line), &e)
		switch {
		case i == 0 && (err != nil || e.Event != eventRun):
			return nil, errors.New("not a journal of csccm: the first line does not begin a run")
		case err != nil && i < len(all)-1: // the last one may be incomplete: the program was killed
			return nil, fmt.Errorf("journal line %d: %w", i+1, err)
		case e.Event == eventBefore:
			out = append(out, e.Before)
		}
	}
	return out, nil
}

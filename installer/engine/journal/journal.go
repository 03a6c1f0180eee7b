// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal records the steps of a command before and after they run, so that after ^C, a crash or a lost connection the
// operator knows where it stopped. The journal is a file on the operator's machine, written before each step. It contains names of
// steps and objects, never secrets.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/version"
)

// Events of an entry.
const (
	run    = "run"    // a run begins
	begin  = "begin"  // a step begins; without a later done or failed, the step may be partly done
	done   = "done"   // a step succeeded
	failed = "failed" // a step ended with an error
	end    = "end"    // the run ended, with or without an error
)

// entry is one line of a journal.
type entry struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Command string    `json:"command,omitempty"` // only in run
	Version string    `json:"version,omitempty"` // version of csccm; only in run
	Step    string    `json:"step,omitempty"`
	// Detail lists what was changed, one change per line.
	Detail []string `json:"detail,omitempty"`
	Error  string   `json:"error,omitempty"`
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

// Open begins the run in the file. If it returns an error, the run has changed nothing yet.
func (j *Journal) Open() (err error) {
	if j.Path != "" {
		if err = os.MkdirAll(filepath.Dir(j.Path), 0o700); err == nil {
			j.file, err = os.OpenFile(j.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		}
	}
	if err == nil {
		err = j.append(entry{Event: run, Command: j.Command, Version: version.Version})
	}
	if err != nil {
		_ = j.file.Close() // report only the first error
		return j.unwritable(err)
	}
	return nil
}

// Begin records that a step begins. If it returns an error, the step must not run.
func (j *Journal) Begin(step string) error {
	if err := j.append(entry{Event: begin, Step: step}); err != nil {
		return j.unwritable(err)
	}
	j.begun = true
	return nil
}

func (j *Journal) unwritable(err error) error {
	state, again := "nothing has been changed", "run the command again"
	if j.begun {
		state, again = "stopped before the next step", again+": it continues where it stopped"
	}
	if cause, ok := errors.AsType[*os.PathError](err); ok { // the message already contains the path
		err = cause.Err
	}
	return report.Remedied(fmt.Errorf("the journal %s cannot be written: %w; %s", j.Path, err, state),
		"free space on that disk, or name another file with --journal, and "+again)
}

// Finish records how a step ended, and Close how the run did. Neither can be undone any more, so an error of the journal is only a
// warning.
func (j *Journal) Finish(step string, err error, detail ...string) {
	event := done
	if err != nil {
		event = failed
	}
	j.ended(entry{Event: event, Step: step, Detail: detail}, err)
}

// Close records how the run ended and closes the file.
func (j *Journal) Close(err error) {
	j.ended(entry{Event: end}, err)
	_ = j.file.Close() // each line is already synced
}

func (j *Journal) ended(e entry, err error) {
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

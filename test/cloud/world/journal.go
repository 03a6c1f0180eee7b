// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/test/internal/must"
)

// Journal is the record of what a run makes. Each entry is on the disk before the call that makes the object, so that
// a run that was killed can be cleaned up.
type Journal struct {
	// Path is the file's.
	Path string

	mu   sync.Mutex
	file *os.File
}

// Entry is a line of a journal.
type Entry struct {
	Time time.Time `json:"time"`
	// Event is run, make (about to be made), made or clean (nothing is left).
	Event string `json:"event"`
	// URL is of a run: the CloudStack that it works on. Dir is its folder on this machine, which holds credentials.
	URL  string `json:"url,omitempty"`
	Dir  string `json:"dir,omitempty"`
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	ID   string `json:"id,omitempty"`
}

const journalSuffix = ".jsonl"

// JournalDir is the folder of the journals.
func JournalDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "csccm-cloud"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "csccm-cloud"), err
}

// OpenJournal opens the journal of a run to append to it.
func OpenJournal(dir, run string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j := &Journal{Path: filepath.Join(dir, run+journalSuffix)}
	var err error
	j.file, err = os.OpenFile(j.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return j, err
}

// Add writes an entry to the disk.
func (j *Journal) Add(e Entry) (err error) {
	defer must.Return(&err)
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Time = time.Now().UTC()
	text := must.Get(json.Marshal(e))
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return j.file.Sync()
}

// Close closes the file; a journal of a run that left nothing goes.
func (j *Journal) Close(nothingLeft bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.file.Close()
	if nothingLeft {
		err = errors.Join(err, os.Remove(j.Path))
	}
	return err
}

// Unfinished is a run that may have left something.
type Unfinished struct{ Run, URL, Dir string }

// Journals reads the journals of all runs that have not cleaned up.
func Journals(dir string) ([]Unfinished, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+journalSuffix)) // sorted
	if err != nil {
		return nil, err
	}
	var all []Unfinished
	for _, path := range files {
		text, err := os.ReadFile(path) // #nosec G304 -- ours
		if err != nil {
			return nil, err
		}
		u := Unfinished{Run: strings.TrimSuffix(filepath.Base(path), journalSuffix)}
		for line := range bytes.Lines(text) {
			var e Entry
			if json.Unmarshal(line, &e) == nil && e.Event == "run" { // the last line of a killed run may be cut
				u.URL, u.Dir = e.URL, e.Dir
			}
		}
		all = append(all, u)
	}
	return all, nil
}

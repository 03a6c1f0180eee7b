// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// Journal is the record of what a migration did, one JSON object a line. Each line is on the disk
// before the next thing happens, so that after a crash it says what may have been done.
type Journal struct {
	file  *os.File
	clock clock.PassiveClock
	path  string
}

// Header is the first line of a journal: where the rules are.
type Header struct {
	Version   int       `json:"version"`
	Time      time.Time `json:"time"`
	APIURL    string    `json:"apiUrl"`
	ProjectID string    `json:"projectId,omitempty"`
	Cluster   string    `json:"cluster,omitempty"`
}

const journalVersion = 1

// entry is any other line.
type entry struct {
	Time time.Time `json:"time"`
	// Event is begin, done or failed.
	Event string `json:"event"`
	Step
	// Before is the rule as it was, with begin.
	Before *before `json:"before,omitempty"`
	Error  string  `json:"error,omitempty"`
}

type before struct {
	Protocol string   `json:"protocol"`
	State    string   `json:"state"`
	Members  []string `json:"members"`
	// Rule is the whole of a rule that is deleted.
	Rule *Deleted `json:"rule,omitempty"`
}

// CreateJournal makes a new file that only its owner may read, and its folder; one that exists is an error.
func CreateJournal(path string, h Header, c clock.PassiveClock) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w; nothing has been changed", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: %w; nothing has been changed", err)
	}
	j := &Journal{file: file, clock: c, path: path}
	h.Version, h.Time = journalVersion, c.Now().UTC()
	if err := j.write(h); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%w; nothing has been changed", err)
	}
	return j, nil
}

// Path is the journal's file.
func (j *Journal) Path() string { return j.path }

// Close closes the file.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	return j.file.Close()
}

func (j *Journal) begin(s Step, r *Rule) error {
	b := &before{Protocol: r.Protocol, State: r.State, Members: memberIDs(r)}
	if s.Action == ActionDelete {
		b.Rule = deleted(r)
	}
	return j.write(entry{Time: j.now(), Event: "begin", Step: s, Before: b})
}

func (j *Journal) end(s Step, err error) error {
	e := entry{Time: j.now(), Event: "done", Step: s}
	if err != nil {
		e.Event, e.Error = "failed", err.Error()
	}
	return j.write(e)
}

func (j *Journal) now() time.Time {
	if j == nil {
		return time.Time{}
	}
	return j.clock.Now().UTC()
}

func (j *Journal) write(v any) error {
	if j == nil {
		return nil // whoever calls knows another way back
	}
	line, err := json.Marshal(v)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	return nil
}

// ReadJournal reads a journal and gives the steps that undo it, the last first. A step that was
// begun and whose end is not recorded, or that failed, is among them: it may have happened, and
// undoing what was not done does nothing. A last line that was cut off is left out.
func ReadJournal(r io.Reader) (Header, []Step, error) {
	var (
		h     Header
		steps []Step
		seen  = map[string]bool{}
		lines = bufio.NewScanner(r)
	)
	const maxLine = 1 << 20
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			if err := json.Unmarshal(lines.Bytes(), &h); err != nil || h.Version == 0 {
				return h, nil, errors.New("not a journal of csccm migrate-rules: the first line has no version")
			}
			if h.Version != journalVersion {
				return h, nil, fmt.Errorf("journal version %d is not known, want %d", h.Version, journalVersion)
			}
			continue
		}
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if lines.Scan() {
				return h, nil, fmt.Errorf("journal line %d: %w", n, err)
			}
			break // the program was killed while it wrote this line
		}
		// What an undo made again is found by the next plan, should it be surplus once more.
		if e.Event == "begin" && !seen[e.RuleID] && e.Action != ActionCreate {
			seen[e.RuleID] = true
			steps = append(steps, undo(e.Step, e.Before))
		}
	}
	if err := lines.Err(); err != nil {
		return h, nil, fmt.Errorf("journal: %w", err)
	}
	if h.Version == 0 {
		return h, nil, errors.New("the journal is empty")
	}
	slices.Reverse(steps)
	return h, steps, nil
}

// undo is the way back. The protocol stays: CloudStack cannot take it away again, and "tcp" is
// what a rule without one does. A deleted rule is made again, with a new id.
func undo(s Step, b *before) Step {
	switch s.Action {
	case ActionDelete:
		s.Action, s.Keeper = ActionCreate, ""
		if b != nil {
			s.Rule = b.Rule
		}
	case ActionCreate: // ReadJournal leaves it out
	case ActionRename:
		s.Action, s.From, s.To = ActionRename, s.To, s.From
	}
	return s
}

// Remaining returns the steps of an undo that still have something to do, and says about rules that are gone that they
// cannot get their names back.
func Remaining(steps []Step, rules []Rule) (todo []Step, notes []string) {
	todo = []Step{}
	for i := range steps {
		s := &steps[i]
		switch s.Action {
		case ActionCreate:
			if !standsAgain(s, rules) {
				todo = append(todo, *s)
			}
		case ActionRename, ActionDelete:
			switch at := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == s.RuleID }); {
			case at < 0:
				notes = append(notes, fmt.Sprintf("rule %s on %s:%d is gone: it does not get the name %s back", s.From, s.PublicIP, s.Port, s.To))
			case rules[at].Name != s.To:
				todo = append(todo, *s)
			}
		}
	}
	return todo, notes
}

// standsAgain reports whether a deleted rule is there, with all its members.
func standsAgain(s *Step, rules []Rule) bool {
	if s.Rule == nil {
		return false
	}
	return slices.ContainsFunc(rules, func(r Rule) bool {
		return r.PublicIPID == s.Rule.PublicIPID && r.PublicPort == s.Port && r.Name == s.From && sets.New(memberIDs(&r)...).HasAll(s.Rule.Members...)
	})
}

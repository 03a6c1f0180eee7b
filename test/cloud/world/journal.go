// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/csccm/csccm/test/internal/must"
)

// Journal names a run on this machine's disk before the run makes anything, so that it can be cleaned up after a crash: what it
// has made is found by its name.
type Journal struct {
	// URL is the CloudStack that the run works on. Dir is its folder on this machine, which holds credentials.
	URL  string `json:"url"`
	Dir  string `json:"dir"`
	path string
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

// Write writes the journal of a run to a folder.
func (j *Journal) Write(dir, run string) (err error) {
	defer must.Return(&err)
	must.OK(os.MkdirAll(dir, 0o700))
	j.path = filepath.Join(dir, run+journalSuffix)
	return os.WriteFile(j.path, must.Get(json.Marshal(j)), 0o600)
}

// Remove removes the journal of a run that has left nothing.
func (j *Journal) Remove() error { return os.Remove(j.path) }

// Journals reads the journals of all runs that have not cleaned up, by run.
func Journals(dir string) (_ map[string]*Journal, err error) {
	defer must.Return(&err)
	all := map[string]*Journal{}
	for _, path := range must.Get(filepath.Glob(filepath.Join(dir, "*"+journalSuffix))) {
		j := &Journal{path: path}
		_ = json.Unmarshal(must.Get(os.ReadFile(path)), j) // #nosec G304 -- ours; of a run that was killed while it wrote, the name is enough
		all[strings.TrimSuffix(filepath.Base(path), journalSuffix)] = j
	}
	return all, nil
}

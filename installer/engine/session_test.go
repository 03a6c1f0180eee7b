// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/report"
)

// at returns a session with a journal at the path, and the output of its progress.
func at(path string) (*session, *bytes.Buffer) {
	var said bytes.Buffer
	e := &Env{
		Journal:  path,
		Clock:    clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)),
		Progress: report.NewProgress(&said, report.Style{}, nil),
		Scrub:    func(s string) string { return strings.ReplaceAll(s, "canary", "***") },
	}
	e.session = &session{env: e, name: "install"}
	return e.session, &said
}

// secret returns a step that creates something, and fails with err.
func secret(s *session, err error) *Step {
	return &Step{Name: "Secret", Do: func(context.Context) error {
		s.env.Note("created")
		return err
	}}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "journal.jsonl")
	for range 2 { // the second run is appended
		s, _ := at(path)
		s.close(s.step(t.Context(), secret(s, errors.New("the canary died"))))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	const lines = `{"time":"2023-11-14T22:13:20Z","event":"run","command":"install","version":"v0.0.0-dev"}
{"time":"2023-11-14T22:13:20Z","event":"begin","step":"Secret"}
{"time":"2023-11-14T22:13:20Z","event":"failed","step":"Secret","detail":["created"],"error":"the *** died"}
{"time":"2023-11-14T22:13:20Z","event":"end","error":"the *** died"}
`
	require.Equal(t, strings.Split(lines+lines, "\n"), strings.Split(string(text), "\n"))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// If the journal cannot be written, the run fails before anything is changed, and the error says what to do.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	s, _ := at("/dev/full")
	err := s.step(t.Context(), secret(s, nil))
	require.EqualError(t, err,
		"cannot write the journal /dev/full: no space left on device; nothing has been changed")
	var e *report.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "free space on that disk, or name another file with --journal, and run the command again",
		e.Remedy())
	require.Empty(t, s.done)
	s, _ = at(filepath.Join(os.DevNull, "journal"))
	require.ErrorContains(t, s.step(t.Context(), secret(s, nil)), "not a directory; nothing has been changed")
}

// If the disk becomes full during a run, the run stops before the next step.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	s, said := at(filepath.Join(t.TempDir(), "journal"))
	require.NoError(t, s.step(t.Context(), &Step{Name: "one", Do: func(context.Context) (err error) {
		require.NoError(t, s.file.Close())
		s.file, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
		return err
	}}))
	err := s.step(t.Context(), secret(s, nil))
	require.Contains(t, said.String(), "cannot write the journal", "the end of a step only warns")
	var e *report.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, err.Error(), "stopped before the next step")
	require.Contains(t, e.Remedy(), "it continues where it stopped")
	require.Empty(t, s.done)
}

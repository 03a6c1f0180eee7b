// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/engine/report"
)

func at(path string) *Journal {
	return &Journal{
		Path: path, Clock: clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0)), Command: "install",
		Scrub: func(s string) string { return strings.ReplaceAll(s, "canary", "***") },
	}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "journal.jsonl")
	for range 2 { // the next run is appended
		j := at(path)
		require.NoError(t, j.Open())
		require.NoError(t, j.Begin("Secret"))
		j.Finish("Secret", errors.New("the canary died"), "created")
		j.Close(errors.New("the canary died"))
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

// A journal that cannot be written is an error before anything is changed, and the message says what to do.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	err := at("/dev/full").Open()
	require.EqualError(t, err, "the journal /dev/full cannot be written: no space left on device; nothing has been changed")
	var e *report.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "free space on that disk, or name another file with --journal, and run the command again", e.Remedy())
	require.ErrorContains(t, at(filepath.Join(os.DevNull, "journal")).Open(), "not a directory; nothing has been changed")
}

// A disk that fills up during a run stops it before the next step.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	j := at(filepath.Join(t.TempDir(), "journal"))
	require.NoError(t, j.Open())
	require.NoError(t, j.Begin("one"))
	require.NoError(t, j.file.Close())
	var err error
	j.file, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	var said string
	j.Warn = func(format string, _ ...any) { said = format }
	j.Finish("one", nil)
	require.Contains(t, said, "cannot be written", "Finish only warns")
	err = j.Begin("two")
	var e *report.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, err.Error(), "stopped before the next step")
	require.Contains(t, e.Remedy(), "it continues where it stopped")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/pack"
)

// program is a script in the place of a program.
func program(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700))
	return file
}

func TestPages(t *testing.T) {
	t.Parallel()
	pages, err := Pages(t.Context(), program(t, `echo "$HOME" > "$1/x.1"; echo "$SOURCE_DATE_EPOCH" > "$1/x-a.1"`), time.Unix(1700000000, 0))
	require.NoError(t, err)
	assert.Equal(t, []pack.File{{Name: "man/x-a.1", Mode: 0o644, Data: []byte("1700000000\n")}, {Name: "man/x.1", Mode: 0o644, Data: []byte("/home/user\n")}}, pages)

	_, err = Pages(t.Context(), program(t, "true"), time.Time{})
	require.ErrorContains(t, err, "wrote no manual page")
	_, err = Pages(t.Context(), program(t, "echo what >&2; exit 2"), time.Time{})
	require.ErrorContains(t, err, "exit status 2: what")
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	files, err := Completions(t.Context(), program(t, `echo "x for $2"`), "x")
	require.NoError(t, err)
	require.Len(t, files, 4)
	assert.Equal(t, "completions/_x", files[1].Name)
	assert.Equal(t, "x for zsh\n", string(files[1].Data))
	_, err = Completions(t.Context(), program(t, `echo nothing`), "x")
	require.EqualError(t, err, "x completion bash prints no completion")
}

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

	"github.com/csccm/csccm/release/internal/source"
)

var tree = source.Tree{Version: "1.2.3", Time: time.Unix(1700000000, 0).UTC()}

const help = `Does a thing.
.hidden\n

Usage:
  csccm [command]

Available Commands:
  help        Help about any command
  install     Install it

Additional Commands:
  two-words-x Both, and the longest

Flags:
  -h, --help   help for csccm
`

func TestPage(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `.TH "CSCCM-X" 1 "2023-11-14" "v1.2.3" "csccm"
.SH NAME
csccm\-x \- Does a thing
.SH DESCRIPTION
.nf
Does a thing.
\&.hidden\en
.fi
.SH USAGE
.nf
Usage:
  csccm [command]

Flags:
  \-h, \-\-help
.fi
.SH SEE ALSO
.BR csccm (1)
`, string(Page("csccm-x", "Does a thing.\n.hidden\\n\n\nUsage:\n  csccm [command]\n\nFlags:\n  -h, --help\n", tree)))
}

func TestCommands(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"install", "two-words-x"}, commands(help))
}

// program is a script that answers as the product's programs do.
func program(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700))
	return file
}

func TestPagesOfAllCommands(t *testing.T) {
	t.Parallel()
	file := program(t, `case "$*" in
--help) printf 'Root.\n\nUsage:\n  x\n\nAvailable Commands:\n  a   A\n  b   B\n';;
"a --help") printf 'A.\n\nUsage:\n  x a\n\nAvailable Commands:\n  c   C\n';;
"a c --help") printf 'C in %s.\n\nUsage:\n  x a c\n' "$HOME";;
"b --help") printf 'B.\n';;
*) echo "what: $*" >&2; exit 2;;
esac
`)
	pages, err := Pages(t.Context(), file, "x", tree)
	require.NoError(t, err)
	var names []string
	for _, p := range pages {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"man/x.1", "man/x-a.1", "man/x-a-c.1", "man/x-b.1"}, names)
	assert.Contains(t, string(pages[2].Data), "C in /home/user.")

	_, err = Completions(t.Context(), file, "x")
	require.ErrorContains(t, err, "completion bash: exit status 2: what: completion bash")
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

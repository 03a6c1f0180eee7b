// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/test/internal/must"
)

var paint = regexp.MustCompile(`\x1b\[(\d+m)`)

func TestPlay(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &Player{
		Out:     &out,
		Style:   report.Style{Color: true, Unicode: true},
		Dir:     t.TempDir(),
		Vars:    map[string]string{},
		started: time.Now(),
		At:      func(context.Context, int, bool) {},
		Verbs: map[string]Verb{
			"say": func(_ context.Context, _ string, args []string) string { return args[0] + " said" },
		},
	}
	play := func(ctx context.Context, steps ...Step) error {
		p.Script.Chapters = []Chapter{
			{Title: "Nodes", Steps: steps, Try: []Step{{Do: "echo $port", Want: "^80", Say: "the port"}}},
		}
		return must.Catch(func() { p.Play(ctx) })
	}
	require.NoError(t, play(t.Context(),
		Step{Do: `echo >>times; echo "$(wc -l <times) 1.2"`, Want: `^ *3 (?P<ip>\S+)`},
		Step{Do: "echo 80", Want: `(?P<port>.+)`},
		Step{Show: "say $ip", Want: "^$ip said$", Look: "the port: $port"}, Step{Say: "At $ip."}))
	assert.Equal(t, "\n<1m>1. Nodes<0m>\n<2m>--------<0m>\n\n<1m>$ say 1.2<0m>\n1.2 said\n\nAt 1.2.\n"+
		"\n<1m>Look<0m>\n<32m>✓<0m> the port: 80\n\n<1m>Try<0m>\n$ echo $port\n    the port\n\n<32m>All of it "+
		"worked, in 0s.<0m>\n",
		paint.ReplaceAllString(out.String(), "<$1>"))

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorContains(t, play(ctx, Step{Do: "echo 1a2", Want: "^$ip$"}),
		"chapter 1, Nodes, failed: waited 5m0s for echo 1a2: its output does not match ^1\\.2$: <nil>\n1a2\n")
	require.ErrorContains(t, play(t.Context(), Step{Do: "echo why; exit 3"}), "exit status 3\nwhy\n")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &Player{Out: &out, Style: report.Style{Width: 60}}
	p.compare("one  \nA line of more than 28 characters", "two\n")
	assert.Equal(t, "Without the controller       │ With the controller\none                          │ two\n"+
		"A line of more than 28 ch... │\n", out.String())
}

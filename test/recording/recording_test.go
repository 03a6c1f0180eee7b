// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestScreenKeepsFinalRows(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	s := newScreen(40, 50, start)
	s.write([]byte("\x1b[1m$ csccm install\x1b[0m\r\n| waiting"), start.Add(time.Second))
	s.write([]byte("\r\x1b[K\x1b[32mok\x1b[0m done \x1b[2m(2.0s)\x1b[0m\r\n\r\n"), start.Add(3*time.Second))
	lines := s.lines()
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2: %v", len(lines), lines)
	}
	if got := lines[1].text(); got != "ok done (2.0s)" {
		t.Errorf("the row is %q, want it without the spinner", got)
	}
	if lines[0].At != time.Second || lines[1].At != 3*time.Second {
		t.Errorf("times are %v and %v", lines[0].At, lines[1].At)
	}
	var paints []paint
	for _, l := range lines {
		for _, r := range l.Runs {
			paints = append(paints, r.Paint)
		}
	}
	if got := len(paints); got != 4 || paints[0] != strong || paints[1] != green || paints[2] != plain || paints[3] != faint {
		t.Errorf("styles are %q", paints)
	}
}

func TestSuspiciousFindsKeysNotNames(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("aB3_x", 17)
	for text, want := range map[string]bool{
		"held by cloudstack-cloud-controller-manager-6795875979-bjspl_46e0dbb4-1200-4a35-a1b7-e6b89c9ed61c": false,
		strings.Repeat("-", 80): false,
		"key " + key:            true,
	} {
		if got := suspicious([]line{{Runs: []textRun{{Text: text}}}}) != ""; got != want {
			t.Errorf("suspicious(%q) = %v", text, got)
		}
	}
}

func TestDrawIsReproducibleXML(t *testing.T) {
	t.Parallel()
	lines := []line{
		{At: 0, Runs: []textRun{{0, "$ a <b> & c", strong}}},
		{At: time.Hour, Runs: []textRun{{2, "done", green}, {8, "  ", plain}}},
	}
	l := window{Title: "make <demo>", Columns: 40, Rows: 10}
	svg := draw(lines, l)
	if svg != draw(lines, l) {
		t.Error("two drawings of the same lines differ")
	}
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(svg, "<text"); n != 3 {
		t.Errorf("%d text elements, want the title and two", n)
	}
	if _, total := playAt(lines); total != maxPause+endPause {
		t.Errorf("with a pause of an hour, a cycle takes %v", total)
	}
}

func TestPiecesKeepTheirColumns(t *testing.T) {
	t.Parallel()
	got := textRun{2, "a b   ✓ c    d ", green}.pieces()
	want := []textRun{{2, "a b", green}, {8, "✓ c", green}, {15, "d", green}}
	if !slices.Equal(got, want) {
		t.Errorf("pieces are %v, want %v", got, want)
	}
}

func TestRecordRunsInATerminal(t *testing.T) {
	t.Parallel()
	lines, err := record(t.Context(), 60, []string{"sh", "-c", "test -t 1 && stty size && printf '\\033[31mred\\033[0m\\n'"})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 || lines[0].text() != "2000 60" || lines[1].Runs[0].Paint != red {
		t.Errorf("recorded %v", lines)
	}
	if _, err := record(t.Context(), 60, []string{"sh", "-c", "echo why; exit 3"}); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("the error of a failed program is %v, want its output in it", err)
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"strings"
	"time"
	"unicode/utf8"
)

// look is the window's.
type look struct {
	Title         string
	Columns, Rows int
}

// Sizes in the drawing's units.
const (
	cell    = 7.8 // width of a character
	pitch   = 18  // from line to line
	bar     = 30  // height of the title's bar
	padding = 12
)

// Pauses of a recording that plays: nobody waits longer than the first for a line, and reads for the last at the end.
const (
	longest = 900 * time.Millisecond
	fastest = 60 * time.Millisecond
	rest    = 8 * time.Second
)

// draw is pure: the same lines make the same bytes. The text grows at the lower edge of the window, line after line; what
// cannot play shows the end.
func draw(lines []line, l look) string {
	width, height := float64(l.Columns)*cell+2*padding, bar+l.Rows*pitch+2*padding
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label=%q>`+"\n", width, height, html.EscapeString(l.Title))
	b.WriteString(style(lines, l))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" class="w"/>`+"\n"+
		`<text x="50%%" y="20" text-anchor="middle" class="t">%s</text>`+"\n"+
		`<svg x="%d" y="%d" width="%.0f" height="%d">`+"\n"+`<g class="s">`+"\n", html.EscapeString(l.Title), padding, bar, float64(l.Columns)*cell, l.Rows*pitch+padding)
	for i, line := range lines {
		for _, r := range line.Runs {
			for _, p := range r.pieces() {
				class := ""
				if p.Paint != plain {
					class = fmt.Sprintf(` class="%s"`, p.Paint)
				}
				fmt.Fprintf(&b, `<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n",
					float64(p.Column)*cell, (i+1)*pitch-4, float64(utf8.RuneCountInString(p.Text))*cell, class, html.EscapeString(p.Text))
			}
		}
	}
	b.WriteString("</g>\n</svg>\n</svg>\n")
	return b.String()
}

// pieces are the run's texts without the gaps between columns, which some renderers would close.
func (r textRun) pieces() []textRun {
	var out []textRun
	for at := range strings.SplitSeq(r.Text, "  ") {
		if text := strings.Trim(at, " "); text != "" {
			column := r.Column + utf8.RuneCountInString(at) - utf8.RuneCountInString(strings.TrimLeft(at, " "))
			out = append(out, textRun{column, text, r.Paint})
		}
		r.Column += utf8.RuneCountInString(at) + 2
	}
	return out
}

// style has the colours, and where the text stands at which time.
func style(lines []line, l look) string {
	var b strings.Builder
	b.WriteString("<style>\n" +
		"text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d0d7de; white-space: pre; }\n" +
		".w { fill: #161b22; } .t { fill: #8b949e; }\n" +
		".b { font-weight: bold; fill: #ffffff; } .f { fill: #8b949e; } .r { fill: #ff7b72; } .g { fill: #56d364; } .y { fill: #e3b341; }\n")
	times, total := playAt(lines)
	at := func(i int) int { return (l.Rows - i - 1) * pitch }
	fmt.Fprintf(&b, ".s { transform: translateY(%dpx); animation: play %.1fs step-end infinite; }\n@keyframes play {\n", at(len(lines)-1), total.Seconds())
	for i := range lines {
		fmt.Fprintf(&b, "%.3f%% { transform: translateY(%dpx); }\n", 100*times[i].Seconds()/total.Seconds(), at(i))
	}
	fmt.Fprintf(&b, "100%% { transform: translateY(%dpx); }\n}\n@media (prefers-reduced-motion: reduce) { .s { animation: none; } }\n</style>\n", at(len(lines)-1))
	return b.String()
}

// playAt is when each line is shown, and how long a round takes.
func playAt(lines []line) (times []time.Duration, total time.Duration) {
	before := time.Duration(0)
	for i, line := range lines {
		if i > 0 {
			total += min(longest, max(fastest, line.At-before))
		}
		before = line.At
		times = append(times, total)
	}
	return times, total + rest
}

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

// Sizes in units of the SVG.
const (
	cell    = 7.8 // width of a character
	pitch   = 18  // distance between lines
	bar     = 30  // height of the title bar
	padding = 12
)

// Pauses of the animation.
const (
	maxPause = 900 * time.Millisecond // between two lines, at most
	minPause = 60 * time.Millisecond  // between two lines, at least
	endPause = 8 * time.Second        // after the last line
)

// draw returns the SVG. For the same lines it always returns the same bytes. Lines appear one after the other at the
// lower edge of the window. Viewers without support for animations show the end.
func draw(lines []line, title string) string {
	width, height := float64(columns)*cell+2*padding, bar+rows*pitch+2*padding
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label=%q>`+"\n",
		width, height, html.EscapeString(title))
	b.WriteString(style(lines))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" class="w"/>`+"\n"+
		`<text x="50%%" y="20" text-anchor="middle" class="t">%s</text>`+"\n"+
		`<svg x="%d" y="%d" width="%.0f" height="%d">`+"\n"+`<g class="s">`+"\n", html.EscapeString(title), padding,
		bar, float64(columns)*cell, rows*pitch+padding)

	for i, line := range lines {
		for _, t := range line.texts {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" textLength="%.1f" class=%q>%s</text>`+"\n",
				float64(t.column)*cell, (i+1)*pitch-4, float64(utf8.RuneCountInString(t.content))*cell, t.class,
				html.EscapeString(t.content))
		}
	}

	b.WriteString("</g>\n</svg>\n</svg>\n")
	return b.String()
}

// style returns the style sheet: the colours and the animation.
func style(lines []line) string {
	var b strings.Builder
	b.WriteString("<style>\n" +
		"text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d0d7de; " +
		"white-space: pre; }\n" +
		".w { fill: #161b22; } .t { fill: #8b949e; }\n" +
		".b { font-weight: bold; fill: #ffffff; } .f { fill: #8b949e; } .r { fill: #ff7b72; } .g { fill: #56d364; } " +
		".y { fill: #e3b341; }\n")

	times, total := playAt(lines)
	at := func(i int) int { return (rows - i - 1) * pitch }
	fmt.Fprintf(&b, ".s { transform: translateY(%dpx); animation: play %.1fs step-end infinite; }\n@keyframes play {\n",
		at(len(lines)-1), total.Seconds())
	for i := range lines {
		fmt.Fprintf(&b, "%.3f%% { transform: translateY(%dpx); }\n", 100*times[i].Seconds()/total.Seconds(), at(i))
	}

	fmt.Fprintf(&b,
		"100%% { transform: translateY(%dpx); }\n}\n@media (prefers-reduced-motion: reduce) { .s { animation: none; "+
			"} }\n</style>\n", at(len(lines)-1))
	return b.String()
}

// playAt returns when each line is shown and how long one cycle of the animation takes.
func playAt(lines []line) (times []time.Duration, total time.Duration) {
	before := time.Duration(0)
	for i, line := range lines {
		if i > 0 {
			total += min(maxPause, max(minPause, line.at-before))
		}
		before = line.at
		times = append(times, total)
	}
	return times, total + endPause
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chapters is the text of the lesson, which is in chapters.yaml. The lesson prints it, and the tests compare both with it.
package chapters

import (
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Chapter is one chapter of the lesson.
type Chapter struct {
	Title, Intro string
	Look         []Claim
	Try          []Try
	Code         []Code
}

// Claim is what the chapter shows. The ID connects it with the check that observes it.
type Claim struct{ ID, Text string }

// Try is a command for a second terminal, whose variables WITH and WITHOUT hold the kubeconfigs of the two clusters. The lesson runs it too.
type Try struct {
	// Line is a line for a shell, Shows is what to look for in the output, and Want a text that the output holds.
	Line, Shows, Want string
}

// Code is a function that takes part in what the chapter shows; a method is Type.Method.
type Code struct{ File, Func, Does string }

//go:embed chapters.yaml
var file []byte

// Text is all that the lesson says.
var Text = func() (t struct {
	Before, After, Next string
	Chapters            []Chapter
	Purposes            map[string]string // of calls, by command
},
) {
	if err := yaml.UnmarshalStrict(file, &t); err != nil {
		panic(err) // the tests read it
	}
	return t
}()

// Marks in front of the lines of a chapter.
const (
	Seen    = "✓ "
	Command = "$ "
)

// Heading is the first line of a chapter.
func (c Chapter) Heading(number int) string { return fmt.Sprintf("%d. %s", number, c.Title) }

// Line is the line of a function.
func (c Code) Line() string { return c.File + " " + c.Func }

// Shape returns an error unless a run of the lesson has all its chapters in order, and in each of them, in order, the claims, commands
// and functions. What was observed differs between runs and is not compared; neither are line breaks.
func Shape(run string) error {
	var parts []string
	for i, c := range Text.Chapters {
		parts = append(parts, c.Heading(i+1)+" --")
		for _, l := range c.Look {
			parts = append(parts, Seen+l.Text)
		}
		for _, t := range c.Try {
			parts = append(parts, Command+t.Line)
		}
		for _, f := range c.Code {
			parts = append(parts, f.Line())
		}
	}
	rest := strings.Join(strings.Fields(run), " ")
	for _, text := range parts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			return fmt.Errorf("%q is missing, or not in its place", text)
		}
		rest = after
	}
	return nil
}

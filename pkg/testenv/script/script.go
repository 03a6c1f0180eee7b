// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package script reads and plays scenarios: what users, operators and CloudStack do, and what must be observed then. A
// scenario is written once, in table/*.txt, and drivers play it on several layers: the controller on the simulator in
// virtual time (pkg/provider) and the product on any CloudStack (test/cloud).
//
//	== NAME                      begins a scenario; # begins a comment
//	each X a b "c d"             plays the scenario for each value of {X}
//	case NAME X=a Y=b            a row of values; a variable that it omits is empty. All rows are played, combined with
//	                             all values of each
//	[a=b] STEP, [a!=b] STEP      a step for some values only
//	VERB WORD ... ; VERB ...     steps; lines after them that begin with | are the text of the last step
//	expect VERB WORD ...         what must be observed; "expect not" is the opposite
//
// The drivers define the verbs. Change describes changes of a Service.
package script

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed table
var table embed.FS

// Scenario is a scenario with one value for each of its variables.
type Scenario struct {
	File  string // name without .txt
	Name  string
	Steps []Step
}

// Step is a change or, if Expect is set, an expectation.
type Step struct {
	Line        string
	Expect, Not bool
	Verb        string
	Words       []string
	Text        []string // the lines after the step that begin with |
}

// Word returns the i-th word after the verb, or "" if there is none.
func (s *Step) Word(i int) string {
	if i < len(s.Words) {
		return s.Words[i]
	}
	return ""
}

// Driver plays steps on a layer.
type Driver interface {
	// Do makes a change.
	Do(step *Step) error
	// See returns an error unless the layer shows what the step describes. The driver decides whether to wait for it.
	See(step *Step) error
}

// Play performs the steps in order.
func (s *Scenario) Play(d Driver) error {
	for i := range s.Steps {
		step := &s.Steps[i]
		do := d.Do
		if step.Expect {
			do = d.See
		}
		if err := do(step); err != nil {
			return fmt.Errorf("%s.txt, %s: %s: %w", s.File, s.Name, step.Line, err)
		}
	}
	return nil
}

// Load returns the scenarios of all files.
func Load() ([]Scenario, error) {
	entries, err := table.ReadDir("table")
	if err != nil {
		return nil, err
	}

	var all []Scenario
	for _, e := range entries {
		raw, err := table.ReadFile(path.Join("table", e.Name()))
		if err != nil {
			return nil, err
		}
		list, err := Parse(string(raw))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for i := range list {
			list[i].File = strings.TrimSuffix(e.Name(), ".txt")
		}
		all = append(all, list...)
	}

	return all, nil
}

// Find returns the scenarios of a file; if name is not empty, only those with that name.
func Find(file, name string) ([]Scenario, error) {
	all, err := Load()
	all = slices.DeleteFunc(all, func(s Scenario) bool { return s.File != file || name != "" && s.Name != name })
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("there is no scenario %q in %s.txt", name, file)
	}
	return all, err
}

// unknown matches a {NAME} that was not replaced.
var unknown = regexp.MustCompile(`\{[a-z]+\}`)

// row is one choice of values for some variables.
type row struct {
	name   string
	values map[string]string
}

// Parse parses the text of a file.
func Parse(text string) ([]Scenario, error) {
	var all []Scenario
	for i, section := range strings.Split("\n"+text, "\n== ") {
		if i == 0 {
			continue
		}
		name, body, _ := strings.Cut(section, "\n")
		list, err := expand(strings.TrimSpace(name), body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// expand returns one scenario for each combination of values.
func expand(name, body string) ([]Scenario, error) {
	var lines []string
	var cases []row
	rows := []row{{name, nil}}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		words := Split(line)
		switch {
		case line == "", line[0] == '#':
		case words[0] == "each":
			var values []row
			for _, v := range words[2:] {
				values = append(values, row{v, map[string]string{words[1]: v}})
			}
			rows = combine(rows, values)
		case words[0] == "case":
			values, err := pairs(words[2:])
			if err != nil {
				return nil, err
			}
			cases = append(cases, row{words[1], values})
		default:
			lines = append(lines, line)
		}
	}

	if len(cases) > 0 {
		rows = combine(rows, cases)
	}

	names := map[string]string{}
	for _, r := range rows {
		maps.Copy(names, r.values)
	}

	var all []Scenario
	for _, r := range rows {
		s := Scenario{Name: r.name}
		for _, line := range lines {
			line = replaced(line, names, r.values)
			if unknown.MatchString(line) {
				return nil, errors.New("a value that no row has: " + line)
			}
			if err := s.add(line); err != nil {
				return nil, err
			}
		}
		if !slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Expect }) {
			return nil, errors.New("nothing is expected")
		}
		all = append(all, s)
	}

	return all, nil
}

// combine returns all combinations of a row of a with a row of b.
func combine(a, b []row) []row {
	var out []row
	for _, x := range a {
		for _, y := range b {
			both := row{x.name + ", " + y.name, map[string]string{}}
			maps.Copy(both.values, x.values)
			maps.Copy(both.values, y.values)
			out = append(out, both)
		}
	}
	return out
}

func pairs(words []string) (map[string]string, error) {
	out := map[string]string{}
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form NAME=VALUE", w)
		}
		out[k] = v
	}
	return out, nil
}

func replaced(line string, names, values map[string]string) string {
	for k := range names {
		line = strings.ReplaceAll(line, "{"+k+"}", values[k])
	}
	return line
}

// add adds the steps of a line, or adds the line to the text of the last step.
func (s *Scenario) add(line string) error {
	if text, ok := strings.CutPrefix(line, "|"); ok {
		if len(s.Steps) == 0 {
			return errors.New("a text without a step: " + line)
		}
		if text = strings.TrimSpace(text); text != "" {
			last := &s.Steps[len(s.Steps)-1]
			last.Text = append(last.Text, text)
		}
		return nil
	}

	for strings.HasPrefix(line, "[") {
		condition, rest, _ := strings.Cut(line, "] ")
		left, right, _ := strings.Cut(condition[1:], "=")
		left, not := strings.CutSuffix(left, "!")
		if (left == right) == not {
			return nil
		}
		line = rest
	}

	for text := range strings.SplitSeq(line, " ; ") {
		words := Split(text)
		if len(words) == 0 {
			continue
		}
		step := Step{Line: strings.TrimSpace(text)}
		step.Expect = words[0] == "expect"
		if step.Expect {
			words = words[1:]
		}
		if step.Not = step.Expect && len(words) > 0 && words[0] == "not"; step.Not {
			words = words[1:]
		}
		if len(words) == 0 {
			return errors.New("nothing to do: " + text)
		}
		step.Verb, step.Words = words[0], words[1:]
		s.Steps = append(s.Steps, step)
	}

	return nil
}

// Split splits at blanks outside of quotes, which are " or `, and removes the quotes.
func Split(s string) []string {
	var out []string
	var word strings.Builder
	quote, some := rune(0), false
	for _, r := range s + " " {
		switch {
		case quote == 0 && (r == '"' || r == '`'):
			quote, some = r, true
		case r == quote:
			quote = 0
		case r == ' ' && quote == 0:
			if some {
				out = append(out, word.String())
			}
			word.Reset()
			some = false
		default:
			word.WriteRune(r)
			some = true
		}
	}

	return out
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// history is a generated scenario: lines that describe the world and the controller, then lines of steps, in the
// language of pkg/testenv/script. See explorer.Do for the steps. A step that is impossible in the current state,
// because its Service or its node was deleted, does nothing. So a history without some of its lines is still a history.
type history []string

// String returns the history as a scenario.
func (h history) String() string {
	return "== a history\n" + strings.Join(h, "\n") + "\nexpect promises\n"
}

// parts returns the lines that describe the world and the controller, and the steps.
func (h history) parts() (setup, steps []string) {
	settings := []string{"world", "nodes", "tenancy", "latency", "seed", "controllers", "config", "second-cluster"}
	n := slices.IndexFunc(h, func(line string) bool {
		verb, _, _ := strings.Cut(line, " ")
		return !slices.Contains(settings, verb)
	})
	if n < 0 {
		n = len(h)
	}
	return h[:n], h[n:]
}

//go:embed testdata/histories.txt
var grammar string

// generator generates a history from a seed by the grammar of testdata/histories.txt.
type generator struct {
	*rand.Rand
	rules map[string][]string // alternatives by rule; one with a weight is there several times
	kinds []string            // the place, and faults: endings of the names of rules that apply, too
	same  map[string]string   // <name N> in the current text
	made  int                 // how many names operators have given
}

// generate returns the history of a seed.
func generate(seed uint64) history {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 77)), rules: rulesOf(grammar)}
	place := g.text("<place>")
	g.rules["place"], g.kinds = []string{place}, []string{place}
	g.rules["key"] = g.rules["key"][:3+g.IntN(4)]
	h := append(g.steps("<setup>"), fmt.Sprintf("seed %d", seed))
	if slices.Contains(h, "second-cluster") {
		g.kinds = append(g.kinds, "second")
	}
	if g.Float64() < 0.75 {
		g.kinds = append(g.kinds, "faults")
	}

	h = slices.Concat(h, g.steps("<create>"), g.steps("<create>"))
	for range 20 + g.IntN(41) {
		h = append(h, g.steps("<step> <pause>")...)
	}
	return h
}

// rulesOf parses a grammar.
func rulesOf(grammar string) map[string][]string {
	rules, name := map[string][]string{}, ""
	for line := range strings.Lines(grammar) {
		text, inside := strings.CutPrefix(strings.TrimRight(line, "\n"), "  ")
		switch {
		case text == "", strings.HasPrefix(text, "#"):
		case inside:
			weight, alternative, _ := strings.Cut(text, " ")
			n, _ := strconv.Atoi(weight)
			rules[name] = append(rules[name], slices.Repeat([]string{alternative}, n)...)
		default:
			name, text, _ = strings.Cut(text, ":")
			if text != "" {
				rules[name] = strings.Split(text, "|")
			}
		}
	}
	return rules
}

// steps returns the steps of a text.
func (g *generator) steps(text string) (steps []string) {
	g.same = map[string]string{}
	for step := range strings.SplitSeq(g.text(text), " ; ") {
		if words := strings.Fields(step); len(words) > 0 {
			steps = append(steps, strings.Join(words, " "))
		}
	}
	return steps
}

// choice is an innermost <...> of a text.
var choice = regexp.MustCompile("<[^<>]*>")

// text replaces all choices of a text.
func (g *generator) text(text string) string {
	for choice.MatchString(text) {
		text = choice.ReplaceAllStringFunc(text, func(c string) string { return g.choose(c[1 : len(c)-1]) })
	}
	return strings.TrimSpace(text)
}

// choose returns one of several words, a number, a new name, or an alternative of a rule.
func (g *generator) choose(of string) string {
	if words := strings.Split(of, "|"); len(words) > 1 {
		return words[g.IntN(len(words))]
	}

	var from, to int
	if n, _ := fmt.Sscanf(of, "%d-%d", &from, &to); n == 2 {
		return strconv.Itoa(from + g.IntN(to-from+1))
	}

	name, rest, again := strings.Cut(of, " ")
	if name == "new" {
		g.made++
		made := fmt.Sprint("F", g.made)
		g.rules["undo"] = append(g.rules["undo"], fmt.Sprintf(rest, made))
		return made
	}

	if g.same[of] != "" {
		return g.same[of]
	}

	all := slices.Clone(g.rules[name])
	for _, kind := range g.kinds {
		all = append(all, g.rules[name+"."+kind]...)
	}
	out := g.text(all[g.IntN(len(all))])
	if again {
		g.same[of] = out
	}
	return out
}

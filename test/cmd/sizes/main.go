// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command sizes prints the size of each part of the repository, in Go tokens, and its ceiling. It exits with 1 if a
// part is too large.
//
// Tokens are those of go/scanner, without comments, generated code and trailing commas. So blank lines, comments, line
// breaks and long names cost nothing. Lines are printed for comparison only.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// part is a part of the repository.
type part struct {
	// name is its folder, or smallPackages or tests, which are not folders.
	name string
	// ceiling is the maximum number of tokens.
	ceiling int
	// until is the maximum for a part that is above its ceiling; otherwise 0. Lower it when the part shrinks.
	until int

	tokens int
	lines  int
}

const (
	// smallPackages are the packages of pkg/ without a ceiling of their own.
	smallPackages = "pkg (others)"
	// tests are test files, the module test/ and the packages that only tests import.
	tests = "tests"
)

// parts returns the parts with their ceilings from the design.
func parts() []*part {
	return []*part{
		{name: "cmd/cloudstack-ccm", ceiling: 1_700},
		{name: "cmd/csccm", ceiling: 20_500},
		{name: "cmd/cloudstack-sim", ceiling: 3_000},
		{name: "pkg/cloudstack", ceiling: 23_000},
		{name: "pkg/inventory", ceiling: 4_500},
		{name: "pkg/annotation", ceiling: 8_400},
		{name: "pkg/service", ceiling: 16_000, until: 19_165},
		{name: "pkg/loadbalancer", ceiling: 47_000, until: 53_988},
		{name: "pkg/node", ceiling: 14_500},
		{name: "pkg/provider", ceiling: 5_700},
		{name: "pkg/ui", ceiling: 14_000},
		{name: "pkg/simulator", ceiling: 152_000},
		{name: smallPackages, ceiling: 6_500},
		{name: "installer", ceiling: 152_000, until: 170_383},
		{name: "release", ceiling: 500},
		{name: tests, ceiling: 530_000, until: 554_015},
	}
}

// generated is the line that marks generated code: https://go.dev/s/generatedcode.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func main() {
	within, err := run()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(2)
	}
	if !within {
		os.Exit(1)
	}
}

// run prints the table and reports whether all parts are within their ceilings.
func run() (within bool, err error) {
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return false, err
	}
	if err := os.Chdir(strings.TrimSpace(top)); err != nil {
		return false, err
	}
	listed, err := git("ls-files", "-z", "--", "*.go")
	if err != nil {
		return false, err
	}

	all := parts()
	for file := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		p := partOf(all, file)
		if p == nil {
			continue
		}
		if err := p.add(file); err != nil {
			return false, err
		}
	}

	return printTable(all), nil
}

// git returns the output of a git command.
func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output() //nolint:noctx // ends by itself
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}

// partOf returns the part that a file belongs to, or nil if it has no ceiling.
func partOf(all []*part, file string) *part {
	folders := strings.Split(file, "/")
	isTest := strings.HasSuffix(file, "_test.go") || folders[0] == "test" || strings.Contains(file, "/testenv/")
	find := func(name string) *part {
		for _, p := range all {
			if p.name == name {
				return p
			}
		}
		return nil
	}

	switch {
	case isTest:
		return find(tests)
	case len(folders) < 3:
		return find(folders[0])
	}
	if p := find(folders[0] + "/" + folders[1]); p != nil {
		return p
	}
	if folders[0] == "pkg" {
		return find(smallPackages)
	}
	return find(folders[0])
}

// add counts a file. A tracked file that was deleted counts nothing.
func (p *part) add(file string) error {
	source, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if generated.Match(source) {
		return nil
	}
	n, err := tokensOf(file, source)
	if err != nil {
		return err
	}
	p.tokens += n
	p.lines += bytes.Count(source, []byte("\n"))
	return nil
}

// tokensOf counts the tokens of a file without comments and without what only line breaks need: the semicolons that Go
// inserts at line ends, the comma before a closing bracket on the next line, and the plus between parts of a split
// string.
func tokensOf(file string, source []byte) (n int, err error) {
	var s scanner.Scanner
	fail := func(at token.Position, message string) { err = fmt.Errorf("%s: %s", at, message) }
	s.Init(token.NewFileSet().AddFile(file, -1, len(source)), source, fail, 0)

	var last, lastButOne token.Token
	for {
		_, kind, literal := s.Scan()
		if kind == token.EOF {
			return n, err
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue
		}

		closes := kind == token.RPAREN || kind == token.RBRACE || kind == token.RBRACK
		switch {
		case closes && last == token.COMMA: // replaces the comma
		case kind == token.STRING && last == token.ADD && lastButOne == token.STRING:
			n-- // the plus
		default:
			n++
		}
		lastButOne, last = last, kind
	}
}

// printTable prints each part with its ceiling and reports whether all parts are within their ceilings.
func printTable(all []*part) (within bool) {
	within = true
	fmt.Printf("%-20s %9s %9s %8s\n", "part", "tokens", "ceiling", "lines")
	for _, p := range all {
		note := ""
		switch {
		case p.tokens <= p.ceiling:
		case p.tokens <= p.until:
			note = "  above its ceiling"
		default:
			note = fmt.Sprintf("  TOO LARGE: at most %d", max(p.ceiling, p.until))
			within = false
		}
		fmt.Printf("%-20s %9d %9d %8d%s\n", p.name, p.tokens, p.ceiling, p.lines, note)
	}
	return within
}

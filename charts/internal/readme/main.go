// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command readme generates the README.md of a chart from its values.yaml.
//
//	readme [--check] CHART-DIR
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "change nothing, fail if a file is not up to date")
	flag.Parse()
	if err := run(flag.Args(), *check); err != nil {
		fmt.Fprintf(os.Stderr, "readme: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, check bool) error {
	if len(args) != 1 {
		return errors.New("want one argument: the chart's directory")
	}

	want, err := Generate(os.DirFS(args[0]))
	if err != nil {
		return err
	}

	file := filepath.Join(args[0], "README.md")
	if !check {
		return os.WriteFile(file, want, 0o644) //nolint:gosec // a public file
	}

	have, err := os.ReadFile(file)
	if err == nil && !bytes.Equal(have, want) {
		err = fmt.Errorf("%s is not up to date: run go generate ./charts", file)
	}

	return err
}

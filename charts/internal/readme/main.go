// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command readme writes README.md of a chart from the comments of its values.yaml.
//
//	readme [--check] CHART-FOLDER
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
	check := flag.Bool("check", false, "change nothing, fail if README.md is not up to date")
	flag.Parse()
	if err := run(flag.Args(), *check); err != nil {
		fmt.Fprintf(os.Stderr, "readme: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, check bool) error {
	if len(args) != 1 {
		return errors.New("want one argument, the chart's folder")
	}
	want, err := Generate(os.DirFS(args[0]))
	if err != nil {
		return err
	}
	file := filepath.Join(args[0], "README.md")
	if check {
		have, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, want) {
			return fmt.Errorf("%s is not up to date: run go generate ./charts", file)
		}
		return nil
	}
	return os.WriteFile(file, want, 0o644) //nolint:gosec // a public file
}

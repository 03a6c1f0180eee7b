// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command readme writes README.md of a chart, and a page of its values, from the comments of its values.yaml.
//
//	readme [--check] CHART-FOLDER VALUES-PAGE
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
	check := flag.Bool("check", false, "change nothing, fail if a page is not up to date")
	flag.Parse()
	if err := run(flag.Args(), *check); err != nil {
		fmt.Fprintf(os.Stderr, "readme: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, check bool) error {
	if len(args) != 2 {
		return errors.New("want two arguments, the chart's folder and the page of its values")
	}
	folder := os.DirFS(args[0])
	for file, page := range map[string]string{filepath.Join(args[0], "README.md"): readmePage, args[1]: valuesPage} {
		want, err := Generate(folder, page)
		if err != nil {
			return err
		}
		if !check {
			if err := os.WriteFile(file, want, 0o644); err != nil { //nolint:gosec // a public file
				return err
			}
			continue
		}
		have, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, want) {
			return fmt.Errorf("%s is not up to date: run go generate ./charts", file)
		}
	}
	return nil
}

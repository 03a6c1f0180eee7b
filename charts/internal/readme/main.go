// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command readme generates the README.md of a chart, and the descriptions and defaults in its
// values.schema.json from its values.yaml.
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
	folder := os.DirFS(args[0])
	pages := map[string]func() ([]byte, error){
		filepath.Join(args[0], "README.md"):          func() ([]byte, error) { return Generate(folder) },
		filepath.Join(args[0], "values.schema.json"): func() ([]byte, error) { return Schema(folder) },
	}
	for file, generate := range pages {
		want, err := generate()
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

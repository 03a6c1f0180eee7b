// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command policydoc writes the releases of CloudStack into the support policy.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/csccm/csccm/pkg/simulator"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "policydoc:", err)
		os.Exit(1)
	}
}

func write(file string) error {
	text, err := os.ReadFile(file) //nolint:gosec // the document
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), simulator.TableStart)
	_, after, ended := strings.Cut(rest, simulator.TableEnd)
	if !found || !ended {
		return errors.New(file + " has no place for the table: " + simulator.TableStart)
	}
	return os.WriteFile(file, []byte(before+simulator.DifferencesTable()+after), 0o644) //nolint:gosec // for everybody
}

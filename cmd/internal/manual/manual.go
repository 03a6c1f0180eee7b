// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manual writes manual pages. The programs import it only in builds with the tag manual, so that released
// programs do not contain the formatter.
package manual

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Exit writes the manual pages of root and its commands into the folder of the first argument, and ends the process.
// Their date is SOURCE_DATE_EPOCH.
func Exit(root *cobra.Command, version string) {
	keepLines(root)
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: version, Manual: "csccm"},
		os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keepLines marks descriptions with columns or commands as code: otherwise the formatter joins their lines.
func keepLines(c *cobra.Command) {
	if strings.Contains(c.Long, "\n ") {
		c.Long = "```\n" + c.Long + "\n```"
	}
	for _, sub := range c.Commands() {
		keepLines(sub)
	}
}

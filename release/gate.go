// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/release/internal/gate"
)

// gateSettings are the flags of the checks that a tree must pass before a release.
type gateSettings struct {
	govulncheck    string
	vulnDB         string
	allowUnchecked bool
}

func (g *gateSettings) addGate(flags *pflag.FlagSet) {
	flags.StringVar(&g.govulncheck, "govulncheck", "go tool -modfile=release/tools/go.mod govulncheck", "command line of govulncheck, which runs in the source tree")
	flags.StringVar(&g.vulnDB, "vuln-db", "", "URL of govulncheck's database, such as file:///copy (default: https://vuln.go.dev)")
	flags.BoolVar(&g.allowUnchecked, "allow-unchecked-vulnerabilities", false, "continue if that database cannot be reached; the release notes mention it")
}

func (g *gateSettings) conditions(dir string) gate.Conditions {
	return gate.Conditions{Dir: dir, Govulncheck: strings.Fields(g.govulncheck), VulnDB: g.vulnDB, AllowUnchecked: g.allowUnchecked}
}

func newCheckCommand(s *settings) *cobra.Command {
	var g gateSettings
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether this tree may be released",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := s.tree(cmd.Context())
			if err != nil {
				return err
			}
			findings, refused := gate.Check(cmd.Context(), tree, g.conditions(s.root))
			for _, f := range findings {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), f); err != nil {
					return err
				}
			}
			return refused
		},
	}
	g.addGate(cmd.Flags())
	return cmd
}

func newTestCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "test [COMMAND [ARGUMENT...]]",
		Short: "Run the tests and record that they passed",
		Long: "Run the tests (default: make test lint) on a clean tree and record in git's directory that they passed for this\n" +
			"content. Without that record `release make` refuses the tree.",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"make", "test", "lint"}
			}
			if args[0] == "" {
				return errors.New("no command to run")
			}
			record, err := gate.Test(cmd.Context(), s.root, s.version, args, cmd.ErrOrStderr(), time.Now)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "passed in %d s, recorded for the content of commit %.12s\n", record.Seconds, record.Revision)
			return err
		},
	}
}

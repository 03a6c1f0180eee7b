// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes, checks and publishes releases of csccm.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/release/internal/source"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// settings are the flags of all commands.
type settings struct {
	// root is the directory of the source tree.
	root    string
	version string
}

func (s *settings) tree(ctx context.Context) (source.Tree, error) {
	return source.Read(ctx, s.root, s.version)
}

// Help lists commands in the order of use. Cobra has only a global switch for that.
func init() { cobra.EnableCommandSorting = false }

func newCommand(out, errOut io.Writer) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Make, check and publish releases of csccm",
		Long: `Make, check and publish releases of csccm: programs, container images and the
Helm chart, with SBOMs, provenance and signatures. It needs Go and git, but no
container engine, Helm or cosign. It connects only to the Go module proxy, the
vulnerability database and the registries that you name.

A release takes four commands (see docs/release.md):

  git tag -s v1.2.3
  go run ./release test                       run the tests and record the result
  go run ./release make --key cosign.key      write the release to dist/
  go run ./release publish --key cosign.key --registry ghcr.io/csccm --site ../pages

Releases are reproducible: the same commit, Go and version give the same bytes.
All times are the time of the commit, or SOURCE_DATE_EPOCH if it is set.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
	}
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	cmd.PersistentFlags().StringVar(&s.root, "source", ".", "directory of the source tree")
	cmd.PersistentFlags().StringVar(&s.version, "version", "", "version to make, such as v1.2.3 (default: git describe)")
	cmd.CompletionOptions.DisableDefaultCmd = true
	groups := []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Release:", []*cobra.Command{
			newVersionCommand(s), newTestCommand(s), newCheckCommand(s), newMakeCommand(s), newPublishCommand(s), newKeyCommand(),
		}},
		{"Parts of a release:", []*cobra.Command{
			newImageCommand(s), newChartCommand(s), newManifestCommand(s), newIndexCommand(s), newPushChartCommand(s), newCertificatesCommand(),
		}},
		{"Other:", []*cobra.Command{newMirrorCommand(s), newServeCommand()}},
	}
	for _, g := range groups {
		cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			cmd.AddCommand(c)
		}
	}
	return cmd
}

func newVersionCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions that a release of this tree has",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := s.tree(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "binaries  %s (commit %s, %s)\nimages    %s\nchart     %s (appVersion %s)\nkubernetes %s or newer, built on %s\n",
				tree.Stamp, tree.Commit, tree.Date(), tree.ImageTag(), tree.Version, tree.Tag(), supported.Minimum, supported.Built)
			return err
		},
	}
}

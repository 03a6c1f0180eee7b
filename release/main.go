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
	cmd.AddCommand(
		newTestCommand(s), newCheckCommand(s), newMakeCommand(s), newPublishCommand(s), newKeyCommand(), newPublishKeyCommand(s),
		newImageCommand(s), newChartCommand(s), newManifestCommand(s), newCertificatesCommand(), newServeCommand(),
	)
	return cmd
}

// step is a step of a release. Its description is printed before it runs.
type step struct {
	what string
	do   func(context.Context) error
}

// runSteps prints and runs the steps; a dry run only prints them.
func runSteps(ctx context.Context, out io.Writer, dryRun bool, steps []step) error {
	prefix := ""
	if dryRun {
		prefix = "would "
	}
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, prefix+s.what); err != nil {
			return err
		}
		if dryRun {
			continue
		}
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

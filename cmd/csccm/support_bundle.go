// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/bundle"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

type bundleFlags struct {
	file      string
	keepNames bool
}

func newSupportBundleCommand(g *cli.Globals) *cobra.Command {
	f := &bundleFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "support-bundle",
		Short: "Collect information for a bug report, without secrets",
		Long: `support-bundle runs all checks and packs their report with what they rest on
(nodes, Services, rules, the controller's Pods, its log of the last hour, Events)
into a tar.gz. Unpack it and open index.html in a browser; it needs no network.

Only fields that are on a list go in: no Secret, no environment, no other Pods.
Credentials, and what looks like them, are removed from all texts. Names and
addresses become pseudonyms unless --keep-names is given. Nothing is sent anywhere.`,
		Example: `  csccm support-bundle

  # for somebody who knows the cluster
  csccm support-bundle --keep-names --file trouble.tar.gz

  # look at it at once
  csccm support-bundle --file - | tar -xz && xdg-open csccm-support-*/index.html`,
	}, cli.FlagRelease|cli.FlagCloud, func(ctx context.Context, _ []string) error { return f.run(ctx, g) })
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "file to write, - for stdout (default csccm-support-TIME.tar.gz in this folder)")
	flags.BoolVar(&f.keepNames, "keep-names", false, "leave names and addresses as they are")
	return cmd
}

func (f *bundleFlags) run(ctx context.Context, g *cli.Globals) error {
	if f.file == "-" && g.Output != "" {
		return cli.Usagef("--file - puts the archive on stdout: not with -o")
	}
	if f.file != "" && f.file != "-" {
		if err := bundle.NewFile("--file", f.file); err != nil {
			return err
		}
	}
	c, err := cluster.New(g.Kube)
	if err != nil {
		return err
	}
	phase := check.PhaseOf(ctx, c, g.Release)
	env, closeEnv := check.Connect(ctx, c, g.Style(g.Out), g.Release, g.CloudConfig, phase)
	defer closeEnv()
	var r check.Report
	var facts *check.Facts
	checking(g, func(step func(check.Result)) {
		r, facts = check.Inspect(ctx, env, check.Selection{Phase: phase, AllMembers: true}, step)
	})
	if ctx.Err() != nil {
		return inTime(ctx, fmt.Errorf("%w: nothing was written", context.Cause(ctx)))
	}
	files, err := bundle.Files(bundle.Input{Env: env, Report: r, Facts: facts, KeepNames: f.keepNames})
	if err != nil {
		return err
	}
	pack := func(w io.Writer) error { return bundle.Write(w, facts.At, files) }
	if f.file == "-" {
		return pack(terminal.Raw(g.Out)) // an archive
	}
	if f.file == "" {
		f.file = bundle.Folder(facts.At) + ".tar.gz"
	}
	if err := bundle.WriteNew("--file", f.file, pack); err != nil {
		return err
	}
	if g.Format != "text" {
		names := []string{}
		for _, file := range files {
			names = append(names, file.Name)
		}
		return report.Encode(g.Out, g.Format, map[string]any{"schemaVersion": 1, "file": f.file, "files": names})
	}
	_, err = fmt.Fprintln(g.Out, f.file)
	_, _ = fmt.Fprintf(g.ErrOut, "%s, %d ok, %d warning, %d failed, %d unknown. Look through them before you hand them on.\n",
		plural.Count(len(files), "file"), r.Summary.OK, r.Summary.Warning, r.Summary.Failed, r.Summary.Unknown)
	return err
}

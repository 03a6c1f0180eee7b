// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/commands/bundle"
	"github.com/csccm/csccm/installer/commands/ui"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

func newUICommand(g *cli.Globals) *cobra.Command {
	noOpen, export, interval := false, "", 30*time.Second
	cmd := g.Command(&cobra.Command{
		Use:         "ui",
		Short:       "Show the cluster as a live page in the browser",
		Annotations: cli.Outputs("text"),
	}, cli.FlagRelease|cli.FlagCloud,
		func(ctx context.Context, _ []string) error { return runUI(ctx, g, noOpen, export, interval) })
	flags := cmd.Flags()
	flags.BoolVar(&noOpen, "no-open", false, "print the address, and open no browser")
	flags.StringVar(&export, "export", "", "write the page into this file, which must not exist, and end; - for stdout")
	flags.DurationVar(&interval, "interval", interval, "time between two reads of CloudStack, if no Service changes")
	g.DefaultTimeout(cmd, 0, func() bool { return export == "" }) // the page is served until ^C
	return cmd
}

func runUI(ctx context.Context, g *cli.Globals, noOpen bool, export string, interval time.Duration) error {
	if interval < cli.MinInterval {
		return cli.Usagef("--interval %s is too short; at least %s", interval, cli.MinInterval)
	}

	if g.CloudConfig != "" {
		if _, err := access.ReadFile(g.CloudConfig); err != nil {
			return err
		}
	}

	if err := report.IsNew("--export", export); err != nil {
		return err
	}

	c, err := g.ClusterOfRelease(ctx)
	if err != nil {
		return err
	}

	if c, err = c.Watching(); err != nil {
		return err
	}

	source := ui.New(ui.Options{
		Cluster:     c,
		Release:     g.Release,
		CloudConfig: g.CloudConfig,
		Style:       g.Style(g.Out),
		Interval:    interval,
		Redact:      bundle.Redaction,
	})

	if export == "" {
		return cli.Watched(source.Serve(ctx, g.Out, g.ErrOut, !noOpen && g.Interactive()))
	}

	snapshot, err := source.Once(ctx)
	if err != nil {
		return inTime(ctx, fmt.Errorf("%w: nothing was written", context.Cause(ctx)))
	}

	pack := func(w io.Writer) error { return page.Export(w, snapshot) }
	if export == "-" {
		return pack(g.Out)
	}

	if err := report.WriteNew("--export", export, pack); err != nil {
		return err
	}

	_, err = fmt.Fprintln(g.Out, export)
	return err
}

func newSupportBundleCommand(g *cli.Globals) *cobra.Command {
	path, keepNames := "", false
	cmd := g.Command(&cobra.Command{
		Use:   "support-bundle",
		Short: "Collect information for a bug report, without secrets",
	}, cli.FlagRelease|cli.FlagCloud,
		func(ctx context.Context, _ []string) error { return saveBundle(ctx, g, path, keepNames) })
	flags := cmd.Flags()
	flags.StringVar(&path, "file", "", "file to write, - for stdout (default csccm-support-TIME.tar.gz in this folder)")
	flags.BoolVar(&keepNames, "keep-names", false, "leave names and addresses as they are")
	return cmd
}

func saveBundle(ctx context.Context, g *cli.Globals, path string, keepNames bool) error {
	if path == "-" && g.Output != "" {
		return cli.Usagef("--file - puts the archive on stdout: not with -o")
	}

	if err := report.IsNew("--file", path); err != nil {
		return err
	}

	c, err := cluster.New(g.Kube)
	if err != nil {
		return err
	}

	phase := inspect.PhaseOf(ctx, c, g.Release)
	env, closeEnv := inspect.Connect(ctx, c, g.Style(g.Out), g.Release, g.CloudConfig, phase)
	defer closeEnv()

	var r check.Report
	var facts *check.Facts
	checking(g, func(step func(check.Result)) {
		r, facts = inspect.Run(ctx, env, check.Selection{Phase: phase, AllMembers: true}, step)
	})
	if ctx.Err() != nil {
		return inTime(ctx, fmt.Errorf("%w: nothing was written", context.Cause(ctx)))
	}

	files, err := bundle.Files(r, facts, keepNames)
	if err != nil {
		return err
	}

	pack := func(w io.Writer) error { return bundle.Write(w, facts.At, files) }
	if path == "-" {
		return pack(terminal.Raw(g.Out)) // an archive must not be escaped
	}

	if path == "" {
		path = bundle.Folder(facts.At) + ".tar.gz"
	}

	if err := report.WriteNew("--file", path, pack); err != nil {
		return err
	}

	if g.Format != "text" {
		names := []string{}
		for _, file := range files {
			names = append(names, file.Name)
		}
		return report.Encode(g.Out, g.Format, map[string]any{"schemaVersion": 1, "file": path, "files": names})
	}

	_, err = fmt.Fprintln(g.Out, path)
	_, _ = fmt.Fprintf(g.ErrOut, "%s, %s. Review them before you share them.\n",
		english.Plural(len(files), "file", ""), r.Summary.Text(0))
	return err
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/bundle"
	"github.com/csccm/csccm/installer/commands/ui"
	"github.com/csccm/csccm/installer/commands/ui/picture"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/podhttp"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/server"
)

type uiFlags struct {
	noOpen   bool
	export   string
	interval time.Duration
}

func newUICommand(g *cli.Globals) *cobra.Command {
	f := &uiFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "ui",
		Short: "Show the cluster as a live page in the browser",
		Long: `ui opens a page that shows which Service has which address, which rule leads to which
node and VM, what doctor finds, and what the controller would do. The page changes as
the cluster does. It only reads.

The page is served on 127.0.0.1, at a random port, until ^C. The printed address has a
token, which is valid for one browser: start ui again for another. --export writes the
page as one file without scripts, and ends.

The credentials are those of the controller, or those of --cloud-config. Without
either, the page shows Kubernetes alone.`,
		Example: `  csccm ui

  # without a browser here: print the address, reach the port by ssh
  csccm ui --no-open

  # one file, for a ticket
  csccm ui --export map.html`,
		Annotations: cli.Outputs("text"),
	}, cli.FlagRelease|cli.FlagCloud, func(ctx context.Context, _ []string) error { return f.run(ctx, g) })
	flags := cmd.Flags()
	flags.BoolVar(&f.noOpen, "no-open", false, "print the address, and open no browser")
	flags.StringVar(&f.export, "export", "", "write the page into this file, which must not exist, and end; - for stdout")
	flags.DurationVar(&f.interval, "interval", 15*time.Second, "time between two reads of CloudStack; changes in Kubernetes show at once")
	g.DefaultTimeout(cmd, 0, func() bool { return f.export == "" }) // a page ends by ^C
	return cmd
}

func (f *uiFlags) run(ctx context.Context, g *cli.Globals) error {
	if f.interval < cli.MinInterval {
		return cli.Usagef("--interval %s is too short; at least %s", f.interval, cli.MinInterval)
	}
	if f.export != "" && f.export != "-" {
		if err := bundle.NewFile("--export", f.export); err != nil {
			return err
		}
	}
	if g.CloudConfig != "" {
		if _, err := cloud.ReadFile(g.CloudConfig); err != nil {
			return err
		}
	}
	c, err := g.ClusterOfRelease(ctx)
	if err != nil {
		return err
	}
	if c, err = c.ReadOnly(); err != nil {
		return c.Explain(err)
	}
	source, closeSource := f.source(ctx, g, c)
	defer closeSource()
	if f.export != "" {
		return f.write(ctx, g, source)
	}
	return f.serve(ctx, g, source)
}

// source reads with the credentials of the controller. Without them it shows the cluster alone.
func (f *uiFlags) source(ctx context.Context, g *cli.Globals, c *cluster.Cluster) (source *ui.Source, closeSource func()) {
	flags := c.Args(g.Release) // with which another csccm looks at the same cluster
	if g.CloudConfig != "" {
		flags = append(flags, "--cloud-config", g.CloudConfig)
	}
	keys := &uiKeys{cluster: c, globals: g, clean: bundle.Redaction(nil), closeCloud: func() {}}
	o := ui.Options{
		Kube: c.Kube, Namespace: c.Namespace, Title: picture.Title(c.Context), Flags: shellquote.Join(flags...), Interval: f.interval,
		Clean: func(text string) string { return keys.clean(text) }, Reconnect: keys.connect,
		Inspect: func(ctx context.Context) (check.Report, *check.Facts) {
			env, closeEnv := check.Connect(ctx, c, g.Style(g.Out), g.Release, g.CloudConfig, check.PhaseInstalled)
			defer closeEnv()
			return check.Inspect(ctx, env, check.Selection{Phase: check.PhaseInstalled}, nil)
		},
	}
	if c.REST != nil {
		o.Metrics = func(ctx context.Context, pod *corev1.Pod) ([]byte, error) {
			return podhttp.Get(ctx, c.Kube, c.REST, pod, check.PortOf(pod), "metrics")
		}
	}
	o.CloudStack, o.Planner, o.NoCloudStack = keys.connect(ctx)
	return ui.New(o), func() { keys.closeCloud() }
}

// uiKeys connects to CloudStack with the credentials of the moment.
type uiKeys struct {
	cluster    *cluster.Cluster
	globals    *cli.Globals
	secrets    []string // also those of before, which texts may still have
	clean      func(string) string
	closeCloud func()
}

func (k *uiKeys) connect(ctx context.Context) (ui.CloudStack, *ui.Planner, error) {
	cs, err := cloud.Of(ctx, k.cluster, k.globals.CloudConfig)
	if err != nil {
		return nil, nil, err
	}
	k.secrets = append(k.secrets, cs.Config.APIKey, cs.Config.SecretKey)
	k.clean = bundle.Redaction(k.secrets)
	previewer, settings, err := plan.PreviewerOf(ctx, k.cluster, cs, k.globals.Release, "")
	if err != nil {
		cs.Close()
		return nil, nil, k.cluster.Explain(err)
	}
	k.closeCloud()
	k.closeCloud = cs.Close
	return cs.Client, &ui.Planner{Previewer: previewer, Settings: settings}, nil
}

// write writes one look at the cluster into a file.
func (f *uiFlags) write(ctx context.Context, g *cli.Globals, source *ui.Source) error {
	snapshot, err := source.Once(ctx)
	if err != nil {
		return inTime(ctx, fmt.Errorf("%w: nothing was written", context.Cause(ctx)))
	}
	pack := func(w io.Writer) error { return page.Export(w, snapshot) }
	if f.export == "-" {
		return pack(g.Out)
	}
	if err := bundle.WriteNew("--export", f.export, pack); err != nil {
		return err
	}
	_, err = fmt.Fprintln(g.Out, f.export)
	return err
}

// serve shows the page until ctx ends.
func (f *uiFlags) serve(ctx context.Context, g *cli.Globals, source *ui.Source) error {
	s, err := server.Listen(ctx, server.Options{Source: source, Files: page.Files()})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(g.Out, s.URL()); err != nil {
		return errors.Join(err, s.Close())
	}
	note := "The address is valid for one browser. ^C ends the page."
	if !f.noOpen && g.Interactive() {
		remove, err := server.Open(ctx, s.URL())
		defer remove()
		if err != nil {
			note = "No browser could be opened (" + strings.TrimSpace(err.Error()) + "): open the address yourself. ^C ends the page."
		}
	}
	_, _ = fmt.Fprintln(g.ErrOut, note)
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		source.Run(running)
	}()
	err = s.Serve(ctx)
	stop()
	<-done
	if err != nil {
		return err
	}
	return cli.Watched(context.Cause(ctx))
}

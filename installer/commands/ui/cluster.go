// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/server"
)

// Options name the cluster that a page shows.
type Options struct {
	Cluster     *cluster.Cluster
	Release     string
	CloudConfig string // file with other credentials than the controller's
	Style       report.Style
	Interval    time.Duration // between two reads of CloudStack, without a change in Kubernetes
	// Redact makes a function that removes secrets from text.
	Redact func(secrets []string) func(string) string
}

// connection is a connection to CloudStack with the keys of the moment.
type connection struct {
	*service.Previewer
	settings plan.Settings
	api      *cloudapi.Client
	clean    func(string) string // knows these keys
	end      func()
}

// toCloudStack connects with the controller's credentials, which somebody may have rotated since the last time.
func (s *Source) toCloudStack(ctx context.Context) (*connection, error) {
	c := s.o.Cluster
	cs, err := cloud.Of(ctx, c, s.o.CloudConfig)
	if err != nil {
		return nil, err
	}
	previewer, settings, err := plan.PreviewerOf(ctx, c, cs, s.o.Release, "")
	if err != nil {
		cs.Close()
		return nil, c.Explain(err)
	}
	before, now := s.clean, s.o.Redact([]string{cs.Config.APIKey, cs.Config.SecretKey})
	clean := func(text string) string { return now(before(text)) }
	return &connection{previewer, settings, cs.Client, clean, cs.Close}, nil
}

// doctor runs the checks; all makes the plans of all Services.
func (s *Source) doctor(ctx context.Context, all bool) (check.Report, *check.Facts) {
	env, end := check.Connect(ctx, s.o.Cluster, s.o.Style, s.o.Release, s.o.CloudConfig, check.PhaseInstalled)
	defer end()
	return check.Inspect(ctx, env, check.Selection{Phase: check.PhaseInstalled, AllMembers: all}, nil)
}

// flags are those with which another csccm looks at the same cluster.
func (s *Source) flags() string {
	flags := s.o.Cluster.Args(s.o.Release)
	if file := s.o.CloudConfig; file != "" && s.clean(file) == file { // a path that looks like a key would be removed from commands
		flags = append(flags, "--cloud-config", file)
	}
	return shellquote.Join(flags...)
}

// Serve shows the page until ctx ends, whose cause it returns.
func (s *Source) Serve(ctx context.Context, out, errOut io.Writer, open bool) error {
	at, err := server.Listen(ctx, server.Options{Source: s, Files: page.Files()})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, at.URL()); err != nil {
		return errors.Join(err, at.Close())
	}
	note := "The address is valid for one browser. ^C ends the page."
	if open {
		remove, err := server.Open(ctx, at.URL())
		defer remove()
		if err != nil {
			note = "No browser could be opened (" + strings.TrimSpace(err.Error()) + "): open the address yourself. ^C ends the page."
		}
	}
	_, _ = fmt.Fprintln(errOut, note)
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(running)
	}()
	err = at.Serve(ctx)
	stop()
	<-done
	return cmp.Or(err, context.Cause(ctx))
}

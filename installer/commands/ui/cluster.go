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
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/podhttp"
	"github.com/csccm/csccm/installer/picture"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/server"
)

// Target is the cluster that a page shows. Redact makes a function that removes secrets from text.
type Target struct {
	Cluster     *cluster.Cluster
	Release     string
	CloudConfig string // file with other credentials than the controller's
	Style       report.Style
	Interval    time.Duration
	Redact      func(secrets []string) func(string) string
}

// OfCluster returns a source that reads with the credentials of the controller. Without them it shows the cluster alone.
func OfCluster(ctx context.Context, t Target) (source *Source, end func()) {
	c := t.Cluster
	flags := c.Args(t.Release) // with which another csccm looks at the same cluster
	keys := &keys{Target: t, clean: t.Redact(nil), end: func() {}}
	if t.CloudConfig != "" && keys.clean(t.CloudConfig) == t.CloudConfig { // a path that looks like a key would be removed from commands
		flags = append(flags, "--cloud-config", t.CloudConfig)
	}
	o := Options{
		Kube: c.Kube, Namespace: c.Namespace, Title: picture.Title(c.Context), Flags: shellquote.Join(flags...), Interval: t.Interval,
		Clean: func(text string) string { return keys.clean(text) }, Reconnect: keys.connect,
		Inspect: func(ctx context.Context) (check.Report, *check.Facts) {
			env, closeEnv := check.Connect(ctx, c, t.Style, t.Release, t.CloudConfig, check.PhaseInstalled)
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
	return New(o), func() { keys.end() }
}

// keys connects to CloudStack with the credentials of the moment.
type keys struct {
	Target
	secrets []string // also those of before, which texts may still have
	clean   func(string) string
	end     func()
}

func (k *keys) connect(ctx context.Context) (CloudStack, *Planner, error) {
	cs, err := cloud.Of(ctx, k.Cluster, k.CloudConfig)
	if err != nil {
		return nil, nil, err
	}
	k.secrets = append(k.secrets, cs.Config.APIKey, cs.Config.SecretKey)
	k.clean = k.Redact(k.secrets)
	previewer, settings, err := plan.PreviewerOf(ctx, k.Cluster, cs, k.Release, "")
	if err != nil {
		cs.Close()
		return nil, nil, k.Cluster.Explain(err)
	}
	k.end()
	k.end = cs.Close
	return cs.Client, &Planner{Previewer: previewer, Settings: settings}, nil
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

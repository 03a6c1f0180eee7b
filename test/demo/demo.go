// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"time"

	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// demo is a run of the demo.
type demo struct {
	console.Console
	binDir, ldflags string
	stay            bool
	started         time.Time

	binaries  testenv.Binaries
	plane     string // the control plane's binary
	simulator *testenv.Simulator
	cluster   *testenv.Cluster
	// legacyName is the name of the old Service's load balancer.
	legacyName string
}

// Run runs the steps.
func (d *demo) Run(ctx context.Context) error {
	if err := d.MakeDir("csccm-demo-"); err != nil {
		return err
	}
	steps := []struct {
		title string
		do    func(context.Context) error
	}{
		{"The programs", d.build},
		{"A Kubernetes cluster whose nodes wait for their cloud", d.startCluster},
		{"A CloudStack", d.startCloudStack},
		{"csccm install", d.install},
		{"What the controller did", d.showResult},
		{"csccm doctor", d.doctor},
		{"csccm migrate-rules", d.migrate},
	}
	for i, step := range steps {
		d.Heading(i+1, step.title)
		if err := step.do(ctx); err != nil {
			return &console.StepError{What: "step", Number: i + 1, Title: step.title, Err: err}
		}
	}
	return d.summary(ctx)
}

// build builds the product's programs, then the control plane's.
func (d *demo) build(ctx context.Context) error {
	var err error
	d.binaries, err = testenv.Build(ctx, testenv.BuildOptions{Dir: d.binDir, LDFlags: d.ldflags, Building: func(name string) {
		d.Printf("  building %s\n", name)
	}})
	if err != nil {
		return err
	}
	if d.plane, err = plane.Ensure(ctx, plane.Newest, program.Print(d.Out)); err != nil {
		return err
	}
	return d.csccm(ctx, "", "version")
}

// CleanUp stops all processes of this run and removes its files.
func (d *demo) CleanUp() {
	if d.cluster != nil {
		d.cluster.Stop()
	}
	if d.simulator != nil {
		d.simulator.Stop()
	}
	d.Remove()
}

// Explain prints the ends of the logs that may show the cause of a failed step.
func (d *demo) Explain(error) {
	if d.simulator != nil {
		console.Tail(os.Stderr, "cloudstack-sim", d.simulator.Log, 10)
	}
	console.TailCluster(os.Stderr, d.cluster)
}

// csccm prints and runs a csccm command.
func (d *demo) csccm(ctx context.Context, stdin string, args ...string) error {
	return d.Show(ctx, console.Command{Name: "csccm", Path: d.binaries.CLI, Args: args, Stdin: stdin, From: "admin-password", Kubeconfig: d.kubeconfig()})
}

// kubectl prints and runs a kubectl command, with kubectl of the control plane's release.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	return d.Show(ctx, console.Command{Name: "kubectl", Path: d.cluster.Kubectl, Args: args, Kubeconfig: d.kubeconfig()})
}

func (d *demo) kubeconfig() string {
	if d.cluster == nil {
		return ""
	}
	return d.cluster.Kubeconfig
}

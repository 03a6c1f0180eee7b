// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"time"

	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/must"
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
func (d *demo) Run(ctx context.Context) {
	must.OK(d.MakeDir("csccm-demo-"))
	steps := []struct {
		title string
		do    func(context.Context)
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
		console.Step("step", i+1, step.title, func() { step.do(ctx) })
	}
	d.summary(ctx)
}

// build builds the product's programs, then the control plane's.
func (d *demo) build(ctx context.Context) {
	d.binaries = must.Get(testenv.Build(ctx, testenv.BuildOptions{Dir: d.binDir, LDFlags: d.ldflags, Building: func(name string) {
		d.Printf("  building %s\n", name)
	}}))
	d.plane = must.Get(plane.Ensure(ctx, plane.Newest, program.Print(d.Out)))
	d.csccm(ctx, "", "version")
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
func (d *demo) csccm(ctx context.Context, stdin string, args ...string) {
	must.OK(d.Show(ctx, console.Command{Name: "csccm", Path: d.binaries.CLI, Args: args, Stdin: stdin, From: "admin-password", Kubeconfig: d.kubeconfig()}))
}

// kubectl prints and runs a kubectl command, with kubectl of the control plane's release.
func (d *demo) kubectl(ctx context.Context, args ...string) {
	must.OK(d.Show(ctx, console.Command{Name: "kubectl", Path: d.cluster.Kubectl, Args: args, Kubeconfig: d.kubeconfig()}))
}

func (d *demo) kubeconfig() string {
	if d.cluster == nil {
		return ""
	}
	return d.cluster.Kubeconfig
}

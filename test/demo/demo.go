// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// demo is a run of the demo.
type demo struct {
	binDir, ldflags string
	stay            bool
	out             io.Writer
	style           report.Style
	started         time.Time

	dir       string // the folder of this run, which is removed at the end
	home      string // HOME of the commands, so that they write nothing to the user's home
	binaries  testenv.Binaries
	plane     string // the control plane's binary
	simulator *testenv.Simulator
	cluster   *testenv.Cluster
	// legacyName is the name of the old Service's load balancer.
	legacyName string
}

// failure is the error of a step.
type failure struct {
	number int
	step   string
	err    error
}

func (f *failure) Error() string { return f.step + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func (d *demo) run(ctx context.Context) error {
	var err error
	if d.dir, err = os.MkdirTemp("", "csccm-demo-"); err != nil {
		return err
	}
	d.home = filepath.Join(d.dir, "home")
	if err := os.Mkdir(d.home, 0o700); err != nil {
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
		d.heading(i+1, step.title)
		if err := step.do(ctx); err != nil {
			return &failure{i + 1, step.title, err}
		}
	}
	return d.summary(ctx)
}

// build builds the product's programs, then the control plane's.
func (d *demo) build(ctx context.Context) error {
	var err error
	d.binaries, err = testenv.Build(ctx, testenv.BuildOptions{Dir: d.binDir, LDFlags: d.ldflags, Building: func(name string) {
		d.printf("  building %s\n", name)
	}})
	if err != nil {
		return err
	}
	if d.plane, err = plane.Ensure(ctx, plane.Newest, plane.Print(d.out)); err != nil {
		return err
	}
	return d.csccm(ctx, "", "version")
}

// cleanUp stops all processes of this run and removes its files.
func (d *demo) cleanUp() {
	if d.cluster != nil {
		d.cluster.Stop()
	}
	if d.simulator != nil {
		d.simulator.Stop()
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
	}
}

// explain prints the ends of the logs that may show the cause of a failed step.
func (d *demo) explain(err error) {
	var f *failure
	if !errors.As(err, &f) {
		return
	}
	w := os.Stderr
	if d.simulator != nil {
		tail(w, "cloudstack-sim", d.simulator.Log, child.Tail(d.simulator.Log, 10))
	}
	if d.cluster == nil {
		return
	}
	if err := d.cluster.Err(); err != nil {
		_, _ = fmt.Fprintln(w, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pods, err := d.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range pods.Items {
		if path, ok := d.cluster.PodLog(metav1.NamespaceSystem, pods.Items[i].Name); ok {
			tail(w, "Pod "+pods.Items[i].Name, path, child.Tail(path, 25))
		}
	}
}

// csccm prints and runs a csccm command.
func (d *demo) csccm(ctx context.Context, stdin string, args ...string) error {
	return d.command(ctx, "csccm", d.binaries.CLI, stdin, args...)
}

// kubectl prints and runs a kubectl command, with kubectl of the control plane's release.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	return d.command(ctx, "kubectl", d.cluster.Kubectl, "", args...)
}

func (d *demo) command(ctx context.Context, name, path, stdin string, args ...string) error {
	shown := name
	for _, a := range args {
		shown += " " + testenv.Quote(a)
	}
	if stdin != "" {
		shown += " < admin-password"
	}
	d.echo(shown)
	cmd := exec.CommandContext(ctx, path, args...) // #nosec G204 -- programs that this run has built
	cmd.Dir = d.dir
	cmd.Env = d.environment()
	cmd.Stdout, cmd.Stderr = d.out, d.out
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	// ^C also reaches the command through the terminal; WaitDelay gives the command time to clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// environment returns the environment of the commands: the demo's cluster and home folder.
func (d *demo) environment() []string {
	env := []string{"HOME=" + d.home, "TMPDIR=" + d.dir}
	for _, name := range []string{"PATH", "TERM", "LANG", "LC_ALL", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if d.cluster != nil {
		env = append(env, "KUBECONFIG="+d.cluster.Kubeconfig)
	}
	return env
}

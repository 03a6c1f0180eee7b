// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package console prints what the demo and the lesson show, runs their commands, and ends their processes.
package console

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
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/testenv"
)

// Console prints to Out.
type Console struct {
	Out   io.Writer
	Style report.Style
	// Dir is the folder of the run, which Remove removes; it holds the home folder of the commands, which so write nothing to the
	// user's home.
	Dir, home string
}

// widest is the width of paragraphs on wide terminals and without a terminal.
const widest = 100

// MakeDir makes the folder of a run.
func (c *Console) MakeDir(pattern string) (err error) {
	if c.Dir, err = os.MkdirTemp("", pattern); err != nil {
		return err
	}
	c.home = filepath.Join(c.Dir, "home")
	return os.Mkdir(c.home, 0o700)
}

// Remove removes the folder of the run.
func (c *Console) Remove() {
	if c.Dir != "" {
		_ = os.RemoveAll(c.Dir)
	}
}

// Printf prints formatted text, with colours of Style. What commands print goes to Out as it is.
func (c *Console) Printf(format string, a ...any) {
	_, _ = fmt.Fprintf(terminal.Writer(c.Out), format, a...)
}

// Heading prints the heading of a step.
func (c *Console) Heading(number int, title string) {
	text := fmt.Sprintf("%d. %s", number, title)
	c.Printf("\n%s\n%s\n", c.Style.Paint(report.Strong, text), c.Style.Paint(report.Faint, strings.Repeat("-", len(text))))
}

// Say prints a paragraph of explanation.
func (c *Console) Say(format string, a ...any) {
	width := c.Style.Width
	if width == 0 || width > widest {
		width = widest
	}
	for _, line := range terminal.Wrap(fmt.Sprintf(format, a...), width) {
		c.Printf("%s\n", line)
	}
}

// Echo prints a command with a prompt.
func (c *Console) Echo(command string) {
	c.Printf("\n%s %s\n", c.Style.Paint(report.Strong, "$"), c.Style.Paint(report.Strong, command))
}

// Command is a program to run.
type Command struct {
	Name, Path string
	Args       []string
	// Stdin is the standard input, and From the name of the file that it is shown as.
	Stdin, From string
	// Kubeconfig is the cluster of the command; may be empty.
	Kubeconfig string
	// Env are further variables, as NAME=VALUE.
	Env []string
}

// Line returns the command as it is typed.
func (r Command) Line() string {
	shown := r.Name
	for _, a := range r.Args {
		shown += " " + testenv.Quote(a)
	}
	if r.Stdin != "" {
		shown += " < " + r.From
	}
	return shown
}

// Show prints and runs a command with its output.
func (c *Console) Show(ctx context.Context, r Command) error {
	c.Echo(r.Line())
	return c.Run(ctx, r, c.Out)
}

// Run runs a command without printing it.
func (c *Console) Run(ctx context.Context, r Command, out io.Writer) error {
	cmd := exec.CommandContext(ctx, r.Path, r.Args...) // #nosec G204 -- programs that this run has built
	cmd.Dir = c.Dir
	cmd.Env = append(c.environment(r.Kubeconfig), r.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	if r.Stdin != "" {
		cmd.Stdin = strings.NewReader(r.Stdin)
	}
	// ^C also reaches the command through the terminal; WaitDelay gives the command time to clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", r.Name, errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// environment returns the environment of commands.
func (c *Console) environment(kubeconfig string) []string {
	env := []string{"HOME=" + c.home, "TMPDIR=" + c.Dir}
	for _, name := range []string{"PATH", "TERM", "LANG", "LC_ALL", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if kubeconfig != "" {
		env = append(env, "KUBECONFIG="+kubeconfig)
	}
	return env
}

// Tail prints the last lines of a log with its name and path.
func Tail(w io.Writer, name, path string, lines int) {
	if text := child.Tail(path, lines); text != "" {
		_, _ = fmt.Fprintf(w, "\nlast lines of %s (%s):\n%s\n", name, path, text)
	}
}

// TailCluster prints the ends of the logs of a cluster that may show the cause of a failed step.
func TailCluster(w io.Writer, cluster *testenv.Cluster) {
	if cluster == nil {
		return
	}
	if err := cluster.Err(); err != nil {
		_, _ = fmt.Fprintln(w, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pods, err := cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range pods.Items {
		if path, ok := cluster.PodLog(metav1.NamespaceSystem, pods.Items[i].Name); ok {
			Tail(w, "Pod "+pods.Items[i].Name, path, 25)
		}
	}
}

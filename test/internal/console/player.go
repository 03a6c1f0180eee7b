// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// Player plays a script.
type Player struct {
	Out    io.Writer
	Style  report.Style
	Script Script
	Dir    string // folder of the run; removed at the end

	Binaries testenv.Binaries
	Plane    string // the control plane's program
	Clusters map[string]*testenv.Cluster
	Verbs    map[string]Verb
	Vars     map[string]string
	Looked   []string // texts under "Look" of this chapter
	// At is called at the beginning and at the end of each chapter.
	At func(ctx context.Context, number int, ended bool)

	started, acted time.Time
	typed          chan string
	stops          []func()
	logs           map[string]string // paths by name
}

// Exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Main runs a program until it ends or is interrupted, and returns its exit code. run ends at the first error (see
// package must).
func Main(name string, script []byte, run func(context.Context, *Player)) int {
	p := &Player{
		Out:      os.Stdout,
		Style:    report.Detect(os.Stdout, report.ColorAuto, os.Getenv),
		At:       func(context.Context, int, bool) {},
		Clusters: map[string]*testenv.Cluster{},
		Vars:     map[string]string{},
		started:  time.Now(),
		logs:     map[string]string{},
	}

	if flag.Parse(); flag.NArg() > 0 {
		_, _ = fmt.Fprintf(os.Stderr, "%s: unexpected argument %q\n", name, flag.Arg(0))
		return exitUsage
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := must.Catch(func() {
		must.OK(yaml.UnmarshalStrict(script, &p.Script))
		p.Dir = must.Get(os.MkdirTemp("", "csccm-"+name+"-"))
		p.Defer(func() { _ = os.RemoveAll(p.Dir) })
		run(ctx, p)
	})

	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		p.explain()
	}

	// From now on, a second ^C ends the program at once; on Linux the kernel then kills the child processes.
	stop()
	for _, f := range slices.Backward(p.stops) {
		f()
	}

	switch {
	case err == nil:
		return exitOK
	case interrupted:
		_, _ = fmt.Fprintf(os.Stderr, "%s: interrupted; everything is stopped and removed\n", name)
		return exitInterrupted
	}

	_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return exitFailure
}

// Defer registers a function that is called at the end.
func (p *Player) Defer(f func()) { p.stops = append(p.stops, f) }

// Build builds the product's programs, then the control plane's.
func (p *Player) Build(ctx context.Context) {
	p.Binaries = must.Get(testenv.Build(ctx, p.Out))
	p.Plane = must.Get(plane.Ensure(ctx, plane.Newest, p.Out))
}

// Start starts a cluster without nodes. It is stopped at the end.
func (p *Player) Start(ctx context.Context, name string, grace time.Duration) *testenv.Cluster {
	c := must.Get(testenv.StartCluster(ctx, testenv.ClusterOptions{
		Plane: plane.Options{Programs: p.Plane, Dir: p.Dir, NodeGrace: grace}, Controller: p.Binaries.Controller,
	}))
	p.Clusters[name] = c
	p.Defer(c.Stop)
	p.Vars["port"] = must.Get(portFlag(ctx))
	return c
}

// controllerPort is the controller's port in the chart.
const controllerPort = 10258

// portFlag returns the flag of csccm install that sets another port for the controller, or "" if the chart's port is
// free. Pods have their own addresses, but a program that listens on all addresses takes the port on each of them.
func portFlag(ctx context.Context) (string, error) {
	var config net.ListenConfig
	if l, err := config.Listen(ctx, "tcp", fmt.Sprintf(":%d", controllerPort)); err == nil {
		return "", l.Close()
	}

	free, err := config.Listen(ctx, "tcp", ":0")
	if err != nil {
		return "", fmt.Errorf("find a port for the controller: %w", err)
	}
	port := free.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	return fmt.Sprintf("--set securePort=%d ", port), free.Close()
}

// Log registers a log whose end is printed after an error.
func (p *Player) Log(name, path string) { p.logs[name] = path }

// explain prints the ends of the logs that may show the cause of an error.
func (p *Player) explain() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range p.Clusters {
		if err := c.Err(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
		}
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, it := range pods.Items {
			if path, ok := c.PodLog(metav1.NamespaceSystem, it.Name); ok {
				p.Log("Pod "+it.Name, path)
			}
		}
	}

	for name, path := range p.logs {
		if text := child.Tail(path, 25); text != "" {
			_, _ = fmt.Fprintf(os.Stderr, "\nlast lines of %s (%s):\n%s\n", name, path, text)
		}
	}
}

// Printf prints formatted text with the colours of Style. The output of commands goes to Out unchanged.
func (p *Player) Printf(format string, a ...any) {
	_, _ = fmt.Fprintf(terminal.Writer(p.Out), format, a...)
}

// widest is the maximum width of paragraphs. wide is the width of tables without a terminal.
const (
	widest = 100
	wide   = 132
)

// Say prints a paragraph, if there is one.
func (p *Player) Say(text string) {
	if text != "" {
		p.Printf("\n%s\n", strings.Join(terminal.Wrap(text, min(widest, p.Width())), "\n"))
	}
}

// Width returns the width of the terminal.
func (p *Player) Width() int {
	if p.Style.Width == 0 {
		return wide
	}
	return p.Style.Width
}

// compare prints two texts side by side.
func (p *Player) compare(left, right string) {
	half := (p.Width() - 3) / 2
	a := append([]string{"Without the controller"}, strings.Split(strings.TrimSpace(left), "\n")...)
	b := append([]string{"With the controller"}, strings.Split(strings.TrimSpace(right), "\n")...)
	at := func(list []string, i int) string {
		if i >= len(list) {
			return ""
		}
		return terminal.Cut(strings.TrimRight(list[i], " "), half)
	}
	for i := range max(len(a), len(b)) {
		text := at(a, i)
		p.Printf("%s\n",
			strings.TrimRight(text+strings.Repeat(" ", half-utf8.RuneCountInString(text))+" │ "+at(b, i), " "))
	}
}

// Terminal reports whether the program runs on a terminal.
func Terminal() bool {
	// #nosec G115 -- a descriptor fits
	return term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stdin.Fd()))
}

// Enter waits for Enter on a terminal. It returns false at the end of the input or of ctx.
func (p *Player) Enter(ctx context.Context) bool {
	if p.typed == nil && Terminal() {
		p.typed = make(chan string)
		go func() {
			defer close(p.typed)
			for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
				p.typed <- scan.Text()
			}
		}()
	}

	for {
		select {
		case <-ctx.Done():
			return false
		case _, more := <-p.typed:
			return more
		case <-time.After(time.Second):
			for _, c := range p.Clusters {
				must.OK(c.Err())
			}
		}
	}
}

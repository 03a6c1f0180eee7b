// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/lesson/chapters"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// lesson is a run of the lesson.
type lesson struct {
	console.Console
	binDir, ldflags, transcript string
	enter                       <-chan string // what is typed; nil: do not wait
	ui                          bool
	page                        *page // nil without ui
	started, built              time.Time
	printed                     bytes.Buffer // for the transcript

	binaries      testenv.Binaries
	cloud         *testenv.CloudStack
	without, with *side

	made    []simulator.Call // the calls of chapter 2
	chapter chapters.Chapter
	seen    map[string]string // what was observed, by the ID of the claim
}

// limit is the longest wait for a condition.
const limit = 5 * time.Minute

// Run runs the chapters.
func (l *lesson) Run(ctx context.Context) {
	must.OK(l.MakeDir("csccm-lesson-"))
	console.Step("chapter", 0, "before the lesson", func() { l.prepare(ctx) })
	do := []func(context.Context){l.nodes, l.service, l.calls, l.destroyed, l.drift, l.leader}
	must.Not(len(do) != len(chapters.Text.Chapters), "%d chapters have a text, and %d code", len(chapters.Text.Chapters), len(do))
	for i, c := range chapters.Text.Chapters {
		l.chapter, l.seen = c, map[string]string{}
		l.Heading(i+1, c.Title)
		l.Say("%s", c.Intro)
		l.tell(i+1, false)
		console.Step("chapter", i+1, c.Title, func() {
			do[i](ctx)
			l.tell(i+1, true)
			l.end(ctx, i+1 == len(do))
		})
	}
	l.Printf("\n%s\n", l.Style.Paint(report.Good, fmt.Sprintf("The lesson took %s, %s of it after the programs were built.",
		time.Since(l.started).Round(time.Second), time.Since(l.built).Round(time.Second))))
	if l.transcript != "" {
		must.OK(os.WriteFile(l.transcript, l.recorded(), 0o644)) // #nosec G306 -- a page of the documentation
	}
}

// prepare builds the programs and starts CloudStack and both clusters.
func (l *lesson) prepare(ctx context.Context) {
	l.binaries = must.Get(testenv.Build(ctx, testenv.BuildOptions{Dir: l.binDir, LDFlags: l.ldflags, Building: func(name string) {
		l.Printf("building %s\n", name)
	}}))
	binary := must.Get(plane.Ensure(ctx, plane.Newest, program.Print(l.Out)))
	l.built = time.Now()
	l.Printf("\n")
	l.Say("%s", chapters.Text.Before)
	l.cloud = must.Get(testenv.StartCloudStack(world())) //nolint:contextcheck // the server outlives the call
	sides := []*side{newSide(withoutName), newSide(withName)}
	l.without, l.with = sides[0], sides[1]
	must.Each(len(sides), func(i int) { sides[i].start(ctx, l, binary) })
	if l.ui {
		l.startPage(ctx)
	}
	if l.enter != nil {
		l.Printf("\nFor the commands of \"Try\", in a second terminal:\n\n")
		l.Printf("export WITHOUT=%s WITH=%s PATH=%s:%s:$PATH\n", l.without.cluster.Kubeconfig, l.with.cluster.Kubeconfig,
			filepath.Dir(l.with.cluster.Kubectl), filepath.Dir(l.binaries.CLI))
		l.wait(ctx, "Press Enter to begin.")
		return
	}
}

// end prints what was seen in a chapter, and what to try and to read.
func (l *lesson) end(ctx context.Context, last bool) {
	l.title("Look")
	for _, c := range l.chapter.Look {
		observed, ok := l.seen[c.ID]
		must.Be(ok, "the lesson says %q, and that was not observed", c.Text)
		text := c.Text
		if observed != "" {
			text += ": " + observed
		}
		l.Printf("%s", l.Style.Indented(l.Style.Paint(report.Good, chapters.Seen), 2, text))
	}
	l.title("Try")
	for _, t := range l.chapter.Try {
		l.try(ctx, t)
		l.Printf("%s%s\n", l.Style.Paint(report.Strong, chapters.Command), t.Line)
		l.Printf("%s", l.Style.Indented("    ", 4, t.Shows))
	}
	l.title("Code")
	for _, c := range l.chapter.Code {
		l.Printf("%s\n", c.Line())
		l.Printf("%s", l.Style.Indented("    ", 4, c.Does))
	}
	if last {
		l.Printf("\n")
		l.Say("%s", chapters.Text.After)
		l.Printf("\n")
		l.Say("%s", chapters.Text.Next)
		l.wait(ctx, "Press Enter to end the lesson.")
		return
	}
	l.wait(ctx, "Press Enter for the next chapter.")
}

// try runs a command for the reader, and returns an error unless it shows what the lesson says.
func (l *lesson) try(ctx context.Context, t chapters.Try) {
	var out bytes.Buffer
	err := l.Console.Run(ctx, console.Command{
		Name: t.Line, Path: "/bin/sh", Args: []string{"-c", t.Line},
		Env: []string{
			"WITHOUT=" + l.without.cluster.Kubeconfig, "WITH=" + l.with.cluster.Kubeconfig, "COLUMNS=200",
			"PATH=" + filepath.Dir(l.with.cluster.Kubectl) + ":" + filepath.Dir(l.binaries.CLI) + ":" + os.Getenv("PATH"),
		},
	}, &out)
	if err == nil && !strings.Contains(out.String(), t.Want) {
		err = fmt.Errorf("%s: %q is not in the output", t.Line, t.Want)
	}
	if err != nil {
		must.Fail("%w:\n%s", err, out.String())
	}
}

// saw records what was observed of a claim.
func (l *lesson) saw(claim, format string, a ...any) { l.seen[claim] = fmt.Sprintf(format, a...) }

// wait waits for Enter, if somebody is there to press it.
func (l *lesson) wait(ctx context.Context, text string) {
	if l.enter == nil {
		return
	}
	l.Printf("\n%s ", l.Style.Paint(report.Strong, text))
	watch := time.NewTicker(time.Second)
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			must.OK(ctx.Err())
			return
		case <-l.enter: // an end of the input, too
			return
		case <-watch.C:
			must.OK(errors.Join(l.without.cluster.Err(), l.with.cluster.Err()))
		}
	}
}

// recorded returns the transcript: what was printed, without what belongs to this machine.
func (l *lesson) recorded() []byte {
	text := l.printed.String()
	if i := strings.Index(text, chapters.Text.Before[:40]); i >= 0 {
		text = text[i:] // without the messages of the build
	}
	return []byte("# Written by make lesson LESSONFLAGS='--transcript test/lesson/chapters/testdata/lesson.txt'.\n\n" +
		strings.NewReplacer(l.Dir, "/tmp/csccm-lesson", l.cloud.URL, "http://127.0.0.1:8080/client/api").Replace(text))
}

// CleanUp stops all processes of this run and removes its files.
func (l *lesson) CleanUp() {
	if l.page != nil {
		l.page.stop()
	}
	var wg sync.WaitGroup
	for _, s := range []*side{l.without, l.with} {
		if s != nil && s.cluster != nil {
			wg.Go(s.cluster.Stop)
		}
	}
	wg.Wait()
	if l.cloud != nil {
		l.cloud.Stop()
	}
	l.Remove()
}

// Explain prints the ends of the logs that may show the cause of a failed chapter.
func (l *lesson) Explain(error) {
	for _, s := range []*side{l.without, l.with} {
		if s != nil {
			console.TailCluster(os.Stderr, s.cluster)
		}
	}
}

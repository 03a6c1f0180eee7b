// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package console plays the scripts of the demo and the lesson: prose, commands and what their output must be.
package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// Script is what a program says and does, and which output it must see.
type Script struct {
	Before, After, Next string
	Chapters            []Chapter
	Purposes            map[string]string // purposes of calls, by command
}

// Chapter is a part of a script.
type Chapter struct {
	Title, Intro string
	Steps        []Step
	Try          []Step // for a second terminal: Do is the command, and Say is what to look for
	Code         []Code
}

// Step is prose or a command. A command is a shell command or a verb of the program; the name of a cluster before it
// says where it runs. Variables such as $web are replaced in all fields.
type Step struct {
	Say string
	// Show is printed with its output, and Both with its outputs in both clusters side by side. Do is not printed.
	// Title is printed instead of the command.
	Show, Both, Do, Title string
	// Want is a regular expression. The command is repeated until its output matches. Named groups become variables.
	Want string
	// Look says what the command has shown. $took is the time since the last command without a Want.
	Look string
}

// Code is a function that is involved in what the chapter shows. A method is written Type.Method.
type Code struct{ File, Func, Does string }

// Verb is a command of the program. It returns the text to print.
type Verb func(ctx context.Context, cluster string, args []string) string

// limit is the longest wait for an output.
const limit = 5 * time.Minute

// The clusters of Step.Both.
const (
	Without = "without"
	With    = "with"
)

// Play plays all chapters.
func (p *Player) Play(ctx context.Context) {
	for i, c := range p.Script.Chapters {
		if err := must.Catch(func() { p.chapter(ctx, i+1, c) }); err != nil {
			must.Fail("chapter %d, %s, failed: %w", i+1, c.Title, err)
		}
	}
	p.Printf("\n%s\n",
		p.Style.Paint(report.Good, fmt.Sprintf("All of it worked, in %s.", time.Since(p.started).Round(time.Second))))
}

func (p *Player) chapter(ctx context.Context, number int, c Chapter) {
	title := fmt.Sprintf("%d. %s", number, c.Title)
	p.Printf("\n%s\n%s\n", p.Style.Paint(report.Strong, title),
		p.Style.Paint(report.Faint, strings.Repeat("-", len(title))))
	p.Say(c.Intro)
	p.Looked = nil
	p.At(ctx, number, false)
	for _, s := range c.Steps {
		p.step(ctx, s)
	}

	p.part("Look", len(p.Looked))
	for _, text := range p.Looked {
		p.Printf("%s", p.Style.Indented(p.Style.Symbol(report.SymbolOK)+" ", p.Style.SymbolWidth()+1, text))
	}

	p.part("Try", len(c.Try))
	for _, t := range c.Try {
		p.step(ctx, Step{Do: t.Do, Want: t.Want})
		p.Printf("$ %s\n%s", t.Do, p.Style.Indented("    ", 4, t.Say))
	}

	p.part("Code", len(c.Code))
	for _, code := range c.Code {
		p.Printf("%s %s\n%s", code.File, code.Func, p.Style.Indented("    ", 4, code.Does))
	}

	if number == len(p.Script.Chapters) {
		p.Say(p.Script.After)
		p.Say(p.Script.Next)
	}

	p.At(ctx, number, true)
}

func (p *Player) part(title string, entries int) {
	if entries > 0 {
		p.Printf("\n%s\n", p.Style.Paint(report.Strong, title))
	}
}

func (p *Player) step(ctx context.Context, s Step) {
	if shown := cmp.Or(s.Show, s.Both); shown != "" {
		_, line := p.where(shown)
		p.Printf("\n%s\n", p.Style.Paint(report.Strong, p.expand(cmp.Or(s.Title, "$ "+line), nil)))
	}

	if s.Want == "" {
		p.acted = time.Now()
	}

	var out bytes.Buffer
	switch command := cmp.Or(s.Show, s.Do); {
	case s.Say != "":
		p.Say(p.expand(s.Say, nil))
	case s.Both != "":
		p.compare(p.output(ctx, Without+" "+s.Both), p.output(ctx, With+" "+s.Both))
	case s.Want != "":
		want := must.Get(regexp.Compile(p.expand(s.Want, regexp.QuoteMeta)))
		testenv.Await(ctx, limit, command, func(ctx context.Context) {
			out.Reset()
			err := p.run(ctx, command, &out)
			found := want.FindStringSubmatch(strings.TrimSpace(out.String()))
			must.Be(err == nil && found != nil, "its output does not match %s: %v\n%s", want, err, &out)
			for i, name := range want.SubexpNames() {
				if name != "" {
					p.Vars[name] = found[i]
				}
			}
		})
	case s.Show != "":
		must.OK(p.run(ctx, s.Show, p.Out)) // as it comes
	default:
		p.output(ctx, s.Do)
	}

	if s.Show != "" {
		_, _ = p.Out.Write(out.Bytes())
	}

	if s.Look != "" {
		p.Vars["took"] = time.Since(p.acted).Round(100 * time.Millisecond).String()
		p.Looked = append(p.Looked, p.expand(s.Look, nil))
	}
}

// expand replaces variables by their values. quote may be nil.
func (p *Player) expand(text string, quote func(string) string) string {
	return os.Expand(text, func(name string) string {
		value, known := p.Vars[name]
		switch {
		case !known:
			return "$" + name
		case quote != nil:
			return quote(value)
		}
		return value
	})
}

// where splits a command into the name of the cluster, if any, and the line.
func (p *Player) where(command string) (cluster, line string) {
	if cluster, line, _ = strings.Cut(command, " "); p.Clusters[cluster] != nil {
		return cluster, line
	}
	return "", command
}

// output returns the output of a command.
func (p *Player) output(ctx context.Context, command string) string {
	var out bytes.Buffer
	if err := p.run(ctx, command, &out); err != nil {
		must.Fail("%s: %w\n%s", command, err, &out)
	}
	return out.String()
}

// run runs a command.
func (p *Player) run(ctx context.Context, command string, out io.Writer) error {
	cluster, line := p.where(command)
	name, args, _ := strings.Cut(line, " ")
	if verb := p.Verbs[name]; verb != nil {
		return must.Catch(func() {
			_, _ = fmt.Fprintln(terminal.Writer(out), verb(ctx, cluster, strings.Fields(p.expand(args, nil))))
		})
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line) // #nosec G204 -- of a script of this module
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, p.environment(cluster), out, out
	// On a terminal, ^C also reaches the command itself; WaitDelay gives the command time to clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	if err := cmd.Run(); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

// environment returns the environment of a command: the variables of the script, and the kubeconfigs of the clusters
// by their names. Commands write nothing to the user's home.
func (p *Player) environment(cluster string) []string {
	path := filepath.Dir(p.Binaries.CLI) + ":" + os.Getenv("PATH")
	env := []string{"HOME=" + p.Dir, "TMPDIR=" + p.Dir}
	for _, name := range strings.Fields("TERM LANG LC_ALL NO_COLOR CLICOLOR_FORCE COLUMNS SSL_CERT_FILE SSL_CERT_DIR") {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}

	for name, value := range p.Vars {
		env = append(env, name+"="+value)
	}

	for name, c := range p.Clusters {
		path = filepath.Dir(c.Kubectl) + ":" + path
		if name == cluster {
			env = append(env, "KUBECONFIG="+c.Kubeconfig)
		}
		if name != "" {
			env = append(env, strings.ToUpper(name)+"="+c.Kubeconfig)
		}
	}

	return append(env, "PATH="+path)
}

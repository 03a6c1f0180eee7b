// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/test/plane"
)

// scenario is one thing that users do, and what must come of it. Its note is a number
// or a word for the table.
type scenario struct {
	name string
	run  func(context.Context, *bed) (note string, err error)
}

// chapter is scenarios that share a cluster, in this order.
type chapter struct {
	name      string
	world     func() *place
	scenarios []scenario
}

// result is a line of the table.
type result struct {
	minor    plane.Minor
	chapter  string
	scenario string
	took     time.Duration
	note     string
	err      error
}

// scenarioLimit is for machines that do much else.
const scenarioLimit = 10 * time.Minute

// run runs the chapter's scenarios that are asked for. The first, which installs, is
// always run; what builds on a first that failed is not.
func (c *chapter) run(ctx context.Context, p *programs, minor plane.Minor, only *regexp.Regexp, log io.Writer) []result {
	var wanted []scenario
	for i, s := range c.scenarios {
		if i == 0 || only.MatchString(s.name) {
			wanted = append(wanted, s)
		}
	}
	if ctx.Err() != nil || len(wanted) == 1 && !only.MatchString(wanted[0].name) {
		return nil
	}
	_, _ = fmt.Fprintf(log, "\n== %s, Kubernetes %s\n", c.name, minor.Release())
	fail := func(name string, err error) result {
		_, _ = fmt.Fprintf(log, "FAIL  %s: %v\n", name, err)
		return result{minor: minor, chapter: c.name, scenario: name, err: err}
	}
	start := time.Now()
	b, err := newBed(ctx, p, minor, c.world(), log)
	if err != nil {
		return []result{fail("three nodes", err)}
	}
	defer b.stop() //nolint:contextcheck // the end of it all
	_, _ = fmt.Fprintf(log, "      three nodes are ready (%s)\n", time.Since(start).Round(time.Second))
	var all []result
	for i, s := range wanted {
		r := b.one(ctx, s)
		r.minor, r.chapter = minor, c.name
		all = append(all, r)
		if r.err != nil {
			_, _ = fmt.Fprintf(log, "FAIL  %s: %v\n", s.name, r.err)
			b.explain(ctx)
		} else {
			_, _ = fmt.Fprintf(log, "ok    %s (%s) %s\n", s.name, r.took.Round(time.Second), r.note)
		}
		if i == 0 && r.err != nil || ctx.Err() != nil {
			break
		}
	}
	return all
}

// unproven are the chapter's scenarios that were asked for and have not succeeded: they failed, or what they build on did.
func (c *chapter) unproven(minor plane.Minor, only *regexp.Regexp, all []result) []string {
	var names []string
	for _, s := range c.scenarios {
		proven := slices.ContainsFunc(all, func(r result) bool { return r.minor == minor && r.scenario == s.name && r.err == nil })
		if only.MatchString(s.name) && !proven {
			names = append(names, s.name)
		}
	}
	return names
}

// named matches just these scenarios.
func named(names []string) *regexp.Regexp {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return regexp.MustCompile("^(" + strings.Join(quoted, "|") + ")$")
}

func (b *bed) one(ctx context.Context, s scenario) result {
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	start := time.Now()
	note, err := s.run(ctx, b)
	return result{scenario: s.name, took: time.Since(start), note: note, err: err}
}

// table is the results for a terminal.
func table(all []result) string {
	width := 0
	for _, r := range all {
		width = max(width, len(r.scenario))
	}
	var b strings.Builder
	chapter := ""
	for _, r := range all {
		if head := fmt.Sprintf("\nKubernetes %s, %s\n", r.minor.Release(), r.chapter); head != chapter {
			chapter = head
			b.WriteString(head)
		}
		verdict, note := "ok", r.note
		if r.err != nil {
			verdict, note = "FAIL", firstLine(r.err.Error())
		}
		_, _ = fmt.Fprintf(&b, "  %-4s  %-*s  %5s  %s\n", verdict, width, r.scenario, r.took.Round(time.Second), note)
	}
	return b.String()
}

// page is the results as docs/truth.md.
func page(all []result) string {
	var b strings.Builder
	b.WriteString(`# What was seen on real nodes

<!-- Written by "make e2e". Do not edit. -->

Three kubelets with containerd, runc and kube-proxy in network namespaces of one machine, a real control plane, the
product as users install it, Pods that answer HTTP, and ` + "`cloudstack-sim`" + `'s data path in place of the virtual router.
Clients have addresses outside of the cluster; requests go through the balancer's public address, a node's port and
kube-proxy to a Pod. The times are those of the whole scenario on a machine that does other things too.

"No request lost" means new connections all the time (200 a second unless said otherwise), each with a question and its
answer within 5 s; with two Services also a connection to each that stays open. The longest gap is the longest time
without an answer of one Service. What stands in for something else: the controllers of Apache and Leaseweb are csccm's own
program with their names, flags and rule names; Traefik and ingress-nginx are a small program that listens as their
arguments say; the VMs are nodes in namespaces. A machine without CPU to spare fails such scenarios too, as an answer that
takes longer than 5 s counts as lost: run one again by ` + "`--only`" + ` on a quieter machine before you look for another cause. A run leaves nothing behind: ` + "[test/README.md](../test/README.md#real-nodes)" + `.
`)
	chapter := ""
	for _, r := range all {
		if head := fmt.Sprintf("\n## Kubernetes %s: %s\n\n| scenario | result | took | seen |\n|---|---|---|---|\n", r.minor.Release(), r.chapter); head != chapter {
			chapter = head
			b.WriteString(head)
		}
		verdict, note := "ok", r.note
		if r.err != nil {
			verdict, note = "**failed**", firstLine(r.err.Error())
		}
		_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.scenario, verdict, r.took.Round(time.Second), strings.ReplaceAll(note, "|", "\\|"))
	}
	return b.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

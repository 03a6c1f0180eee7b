// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/traffic"
)

// table returns the results as a table for a terminal.
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
		verdict := "ok"
		if r.err != nil {
			verdict = "FAIL"
		}
		_, _ = fmt.Fprintf(&b, "  %-4s  %-*s  %5s  %s\n", verdict, width, r.scenario, r.took.Round(time.Second), r.seen())
	}
	b.WriteString("\n")
	for _, m := range minorsOf(all) {
		_, _ = fmt.Fprintf(&b, "Kubernetes %s: %s\n", m.Release(), summary(all, m))
	}
	return b.String()
}

// page returns the results as the text of docs/real-nodes.md.
func page(all []result) string {
	var b strings.Builder
	b.WriteString(`# What was seen on real nodes

<!-- Written by "make real-nodes". Do not edit. -->

Three kubelets with containerd, runc and kube-proxy in network namespaces of one machine, a real control plane, the
product as users install it, Pods that answer HTTP, and ` + "`cloudstack-sim`" + `'s data path in place of the virtual router.
Clients have addresses outside of the cluster; requests go through the balancer's public address, a node's port and
kube-proxy to a Pod. The times are those of the whole scenario on a machine that does other things too:
each chapter has its own cluster, and two chapters run at the same time.

`)
	for _, m := range minorsOf(all) {
		_, _ = fmt.Fprintf(&b, "- Kubernetes %s: %s.\n", m.Release(), summary(all, m))
	}
	b.WriteString(`
What stands in for something else: the controllers of Apache and Leaseweb are csccm's own program with their names, flags
and rule names; Traefik and ingress-nginx are a small program that listens as their arguments say, but with Gateway API it is Traefik
itself, built without ACME; the VMs are nodes in namespaces. A run leaves nothing behind: [test/README.md](../test/README.md#real-nodes).

## No request lost

New connections all the time (200 a second unless said otherwise), each with a question and its answer within 5 s; with two
Services also a connection to each that stays open. The longest gap is the longest time without an answer of one Service.
A machine without CPU to spare loses some too, as an answer that takes longer counts as lost: run such a scenario again by
` + "`--only`" + ` on a quieter machine before you look for another cause.

`)
	b.WriteString(trafficTable(all))
	b.WriteString(`
Requests may be lost in these parts alone:

- ` + partPowerFailure + `: what is on its way through a node when it dies, drained or not.
- ` + partNotReady + `: kube-proxy on the other nodes sends a share of the requests to the Pods that died with it.
- ` + partTracked + ` (two minutes at most): a port of the balancer that comes again
  meanwhile leads to the same dead Pod.

Neither CloudStack nor a cloud controller manager has a hand in that; the balancer's own check takes a dead node out, and a Service with
` + "`externalTrafficPolicy: Local`" + ` loses only what is on its way.
`)
	chapter := ""
	for _, r := range all {
		if head := fmt.Sprintf("\n## Kubernetes %s: %s\n\n| scenario | result | took | seen |\n|---|---|---|---|\n", r.minor.Release(), r.chapter); head != chapter {
			chapter = head
			b.WriteString(head)
		}
		verdict := "ok"
		if r.err != nil {
			verdict = "**failed**"
		}
		_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.scenario, verdict, r.took.Round(time.Second), cell(r.seen()))
	}
	return b.String()
}

// minorsOf returns the minors of the results, in their order.
func minorsOf(all []result) []plane.Minor {
	var minors []plane.Minor
	for i := range all {
		if !slices.Contains(minors, all[i].minor) {
			minors = append(minors, all[i].minor)
		}
	}
	return minors
}

// summary returns the counts and the durations, added up, of a minor's scenarios.
func summary(all []result, minor plane.Minor) string {
	count, failed, requests, took := 0, 0, 0, time.Duration(0)
	for i := range all {
		r := &all[i]
		if r.minor != minor {
			continue
		}
		count++
		took += r.took + r.cluster
		if r.err != nil {
			failed++
		}
		for _, t := range r.traffic {
			requests += t.Requests
		}
	}
	return fmt.Sprintf("%d scenarios, %d failed, %d requests of steady traffic, %s one after the other", count, failed, requests, took.Round(time.Second))
}

// trafficTable returns a table of steady traffic: a line for each part of each scenario, a column for each minor.
func trafficTable(all []result) string {
	var lines []string
	cells := map[string]map[plane.Minor]string{}
	for _, r := range all {
		for _, t := range r.traffic {
			line := cell(r.scenario)
			if t.Name != "" {
				line += ": " + t.Name
			}
			if cells[line] == nil {
				lines, cells[line] = append(lines, line), map[plane.Minor]string{}
			}
			cells[line][r.minor] = trafficCell(t)
		}
	}
	minors := minorsOf(all)
	var b strings.Builder
	b.WriteString("| requests / failures / longest gap |")
	for _, m := range minors {
		_, _ = fmt.Fprintf(&b, " %s |", m)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(minors)) + "\n")
	for _, line := range lines {
		b.WriteString("| " + line + " |")
		for _, m := range minors {
			_, _ = fmt.Fprintf(&b, " %s |", cells[line][m])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// trafficCell formats a report for a cell of the table.
func trafficCell(r traffic.Report) string {
	text := fmt.Sprintf("%d / %d / %s", r.Requests, r.Failures, r.LongestGap.Round(time.Millisecond))
	if r.Cut > 0 {
		text += fmt.Sprintf(", %d connections cut", r.Cut)
	}
	return text
}

// brief formats a report for a note.
func brief(r traffic.Report) string {
	return fmt.Sprintf("%d requests, %d failures, longest gap %s", r.Requests, r.Failures, r.LongestGap.Round(time.Millisecond))
}

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// seen returns the note, or the first line of the error.
func (r *result) seen() string {
	if r.err == nil {
		return r.note
	}
	return firstLine(r.err.Error())
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

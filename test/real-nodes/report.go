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

// page returns the results as the text of docs/real-nodes.md.
func page(all []result) string {
	var b strings.Builder
	b.WriteString(`# What was seen on real nodes

<!-- Written by "make real-nodes". Do not edit. -->

Three kubelets with containerd, runc and kube-proxy run in network namespaces of one machine, with a real control plane. csccm is
installed as users install it, and the Pods answer HTTP. The data path of ` + "`cloudstack-sim`" + ` replaces the virtual router. Clients
have addresses outside of the cluster: each request goes through the load balancer's public address, a node's port and kube-proxy to
a Pod. Each chapter has its own cluster. Two chapters run at the same time, so the durations are longer than on an idle machine.

`)
	for _, m := range minorsOf(all) {
		_, _ = fmt.Fprintf(&b, "- Kubernetes %s: %s.\n", m.Release(), summary(all, m))
	}
	b.WriteString(`
What is replaced: the controllers of Apache and Leaseweb are csccm's own program with their names, flags and rule names. The VMs are
network namespaces. Traefik and ingress-nginx are a small program that reads their arguments; the scenarios of Gateway API run Traefik
itself, built without ACME. How it works: [test/README.md](../test/README.md#real-nodes).

## No request lost

Clients open new connections all the time (200 per second unless stated otherwise). Each must get its answer within 5 s. With two
Services, a connection to each of them also stays open. The longest gap is the longest time without an answer from one Service. On a
machine without spare CPU late answers also count as lost: before you look for another cause, run the scenario again with ` + "`--only`" + `.

`)
	b.WriteString(trafficTable(all))
	b.WriteString(`
Only in these parts may requests be lost:

- ` + partPowerFailure + `: requests under way through the node when it loses power, drained or not.
- ` + partNotReady + `: kube-proxy on the other nodes still sends some requests to the Pods of the lost node.
- ` + partTracked + ` (two minutes at most): if the load balancer uses a source port
  again in this time, the connection goes to the same lost Pod.

Neither CloudStack nor a cloud controller manager can prevent this. The load balancer's own health check removes a lost node, and a
Service with ` + "`externalTrafficPolicy: Local`" + ` loses only the requests under way.
`)
	chapter := ""
	for _, r := range all {
		if head := fmt.Sprintf("\n## Kubernetes %s: %s\n\n| scenario | result | took | seen |\n|---|---|---|---|\n", r.Minor.Release(), r.Chapter); head != chapter {
			chapter = head
			b.WriteString(head)
		}
		verdict := "ok"
		if r.Fail != "" {
			verdict = "**failed**"
		}
		_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Scenario, verdict, r.Took.Round(time.Second), cell(r.seen()))
	}
	return b.String()
}

// minorsOf returns the minors of the results, in their order.
func minorsOf(all []result) []plane.Minor {
	var minors []plane.Minor
	for i := range all {
		if !slices.Contains(minors, all[i].Minor) {
			minors = append(minors, all[i].Minor)
		}
	}
	return minors
}

// summary returns the counts and the durations, added up, of a minor's scenarios.
func summary(all []result, minor plane.Minor) string {
	count, failed, requests, took := 0, 0, 0, time.Duration(0)
	for i := range all {
		r := &all[i]
		if r.Minor != minor {
			continue
		}
		count++
		took += r.Took + r.Cluster
		if r.Fail != "" {
			failed++
		}
		for _, t := range r.Traffic {
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
		for _, t := range r.Traffic {
			line := cell(r.Scenario)
			if t.Name != "" {
				line += ": " + t.Name
			}
			if cells[line] == nil {
				lines, cells[line] = append(lines, line), map[plane.Minor]string{}
			}
			cells[line][r.Minor] = trafficCell(t)
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
	if r.Fail == "" {
		return r.Note
	}
	return firstLine(r.Fail)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

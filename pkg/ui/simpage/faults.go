// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
)

// switches are the faults of the page: one of each kind of the simulator, for all calls that it can strike.
var switches = []struct{ name, fault, title string }{
	{"error", "*:error", "Every call answers error 530, without effect"},
	{"cut-before", "*:cut-before", "Connections break before the call has had its effect"},
	{"cut-after", "*:cut-after", "Connections break after the call has had its effect"},
	{"delay", "*:delay:delay=2s", "Every call takes 2 seconds longer"},
	{"job-fails", "*:job-fails", "Every job fails"},
	{"job-never-ends", "*:job-never-ends", "No job ends"},
	{"restart", "*:restart:count=1,delay=10s", "After the next call the management server restarts, and is away for 10 seconds"},
	{"throttled", "*:throttled", "Every call is throttled (429)"},
	{"maintenance", "*:maintenance", "Calls that start a job are refused (503), as before a shutdown"},
	{"quota", "*:quota", "Resource limits are exhausted"},
	{"capacity", "*:capacity", "No public address is free, and no host has room"},
	{"router-refuses", "*:router-refuses", "The virtual router refuses every change"},
	{"nodes-not-ready", "*:nodes-not-ready", "Nodes of new Kubernetes clusters do not join"},
	{"api-unreachable", "*:api-unreachable", "The API of new Kubernetes clusters does not answer"},
}

// armedPrefix begins the names of faults that were not armed on the page.
const armedPrefix = "armed-"

// faults returns the switches, and then the faults that were armed elsewhere. own are the IDs of the faults that the page has armed, by
// the names of their switches.
func faults(armed []simulator.ArmedFault, own map[string]int) []model.Fault {
	byID := map[int]simulator.ArmedFault{}
	for _, a := range armed {
		byID[a.ID] = a
	}
	var out []model.Fault
	for _, s := range switches {
		a, on := byID[own[s.name]]
		delete(byID, own[s.name])
		out = append(out, model.Fault{Name: s.name, Title: s.title, Enabled: on && !spent(a)})
	}
	for _, a := range armed {
		if _, others := byID[a.ID]; others && !spent(a) {
			out = append(out, model.Fault{Name: armedPrefix + strconv.Itoa(a.ID), Title: fmt.Sprintf("%s (%s)", a.Fault, plural.Count(a.Hits, "hit")), Enabled: true})
		}
	}
	return out
}

// spent reports whether a fault has hit all calls that it can hit.
func spent(a simulator.ArmedFault) bool {
	f, err := simulator.ParseFault(a.Fault)
	if err != nil {
		return false
	}
	limit := f.Count
	if limit == 0 && f.Nth > 0 {
		limit = 1
	}
	return limit > 0 && a.Hits >= limit
}

// armedID returns the ID in the name of a fault that was armed elsewhere.
func armedID(name string) (int, bool) {
	text, ok := strings.CutPrefix(name, armedPrefix)
	id, err := strconv.Atoi(text)
	return id, ok && err == nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
)

// switches are the faults of the page: one of each kind that the simulator has. Each fault begins with a colon; the
// page puts the command that it applies to in front.
var switches = []struct{ group, name, fault, title string }{
	{"Answers", "error", ":error", "Every call answers error 530, without effect"},
	{"Answers", "throttled", ":throttled", "Every call is throttled (429)"},
	{"Answers", "maintenance", ":maintenance", "Calls that start a job are refused (503), as before a shutdown"},
	{"Answers", "delay", ":delay:delay=2s", "Every call takes 2 seconds longer"},
	{"Connections", "cut-before", ":cut-before", "Connections break before the call has had its effect"},
	{"Connections", "cut-after", ":cut-after", "Connections break after the call has had its effect"},
	{"Connections", "restart", ":restart:count=1,delay=10s",
		"After the next call the management server restarts, and is away for 10 seconds"},
	{"Jobs", "job-fails", ":job-fails", "Every job fails"},
	{"Jobs", "job-never-ends", ":job-never-ends", "No job ends"},
	{"Resources", "quota", ":quota", "Resource limits are exhausted"},
	{"Resources", "capacity", ":capacity", "No public address is free, and no host has room"},
	{"Resources", "router-refuses", ":router-refuses", "The virtual router refuses every change"},
	{"Resources", "router-loses", ":router-loses", "Virtual routers lose new rules that CloudStack lists"},
	{"Kubernetes clusters", "nodes-not-ready", ":nodes-not-ready", "Nodes of new Kubernetes clusters do not join"},
	{"Kubernetes clusters", "api-unreachable", ":api-unreachable",
		"The API of new Kubernetes clusters does not answer"},
}

// armedPrefix is the prefix of the names of faults that were not armed on the page.
const armedPrefix = "armed-"

// faults returns the switches, and then the faults that were armed elsewhere. own are the IDs of the faults that the
// page has armed, by the names of their switches.
func faults(armed []simulator.ArmedFault, own map[string]int) []model.Fault {
	byID := map[int]simulator.ArmedFault{}
	for _, a := range armed {
		byID[a.ID] = a
	}

	var out []model.Fault
	for _, s := range switches {
		a, on := byID[own[s.name]]
		delete(byID, own[s.name])
		f := model.Fault{Name: s.name, Title: s.title, Group: s.group, Enabled: on && !spent(a)}
		if f.Enabled {
			command, _, _ := strings.Cut(a.Fault, ":")
			f.Command, f.Hits = strings.TrimPrefix(command, "*"), a.Hits
		}
		out = append(out, f)
	}

	for _, a := range armed {
		if _, others := byID[a.ID]; others && !spent(a) {
			out = append(out,
				model.Fault{
					Name:    armedPrefix + strconv.Itoa(a.ID),
					Title:   a.Fault,
					Group:   "Armed elsewhere",
					Hits:    a.Hits,
					Enabled: true,
				})
		}
	}

	return out
}

// spent reports whether a fault has reached the number of calls that it may affect.
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights is the one table of what csccm asks of the API server: check K8S-003, docs/security.md and
// docs/csccm-rights.yaml are made of it, and the system tests hold it against the API server's audit log.
package rights

import (
	"slices"
	"strings"
)

//go:generate go run ./gen

// Place is where a right must hold.
type Place string

// Places.
const (
	// Everywhere is for what has no namespace, and for what is read in all of them.
	Everywhere Place = ""
	// Release is the namespace of the release.
	Release Place = "release"
	// System is where other providers, their lease and kubeadm's settings are.
	System Place = "kube-system"
	// Heartbeats is where kubelets renew their leases.
	Heartbeats Place = "kube-node-lease"
	// Tested is the namespace in which csccm test works. No role of docs/csccm-rights.yaml grants it.
	Tested Place = "namespace of csccm test"
)

// Namespace is the place as the API server knows it; "" for everywhere.
func (p Place) Namespace(release string) string {
	if p == Release {
		return release
	}
	return string(p)
}

// Right is one row of the table.
type Right struct {
	Verbs []string
	Group string
	// Resource, with its subresource: pods/log.
	Resource string
	Place    Place
	// Commands of csccm that ask for it.
	Commands []string
	Why      string
	// Without says what csccm does where the right is missing; "" where it cannot go on.
	Without string
	// When says when it is needed; "" for always.
	When string
	// Chart marks a kind of object of the chart: needed where the rendered chart has one.
	Chart bool
}

// Request is one verb of a right, as a subject access review names it.
type Request struct{ Verb, Group, Resource, Namespace string }

func (r Request) String() string {
	what := r.Verb + " " + r.Resource
	if r.Group != "" {
		what += "." + r.Group
	}
	if r.Namespace != "" {
		what += " in " + r.Namespace
	}
	return what
}

// Kind is the group and resource of a kind of object.
type Kind struct{ Group, Resource string }

// Requests are what a command asks for in any case, the optional ones apart: more tells which kinds the chart has, by
// default all that it has without further values; release is its namespace.
func Requests(command, release string, kinds []Kind) (needed, optional []Request) {
	add := func(to []Request, r Request) []Request {
		if slices.Contains(to, r) {
			return to
		}
		return append(to, r)
	}
	table := Table()
	for i := range table {
		r := &table[i]
		if !slices.Contains(r.Commands, command) {
			continue
		}
		if r.Chart && kinds != nil {
			if !slices.Contains(kinds, Kind{r.Group, r.Resource}) {
				continue
			}
		} else if r.When != "" {
			continue
		}
		for _, verb := range r.Verbs {
			x := Request{verb, r.Group, r.Resource, r.Place.Namespace(release)}
			if r.Without == "" {
				needed = add(needed, x)
			} else {
				optional = add(optional, x)
			}
		}
	}
	return needed, slices.DeleteFunc(optional, func(x Request) bool { return slices.Contains(needed, x) })
}

// Allows tells whether a right lets a command make a request. An install may be a takeover too.
func (r *Right) Allows(command string, x Request, release string) bool {
	return r.Group == x.Group && r.Resource == x.Resource && slices.Contains(r.Verbs, x.Verb) &&
		(slices.Contains(r.Commands, command) || command == "install" && slices.Contains(r.Commands, "takeover")) &&
		(r.Place == Everywhere || r.Place == Tested || r.Place.Namespace(release) == x.Namespace)
}

func words(s string) []string { return strings.Fields(s) }

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "slices"

// Cause is the kind of a Problem. It is a label value of a metric.
type Cause string

// Causes.
const (
	Deleted    Cause = "deleted"
	Excluded   Cause = "excluded"
	Stopped    Cause = "stopped"
	OutOfOrder Cause = "out-of-service"
	NotReady   Cause = "not-ready"
	Suspected  Cause = "suspected"
	// Ineligible and Spread are never a Problem. They only explain why a port moves: the node no longer serves the
	// Service, or another node has joined and gets its share.
	Ineligible Cause = "left"
	Spread     Cause = "spread"
)

// Causes returns all causes.
func Causes() []Cause {
	return []Cause{Deleted, Excluded, Stopped, OutOfOrder, NotReady, Suspected, Ineligible, Spread}
}

// Problem is why a node must not serve forwarded ports now.
type Problem struct {
	Cause Cause
	Text  string // for Events
}

// WhyMoved returns why ports are no longer forwarded to a member.
func (s *Subject) WhyMoved(from string) Problem {
	problem, ineligible := s.Ineligible[s.node(from)]
	switch {
	case ineligible:
		return problem
	case !slices.Contains(s.Desired.Members, from):
		return Problem{Ineligible, "no longer a node that serves the Service"}
	}
	return Problem{Spread, "so that the nodes share the clients"}
}

// node returns the name of the node behind a member; the id of the VM if the node is not known.
func (s *Subject) node(member string) string {
	vm, _ := SplitMember(member)
	for _, m := range s.Nodes() {
		if m.VMID == vm {
			return m.Node
		}
	}
	return vm
}

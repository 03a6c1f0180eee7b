// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"fmt"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Kinds of changes beside those of the controller's actions.
const (
	ChangeRename   = "rename-rule"
	ChangeSurplus  = "delete-surplus-rule"
	ChangeAnnotate = "annotate-service" // to keep what is there
)

// Change is one object in CloudStack, or annotation of the Service, that is made, changed or deleted.
type Change struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Action is set where the controller does it; csccm does the others before.
	Action *plan.Step `json:"action,omitempty"`
}

// sign marks the change in a list.
func (c *Change) sign() string {
	switch {
	case c.Action != nil:
		return c.Action.Sign()
	case c.Kind == ChangeSurplus:
		return "-"
	}
	return "~"
}

// changes returns all that happens to a Service: its pins, what csccm does to its rules, and the controller's plan.
func (w *current) changes(service string, pins map[string]string, actions []plan.Step) []Change {
	out := []Change{}
	for _, name := range sortedNames(pins) {
		out = append(out, Change{Kind: ChangeAnnotate, Text: fmt.Sprintf("set annotation %s=%q on the Service", name, pins[name])})
	}
	for i := range w.renames {
		s := &w.renames[i]
		if s.Service != service {
			continue
		}
		if s.Action == migrate.ActionDelete {
			out = append(out, Change{Kind: ChangeSurplus, Text: fmt.Sprintf("delete rule %s of port %d on %s, which another rule serves", s.From, s.Port, s.PublicIP)})
			continue
		}
		out = append(out, Change{Kind: ChangeRename, Text: fmt.Sprintf("rename rule %s of port %d on %s to %s", s.From, s.Port, s.PublicIP, s.To)})
	}
	for i := range actions {
		out = append(out, Change{Kind: actions[i].Kind(), Text: actions[i].Label(), Action: &actions[i]})
	}
	return out
}

// Pin has the plan show what happens with the annotations that keep what is there, for the Services named (All for
// every one).
func (p *Plan) Pin(names []string) {
	for i := range p.Services {
		if s := &p.Services[i]; s.pinned != nil && Named(names, s.Service) {
			s.Changes, s.Pinned = s.pinned, true
		}
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Plan is what an install or an upgrade says about the policy.
type Plan struct {
	// Refused are the rules that Services of the cluster break.
	Refused []Refusal `json:"refused"`
	// Values are the chart values that keep the Services which have an address; nil where none is needed or wanted.
	Values map[string]any `json:"values,omitempty"`
}

// NewPlan compares the Services with the policy of a rendered chart. It returns nil where nothing is refused, or where
// the chart's controller has no policy. deployed is the manifest of the release so far: where its controller has a
// policy already, Services that it refuses are not kept, or a tenant would get by an upgrade what was refused before.
// strict keeps none.
func NewPlan(manifest, deployed string, strict bool, v View) (*Plan, error) {
	p, set, err := PolicyOfManifest(manifest)
	if err != nil || !set {
		return nil, err
	}
	if _, enforced, err := PolicyOfManifest(deployed); enforced || err != nil {
		strict = true
	}
	return compared(p, strict, v)
}

// PlanOf compares the Services with the policy of a controller that is started with these words, and names the values
// that would keep them. It returns nil where nothing is refused, or where the controller has no policy.
func PlanOf(words []string, v View) (*Plan, error) {
	p, set, err := PolicyOf(words)
	if err != nil || !set {
		return nil, err
	}
	return compared(p, false, v)
}

func compared(p tenancy.Policy, strict bool, v View) (*Plan, error) {
	out := &Plan{}
	var err error
	if strict {
		out.Refused = Refused(p, v)
	} else if out.Values, out.Refused, err = Keep(p, v); err != nil {
		return nil, err
	}
	if len(out.Refused) == 0 {
		return nil, nil //nolint:nilnil // nothing to say
	}
	return out, nil
}

// strict returns the plan that keeps nothing.
func (p *Plan) strict() *Plan {
	out := &Plan{Refused: slices.Clone(p.Refused)}
	for i := range out.Refused {
		out.Refused[i].Kept = false
	}
	return out
}

// Kept returns the names of the Services that the values keep, each once.
func (p *Plan) Kept() []string {
	var out []string
	for i := range p.Refused {
		if r := &p.Refused[i]; r.Kept && !slices.Contains(out, r.Service) {
			out = append(out, r.Service)
		}
	}
	return out
}

// Lines are the plan for people, one line a refusal.
func (p *Plan) Lines() []string {
	out := make([]string, 0, len(p.Refused))
	for i := range p.Refused {
		r := &p.Refused[i]
		what := "is refused"
		switch {
		case r.Kept:
			what = "is kept by a chart value"
		case !r.Serving:
			what = "is refused; it has no address yet"
		}
		out = append(out, fmt.Sprintf("Service %s %s: %s", r.Service, what, r.Message))
	}
	return out
}

// question asks whether to keep what the policy refuses.
func (p *Plan) question() string {
	kept := p.Kept()
	return fmt.Sprintf("Keep the %s %s by chart values (tenancy)", plural.Noun(len(kept), "Service"), strings.Join(kept, ", "))
}

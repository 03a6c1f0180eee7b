// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// Plan is what an install or an upgrade says about the policy.
type Plan struct {
	// Refused are the rules that Services of the cluster break.
	Refused []Refusal `json:"refused"`
	// Values are the chart values that keep the Services which have an address; nil where none is needed.
	Values map[string]any `json:"values,omitempty"`
}

// PlanOf compares the Services with the policy in the words that a controller is started with. It returns nil where nothing is
// refused, or where the controller has no policy. It reads the labels of namespaces if the policy needs them.
func PlanOf(ctx context.Context, kube kubernetes.Interface, words []string, v View) (*Plan, error) {
	p, set, err := PolicyOf(words)
	if err == nil && !set {
		return nil, nil //nolint:nilnil // no policy
	}
	if err == nil && p.NeedsLabels() {
		if v.Labels, err = cluster.NamespaceLabels(ctx, kube); err != nil {
			return nil, err
		}
	}
	var values map[string]any
	var refused []Refusal
	if err == nil {
		values, refused, err = Keep(p, v)
	}
	switch {
	case err != nil:
		return nil, report.Usage(err.Error(), "correct the chart value tenancy")
	case len(refused) == 0:
		return nil, nil //nolint:nilnil // nothing is refused
	}
	return &Plan{refused, values}, nil
}

// Lines are the plan for people, one line per refusal, and one that names the values.
func (p *Plan) Lines() []string {
	out := make([]string, 0, len(p.Refused)+1)
	for i := range p.Refused {
		r := &p.Refused[i]
		what := "is refused"
		if !r.Serving {
			what = "is refused; it has no address yet"
		}
		out = append(out, fmt.Sprintf("Service %s %s: %s", r.Service, what, r.Message))
	}
	if flags := Flags(p.Values); flags != "" {
		out = append(out, "these flags allow what the Services with an address use: "+flags)
	}
	return out
}

// Flags returns chart values as flags of csccm and helm; "" without values, or where a list has more than texts.
func Flags(values map[string]any) string {
	var out []string
	plain := true
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				visit(strings.TrimPrefix(path+"."+name, "."), v[name])
			}
		case []any:
			for i := range v {
				text, ok := v[i].(string)
				plain = plain && ok
				out = append(out, "--set", report.ShellLine(fmt.Sprintf("%s[%d]=%s", path, i, strings.ReplaceAll(text, ",", `\,`))))
			}
		default:
			out = append(out, "--set", report.ShellLine(fmt.Sprintf("%s=%v", path, v)))
		}
	}
	visit("", values)
	if !plain {
		return ""
	}
	return strings.Join(out, " ")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade brings an installed release to another version of the chart,
// and back. Values that were given stay, over the new chart's defaults.
package upgrade

import (
	"fmt"
	"io"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/helm"
)

// Version is a chart with its controller.
type Version struct {
	Revision   int    `json:"revision,omitempty"`
	Chart      string `json:"chart"`
	Controller string `json:"controller"`
}

// Plan is what an upgrade or a rollback would do. It holds no secret.
type Plan struct {
	SchemaVersion int     `json:"schemaVersion"`
	Action        string  `json:"action"` // upgrade, downgrade, change, keep, rollback
	Release       string  `json:"release"`
	Namespace     string  `json:"namespace"`
	From          Version `json:"from"`
	To            Version `json:"to"`
	// Renamed are values of the release that have another name in the new chart.
	Renamed []Rename       `json:"renamed,omitempty"`
	Values  map[string]any `json:"values,omitempty"`
	// Tenants is nil where the policy for tenants refuses no Service.
	Tenants *tenants.Plan `json:"tenants,omitempty"`
	Objects []diff.Change `json:"objects,omitempty"`

	manifest string
	after    *helm.Release // as it is after the steps
	backup   string        // file with the release as it was
}

// Rename is a value that moved from one path to another.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// renamesAnnotation of a chart names the values that it renamed, one "old: new"
// a line, as paths with dots.
const renamesAnnotation = "csccm.io/renamed-values"

// renames reads a chart's list.
func renames(text string) ([]Rename, error) {
	var out []Rename
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		from, to, ok := strings.Cut(line, ":")
		if from, to = strings.TrimSpace(from), strings.TrimSpace(to); !ok || from == "" || to == "" {
			return nil, fmt.Errorf("annotation %s of the chart: %q is not old: new", renamesAnnotation, line)
		}
		out = append(out, Rename{from, to})
	}
	return out, nil
}

// applyRenames moves values of the release to their new names; what is set
// under the new name already wins. It returns those that it moved.
func applyRenames(values map[string]any, list []Rename) (map[string]any, []Rename) {
	values = helm.MergeValues(values, nil)
	var did []Rename
	for _, r := range list {
		v, ok := take(values, strings.Split(r.From, "."))
		if !ok {
			continue
		}
		did = append(did, r)
		put(values, strings.Split(r.To, "."), v)
	}
	return values, did
}

// take removes the value at a path.
func take(values map[string]any, path []string) (any, bool) {
	v, ok := values[path[0]]
	if !ok {
		return nil, false
	}
	if len(path) == 1 {
		delete(values, path[0])
		return v, true
	}
	below, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	v, ok = take(below, path[1:])
	if len(below) == 0 {
		delete(values, path[0])
	}
	return v, ok
}

func put(values map[string]any, path []string, v any) {
	if len(path) == 1 {
		if _, there := values[path[0]]; !there {
			values[path[0]] = v
		}
		return
	}
	below, ok := values[path[0]].(map[string]any)
	if !ok {
		below = map[string]any{}
		values[path[0]] = below
	}
	put(below, path[1:], v)
}

// direction compares chart versions: -1 is a downgrade.
func direction(from, to string) int {
	f, ferr := semver.NewVersion(from)
	t, terr := semver.NewVersion(to)
	if ferr != nil || terr != nil {
		return strings.Compare(to, from)
	}
	return t.Compare(f)
}

func (p *Plan) print(w io.Writer) error {
	var b strings.Builder
	from := p.From.Chart
	if p.From.Revision > 0 {
		from = fmt.Sprintf("revision %d, chart %s", p.From.Revision, p.From.Chart)
	}
	to := "chart " + p.To.Chart
	if p.To.Revision > 0 {
		to = fmt.Sprintf("revision %d, chart %s", p.To.Revision, p.To.Chart)
	}
	fmt.Fprintf(&b, "%s release %s/%s:\n", p.Action, p.Namespace, p.Release)
	fmt.Fprintf(&b, "  from  %s, controller %s\n", from, p.From.Controller)
	fmt.Fprintf(&b, "  to    %s, controller %s\n", to, p.To.Controller)
	for _, r := range p.Renamed {
		fmt.Fprintf(&b, "  value %s is now %s\n", r.From, r.To)
	}
	if p.Tenants != nil {
		for _, line := range p.Tenants.Lines() {
			fmt.Fprintf(&b, "  ! %s\n", line)
		}
	}
	b.WriteString(diff.Text(p.Objects, "  "))
	_, err := io.WriteString(w, b.String())
	return err
}

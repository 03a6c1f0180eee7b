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

	"github.com/csccm/csccm/installer/check/tenants"
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
	SchemaVersion int            `json:"schemaVersion"`
	Action        string         `json:"action"` // upgrade, downgrade, change, keep, rollback
	Release       string         `json:"release"`
	Namespace     string         `json:"namespace"`
	From          Version        `json:"from"`
	To            Version        `json:"to"`
	Values        map[string]any `json:"values,omitempty"`
	// Tenants is what the policy for tenants refuses.
	Tenants []tenants.Refusal `json:"tenants,omitempty"`
	Objects []diff.Change     `json:"objects,omitempty"`

	manifest string
	after    *helm.Release // as it is after the steps
	verbose  bool
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
	for i := range p.Tenants {
		fmt.Fprintf(&b, "  ! %s\n", &p.Tenants[i])
	}
	b.WriteString(diff.Text(p.Objects, "  ", p.verbose))
	_, err := io.WriteString(w, b.String())
	return err
}

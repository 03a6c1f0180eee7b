// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/inventory"
)

// Look reads what Judge decides by. Without credentials cs is nil.
func Look(ctx context.Context, c *cluster.Cluster, cs *cloud.Cloud, release string) (*Facts, error) {
	if cs == nil {
		return Gather(ctx, c, nil, nil, "", release)
	}
	inv := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID, Zone: cs.Config.Zone})
	project, err := inv.ProjectID(ctx)
	if err != nil {
		return nil, err
	}
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, err
	}
	return Gather(ctx, c, cs.Client, vms, project, release)
}

// WriteText writes the findings for people.
func (r *Report) WriteText(w io.Writer, style report.Style) error {
	var b strings.Builder
	for _, f := range r.Findings {
		y := report.SymbolOK
		switch {
		case f.Failed:
			y = report.SymbolFailed
		case !f.OK:
			y = report.SymbolWarning
		}
		b.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, f.Topic+": "+f.Text))
		if f.Remedy != "" {
			b.WriteString(style.Indented("  fix: ", 7, f.Remedy))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

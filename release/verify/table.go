// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

// ImageTable shows reports to people.
func ImageTable(reports []*ImageReport) *report.Table {
	table := &report.Table{Header: []string{"IMAGE", "PLATFORM", "DIGEST", "VERIFIED"}}
	for _, r := range reports {
		table.Add(r.Ref, "", r.Digest, evidence(r.Evidence))
		for _, p := range r.Platforms {
			table.Add("", p.Platform, p.Digest, evidence(p.Evidence))
		}
	}
	return table
}

// evidence names the kinds once each, sorted: registries list them in any order.
func evidence(found []Evidence) string {
	var kinds []string
	for _, e := range found {
		kinds = append(kinds, e.Kind)
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ", ")
}

// Table shows the report to people.
func (r *FileReport) Table() *report.Table {
	table := &report.Table{Header: []string{"FILE", "DIGEST", "SIGNED", "PROVENANCE"}}
	for _, f := range r.Files {
		provenance := "no"
		if f.Provenance {
			provenance = "yes"
		}
		table.Add(f.Name, f.Digest, "yes", provenance)
	}
	return table
}

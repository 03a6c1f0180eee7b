// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"slices"
	"strings"
)

// Part is the name of the generated part of docs/security.md (see docs/pages).
const Part = "rights of csccm: written by go generate ./installer/kube/rights"

// Markdown returns the table for docs/security.md. Rights that differ only in their resource share a row.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| resource | verbs | where | commands | for | if missing |\n|---|---|---|---|---|---|\n")
	table := Table()
	done := make([]bool, len(table))
	for i := range table {
		if done[i] {
			continue
		}
		r := &table[i]
		var resources []string
		group := ""
		for j := i; j < len(table); j++ {
			if o := &table[j]; !done[j] && alike(r, o) {
				resources, done[j] = append(resources, strings.TrimPrefix(o.name(), group)), true
				group = o.Group + " " // name the API group only once
			}
		}
		why := r.Why
		if r.When != "" && !r.Chart {
			why += ", if " + r.When
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", strings.Join(resources, ", "), strings.Join(r.Verbs, ", "), r.Place.text(),
			strings.Join(r.Commands, ", "), why, r.Without)
	}
	return b.String()
}

// alike reports whether two rights differ only in their resource.
func alike(a, b *Right) bool {
	return slices.Equal(a.Verbs, b.Verbs) && slices.Equal(a.Commands, b.Commands) && a.Place == b.Place && a.Why == b.Why && a.Without == b.Without &&
		a.Chart == b.Chart && (a.Chart || a.When == b.When)
}

func (r *Right) name() string {
	name := r.Resource
	if r.Group != "" {
		name = r.Group + " " + name
	}
	if r.Chart && r.When != "" {
		name += " (" + r.When + ")"
	}
	return name
}

func (p Place) text() string {
	switch p {
	case Everywhere:
		return "everywhere"
	case Release:
		return "namespace of the release"
	case System, Heartbeats, Elsewhere, Tested:
	}
	return string(p)
}

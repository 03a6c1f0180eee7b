// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/ui/model"
)

// drawing is the map of an exported file, which the template draws as SVG.
type drawing struct {
	Height int
	Boxes  []*box
	Lines  map[string]bool // as paths
}

// box is an object, or the objects of a kind in a group.
type box struct {
	model.Object
	X, Y, Count int
}

// mostBoxes is how many objects are drawn one by one. With more objects, each group becomes one line of boxes.
const mostBoxes = 150

var columns = map[model.Kind]int{
	model.KindService: 0,
	model.KindAddress: 1,
	model.KindRule:    2,
	model.KindForward: 2,
	model.KindNode:    3,
	model.KindVM:      4,
	model.KindNetwork: 5,
}

// worst lists the healths from worst to best; a box of several objects has the worst of theirs.
var worst = []model.Health{
	model.HealthError, model.HealthWarning, model.HealthPending, model.HealthOrphan, model.HealthForeign,
	model.HealthPlanned, model.HealthOK,
}

// draw places the objects in the order of the list. Objects that belong to a Service or Node are to its right, and the
// next Service or Node is below.
func (e *export) draw(groups []itemGroup) *drawing {
	d, at := &drawing{Lines: map[string]bool{}}, map[string]*box{}
	var folded map[int]*box // by column, in a group that is one line
	var place func(items []item, group string, row int) int
	place = func(items []item, group string, row int) int {
		for i := range items {
			o := &items[i]
			column, known := columns[o.Kind]
			if o.Again || !known {
				continue
			}

			b := folded[column]
			if b == nil {
				b = &box{Object: o.Object, X: column * 200, Y: row * 46}
				d.Boxes, d.Height = append(d.Boxes, b), max(d.Height, b.Y+42)
			}

			if b.Count++; slices.Index(worst, o.Health) < slices.Index(worst, b.Health) {
				b.Health = o.Health
			}

			at[o.ID] = b
			if folded != nil {
				folded[column], at[model.GroupID(o.Kind, o.Group)], b.Group = b, b, group
			}

			if end := place(o.Children, group, row); folded == nil {
				row = max(row+1, end)
			}
		}

		return row
	}

	rows := map[int]int{} // the next free row of Services, of nodes and of networks
	for _, g := range groups {
		if folded = nil; len(e.s.Objects) > mostBoxes {
			folded = map[int]*box{}
		}
		side := columns[g.Items[0].Kind]/3 + columns[g.Items[0].Kind]/5
		rows[side] = max(place(g.Items, g.Items[0].Group, rows[side]), rows[side]+1)
	}

	for _, l := range e.s.Links {
		if a, b := at[l.From], at[l.To]; a != nil && b != nil && a.X < b.X {
			d.Lines[fmt.Sprintf("M%d,%dC%d,%d %d,%d %d,%d", a.X+160, a.Y+19, b.X-20, a.Y+19, a.X+180, b.Y+19, b.X,
				b.Y+19)] = true
		}
	}

	return d
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"reflect"
	"slices"
)

// Sorted returns a copy of s whose lists are sorted, so that equal states are equal JSON. Objects and links are never
// nil. s itself is not changed.
func (s Snapshot) Sorted() Snapshot {
	s.Objects = sorted(s.Objects, func(a, b Object) int { return cmp.Compare(a.ID, b.ID) })
	s.Links = sorted(s.Links, func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Label, b.Label))
	})
	s.Checks = sorted(s.Checks, func(a, b Check) int { return cmp.Compare(a.Code, b.Code) })
	s.Plans = sorted(s.Plans, func(a, b Plan) int { return cmp.Compare(a.Service, b.Service) })
	s.Nodes = sorted(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	s.Timeline = sorted(s.Timeline, func(a, b Entry) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Message, b.Message))
	})

	s.Calls = sorted(s.Calls, func(a, b Calls) int {
		return cmp.Or(cmp.Compare(a.Command, b.Command), cmp.Compare(a.Code, b.Code))
	})
	s.Faults = sorted(s.Faults,
		func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name)) })
	s.Missing = sorted(s.Missing, func(a, b Missing) int { return cmp.Compare(a.Part, b.Part) })
	return s
}

func sorted[T any](list []T, by func(a, b T) int) []T {
	list = append([]T{}, list...)
	slices.SortStableFunc(list, by)
	return list
}

// Diff returns the patch that turns before into after, and false if they differ only in At. Both must be sorted.
func Diff(before, after Snapshot) (Patch, bool) {
	p := Patch{At: after.At}
	p.Objects, p.Removed = diffObjects(before.Objects, after.Objects)
	changed := len(p.Objects)+len(p.Removed) > 0
	if !reflect.DeepEqual(before.Controller, after.Controller) {
		p.Controller, changed = cmp.Or(after.Controller, &Controller{}), true
	}

	if after.Story != nil && !reflect.DeepEqual(before.Story, after.Story) {
		p.Story, changed = after.Story, true
	}

	parts(&p, func(name string, part reflect.Value) {
		was, is := reflect.ValueOf(before).FieldByName(name), reflect.ValueOf(after).FieldByName(name)
		list := is.Kind() == reflect.Slice
		if list && was.Len()+is.Len() == 0 || reflect.DeepEqual(was.Interface(), is.Interface()) {
			return
		}
		part.Set(reflect.New(is.Type()))
		if changed = true; list && is.IsNil() {
			is = reflect.MakeSlice(is.Type(), 0, 0) // a list that became empty is [], not null
		}
		part.Elem().Set(is)
	})

	return p, changed
}

// parts calls do for each field of the patch that is a pointer to the type of the Snapshot field with the same name.
func parts(p *Patch, do func(name string, part reflect.Value)) {
	for field, part := range reflect.ValueOf(p).Elem().Fields() {
		if of, ok := reflect.TypeFor[Snapshot]().FieldByName(field.Name); ok &&
			field.Type == reflect.PointerTo(of.Type) {
			do(field.Name, part)
		}
	}
}

// diffObjects compares two lists that are sorted by ID.
func diffObjects(before, after []Object) (changed []Object, removed []string) {
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].ID < after[0].ID:
			removed, before = append(removed, before[0].ID), before[1:]
		case len(before) == 0 || after[0].ID < before[0].ID:
			changed, after = append(changed, after[0]), after[1:]
		default:
			if !reflect.DeepEqual(before[0], after[0]) {
				changed = append(changed, after[0])
			}
			before, after = before[1:], after[1:]
		}
	}
	return changed, removed
}

// Apply returns s with p applied, as a browser does it. It changes neither s nor p.
func (s Snapshot) Apply(p Patch) Snapshot {
	s.At = p.At
	if p.Controller != nil {
		if s.Controller = p.Controller; *p.Controller == (Controller{}) {
			s.Controller = nil
		}
	}

	s.Story = cmp.Or(p.Story, s.Story)
	removed := map[string]bool{}
	for _, id := range p.Removed {
		removed[id] = true
	}

	for i := range p.Objects {
		removed[p.Objects[i].ID] = true
	}

	objects := make([]Object, 0, len(s.Objects)+len(p.Objects))
	for i := range s.Objects {
		if !removed[s.Objects[i].ID] {
			objects = append(objects, s.Objects[i])
		}
	}

	objects = append(objects, p.Objects...)
	slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.ID, b.ID) })
	s.Objects = objects
	parts(&p, func(name string, part reflect.Value) {
		if !part.IsNil() {
			reflect.ValueOf(&s).Elem().FieldByName(name).Set(part.Elem())
		}
	})

	return s
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

func TestDiff(t *testing.T) {
	t.Parallel()
	base := func() Snapshot {
		return Snapshot{
			SchemaVersion: SchemaVersion,
			At:            time.Unix(1, 0).UTC(),
			Title:         "t",
			Objects:       []Object{{ID: "b", Why: []string{"x"}}, {ID: "a"}, {ID: "c"}},
			Links:         []Link{{From: "b", To: "c"}, {From: "a", To: "b"}},
			Plans:         []Plan{{Service: "a"}},
			Missing:       []Missing{{Part: "calls"}},
		}
	}

	for name, c := range map[string]struct {
		change func(*Snapshot)
		want   string // the patch without its time; "" for none
	}{
		"nothing":           {func(*Snapshot) {}, ""},
		"only the time":     {func(s *Snapshot) { s.At = time.Unix(2, 0).UTC() }, ""},
		"the order":         {func(s *Snapshot) { s.Objects[0], s.Objects[1] = s.Objects[1], s.Objects[0] }, ""},
		"empty, not absent": {func(s *Snapshot) { s.Checks = []Check{} }, ""},
		"an object changed": {func(s *Snapshot) { s.Objects[0].Why = []string{"y"} },
			`{"objects":[{"id":"b","kind":"","name":"","health":"","why":["y"]}]}`},
		"an object more": {func(s *Snapshot) { s.Objects = append(s.Objects, Object{ID: "aa"}) },
			`{"objects":[{"id":"aa","kind":"","name":"","health":""}]}`},
		"an object less": {func(s *Snapshot) { s.Objects = s.Objects[:2] }, `{"removed":["c"]}`},
		"no objects":     {func(s *Snapshot) { s.Objects = nil }, `{"removed":["a","b","c"]}`},
		"a link":         {func(s *Snapshot) { s.Links = s.Links[:1] }, `{"links":[{"from":"b","to":"c"}]}`},
		"a part ends":    {func(s *Snapshot) { s.Plans, s.Missing = nil, nil }, `{"plans":[],"missing":[]}`},
		"a part begins": {func(s *Snapshot) { s.Calls = []Calls{{Command: "list"}} },
			`{"calls":[{"command":"list","code":"","perMinute":0}]}`},
		"the speed": {func(s *Snapshot) { s.Speed = 0.5 }, `{"speed":0.5}`},
		"the title": {func(s *Snapshot) { s.Title = "new" }, `{"title":"new"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := base().Sorted(), base()
			c.change(&after)
			after = after.Sorted()
			patch, differs := Diff(before, after)
			require.Equal(t, c.want != "", differs)
			if !differs {
				return
			}
			assert.JSONEq(t, text(t, after), text(t, before.Apply(patch)), "the patch leads there")
			assert.Equal(t, base().Sorted(), before, "Apply changes nothing")
			var fields map[string]any
			require.NoError(t, json.Unmarshal([]byte(text(t, patch)), &fields))
			delete(fields, "at")
			assert.JSONEq(t, c.want, text(t, fields))
		})
	}
}

// TestPatchHasEveryPart fails if Snapshot has a field that Patch lacks.
func TestPatchHasEveryPart(t *testing.T) {
	t.Parallel()
	patch := reflect.TypeFor[Patch]()
	for f := range reflect.TypeFor[Snapshot]().Fields() {
		if _, has := patch.FieldByName(f.Name); !has && f.Name != "SchemaVersion" {
			t.Errorf("Patch has no %s", f.Name)
		}
	}
}

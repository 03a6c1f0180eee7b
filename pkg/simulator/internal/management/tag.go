// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// tagTargets resolves the resources of createTags inside the job.
func tagTargets(c *wire.Call) ([]store.TagTarget, error) {
	kind, err := wire.TagType(c.Str("resourcetype"))
	if err != nil {
		return nil, err
	}

	if kind.Untaggable {
		return nil, wire.Invalid("The resource type %s doesn't support resource tags", c.Str("resourcetype"))
	}

	var out []store.TagTarget
	for _, id := range c.List("resourceids") {
		t, ok := c.St.TagTarget(kind, id)
		if !ok {
			return nil, wire.Invalid("Unable to find resource by uuid %s and type %s", id, kind.Name)
		}
		// Resources without an owner belong to the system account.
		if t.Owner == nil && !c.Caller.RootAdmin() || !c.Access(t.Owner) {
			return nil, wire.Denied()
		}
		out = append(out, t)
	}

	return out, nil
}

func createTags(c *wire.Call) (*wire.JobSpec, error) {
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		if err := c.CheckTagValues(); err != nil {
			return nil, err
		}

		targets, err := tagTargets(c)
		if err != nil {
			return nil, err
		}

		// CloudStack adds all tags or none: one key that already exists fails the call.
		pairs, seen := tagPairs(c.Maps["tags"]), map[string]bool{}
		for _, t := range targets {
			for _, e := range pairs {
				k := t.UUID + "/" + strings.ToLower(e["key"])
				if e["value"] == "" {
					return nil, wire.Invalid("Value for the key %s is either null or empty", e["key"])
				}

				if seen[k] ||
					slices.ContainsFunc(*t.Tags, func(g store.Tag) bool { return strings.EqualFold(g.Key, e["key"]) }) {
					return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "tag %s already on %s with id %s",
						e["key"], t.Typ, t.UUID)
				}

				seen[k] = true
			}
		}

		for _, t := range targets {
			for _, e := range pairs {
				*t.Tags = append(*t.Tags,
					store.Tag{Key: e["key"], Value: e["value"], Customer: c.Str("customer"), UUID: uuid.NewString()})
			}
		}

		return wire.Success{Success: true}, nil
	}}, nil
}

// tagPairs returns the last entry of each key, because CloudStack reads the entries into a map.
func tagPairs(entries []wire.MapEntry) []wire.MapEntry {
	var out []wire.MapEntry
	for i, e := range entries {
		if !slices.ContainsFunc(entries[i+1:], func(o wire.MapEntry) bool { return o["key"] == e["key"] }) {
			out = append(out, e)
		}
	}
	return out
}

// deleteTags searches for tags, not resources: a resource that does not exist has no tags. A deleted load balancer
// rule still has some, because CloudStack keeps them.
func deleteTags(c *wire.Call) (*wire.JobSpec, error) {
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		kind, err := wire.TagType(c.Str("resourcetype"))
		if err != nil {
			return nil, err
		}

		want := c.Maps["tags"]
		hit := func(g store.Tag) bool {
			return want == nil || slices.ContainsFunc(want, func(e wire.MapEntry) bool {
				v, hasValue := e["value"]
				return strings.EqualFold(e["key"], g.Key) && (!hasValue || strings.EqualFold(v, g.Value))
			})
		}

		var targets []store.TagTarget
		for _, id := range c.List("resourceids") {
			if t, ok := c.St.TagTargetOrOrphaned(kind, id); ok && slices.ContainsFunc(*t.Tags, hit) {
				targets = append(targets, t)
			}
		}

		if len(targets) == 0 {
			return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Failed to delete tags")
		}

		for _, t := range targets {
			if t.Owner == nil && !c.Caller.RootAdmin() || !c.Access(t.Owner) {
				return nil, wire.Denied()
			}
		}

		for _, t := range targets {
			*t.Tags = slices.DeleteFunc(*t.Tags, hit)
		}

		c.St.OrphanedTags = slices.DeleteFunc(c.St.OrphanedTags,
			func(t store.TagTarget) bool { return len(*t.Tags) == 0 })
		return wire.Success{Success: true}, nil
	}}, nil
}

// tagItem is a tag with its resource.
type tagItem struct {
	tag    store.Tag
	target store.TagTarget
}

func listTags(c *wire.Call) (any, error) {
	// The tags of a project belong to the project.
	if strings.EqualFold(c.Str("resourcetype"), "Project") && !c.Given("projectid") {
		if p, ok := c.St.Projects.Get(c.Str("resourceid")); ok {
			c.Refs["projectid"] = store.Ref{ID: p.ID, Obj: p}
		}
	}

	in, err := c.OwnerScope(false)
	if err != nil {
		return nil, err
	}

	var out []tagItem
	visit := func(t store.TagTarget) {
		switch {
		case t.Owner == nil || !in(t.Owner), c.Has("resourcetype") && !strings.EqualFold(c.Str("resourcetype"), t.Typ),
			c.Has("resourceid") && !strings.EqualFold(c.Str("resourceid"), t.UUID):
			return
		}
		for _, g := range *t.Tags {
			if c.Has("key") && !strings.EqualFold(c.Str("key"), g.Key) ||
				c.Has("value") && !strings.EqualFold(c.Str("value"), g.Value) ||
				c.Has("customer") && !strings.EqualFold(c.Str("customer"), g.Customer) {
				continue
			}
			out = append(out, tagItem{g, t})
		}
	}

	c.St.EachTagged(visit)
	if !c.Has("resourceid") { // resourceid does not find deleted rules (golden case listTags.after-lb-delete)
		for _, t := range c.St.OrphanedTags {
			visit(t)
		}
	}

	slices.SortStableFunc(out, func(a, b tagItem) int {
		return strings.Compare(strings.ToLower(b.target.Typ), strings.ToLower(a.target.Typ))
	})
	return wire.Page(c, "tag", out, func(i tagItem) wire.TagView {
		return wire.TagView{
			Key:          i.tag.Key,
			Value:        i.tag.Value,
			ResourceType: i.target.Typ,
			ResourceID:   i.target.UUID,
			Customer:     i.tag.Customer,
			OwnerView:    wire.ViewOwner(i.target.Owner),
		}
	})
}

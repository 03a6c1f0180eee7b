// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// tagTargets resolves the resources of createTags inside the job.
func (c *call) tagTargets() ([]tagTarget, error) {
	kind, err := tagType(c.str("resourcetype"))
	if err != nil {
		return nil, err
	}
	if kind.untaggable {
		return nil, invalid("The resource type %s doesn't support resource tags", c.str("resourcetype"))
	}
	var out []tagTarget
	for _, id := range c.list("resourceids") {
		t, ok := c.st.tagTarget(kind, id)
		if !ok {
			return nil, invalid("Unable to find resource by uuid %s and type %s", id, kind.name)
		}
		if t.owner == nil && !c.caller.rootAdmin() || !c.access(t.owner) { // a resource without owner is the system account's
			return nil, denied()
		}
		out = append(out, t)
	}
	return out, nil
}

func createTags(c *call) (*jobSpec, error) {
	return &jobSpec{run: func(time.Time) (any, error) {
		if err := c.checkTagValues(); err != nil {
			return nil, err
		}
		targets, err := c.tagTargets()
		if err != nil {
			return nil, err
		}
		// All or nothing: a key that is taken rolls the whole call back.
		pairs, seen := tagPairs(c.maps["tags"]), map[string]bool{}
		for _, t := range targets {
			for _, e := range pairs {
				k := t.uuid + "/" + strings.ToLower(e["key"])
				if e["value"] == "" {
					return nil, invalid("Value for the key %s is either null or empty", e["key"])
				}
				if seen[k] || slices.ContainsFunc(*t.tags, func(g tag) bool { return strings.EqualFold(g.key, e["key"]) }) {
					return nil, errf(codeInternal, csRuntime, "tag %s already on %s with id %s", e["key"], t.typ, t.uuid)
				}
				seen[k] = true
			}
		}
		for _, t := range targets {
			for _, e := range pairs {
				*t.tags = append(*t.tags, tag{key: e["key"], value: e["value"], customer: c.str("customer"), uuid: uuid.NewString()})
			}
		}
		return success{true}, nil
	}}, nil
}

// tagPairs leaves one entry of each key, the last one: the server reads them into a map.
func tagPairs(entries []mapEntry) []mapEntry {
	var out []mapEntry
	for i, e := range entries {
		if !slices.ContainsFunc(entries[i+1:], func(o mapEntry) bool { return o["key"] == e["key"] }) {
			out = append(out, e)
		}
	}
	return out
}

// deleteTags looks for tags, not for resources: one that does not exist has none, unless it was a load balancer rule.
func deleteTags(c *call) (*jobSpec, error) {
	return &jobSpec{run: func(time.Time) (any, error) {
		kind, err := tagType(c.str("resourcetype"))
		if err != nil {
			return nil, err
		}
		want := c.maps["tags"]
		hit := func(g tag) bool {
			return want == nil || slices.ContainsFunc(want, func(e mapEntry) bool {
				v, hasValue := e["value"]
				return strings.EqualFold(e["key"], g.key) && (!hasValue || strings.EqualFold(v, g.value))
			})
		}
		var targets []tagTarget
		for _, id := range c.list("resourceids") {
			if t, ok := c.st.tagTargetOrLeft(kind, id); ok && slices.ContainsFunc(*t.tags, hit) {
				targets = append(targets, t)
			}
		}
		if len(targets) == 0 {
			return nil, errf(codeInternal, csGeneric, "Failed to delete tags")
		}
		for _, t := range targets {
			if t.owner == nil && !c.caller.rootAdmin() || !c.access(t.owner) {
				return nil, denied()
			}
		}
		for _, t := range targets {
			*t.tags = slices.DeleteFunc(*t.tags, hit)
		}
		c.st.leftTags = slices.DeleteFunc(c.st.leftTags, func(t tagTarget) bool { return len(*t.tags) == 0 })
		return success{true}, nil
	}}, nil
}

// tagItem is a tag with its resource, as listTags shows it.
type tagItem struct {
	tag    tag
	target tagTarget
}

func listTags(c *call) (any, error) {
	if strings.EqualFold(c.str("resourcetype"), "Project") && !c.given("projectid") { // tags of a project are its own
		if p, ok := c.st.projects.get(c.str("resourceid")); ok {
			c.refs["projectid"] = ref{id: p.id, obj: p}
		}
	}
	in, err := c.ownerScope(false)
	if err != nil {
		return nil, err
	}
	var out []tagItem
	visit := func(t tagTarget) {
		switch {
		case t.owner == nil || !in(t.owner), c.has("resourcetype") && !strings.EqualFold(c.str("resourcetype"), t.typ),
			c.has("resourceid") && !strings.EqualFold(c.str("resourceid"), t.uuid):
			return
		}
		for _, g := range *t.tags {
			if c.has("key") && !strings.EqualFold(c.str("key"), g.key) || c.has("value") && !strings.EqualFold(c.str("value"), g.value) ||
				c.has("customer") && !strings.EqualFold(c.str("customer"), g.customer) {
				continue
			}
			out = append(out, tagItem{g, t})
		}
	}
	c.st.eachTagged(visit)
	if !c.has("resourceid") { // the id of a rule that is gone names nothing (listTags.after-lb-delete)
		for _, t := range c.st.leftTags {
			visit(t)
		}
	}
	slices.SortStableFunc(out, func(a, b tagItem) int {
		return strings.Compare(strings.ToLower(b.target.typ), strings.ToLower(a.target.typ))
	})
	return page(c, "tag", out, func(i tagItem) tagView {
		return tagView{
			Key: i.tag.key, Value: i.tag.value, ResourceType: i.target.typ, ResourceID: i.target.uuid, Customer: i.tag.customer, ownerView: viewOwner(i.target.owner),
		}
	})
}

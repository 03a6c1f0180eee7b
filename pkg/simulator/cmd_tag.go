// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

var tagCommands = []command{
	{name: "createTags", submit: createTags, class: "user.tag.CreateTagsCmd", order: []string{"tags", "resourcetype", "resourceids"}},
	{name: "deleteTags", submit: deleteTags, class: "user.tag.DeleteTagsCmd"},
	{name: "listTags", run: listTags},
}

// tagKinds maps a resource type to the kind of object it names; refNone: known, but not in this world.
var tagKinds = map[string]refKind{
	"UserVm": refVM, "LoadBalancer": refLBRule, "PublicIpAddress": refIP, "FirewallRule": refFWRule, "NetworkACL": refACLItem,
	"Network": refNetwork, "Vpc": refVPC, "Project": refProject, "PortForwardingRule": refNone, "StaticRoute": refNone,
	"SecurityGroup": refNone, "Volume": refVolume, "Snapshot": refNone, "Template": refNone, "ISO": refNone, "Account": refNone, "User": refNone,
}

// untaggable are resource types that exist but cannot have tags.
var untaggable = setOf("networkacllist", "zone", "nic", "serviceoffering", "diskoffering", "networkoffering", "vpcoffering", "host", "storage", "cluster", "pod", "domain")

// tagTarget is a resource with tags and its owner.
type tagTarget struct {
	typ, uuid string
	owner     *account
	tags      *[]tag
}

// tagType normalises a resource type.
func tagType(s string) (string, error) {
	for k := range tagKinds {
		if strings.EqualFold(k, s) {
			return k, nil
		}
	}
	if untaggable[strings.ToLower(s)] {
		return "", invalid("The resource type %s doesn't support resource tags", s)
	}
	return "", invalid("Invalid resource type %s", s)
}

// tagTargets resolves the resources of createTags and deleteTags inside the job.
func (c *call) tagTargets() ([]tagTarget, error) {
	typ, err := tagType(c.str("resourcetype"))
	if err != nil {
		return nil, err
	}
	var out []tagTarget
	for _, id := range c.list("resourceids") {
		obj, _ := c.st.byUUID(tagKinds[typ], id)
		t, ok := target(typ, obj)
		if !ok {
			return nil, invalid("Unable to find resource by uuid %s and type %s", id, typ)
		}
		if !c.access(t.owner) {
			return nil, denied()
		}
		out = append(out, t)
	}
	return out, nil
}

// target describes an object as a carrier of tags.
func target(typ string, obj any) (tagTarget, bool) {
	switch o := obj.(type) {
	case *vm:
		return tagTarget{typ, o.uuid, o.owner, o.tagList()}, !o.removed
	case *volume:
		return tagTarget{typ, o.uuid, o.vm.owner, o.tagList()}, !o.removed
	case *lbRule:
		return tagTarget{typ, o.uuid, o.account, o.tagList()}, true
	case *fwRule:
		return tagTarget{typ, o.uuid, o.account, o.tagList()}, true
	case *publicIP:
		return tagTarget{typ, o.uuid, o.owner, o.tagList()}, o.owner != nil
	case *network:
		return tagTarget{typ, o.uuid, o.owner, o.tagList()}, !o.removed
	case *vpc:
		return tagTarget{typ, o.uuid, o.owner, o.tagList()}, !o.removed
	case *project:
		return tagTarget{typ, o.uuid, o.account, o.tagList()}, !o.removed
	case *aclItem:
		if o.list.vpc == nil {
			return tagTarget{}, false
		}
		return tagTarget{typ, o.uuid, o.list.vpc.owner, o.tagList()}, true
	}
	return tagTarget{}, false
}

func createTags(c *call) (*jobSpec, error) {
	return &jobSpec{run: func(time.Time) (any, error) {
		targets, err := c.tagTargets()
		if err != nil {
			return nil, err
		}
		// All or nothing: a key that is taken rolls the whole call back.
		for _, t := range targets {
			seen := map[string]bool{}
			for _, e := range c.maps["tags"] {
				k := strings.ToLower(e["key"])
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
			for _, e := range c.maps["tags"] {
				*t.tags = append(*t.tags, tag{key: e["key"], value: e["value"], customer: c.str("customer"), uuid: uuid.NewString()})
			}
		}
		return success{true}, nil
	}}, nil
}

func deleteTags(c *call) (*jobSpec, error) {
	return &jobSpec{run: func(time.Time) (any, error) {
		targets, err := c.tagTargets()
		if err != nil {
			return nil, err
		}
		want := c.maps["tags"]
		hit := func(g tag) bool {
			return want == nil || slices.ContainsFunc(want, func(e mapEntry) bool {
				v, hasValue := e["value"]
				return strings.EqualFold(e["key"], g.key) && (!hasValue || v == "" || strings.EqualFold(v, g.value))
			})
		}
		n := 0
		for _, t := range targets {
			before := len(*t.tags)
			*t.tags = slices.DeleteFunc(*t.tags, hit)
			n += before - len(*t.tags)
		}
		if n == 0 {
			return nil, errf(codeInternal, csRuntime, "Failed to delete tags")
		}
		return success{true}, nil
	}}, nil
}

// tagItem is a tag with its resource, as listTags shows it.
type tagItem struct {
	tag    tag
	target tagTarget
}

func listTags(c *call) (any, error) {
	in, err := c.ownerScope(false)
	if err != nil {
		return nil, err
	}
	typ := c.str("resourcetype")
	if typ != "" {
		t, err := tagType(typ)
		if err != nil {
			return nil, err
		}
		typ = t
	}
	var out []tagItem
	add := func(kind string, obj any) {
		t, ok := target(kind, obj)
		if !ok || typ != "" && typ != kind || t.owner == nil || !in(t.owner) {
			return
		}
		if id := c.str("resourceid"); id != "" && !strings.EqualFold(id, t.uuid) {
			return
		}
		for _, g := range *t.tags {
			if c.has("key") && !strings.EqualFold(c.str("key"), g.key) || c.has("value") && !strings.EqualFold(c.str("value"), g.value) ||
				c.has("customer") && !strings.EqualFold(c.str("customer"), g.customer) ||
				c.has("keyword") && !like(g.key, c.str("keyword")) && !like(g.value, c.str("keyword")) {
				continue
			}
			out = append(out, tagItem{g, t})
		}
	}
	c.st.eachTagged(add)
	return page(c, "tag", out, func(i tagItem) tagView {
		return tagView{
			Key: i.tag.key, Value: i.tag.value, ResourceType: i.target.typ, ResourceID: i.target.uuid, Customer: i.tag.customer, ownerView: viewOwner(i.target.owner),
		}
	})
}

// eachTagged visits every object that has tags.
func (st *state) eachTagged(visit func(kind string, obj any)) {
	visitTagged(st.vms, "UserVm", visit)
	visitTagged(st.ips, "PublicIpAddress", visit)
	visitTagged(st.lbRules, "LoadBalancer", visit)
	visitTagged(st.fwRules, "FirewallRule", visit)
	visitTagged(st.networks, "Network", visit)
	visitTagged(st.vpcs, "Vpc", visit)
	visitTagged(st.aclItems, "NetworkACL", visit)
	visitTagged(st.projects, "Project", visit)
}

func visitTagged[T interface {
	row
	tagList() *[]tag
}](t *table[T], kind string, visit func(string, any)) {
	for _, v := range t.rows {
		if len(*v.tagList()) > 0 {
			visit(kind, v)
		}
	}
}

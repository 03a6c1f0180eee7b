// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// view is an object as an answer describes it.
type view struct {
	index int
	kind  string // member that holds it: loadbalancerrule, ipaddress ...
	obj   map[string]any
}

func (v view) str(k string) string {
	switch s := v.obj[k].(type) {
	case string:
		return s
	case json.Number:
		return s.String()
	}
	return ""
}

func (v view) has(k string) bool { _, ok := v.obj[k]; return ok }

func (v view) number(k string) *int {
	if !v.has(k) {
		return nil
	}
	n, err := strconv.Atoi(v.str(k))
	if err != nil {
		return nil
	}
	return &n
}

func (r *replayer) collectViews(c *goldenCase) {
	eachView(c, func(v view) { r.views = append(r.views, v) })
}

// eachView visits the objects with an id in an answer, outer ones first.
func eachView(c *goldenCase, visit func(view)) {
	var walk func(key string, x any)
	walk = func(key string, x any) {
		switch x := x.(type) {
		case map[string]any:
			if _, ok := x["id"].(string); ok && key != "" {
				visit(view{c.index, key, x})
			}
			for _, k := range slices.Sorted(mapsKeys(x)) {
				walk(k, x[k])
			}
		case []any:
			for _, v := range x {
				walk(key, v)
			}
		}
	}
	walk("", c.Response)
}

// nearest finds the description of an object that is next to a case in time, later ones first.
func (r *replayer) nearest(id string, index int, kinds ...string) (view, bool) {
	var best view
	found := false
	for _, v := range r.views {
		if v.str("id") != id || !slices.Contains(kinds, v.kind) {
			continue
		}
		if v.index >= index {
			return v, true
		}
		best, found = v, true
	}
	return best, found
}

// ensure puts objects into the state that the case names and nothing has made.
func (r *replayer) ensure(c *goldenCase) {
	text, err := json.Marshal([]any{c.Params, c.Response})
	if err != nil {
		return
	}
	gone := ""
	if _, after, ok := strings.Cut(string(text), " value="); ok && strings.Contains(after, "entity does not exist") {
		gone, _, _ = strings.Cut(after, " ")
	}
	for _, id := range uuidPattern.FindAllString(string(text), -1) {
		if id == gone {
			r.forget(id)
			continue
		}
		r.exist(id, c)
	}
	if gone != "" || c.HTTPStatus != 200 || strings.HasPrefix(c.Command, "list") || c.polled {
		return
	}
	r.ensureNames(c)
	r.setUnseenRule(param1(c, "id"), c)
	for _, p := range []string{"publicipid", "ipaddressid"} {
		if id, ok := c.Params[p].(string); ok {
			r.ensureIP(id, c)
		}
	}
	if id, ok := c.Params["id"].(string); ok && c.Command == "disassociateIpAddress" {
		r.ensureIP(id, c)
	}
}

// ensureNames gives the object that a call changes the name that its own result shows, unless the call sets it.
func (r *replayer) ensureNames(c *goldenCase) {
	if c.Params["name"] != nil {
		return
	}
	done := r.byName[c.Case+".job-success"]
	if done == nil {
		return
	}
	eachView(done, func(v view) {
		if v.str("id") != fmt.Sprint(c.Params["id"]) {
			return
		}
		if m, ok := r.h.sim.st.vms.get(v.str("id")); ok && v.kind == "virtualmachine" {
			m.name = v.str("name")
		}
		if l, ok := r.h.sim.st.lbRules.get(v.str("id")); ok && v.kind == "loadbalancer" {
			l.name = v.str("name")
		}
	})
}

// environment takes over what is given on the recorded server, such as ids of offerings.
func (r *replayer) environment() {
	st := r.h.sim.st
	for _, v := range r.views {
		switch v.kind {
		case "networkoffering":
			if o, ok := st.netOffs.find(func(o *networkOffering) bool { return o.spec.Name == v.str("name") }); ok {
				st.netOffs.rename(o, v.str("id"))
			}
		case "network":
			if o, ok := st.netOffs.find(func(o *networkOffering) bool { return o.spec.Name == v.str("networkofferingname") }); ok {
				st.netOffs.rename(o, v.str("networkofferingid"))
			}
		case "ipaddress":
			st.zones.rows[0].publicNetID, st.zones.rows[0].physicalNetID = v.str("networkid"), v.str("physicalnetworkid")
		case "host":
			r.nameHost(v)
		case "role":
			if o, ok := st.roles.find(func(o *role) bool { return o.name == v.str("name") }); ok {
				st.roles.rename(o, v.str("id"))
			}
		}
	}
}

// unknown names an object in the parameters that neither a call here nor any recording has described.
func (r *replayer) unknown(c *goldenCase) string {
	if c.HTTPStatus != 200 {
		return ""
	}
	for k, v := range c.Params {
		if k == "customjobid" || k == "resourceid" {
			continue
		}
		for _, id := range uuidPattern.FindAllString(fmt.Sprint(v), -1) {
			if !r.h.sim.st.known(id) && !strings.HasPrefix(id, "00000000") && r.h.sim.st.zones.rows[0].publicNetID != id {
				return id
			}
		}
	}
	return ""
}

// forget drops a rule that a call outside the recordings has deleted.
func (r *replayer) forget(id string) {
	st := r.h.sim.st
	if l, ok := st.lbRules.get(id); ok {
		st.removeLBRule(l)
	}
	if f, ok := st.fwRules.get(id); ok {
		st.dropFWRule(f)
	}
}

// exist makes the object with the id, if it is missing and not the result of the case itself.
func (r *replayer) exist(id string, c *goldenCase) {
	st := r.h.sim.st
	if made := createdID(c); made == id || st.known(id) || c.Command == "listTags" && c.Params["resourceid"] == id {
		return
	}
	r.inserted[id] = true
	r.setCert(id, c)
	if v, ok := r.nearest(id, c.index, "network"); ok {
		r.setNetwork(v)
	}
	if v, ok := r.nearest(id, c.index, "virtualmachine", "loadbalancerruleinstance"); ok {
		r.setVM(v)
	}
	if strings.HasPrefix(c.Command, "list") && c.Params["id"] != id && !strings.Contains(fmt.Sprint(c.Params), id) {
		return // whether a list shows it is what the case tests
	}
	if v, ok := r.nearest(id, c.index, "loadbalancerrule"); ok {
		r.setLB(v)
	} else if v, ok := r.nearest(id, c.index, "loadbalancer"); ok {
		r.setLB(v)
	}
	if v, ok := r.nearest(id, c.index, "firewallrule"); ok {
		r.setFW(v)
	}
	if v, ok := r.nearest(id, c.index, "networkacllist"); ok {
		r.setACLList(v)
	}
	if v, ok := r.nearest(id, c.index, "networkacl"); ok {
		r.setACLItem(v)
	}
	if v, ok := r.nearest(id, c.index, "project"); ok {
		r.setProject(v)
	}
}

// createdID is the object that the case makes.
func createdID(c *goldenCase) string {
	outer, ok := c.Response.(map[string]any)
	if !ok {
		return ""
	}
	for _, v := range outer {
		if m, ok := v.(map[string]any); ok {
			if id, ok := m["id"].(string); ok && m["jobid"] != nil {
				return id
			}
		}
	}
	return ""
}

func (st *state) known(id string) bool {
	for k := refZone; k <= refJob; k++ {
		if obj, _ := st.byUUID(k, id); obj != nil {
			return true
		}
	}
	return false
}

// ensureIP allocates an address to whom the case's own result says, or the next description of it.
func (r *replayer) ensureIP(id string, c *goldenCase) {
	ip, ok := r.h.sim.st.ips.get(id)
	if !ok {
		return
	}
	for _, v := range r.views {
		if v.index < c.index {
			continue
		}
		about := v.str("id") == id && (v.kind == "ipaddress" || v.kind == "publicipaddress") || v.str("publicipid") == id && v.kind != "nic" || v.str("ipaddressid") == id
		if !about || v.str("state") == ipFree {
			continue
		}
		if v.kind == "ipaddress" && v.index > c.index+4 {
			return // an associate that comes later says nothing about now
		}
		owner := r.ownerOf(v)
		net := v.str("networkid")
		if v.kind == "ipaddress" || v.kind == "publicipaddress" {
			net = v.str("associatednetworkid")
		}
		n, _ := r.h.sim.st.networks.get(net)
		if owner == nil && n != nil {
			owner = n.owner
		}
		if owner == nil || ip.owner == owner && (n == nil || ip.network == n || ip.network == nil && ip.vpc == n.vpc) {
			return
		}
		r.h.sim.st.release(ip)
		ip.state, ip.owner, ip.allocated, ip.network = ipAllocated, owner, r.h.clock.Now(), n
		if n != nil && n.vpc != nil {
			ip.vpc, ip.network = n.vpc, nil
		}
		return
	}
}

func (r *replayer) ownerOf(v view) *account {
	st := r.h.sim.st
	if p, ok := st.projects.get(v.str("projectid")); ok {
		return p.account
	}
	a, _ := st.accounts.find(func(a *account) bool { return a.project == nil && a.name == v.str("account") })
	return a
}

// adopt makes objects and jobs that the case has made take the recorded ids.
// moved tells that the recorded call got another address, because others were free then.
func (r *replayer) adopt(c *goldenCase, got *reply) (moved bool) {
	want, ok1 := inner(c.Response)
	have, ok2 := inner(got.body)
	if !ok1 || !ok2 || c.polled {
		return false
	}
	st := r.h.sim.st
	if w, h := text(want["jobid"]), text(have["jobid"]); w != "" && h != "" && w != h {
		st.rekey(h, w)
	}
	w, h := text(want["id"]), text(have["id"])
	if w == "" || h == "" || w == h || want["jobid"] == nil {
		return false
	}
	have["id"] = w
	if a, ok := st.ips.get(h); ok { // another address was free: take the recorded one's place
		if b, ok := st.ips.get(w); ok && b != a {
			if b.state != ipFree {
				st.release(b) // by a call that is not recorded
			}
			st.ips.rename(b, "swapping")
			st.ips.rename(a, w)
			st.ips.rename(b, h)
			a.addr, b.addr = b.addr, a.addr
		}
		moved = true
	} else {
		st.rekey(h, w)
		r.adoptSource(w, c)
		r.adoptGuestIP(w, c.index)
	}
	for _, j := range st.due {
		if j.instanceID == h {
			j.instanceID = w
		}
	}
	return moved
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func inner(body any) (map[string]any, bool) {
	outer, ok := body.(map[string]any)
	if !ok {
		return nil, false
	}
	for _, v := range outer {
		m, ok := v.(map[string]any)
		return m, ok
	}
	return nil, false
}

// mustPrefix parses a range of the recordings.
func mustPrefix(s string) netip.Prefix {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

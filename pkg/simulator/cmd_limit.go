// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "strconv"

// limitView is the API object resourcelimit, or resourcecount if Count is set.
type limitView struct {
	ownerView
	Type     string `json:"resourcetype"`
	TypeName string `json:"resourcetypename"`
	Max      *int64 `json:"max,omitempty"`
	Count    *int64 `json:"resourcecount,omitempty"`
}

// limitHolder is the account or domain that a limit applies to.
type limitHolder struct {
	account *account
	domain  *domain
}

func (h limitHolder) limits() map[string]int64 {
	if h.account != nil {
		return h.account.limits
	}
	return h.domain.limits
}

func (h limitHolder) set(k *limitKind, n int64) {
	if h.limits() == nil {
		if h.account != nil {
			h.account.limits = map[string]int64{}
		} else {
			h.domain.limits = map[string]int64{}
		}
	}
	h.limits()[k.key] = n
}

func (h limitHolder) owner() ownerView {
	if h.account != nil {
		return viewOwner(h.account)
	}
	return ownerView{DomainID: h.domain.uuid, Domain: h.domain.name, DomainPath: h.domain.display()}
}

func (st *state) limitFor(h limitHolder, k *limitKind) int64 {
	if n, ok := h.limits()[k.key]; ok {
		return n
	}
	if h.account != nil {
		return st.limitOf(h.account, k)
	}
	return st.domainLimit(h.domain, k)
}

func (k *limitKind) ordinal() string {
	for i := range limitKinds {
		if limitKinds[i].key == k.key {
			return strconv.Itoa(i)
		}
	}
	return ""
}

func (c *call) viewLimit(h limitHolder, k *limitKind) limitView {
	return limitView{ownerView: h.owner(), Type: k.ordinal(), TypeName: k.name, Max: ptr(c.st.limitFor(h, k))}
}

func listResourceLimits(c *call) (any, error) {
	a, err := c.ownerArg(false)
	if err != nil {
		return nil, err
	}
	if _, err := c.readPaging(); err != nil {
		return nil, err
	}
	kind, err := c.limitKindArg()
	if err != nil {
		return nil, err
	}
	h := limitHolder{account: a}
	d := arg[*domain](c, "domainid")
	switch {
	case !c.caller.account.admin():
		h.account = c.caller.account
	case c.given("domainid"):
		if d == nil || d.removed {
			return whole("resourcelimit", []*limitKind(nil), func(k *limitKind) limitView { return c.viewLimit(h, k) }), nil
		}
		if !c.domainAccess(d) || a != nil && !c.access(a) {
			return nil, denied()
		}
		if a == nil {
			h.domain = d
		}
	case a == nil:
		h.account = c.caller.account
	case !c.access(a):
		return nil, denied()
	}
	var out []*limitKind
	if kind != nil {
		out = append(out, kind)
	} else {
		for _, own := range []bool{true, false} { // limits that are set explicitly come first
			for i := range limitKinds {
				if _, ok := h.limits()[limitKinds[i].key]; ok == own {
					out = append(out, &limitKinds[i])
				}
			}
		}
	}
	if c.has("id") || c.has("tag") {
		out = nil // the simulator stores neither row numbers nor limits of host or storage tags
	}
	return whole("resourcelimit", out, func(k *limitKind) limitView { return c.viewLimit(h, k) }), nil
}

// limitKindArg reads resourcetypename and resourcetype; the name has precedence.
func (c *call) limitKindArg() (*limitKind, error) {
	if name, ok := c.args["resourcetypename"]; ok {
		for i := range limitKinds {
			if limitKinds[i].name == name {
				return &limitKinds[i], nil
			}
		}
		return nil, invalid("Please specify a valid resource type name.")
	}
	if !c.has("resourcetype") {
		return nil, nil
	}
	n := c.integer("resourcetype")
	if n < 0 || n >= len(limitKinds) {
		if c.api.Name == "listResourceLimits" {
			return nil, invalid("Please specify a valid resource type.")
		}
		return nil, invalid("Please specify valid resource type")
	}
	return &limitKinds[n], nil
}

type limitAnswer struct {
	Limit limitView `json:"resourcelimit"`
}

func updateResourceLimit(c *call) (any, error) {
	a, err := c.ownerArg(true)
	if err != nil {
		return nil, err
	}
	limit := int64(-1)
	if c.has("max") {
		limit = int64(c.integer("max"))
	}
	if limit < -1 {
		return nil, invalid("Please specify either '-1' for an infinite limit, or a limit that is at least '0'.")
	}
	k, err := c.limitKindArg()
	if err != nil {
		return nil, err
	}
	me := c.caller.account
	if a != nil {
		switch {
		case a.rootAdmin() && limit != -1:
			return nil, invalid("Only -1 limit is supported for Root Admin accounts")
		case a == me && !me.rootAdmin():
			return nil, errf(codeAccount, csPermission, "Unable to update resource limit for their own account %d, permission denied", a.id)
		case a.project != nil && !c.mayModify(a.project), !c.access(a):
			return nil, denied()
		}
		h := limitHolder{account: a}
		h.set(k, limit)
		return limitAnswer{c.viewLimit(h, k)}, nil
	}
	d := arg[*domain](c, "domainid")
	switch {
	case d == nil || d.removed:
		return nil, invalid("AccountId or domainId have to be specified in order to update resource limit")
	case !c.domainAccess(d):
		return nil, denied()
	case d.parent == nil:
		return nil, errf(codeAccount, csPermission, "Cannot update resource limit for ROOT domain %d, permission denied", d.id)
	case d == me.domain && !me.rootAdmin():
		return nil, errf(codeAccount, csPermission, "Unable to update resource limit for domain %d, permission denied", d.id)
	}
	if most := c.st.domainLimit(d.parent, k); most >= 0 && limit > most {
		return nil, invalid("Domain %s(id: %d) has maximum allowed resource limit %d for %s, please specify a value less than or equal to %d",
			d.name, d.parent.id, most, k.name, most)
	}
	h := limitHolder{domain: d}
	h.set(k, limit)
	return limitAnswer{c.viewLimit(h, k)}, nil
}

func updateResourceCount(c *call) (any, error) {
	a, err := c.ownerArg(true)
	if err != nil {
		return nil, err
	}
	kind, err := c.limitKindArg()
	if err != nil {
		return nil, err
	}
	d := arg[*domain](c, "domainid")
	if d == nil || d.removed {
		return nil, invalid("Please specify a valid domain ID.")
	}
	if !c.domainAccess(d) {
		return nil, denied()
	}
	h := limitHolder{account: a, domain: d}
	owned := func(o *account) bool { return o == a || a == nil && o.domain.within(d) }
	var out []limitView
	for i := range limitKinds {
		k := &limitKinds[i]
		if kind != nil && kind != k {
			continue
		}
		n := c.st.used(k, owned)
		if k.storage {
			n *= gib
		}
		out = append(out, limitView{ownerView: h.owner(), Type: k.ordinal(), TypeName: k.name, Count: ptr(n)})
	}
	return whole("resourcecount", out, func(v limitView) limitView { return v }), nil
}

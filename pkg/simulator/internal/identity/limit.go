// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strconv"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// limitView is the API object resourcelimit, or resourcecount if Count is set.
type limitView struct {
	wire.OwnerView
	Type     string `json:"resourcetype"`
	TypeName string `json:"resourcetypename"`
	Max      *int64 `json:"max,omitempty"`
	Count    *int64 `json:"resourcecount,omitempty"`
}

// limitHolder is the account or domain that a limit applies to.
type limitHolder struct {
	account *store.Account
	domain  *store.Domain
}

func (h limitHolder) limits() map[string]int64 {
	if h.account != nil {
		return h.account.Limits
	}
	return h.domain.Limits
}

func (h limitHolder) set(k *settings.LimitKind, n int64) {
	if h.limits() == nil {
		if h.account != nil {
			h.account.Limits = map[string]int64{}
		} else {
			h.domain.Limits = map[string]int64{}
		}
	}
	h.limits()[k.Key] = n
}

func (h limitHolder) owner() wire.OwnerView {
	if h.account != nil {
		return wire.ViewOwner(h.account)
	}
	return wire.OwnerView{DomainID: h.domain.UUID, Domain: h.domain.Name, DomainPath: h.domain.Display()}
}

func limitFor(st *store.State, h limitHolder, k *settings.LimitKind) int64 {
	if n, ok := h.limits()[k.Key]; ok {
		return n
	}
	if h.account != nil {
		return st.LimitOf(h.account, k)
	}
	return st.DomainLimit(h.domain, k)
}

// Ordinal returns the number of a resource kind in the API.
func Ordinal(k *settings.LimitKind) string {
	for i := range settings.LimitKinds {
		if settings.LimitKinds[i].Key == k.Key {
			return strconv.Itoa(i)
		}
	}
	return ""
}

func viewLimit(c *wire.Call, h limitHolder, k *settings.LimitKind) limitView {
	return limitView{OwnerView: h.owner(), Type: Ordinal(k), TypeName: k.Name, Max: wire.Ptr(limitFor(c.St, h, k))}
}

// limitKindArg reads resourcetypename and resourcetype; the name has precedence.
func limitKindArg(c *wire.Call) (*settings.LimitKind, error) {
	if name, ok := c.Args["resourcetypename"]; ok {
		for i := range settings.LimitKinds {
			if settings.LimitKinds[i].Name == name {
				return &settings.LimitKinds[i], nil
			}
		}
		return nil, wire.Invalid("Please specify a valid resource type name.")
	}
	if !c.Has("resourcetype") {
		return nil, nil
	}
	n := c.Integer("resourcetype")
	if n < 0 || n >= len(settings.LimitKinds) {
		if c.API.Name == "listResourceLimits" {
			return nil, wire.Invalid("Please specify a valid resource type.")
		}
		return nil, wire.Invalid("Please specify valid resource type")
	}
	return &settings.LimitKinds[n], nil
}

func updateResourceLimit(c *wire.Call) (any, error) {
	a, err := c.OwnerArg(true)
	if err != nil {
		return nil, err
	}
	limit := int64(-1)
	if c.Has("max") {
		limit = int64(c.Integer("max"))
	}
	if limit < -1 {
		return nil, wire.Invalid("Please specify either '-1' for an infinite limit, or a limit that is at least '0'.")
	}
	k, err := limitKindArg(c)
	if err != nil {
		return nil, err
	}
	me := c.Caller.Account
	if a != nil {
		switch {
		case a.RootAdmin() && limit != -1:
			return nil, wire.Invalid("Only -1 limit is supported for Root Admin accounts")
		case a == me && !me.RootAdmin():
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Unable to update resource limit for their own account %d, permission denied", a.ID)
		case a.Project != nil && !mayModify(c, a.Project), !c.Access(a):
			return nil, wire.Denied()
		}
		h := limitHolder{account: a}
		h.set(k, limit)
		return wire.Object("resourcelimit", viewLimit(c, h, k)), nil
	}
	d := wire.Arg[*store.Domain](c, "domainid")
	switch {
	case d == nil || d.Removed:
		return nil, wire.Invalid("AccountId or domainId have to be specified in order to update resource limit")
	case !c.DomainAccess(d):
		return nil, wire.Denied()
	case d.Parent == nil:
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Cannot update resource limit for ROOT domain %d, permission denied", d.ID)
	case d == me.Domain && !me.RootAdmin():
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Unable to update resource limit for domain %d, permission denied", d.ID)
	}
	if most := c.St.DomainLimit(d.Parent, k); most >= 0 && limit > most {
		return nil, wire.Invalid("Domain %s(id: %d) has maximum allowed resource limit %d for %s, please specify a value less than or equal to %d",
			d.Name, d.Parent.ID, most, k.Name, most)
	}
	h := limitHolder{domain: d}
	h.set(k, limit)
	return wire.Object("resourcelimit", viewLimit(c, h, k)), nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// limitView is the API object resourcelimit.
type limitView struct {
	wire.OwnerView
	Type     string `json:"resourcetype"`
	TypeName string `json:"resourcetypename"`
	Max      int64  `json:"max"`
}

// setLimit sets the limit of an account or a domain, and returns the command's answer.
func setLimit(
	c *wire.Call, limits *map[string]int64, owner wire.OwnerView, k *settings.LimitKind, n int64,
) (any, error) {
	if *limits == nil {
		*limits = map[string]int64{}
	}
	(*limits)[k.Key] = n
	return wire.Object("resourcelimit",
		limitView{OwnerView: owner, Type: c.Str("resourcetype"), TypeName: k.Name, Max: n}), nil
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

	kind := c.Integer("resourcetype")
	if kind < 0 || kind >= len(settings.LimitKinds) {
		return nil, wire.Invalid("Please specify valid resource type")
	}

	k := &settings.LimitKinds[kind]
	me := c.Caller.Account
	if a != nil {
		switch {
		case a.RootAdmin() && limit != -1:
			return nil, wire.Invalid("Only -1 limit is supported for Root Admin accounts")
		case a == me && !me.RootAdmin():
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
				"Unable to update resource limit for their own account %d, permission denied", a.ID)
		case a.Project != nil && !mayModify(c, a.Project), !c.Access(a):
			return nil, wire.Denied()
		}
		return setLimit(c, &a.Limits, wire.ViewOwner(a), k, limit)
	}

	d := wire.Arg[*store.Domain](c, "domainid")
	switch {
	case d == nil || d.Removed:
		return nil, wire.Invalid("AccountId or domainId have to be specified in order to update resource limit")
	case !c.DomainAccess(d):
		return nil, wire.Denied()
	case d.Parent == nil:
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Cannot update resource limit for ROOT domain %d, permission denied", d.ID)
	case d == me.Domain && !me.RootAdmin():
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Unable to update resource limit for domain %d, permission denied", d.ID)
	}

	if most := c.St.DomainLimit(d.Parent, k); most >= 0 && limit > most {
		return nil, wire.Invalid("Domain %s(id: %d) has maximum allowed resource limit %d for %s, please specify a "+
			"value less than or equal to %d", d.Name, d.Parent.ID, most, k.Name, most)
	}

	return setLimit(c, &d.Limits, wire.OwnerView{DomainID: d.UUID, Domain: d.Name, DomainPath: d.Display()}, k, limit)
}

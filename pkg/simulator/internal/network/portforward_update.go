// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// ruleTarget refuses a rule of an owner that the caller has no access to, before a job starts.
func ruleTarget(c *wire.Call, r any) error {
	var owner *store.Account
	switch o := r.(type) {
	case *store.PFRule:
		owner = o.Account
	case *store.FWRule:
		owner = o.Account
	case *store.LBRule:
		owner = o.Account
	}
	if owner != nil && !c.Access(owner) {
		return wire.Denied()
	}
	return nil
}

func deletePortForwardingRule(c *wire.Call) (*wire.JobSpec, error) {
	ref := c.Refs["id"]
	if err := ruleTarget(c, ref.Obj); err != nil {
		return nil, err
	}
	r, ok := ref.Obj.(*store.PFRule)
	if !ok {
		return nil, wire.Invalid("Unable to find port forwarding rule by ID=%d", ref.ID)
	}
	r.State = store.RuleRevoke // while the router applies it, and permanently if the router refuses
	return &wire.JobSpec{Refused: "Failed to delete port forwarding rule", Run: func(time.Time) (any, error) {
		if r.Removed {
			return nil, wire.Invalid("Unable to find %d", ref.ID)
		}
		c.St.RemovePFRule(r)
		return wire.Success{Success: true}, nil
	}}, nil
}

func updatePortForwardingRule(c *wire.Call) (*wire.JobSpec, error) {
	ref := c.Refs["id"]
	r, ok := ref.Obj.(*store.PFRule)
	if !ok {
		return nil, wire.Invalid("Unable to find the rule by id")
	}

	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		switch {
		case r.Removed:
			return nil, wire.Invalid("Unable to find %d", ref.ID)
		case !c.Access(r.Account):
			return nil, wire.Denied()
		}
		changed := *r
		if err := changeForward(c, &changed); err != nil {
			return nil, err
		}
		*r = changed
		if r.State == store.RuleAdd {
			r.State = store.RuleActive
		}
		wire.SetCustomID(c, c.St.PFRules, r)
		return wire.Object("portforwardingrule", viewPF(c, r)), nil
	}}, nil
}

func changeForward(c *wire.Call, r *store.PFRule) error {
	const inconsistent = "Unable to update the private port range of port forwarding rule as  the provided port " +
		"range is not consistent with the port range : %d to %d"
	start, end := c.OptInt("privateport"), c.OptInt("privateendport")
	switch {
	case start != nil && !validPort(*start):
		return wire.Invalid("privatePort is an invalid value: %d", *start)
	case end != nil && !validPort(*end):
		return wire.Invalid("PrivateEndPort has an invalid value: %d", *end)
	case start != nil && end != nil && *end-*start != r.PublicEnd-r.PublicStart,
		r.PublicStart != r.PublicEnd && (start == nil) != (end == nil):
		return wire.Invalid(inconsistent, r.PublicStart, r.PublicEnd)
	case !c.Given("virtualmachineid") && c.Str("vmguestip") != "":
		return wire.Invalid("vmguestip should be set along with virtualmachineid")
	}

	if v := wire.Arg[*store.VM](c, "virtualmachineid"); v != nil {
		a, err := guestAddress(v, r.Network, c.Str("vmguestip"))
		if err != nil {
			return err
		}
		r.VM, r.GuestIP = v, a
	}

	switch {
	case start != nil && end != nil:
		r.PrivateStart, r.PrivateEnd = *start, *end
	case start != nil:
		r.PrivateStart, r.PrivateEnd = *start, *start
	case end != nil:
		r.PrivateStart, r.PrivateEnd = *end, *end
	}

	if c.Has("cidrlist") {
		r.CIDRs = c.List("cidrlist")
	}

	if b := c.OptBool("fordisplay"); b != nil {
		r.Hidden = !*b
	}

	return nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "time"

// ruleTarget refuses a rule of an owner that the caller has no access to, before a job starts.
func (c *call) ruleTarget(r any) error {
	var owner *account
	switch o := r.(type) {
	case *pfRule:
		owner = o.account
	case *fwRule:
		owner = o.account
	case *lbRule:
		owner = o.account
	}
	if owner != nil && !c.access(owner) {
		return denied()
	}
	return nil
}

func deletePortForwardingRule(c *call) (*jobSpec, error) {
	ref := c.refs["id"]
	if err := c.ruleTarget(ref.obj); err != nil {
		return nil, err
	}
	r, ok := ref.obj.(*pfRule)
	if !ok {
		return nil, invalid("Unable to find port forwarding rule by ID=%d", ref.id)
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		if r.removed {
			return nil, invalid("Unable to find %d", ref.id)
		}
		c.st.removePFRule(r)
		return success{true}, nil
	}}, nil
}

func updatePortForwardingRule(c *call) (*jobSpec, error) {
	ref := c.refs["id"]
	r, ok := ref.obj.(*pfRule)
	if !ok {
		return nil, invalid("Unable to find the rule by id")
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		switch {
		case r.removed:
			return nil, invalid("Unable to find %d", ref.id)
		case !c.access(r.account):
			return nil, denied()
		}
		changed := *r
		if err := c.changeForward(&changed); err != nil {
			return nil, err
		}
		*r = changed
		setCustomID(c, c.st.pfRules, r)
		return pfAnswer{c.viewPF(r)}, nil
	}}, nil
}

func (c *call) changeForward(r *pfRule) error {
	const inconsistent = "Unable to update the private port range of port forwarding rule as  the provided port range is not consistent with the port range : %d to %d"
	start, end := c.optInt("privateport"), c.optInt("privateendport")
	switch {
	case start != nil && !validPort(*start):
		return invalid("privatePort is an invalid value: %d", *start)
	case end != nil && !validPort(*end):
		return invalid("PrivateEndPort has an invalid value: %d", *end)
	case start != nil && end != nil && *end-*start != r.publicEnd-r.publicStart, r.publicStart != r.publicEnd && (start == nil) != (end == nil):
		return invalid(inconsistent, r.publicStart, r.publicEnd)
	case !c.given("virtualmachineid") && c.str("vmguestip") != "":
		return invalid("vmguestip should be set along with virtualmachineid")
	}
	if v := arg[*vm](c, "virtualmachineid"); v != nil {
		a, err := guestAddress(v, r.network, c.str("vmguestip"))
		if err != nil {
			return err
		}
		r.vm, r.guestIP = v, a
	}
	switch {
	case start != nil && end != nil:
		r.privateStart, r.privateEnd = *start, *end
	case start != nil:
		r.privateStart, r.privateEnd = *start, *start
	case end != nil:
		r.privateStart, r.privateEnd = *end, *end
	}
	if c.has("cidrlist") {
		r.cidrs = c.list("cidrlist")
	}
	if b := c.optBool("fordisplay"); b != nil {
		r.hidden = !*b
	}
	return nil
}

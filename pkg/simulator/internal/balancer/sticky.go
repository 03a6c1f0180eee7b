// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// lbOwnerView is a rule and its owner as policies show them: a project's account instead of the project.
type lbOwnerView struct {
	RuleID   string `json:"lbruleid"`
	Account  string `json:"account"`
	DomainID string `json:"domainid"`
	Domain   string `json:"domain"`
}

func viewLBOwner(r *store.LBRule) lbOwnerView {
	o := r.Owner()
	return lbOwnerView{RuleID: r.UUID, Account: o.Name, DomainID: o.Domain.UUID, Domain: o.Domain.Name}
}

// stickyView is the object stickinesspolicies: a rule with its policies.
type stickyView struct {
	lbOwnerView
	Policies []policyView `json:"stickinesspolicy"`
}

type policyView struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Method      string            `json:"methodname"`
	Params      map[string]string `json:"params"`
	ForDisplay  *bool             `json:"fordisplay,omitempty"`
	State       string            `json:"state,omitempty"` // Revoked while the job of the policy that replaces it runs
}

func viewPolicies(c *wire.Call, r *store.LBRule, policies []*store.StickyPolicy) stickyView {
	v := stickyView{lbOwnerView: viewLBOwner(r), Policies: []policyView{}}
	for _, p := range policies {
		item := policyView{ID: p.UUID, Name: p.Name, Description: p.Description, Method: p.Method, Params: p.Params}
		if c.Caller.RootAdmin() {
			item.ForDisplay = wire.Ptr(!p.Hidden)
		}
		if p != r.Policies[len(r.Policies)-1] {
			item.State = "Revoked"
		}
		v.Policies = append(v.Policies, item)
	}
	return v
}

// stickyMethod is one entry of the capability SupportedStickinessMethods.
type stickyMethod struct {
	Name   string `json:"methodname"`
	Params []struct {
		Name     string `json:"paramname"`
		Required bool   `json:"required"`
		Flag     bool   `json:"isflag"`
	} `json:"paramlist"`
}

func createLBStickinessPolicy(c *wire.Call) (*wire.JobSpec, error) {
	id := c.Refs["lbruleid"].ID
	r := wire.Arg[*store.LBRule](c, "lbruleid")
	if r == nil {
		return nil, wire.Invalid("Failed: LB rule id: %d not present ", id)
	}

	if !c.Access(r.Owner()) {
		return nil, wire.Denied()
	}

	if r.State == store.RuleRevoke {
		return nil, wire.Invalid("Failed: LB rule: %s is in deleting state: ", r.Text())
	}

	if err := checkStickyMethod(c, r); err != nil {
		return nil, err
	}

	p := &store.StickyPolicy{
		Entity:      store.Entity{Created: c.Now},
		Rule:        r,
		Name:        c.Str("name"),
		Description: c.Str("description"),
		Method:      c.Str("methodname"),
		Params:      storedParams(c.Maps["param"]),
		Pending:     true,
		Hidden:      c.Has("fordisplay") && !c.Boolean("fordisplay"),
	}

	if err := checkValues(p); err != nil {
		return nil, err
	}

	c.St.AddPolicy(p)
	return &wire.JobSpec{
		ObjectID: p.UUID, InstanceType: "None",
		Run: func(time.Time) (any, error) {
			if p.Removed {
				return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Failed to create stickiness policy")
			}
			if err := apply(c, r, "Failed to create stickiness policy", func() {}); err != nil {
				return nil, err
			}
			p.Pending = false
			for _, o := range slices.Clone(r.Policies) {
				if o != p {
					c.St.DeletePolicy(o)
				}
			}
			return wire.Object("stickinesspolicies", viewPolicies(c, r, []*store.StickyPolicy{p})), nil
		},
		Undo: func() { c.St.DeletePolicy(p) }, Refused: "Failed to create stickiness policy",
	}, nil
}

// checkStickyMethod checks the call against the stickiness methods of the network's load balancer.
func checkStickyMethod(c *wire.Call, r *store.LBRule) error {
	capability, ok := r.Network.LBCapability("SupportedStickinessMethods")
	if !ok {
		return wire.Invalid("Failed:  No Stickiness method available for LB rule:%d", r.ID)
	}

	var methods []stickyMethod
	if err := json.Unmarshal([]byte(capability), &methods); err != nil {
		return fmt.Errorf("decode the stickiness methods: %w", err)
	}

	i := slices.IndexFunc(methods, func(m stickyMethod) bool { return strings.EqualFold(m.Name, c.Str("methodname")) })
	if i < 0 {
		return wire.Invalid("Failed to match Stickiness method name for LB rule:%d", r.ID)
	}

	sent := map[string]bool{}
	for _, e := range c.Maps["param"] {
		_, hasValue := e["value"]
		sent[e["name"]] = hasValue
		found := false
		for _, p := range methods[i].Params {
			if !strings.EqualFold(p.Name, e["name"]) {
				continue
			}
			if !p.Flag && !hasValue {
				return wire.Invalid("Failed : Value expected for the Param :%s", p.Name)
			}
			found = true
			break
		}
		if !found {
			return wire.Invalid("Failed : Stickiness policy does not support param name :%s", e["name"])
		}
	}

	for _, p := range methods[i].Params {
		if p.Required && !sent[p.Name] {
			return wire.Invalid("Failed : Missing Manadatory Param :%s", p.Name)
		}
	}

	if len(r.Policies) > 1 {
		return wire.Invalid("Failed to create Stickiness policy: Already two policies attached %d", r.ID)
	}

	return nil
}

// storedParams returns the parameters after a round trip through the text column in which CloudStack keeps them: a
// flag without a value becomes "null", and an empty value at the end is lost.
func storedParams(entries []wire.MapEntry) map[string]string {
	var text strings.Builder
	for _, e := range entries {
		v, ok := e["value"]
		if !ok {
			v = "null"
		}
		text.WriteString(e["name"] + "=" + v + "&")
	}
	parts := strings.Split(strings.ReplaceAll(text.String(), "&", "="), "=")
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	out := map[string]string{}
	for i := 0; i+1 < len(parts); i += 2 {
		out[parts[i]] = parts[i+1]
	}
	return out
}

// checkValues checks sizes and times as HAProxy does.
func checkValues(p *store.StickyPolicy) error {
	value := func(name string) (string, bool) {
		for k, v := range p.Params {
			if strings.EqualFold(k, name) {
				return v, true
			}
		}
		return "", false
	}

	bad := func(what, v string) error {
		return wire.Invalid("Failed LB in validation rule id: %d Cause: %s: %s", p.Rule.ID, what, v)
	}
	switch strings.ToLower(p.Method) {
	case "sourcebased":
		if v, ok := value("expire"); ok && !numberWithUnit(v, "dhms") {
			return bad("expire is not in timeformat", v)
		}
		if v, ok := value("tablesize"); ok && !numberWithUnit(v, "kmg") {
			return bad("tablesize is not in size format", v)
		}
	case "appcookie":
		if v, ok := value("length"); ok && !numberWithUnit(v, "") {
			return bad("length is not a number", v)
		}
		if v, ok := value("holdtime"); ok && !numberWithUnit(v, "dhms") && !numberWithUnit(v, "") {
			return bad("holdtime is not in timeformat", v)
		}
	}

	return nil
}

// numberWithUnit reports whether s is an integer followed by one of the units; without units, whether it is an
// integer.
func numberWithUnit(s, units string) bool {
	if units != "" {
		if len(s) < 2 || !strings.ContainsRune(units, rune(s[len(s)-1])) {
			return false
		}
		s = s[:len(s)-1]
	}
	_, err := strconv.ParseInt(s, 10, 32)
	return err == nil
}

func deleteLBStickinessPolicy(c *wire.Call) (*wire.JobSpec, error) {
	p := wire.Arg[*store.StickyPolicy](c, "id")
	return &wire.JobSpec{
		Refused: "Failed to delete load balancer stickiness policy",
		Run: func(time.Time) (any, error) {
			switch {
			case p == nil || p.Removed:
				return nil, wire.Invalid("Unable to find LB stickiness rule: %d", c.Refs["id"].ID)
			case !c.Access(p.Rule.Owner()):
				return nil, wire.Denied()
			}
			if err := apply(c, p.Rule, "Failed to delete load balancer stickiness policy", func() {}); err != nil {
				return nil, err
			}
			c.St.DeletePolicy(p)
			return wire.Success{Success: true}, nil
		},
	}, nil
}

func listLBStickinessPolicies(c *wire.Call) (any, error) {
	if !c.Given("lbruleid") && !c.Given("id") {
		return nil, wire.Invalid("load balancer rule ID and stickiness policy ID can't be null")
	}

	r := wire.Arg[*store.LBRule](c, "lbruleid")
	if c.Given("id") {
		p := wire.Arg[*store.StickyPolicy](c, "id")
		if p == nil {
			return nil, wire.Invalid("stickiness policy ID doesn't exist")
		}
		if c.Given("lbruleid") && r != p.Rule {
			return nil, wire.Invalid("stickiness policy ID doesn't belong to lbId%d", c.Refs["lbruleid"].ID)
		}
		r = p.Rule
	}

	if r == nil { // the id is of a rule of another kind
		return wire.ListAnswer{}, nil
	}

	if !c.Access(r.Owner()) {
		return nil, wire.Denied()
	}

	show := c.BoolOr("fordisplay", true)
	policies := slices.DeleteFunc(slices.Clone(r.Policies),
		func(p *store.StickyPolicy) bool { return p.Hidden == show })
	return wire.Whole("stickinesspolicies", []*store.LBRule{r},
		func(r *store.LBRule) stickyView { return viewPolicies(c, r, policies) }), nil
}

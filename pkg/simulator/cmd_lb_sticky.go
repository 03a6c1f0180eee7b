// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

var stickyRefs = map[string]refKind{"lbruleid": refRule, "id": refSticky}

// lbOwnerView names a rule and its owner as policies do: a project by its hidden account.
type lbOwnerView struct {
	RuleID   string `json:"lbruleid"`
	Account  string `json:"account"`
	DomainID string `json:"domainid"`
	Domain   string `json:"domain"`
}

func viewLBOwner(r *lbRule) lbOwnerView {
	o := r.owner()
	return lbOwnerView{RuleID: r.uuid, Account: o.name, DomainID: o.domain.uuid, Domain: o.domain.name}
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
}

func (c *call) viewPolicies(r *lbRule, policies []*stickyPolicy) stickyView {
	v := stickyView{lbOwnerView: viewLBOwner(r), Policies: []policyView{}}
	for _, p := range policies {
		item := policyView{ID: p.uuid, Name: p.name, Description: p.description, Method: p.method, Params: p.params}
		if c.caller.rootAdmin() {
			item.ForDisplay = ptr(!p.hidden)
		}
		v.Policies = append(v.Policies, item)
	}
	return v
}

type stickyAnswer struct {
	Policies stickyView `json:"stickinesspolicies"`
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

func createLBStickinessPolicy(c *call) (*jobSpec, error) {
	id := c.refs["lbruleid"].id
	r := arg[*lbRule](c, "lbruleid")
	if r == nil {
		return nil, invalid("Failed: LB rule id: %d not present ", id)
	}
	if !c.access(r.owner()) {
		return nil, denied()
	}
	if r.state == ruleRevoke {
		return nil, invalid("Failed: LB rule: %s is in deleting state: ", r.text())
	}
	if err := c.checkStickyMethod(r); err != nil {
		return nil, err
	}
	p := &stickyPolicy{
		entity: entity{created: c.now}, rule: r, name: c.str("name"), description: c.str("description"), method: c.str("methodname"),
		params: storedParams(c.maps["param"]), pending: true, hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	}
	if err := p.checkValues(); err != nil {
		return nil, err
	}
	c.st.addPolicy(p)
	return &jobSpec{
		objectID: p.uuid, instanceType: "None",
		run: func(time.Time) (any, error) {
			if p.removed {
				return nil, errf(codeInternal, csGeneric, "Failed to create stickiness policy")
			}
			p.pending = false
			for _, o := range slices.Clone(r.policies) {
				if o != p {
					c.st.dropPolicy(o)
				}
			}
			r.settle()
			return stickyAnswer{c.viewPolicies(r, []*stickyPolicy{p})}, nil
		},
		undo: func() { c.st.dropPolicy(p) }, refused: "Failed to create stickiness policy",
	}, nil
}

// checkStickyMethod compares the call with what the network's load balancer can do.
func (c *call) checkStickyMethod(r *lbRule) error {
	capability, ok := r.network.lbCapability("SupportedStickinessMethods")
	if !ok {
		return invalid("Failed:  No Stickiness method available for LB rule:%d", r.id)
	}
	var methods []stickyMethod
	if err := json.Unmarshal([]byte(capability), &methods); err != nil {
		return fmt.Errorf("decode the stickiness methods: %w", err)
	}
	i := slices.IndexFunc(methods, func(m stickyMethod) bool { return strings.EqualFold(m.Name, c.str("methodname")) })
	if i < 0 {
		return invalid("Failed to match Stickiness method name for LB rule:%d", r.id)
	}
	sent := map[string]bool{}
	for _, e := range c.maps["param"] {
		_, hasValue := e["value"]
		sent[e["name"]] = hasValue
		found := false
		for _, p := range methods[i].Params {
			if !strings.EqualFold(p.Name, e["name"]) {
				continue
			}
			if !p.Flag && !hasValue {
				return invalid("Failed : Value expected for the Param :%s", p.Name)
			}
			found = true
			break
		}
		if !found {
			return invalid("Failed : Stickiness policy does not support param name :%s", e["name"])
		}
	}
	for _, p := range methods[i].Params {
		if p.Required && !sent[p.Name] {
			return invalid("Failed : Missing Manadatory Param :%s", p.Name)
		}
	}
	if len(r.policies) > 1 {
		return invalid("Failed to create Stickiness policy: Already two policies attached %d", r.id)
	}
	return nil
}

// storedParams passes the parameters through the one text column that the
// server keeps them in, where a flag without a value becomes "null" and an
// empty value at the end is lost.
func storedParams(entries []mapEntry) map[string]string {
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

// checkValues is HAProxy's own check of sizes and times.
func (p *stickyPolicy) checkValues() error {
	value := func(name string) (string, bool) {
		for k, v := range p.params {
			if strings.EqualFold(k, name) {
				return v, true
			}
		}
		return "", false
	}
	bad := func(what, v string) error {
		return invalid("Failed LB in validation rule id: %d Cause: %s: %s", p.rule.id, what, v)
	}
	switch strings.ToLower(p.method) {
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

// numberWithUnit: an integer followed by one of the units, or by nothing when there are none.
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

func updateLBStickinessPolicy(c *call) (*jobSpec, error) {
	p := arg[*stickyPolicy](c, "id")
	return &jobSpec{run: func(time.Time) (any, error) {
		switch {
		case p == nil || p.removed:
			return nil, invalid("Fail to find stickiness policy with %d", c.refs["id"].id)
		case !c.access(p.rule.owner()):
			return nil, denied()
		}
		setDisplay(c, c.st.policies, p, &p.hidden)
		return stickyAnswer{c.viewPolicies(p.rule, []*stickyPolicy{p})}, nil
	}}, nil
}

func deleteLBStickinessPolicy(c *call) (*jobSpec, error) {
	p := arg[*stickyPolicy](c, "id")
	return &jobSpec{refused: "Failed to delete load balancer stickiness policy", run: func(time.Time) (any, error) {
		switch {
		case p == nil || p.removed:
			return nil, invalid("Unable to find LB stickiness rule: %d", c.refs["id"].id)
		case !c.access(p.rule.owner()):
			return nil, denied()
		}
		c.st.dropPolicy(p)
		p.rule.settle()
		return success{true}, nil
	}}, nil
}

func listLBStickinessPolicies(c *call) (any, error) {
	if !c.given("lbruleid") && !c.given("id") {
		return nil, invalid("load balancer rule ID and stickiness policy ID can't be null")
	}
	r := arg[*lbRule](c, "lbruleid")
	if c.given("id") {
		p := arg[*stickyPolicy](c, "id")
		if p == nil {
			return nil, invalid("stickiness policy ID doesn't exist")
		}
		if c.given("lbruleid") && r != p.rule {
			return nil, invalid("stickiness policy ID doesn't belong to lbId%d", c.refs["lbruleid"].id)
		}
		r = p.rule
	}
	if r == nil { // a rule of another kind
		return listAnswer{}, nil
	}
	if !c.access(r.owner()) {
		return nil, denied()
	}
	show := c.boolOr("fordisplay", true)
	policies := slices.DeleteFunc(slices.Clone(r.policies), func(p *stickyPolicy) bool { return p.hidden == show })
	return whole("stickinesspolicies", []*lbRule{r}, func(r *lbRule) stickyView { return c.viewPolicies(r, policies) }), nil
}

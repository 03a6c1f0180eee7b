// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// fwView is the API object firewallrule. Its ports are numbers, unlike those of other rules.
type fwView struct {
	ID          string    `json:"id"`
	Protocol    string    `json:"protocol"`
	StartPort   *int      `json:"startport,omitempty"`
	EndPort     *int      `json:"endport,omitempty"`
	IPAddressID string    `json:"ipaddressid,omitempty"`
	NetworkID   string    `json:"networkid"`
	IPAddress   string    `json:"ipaddress,omitempty"`
	State       string    `json:"state"`
	CIDRList    string    `json:"cidrlist"`
	ICMPType    *int      `json:"icmptype,omitempty"`
	ICMPCode    *int      `json:"icmpcode,omitempty"`
	Tags        []tagView `json:"tags"`
	ForDisplay  *bool     `json:"fordisplay,omitempty"`
	DestCIDRs   string    `json:"destcidrlist"`
	TrafficType string    `json:"traffictype"`
}

func (c *call) viewFW(r *fwRule) fwView {
	v := fwView{
		ID: r.uuid, Protocol: r.protocol, StartPort: r.startPort, EndPort: r.endPort, NetworkID: r.network.uuid, State: r.state, CIDRList: strings.Join(r.cidrs, ","), ICMPType: r.icmpType, ICMPCode: r.icmpCode,
		Tags: viewTags(&r.tagged), DestCIDRs: strings.Join(r.destCIDRs, ","), TrafficType: "Egress",
	}
	if r.ip != nil {
		v.IPAddressID, v.IPAddress, v.TrafficType = r.ip.uuid, r.ip.addr.String(), "Ingress"
	}
	if c.caller.rootAdmin() {
		v.ForDisplay = ptr(!r.hidden)
	}
	return v
}

func listFirewallRules(c *call) (any, error) {
	if ip := arg[*publicIP](c, "ipaddressid"); ip != nil {
		if ip.state != ipAllocated || ip.owner == nil {
			return nil, invalid("Ip address id=%d not ready for firewall rules yet", ip.id)
		}
		if !c.access(ip.owner) {
			return nil, denied()
		}
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var out []*fwRule
	for _, r := range slices.Backward(c.st.fwRules.rows) {
		switch {
		case !in(r.account) || !matches(c, "id", r) || !matches(c, "ipaddressid", r.ip) || !matches(c, "networkid", r.network):
		case !r.hasTags(c.tagFilter()) || !c.visible("fordisplay", r.hidden):
		default:
			out = append(out, r)
		}
	}
	return page(c, "firewallrule", out, c.viewFW)
}

func createFirewallRule(c *call) (*jobSpec, error) {
	ip := arg[*publicIP](c, "ipaddressid")
	if ip == nil {
		return nil, c.badRef("ipaddressid", c.str("ipaddressid"))
	}
	r := &fwRule{
		entity: entity{created: c.now}, ip: ip, protocol: strings.ToLower(strings.TrimSpace(c.str("protocol"))), startPort: c.optInt("startport"),
		endPort: c.optInt("endport"), icmpType: c.optInt("icmptype"), icmpCode: c.optInt("icmpcode"), cidrs: c.list("cidrlist"), state: ruleAdd,
		account: ip.owner, network: ip.network, hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	}
	if err := c.checkFWRule(r); err != nil {
		return nil, err
	}
	c.st.addFWRule(r)
	return &jobSpec{
		objectID: r.uuid, instanceType: "FirewallRule", instanceID: r.uuid,
		run: func(time.Time) (any, error) {
			if r.removed {
				return nil, errf(codeInternal, csRuntime, "Failed to create firewall rule")
			}
			r.state = ruleActive
			return fwAnswer{c.viewFW(r)}, nil
		},
		undo: func() { c.st.dropFWRule(r) }, refused: "Failed to create firewall rule",
	}, nil
}

type fwAnswer struct {
	FW fwView `json:"firewallrule"`
}

// checkFWRule runs the checks of the create phase and sets defaults of the rule.
func (c *call) checkFWRule(r *fwRule) error {
	ip := r.ip
	for _, s := range r.cidrs {
		if !validCIDR(s) || !strings.Contains(s, "/") {
			return paramError("Source CIDRs formatting error %s", s)
		}
	}
	if len(r.cidrs) == 0 {
		r.cidrs = []string{"0.0.0.0/0"}
	}
	if ip.owner != nil && !c.access(ip.owner) {
		return denied()
	}
	if r.endPort == nil {
		r.endPort = r.startPort
	}
	if ip.network == nil || ip.state != ipAllocated {
		return invalid("Unable to create firewall rule for the ipaddress id=%d as ip is not associated with any network and no networkId is passed in", ip.id)
	}
	if !ip.network.provides("Firewall") {
		if ip.hasRules() || ip.staticVM != nil {
			return invalid("There is no new provider for IP %s of service Firewall!", ip.addr)
		}
		return c.internal(4390, "Service Firewall is not supported in the network %s", ip.network.text())
	}
	if err := r.checkPorts(ip.zone); err != nil {
		return err
	}
	return r.conflictWith(ip.fwRules)
}

func (r *fwRule) checkPorts(z *zone) error {
	if err := r.checkPortRange(); err != nil {
		return err
	}
	if r.protocol != "tcp" && r.protocol != "udp" && r.protocol != "icmp" {
		return invalid("Protocol %s is not supported in zone %d", r.protocol, z.id)
	}
	return r.checkICMP()
}

func (r *fwRule) checkPortRange() error {
	switch {
	case r.startPort != nil && !validPort(*r.startPort):
		return invalid("publicPort is an invalid value: %d", *r.startPort)
	case r.endPort != nil && !validPort(*r.endPort):
		return invalid("Public port range is an invalid value: %d", *r.endPort)
	case r.startPort != nil && r.endPort != nil && *r.startPort > *r.endPort:
		return invalid("Start port can't be bigger than end port")
	}
	return nil
}

// checkICMP refuses ports with ICMP and ICMP types with other protocols. Without type and code, an ICMP rule matches
// all.
func (r *fwRule) checkICMP() error {
	switch {
	case r.protocol != "icmp" && (r.icmpType != nil || r.icmpCode != nil):
		return invalid("Can specify icmpCode and icmpType for ICMP protocol only")
	case r.protocol == "icmp" && (r.startPort != nil || r.endPort != nil):
		return invalid("Can't specify start/end port when protocol is ICMP")
	case r.protocol != "icmp":
		return nil
	}
	for _, p := range []**int{&r.icmpType, &r.icmpCode} {
		if *p == nil {
			*p = ptr(-1)
		}
	}
	return nil
}

// conflictWith compares a new rule with the other rules of its address or network. Two rules can conflict only if
// they have the same protocol and a CIDR in common; CIDRs are compared as text.
func (r *fwRule) conflictWith(others []*fwRule) error {
	for _, o := range others {
		if o.state == ruleRevoke || r.protocol != o.protocol || !shareText(r.cidrs, o.cidrs) || !shareText(r.destCIDRs, o.destCIDRs) {
			continue
		}
		switch {
		case r.protocol == "icmp":
			if *r.icmpType == *o.icmpType && *r.icmpCode == *o.icmpCode {
				return invalid("New rule conflicts with existing rule: %s", o.conflictText())
			}
		case r.startPort == nil && o.startPort == nil:
			return errf(codeConflict, csRuleConflict, "There is already a firewall rule specified with protocol = %s and no ports", r.protocol)
		case r.startPort == nil || o.startPort == nil || r.endPort == nil || o.endPort == nil:
		case *r.startPort <= *o.endPort && *o.startPort <= *r.endPort:
			return errf(codeConflict, csRuleConflict, "The range specified, %d-%d, conflicts with rule %s which has %d-%d",
				*r.startPort, *r.endPort, o.conflictText(), *o.startPort, *o.endPort)
		}
	}
	return nil
}

// shareText reports whether the lists have an element in common or are both empty.
func shareText(a, b []string) bool {
	return len(a) == 0 && len(b) == 0 || slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func (r *fwRule) conflictText() string {
	return fmt.Sprintf(`FirewallRule {"id":%d,"networkId":%d,"purpose":"Firewall","state":"%s","uuid":"%s"}`, r.id, r.network.id, r.state, r.uuid)
}

func deleteFirewallRule(c *call) (*jobSpec, error) {
	if err := c.ruleTarget(c.refs["id"].obj); err != nil {
		return nil, err
	}
	switch r := c.refs["id"].obj.(type) {
	case *fwRule:
		if !c.access(r.account) {
			return &jobSpec{run: func(time.Time) (any, error) { return nil, denied() }}, nil
		}
		r.state = ruleRevoke // while the router applies it, and permanently if the router refuses
		return &jobSpec{refused: "Failed to delete firewall rule", run: func(time.Time) (any, error) {
			c.st.dropFWRule(r)
			return success{true}, nil
		}}, nil
	case *lbRule:
		return wrongPurpose(r.id), nil
	case *pfRule:
		return wrongPurpose(r.id), nil
	}
	return nil, c.badRef("id", c.str("id"))
}

// wrongPurpose returns a job that fails because the id refers to another kind of rule.
func wrongPurpose(id int64) *jobSpec {
	return &jobSpec{run: func(time.Time) (any, error) {
		return nil, invalid("Unable to find %d having purpose Firewall", id)
	}}
}

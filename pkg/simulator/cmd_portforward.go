// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// pfView is the API object portforwardingrule. Its ports are strings.
type pfView struct {
	ID          string    `json:"id"`
	PrivatePort string    `json:"privateport"`
	PrivateEnd  string    `json:"privateendport"`
	Protocol    string    `json:"protocol"`
	PublicPort  string    `json:"publicport"`
	PublicEnd   string    `json:"publicendport"`
	VMID        string    `json:"virtualmachineid"`
	VMName      string    `json:"virtualmachinename"`
	VMDisplay   string    `json:"virtualmachinedisplayname"`
	IPAddressID string    `json:"ipaddressid"`
	IPAddress   string    `json:"ipaddress"`
	State       string    `json:"state"`
	CIDRList    string    `json:"cidrlist"`
	Tags        []tagView `json:"tags"`
	GuestIP     string    `json:"vmguestip"`
	NetworkID   string    `json:"networkid"`
	ForDisplay  *bool     `json:"fordisplay,omitempty"`
}

type pfAnswer struct {
	Rule pfView `json:"portforwardingrule"`
}

func (c *call) viewPF(r *pfRule) pfView {
	v := pfView{
		ID: r.uuid, PrivatePort: fmt.Sprint(r.privateStart), PrivateEnd: fmt.Sprint(r.privateEnd), Protocol: r.protocol, PublicPort: fmt.Sprint(r.publicStart),
		PublicEnd: fmt.Sprint(r.publicEnd), VMID: r.vm.uuid, VMName: r.vm.name, VMDisplay: r.vm.display, IPAddressID: r.ip.uuid, IPAddress: r.ip.addr.String(),
		State: r.state, CIDRList: strings.Join(r.cidrs, ","), Tags: viewTags(&r.tagged), GuestIP: r.guestIP, NetworkID: r.network.uuid,
	}
	if c.caller.rootAdmin() {
		v.ForDisplay = ptr(!r.hidden)
	}
	return v
}

func listPortForwardingRules(c *call) (any, error) {
	if ip := arg[*publicIP](c, "ipaddressid"); ip != nil {
		if ip.state != ipAllocated || ip.owner == nil {
			return nil, invalid("Ip address id=%d not ready for port forwarding rules yet", ip.id)
		}
		if !c.access(ip.owner) {
			return nil, denied()
		}
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var out []*pfRule
	for _, r := range slices.Backward(c.st.pfRules.rows) {
		if in(r.account) && matches(c, "id", r) && matches(c, "ipaddressid", r.ip) && matches(c, "networkid", r.network) &&
			r.hasTags(c.tagFilter()) && c.visible("fordisplay", r.hidden) {
			out = append(out, r)
		}
	}
	return page(c, "portforwardingrule", out, c.viewPF)
}

func createPortForwardingRule(c *call) (*jobSpec, error) {
	ip := arg[*publicIP](c, "ipaddressid")
	if ip == nil {
		return nil, c.badRef("ipaddressid", c.str("ipaddressid"))
	}
	r := &pfRule{
		entity: entity{created: c.now}, ip: ip, protocol: strings.ToLower(strings.TrimSpace(c.str("protocol"))), account: ip.owner, cidrs: c.list("cidrlist"), state: ruleAdd,
		publicStart: c.integer("publicport"), privateStart: c.integer("privateport"), vm: arg[*vm](c, "virtualmachineid"),
		hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	}
	r.publicEnd, r.privateEnd = r.publicStart, r.privateStart
	if c.has("publicendport") {
		r.publicEnd = c.integer("publicendport")
	}
	if c.has("privateendport") {
		r.privateEnd = c.integer("privateendport")
	}
	var err error
	if r.network, err = c.forwardNetwork(r); err != nil {
		return nil, err
	}
	for _, check := range []func(*pfRule) error{c.checkForward, c.checkForwardTarget, c.checkForwardConflicts} {
		if err := check(r); err != nil {
			return nil, err
		}
	}
	ip.bind(r.network)
	c.st.addPFRule(r)
	if c.boolOr("openfirewall", ip.vpc == nil) {
		r.related = c.st.openFirewall(r)
	}
	return &jobSpec{
		objectID: r.uuid, instanceType: "FirewallRule", instanceID: r.uuid,
		run: func(time.Time) (any, error) {
			if r.removed {
				return nil, errf(codeInternal, csRuntime, "Failed to apply port forwarding rule")
			}
			r.state = ruleActive
			if r.related != nil {
				r.related.state = ruleActive
			}
			return pfAnswer{c.viewPF(r)}, nil
		},
		undo: func() { c.st.removePFRule(r) },
	}, nil
}

// forwardNetwork returns the network of a new rule and checks that the address can be used for port forwarding.
func (c *call) forwardNetwork(r *pfRule) (*network, error) {
	ip := r.ip
	if s, ok := c.args["vmguestip"]; ok {
		if a, err := netip.ParseAddr(s); err != nil || !a.Is4() {
			return nil, invalid("Invalid Instance ip address")
		}
	}
	for _, s := range r.cidrs {
		if _, err := netip.ParsePrefix(s); err != nil {
			return nil, invalid("The given source CIDR [%s] is invalid.", s)
		}
	}
	n := ip.network
	if n == nil {
		n = arg[*network](c, "networkid")
	}
	switch {
	case ip.state != ipAllocated:
		return nil, invalid("Unable to create PF rule, invalid IP address id %d", ip.id)
	case c.boolean("openfirewall") && ip.vpc != nil:
		return nil, invalid("Can't have openFirewall=true when IP address belongs to VPC")
	case ip.staticVM != nil:
		return nil, invalid("Unable to create port forwarding rule; ip id=%d has static nat enabled", ip.id)
	case n == nil:
		return nil, invalid("Unable to create port forwarding rule for the ipAddress id=%d as ip is not associated with any network and no networkId is passed in", ip.id)
	case ip.network == nil && (ip.vpc == nil || n.vpc != ip.vpc):
		return nil, invalid("Ip address %s is not assigned to the network %s", ip.text(), n.text())
	}
	return n, c.usable(ip, n, "PortForwarding")
}

// usable checks that the network has the service, and that its offering lets the address provide it along with the
// services that it already provides.
func (c *call) usable(ip *publicIP, n *network, service string) error {
	if !n.offering.spec.Conserve {
		used := map[string]bool{
			"SourceNat": ip.sourceNAT && ip.network != nil, "Lb": len(ip.lbRules) > 0, "PortForwarding": len(ip.pfRules) > 0, "StaticNat": ip.staticVM != nil,
		}
		for _, s := range []string{"SourceNat", "Lb", "PortForwarding", "StaticNat"} {
			if used[s] && s != service {
				return invalid("The IP %s is already used as %s rather than %s.", ip.addr, s, service)
			}
		}
	}
	if !n.provides(service) {
		if ip.hasRules() || ip.staticVM != nil {
			return invalid("There is no new provider for IP %s of service %s!", ip.addr, service)
		}
		return c.internal(4390, "Service %s is not supported in the network %s", service, n.text())
	}
	return nil
}

// bind assigns a VPC address to the tier of its first rule. A source NAT address thereby loses its role permanently.
func (ip *publicIP) bind(n *network) {
	if ip.network == nil && ip.vpc != nil {
		ip.network, ip.sourceNAT = n, false
	}
}

// checkForward checks ports, access and protocol of a rule.
func (c *call) checkForward(r *pfRule) error {
	switch {
	case !validPort(r.publicStart):
		return invalid("publicPort is an invalid value: %d", r.publicStart)
	case !validPort(r.publicEnd):
		return invalid("Public port range is an invalid value: %d", r.publicEnd)
	case r.publicStart > r.publicEnd:
		return invalid("Start port can't be bigger than end port")
	case !c.access(r.ip.owner):
		return denied()
	case r.protocol == "icmp" || r.protocol == "" || !strings.Contains("tcp,udp", r.protocol): //nolint:gocritic // CloudStack searches the list as a text
		return invalid("Protocol %s is not supported in zone %d", c.str("protocol"), r.ip.zone.id)
	case r.privateStart > r.privateEnd:
		return invalid("Start port can't be bigger than end port")
	case r.privateEnd-r.privateStart != r.publicEnd-r.publicStart:
		return invalid("Source port and destination port ranges should be of equal sizes.")
	}
	return nil
}

// checkForwardTarget checks the VM and sets the address that the rule forwards to.
func (c *call) checkForwardTarget(r *pfRule) error {
	switch {
	case r.vm == nil || r.vm.removed:
		return invalid("Unable to create port forwarding rule on address %s, invalid virtual machine id specified (%d).", r.ip.text(), c.refs["virtualmachineid"].id)
	case r.vm.gone():
		return invalid("Invalid user vm: %d", r.vm.id)
	}
	var err error
	if r.guestIP, err = guestAddress(r.vm, r.network, c.str("vmguestip")); err != nil {
		return err
	}
	if r.publicStart != r.publicEnd || r.privateStart != r.privateEnd {
		switch {
		case r.publicStart != r.privateStart:
			return invalid("Private port start should be equal to public port start")
		case r.publicEnd != r.privateEnd:
			return invalid("Private port end should be equal to public port end")
		}
	}
	return nil
}

// guestAddress returns the VM's address in the network: want if it is an address of the VM, or the primary address if
// want is empty.
func guestAddress(v *vm, n *network, want string) (string, error) {
	card := v.nicIn(n)
	switch {
	case card == nil || card.ip == "":
		return "", invalid("Vm doesn't belong to network associated with ipAddress")
	case want == "" || want == card.ip:
		return card.ip, nil
	case !slices.ContainsFunc(card.secondary, func(s *secondaryIP) bool { return s.ip == want }):
		return "", invalid("IP Address is not in the VM nic's network ")
	}
	return want, nil
}

// checkForwardConflicts compares a rule with the load balancer rules and port forwarding rules of its address.
func (c *call) checkForwardConflicts(r *pfRule) error {
	for _, o := range r.ip.lbRules {
		if r.publicStart <= o.publicPort && o.publicPort <= r.publicEnd {
			return rangeConflict(r.publicStart, r.publicEnd, o.conflictText(), o.publicPort, o.publicPort)
		}
	}
	for _, o := range r.ip.pfRules {
		same := len(o.cidrs) == 0 && len(r.cidrs) == 0 || slices.ContainsFunc(o.cidrs, func(s string) bool { return slices.Contains(r.cidrs, s) })
		if same && o.protocol == r.protocol && r.publicStart <= o.publicEnd && o.publicStart <= r.publicEnd {
			return rangeConflict(r.publicStart, r.publicEnd, o.conflictText(), o.publicStart, o.publicEnd)
		}
	}
	return nil
}

func rangeConflict(from, to int, with string, start, end int) error {
	return errf(codeConflict, csGeneric, "The range specified, %d-%d, conflicts with rule %s which has %d-%d", from, to, with, start, end)
}

// forwardConflict returns an error if a port forwarding rule uses the port.
func (ip *publicIP) forwardConflict(port int) error {
	for _, o := range ip.pfRules {
		if o.publicStart <= port && port <= o.publicEnd {
			return rangeConflict(port, port, o.conflictText(), o.publicStart, o.publicEnd)
		}
	}
	return nil
}

// openFirewall creates a firewall rule that allows every source address to reach the forwarded ports. If an equal
// rule exists, it creates none and returns nil, so the existing rule stays independent of the port forwarding rule.
func (st *state) openFirewall(r *pfRule) *fwRule {
	for _, o := range r.ip.fwRules {
		if o.protocol == r.protocol && o.startPort != nil && *o.startPort == r.publicStart && *o.endPort == r.publicEnd {
			return nil
		}
	}
	fw := &fwRule{
		entity: entity{created: r.created}, ip: r.ip, network: r.network, protocol: r.protocol, startPort: ptr(r.publicStart), endPort: ptr(r.publicEnd),
		cidrs: []string{"0.0.0.0/0"}, state: ruleAdd, account: r.account,
	}
	st.addFWRule(fw)
	return fw
}

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

var (
	lbProtocols  = []string{"tcp", "udp", "tcp-proxy", "ssl"}
	lbAlgorithms = []string{"roundrobin", "leastconn", "source"}
)

// statsPort is where HAProxy on the virtual router serves its statistics.
const statsPort = 8081

var lbRefs = map[string]refKind{"id": refLBRule}

var lbCommands = []command{
	{name: "listLoadBalancerRules", refs: lbRefs, run: listLoadBalancerRules},
	{
		name: "createLoadBalancerRule", submit: createLoadBalancerRule, class: "user.loadbalancer.CreateLoadBalancerRuleCmd",
		order: []string{"algorithm", "description", "name", "privateport", "publicipid", "zoneid", "publicport"}, lock: lockIP("publicipid"),
	},
	{name: "updateLoadBalancerRule", refs: lbRefs, submit: updateLoadBalancerRule, class: "user.loadbalancer.UpdateLoadBalancerRuleCmd"},
	{name: "deleteLoadBalancerRule", refs: lbRefs, submit: deleteLoadBalancerRule, class: "user.loadbalancer.DeleteLoadBalancerRuleCmd"},
}

// lockIP locks the row of the address that a parameter names.
func lockIP(param string) func(*call) string {
	return func(c *call) string {
		if ip := arg[*publicIP](c, param); ip != nil {
			return "ip/" + ip.uuid
		}
		return ""
	}
}

// lbView is the object loadbalancerrule (loadbalancer in job results).
type lbView struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	PublicIPID  string  `json:"publicipid"`
	PublicIP    string  `json:"publicip"`
	PublicPort  string  `json:"publicport"`
	PrivatePort string  `json:"privateport"`
	Algorithm   string  `json:"algorithm"`
	NetworkID   string  `json:"networkid"`
	CIDRList    *string `json:"cidrlist,omitempty"`
	ownerView
	State      string    `json:"state"`
	ZoneID     string    `json:"zoneid"`
	ZoneName   string    `json:"zonename"`
	Protocol   *string   `json:"protocol,omitempty"`
	Tags       []tagView `json:"tags"`
	ForDisplay *bool     `json:"fordisplay,omitempty"`
}

func (c *call) viewLB(r *lbRule) lbView {
	v := lbView{
		ID: r.uuid, Name: r.name, Description: r.description, PublicIPID: r.ip.uuid, PublicIP: r.ip.addr.String(),
		PublicPort: fmt.Sprint(r.publicPort), PrivatePort: fmt.Sprint(r.privatePort), Algorithm: r.algorithm, NetworkID: r.network.uuid,
		ownerView: viewOwner(r.owner()), State: r.state, ZoneID: r.ip.zone.uuid, ZoneName: r.ip.zone.name, Tags: viewTags(&r.tagged),
	}
	if r.hasCIDRs {
		v.CIDRList = ptr(r.cidrs)
	}
	if r.hasProtocol {
		v.Protocol = ptr(r.protocol)
	}
	if c.caller.rootAdmin() {
		v.ForDisplay = ptr(!r.hidden)
	}
	return v
}

// owner is who owns the rule: the owner of its address.
func (r *lbRule) owner() *account { return r.account }

func listLoadBalancerRules(c *call) (any, error) {
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	tags := c.tagFilter()
	member := arg[*vm](c, "virtualmachineid")
	var out []*lbRule
	for _, r := range c.st.lbRules.rows {
		switch {
		case !in(r.owner()) || !matches(c, "id", r) || !matches(c, "publicipid", r.ip) || !matches(c, "networkid", r.network):
		case !matches(c, "zoneid", r.ip.zone), c.has("name") && !strings.EqualFold(c.str("name"), r.name):
		case c.has("keyword") && !like(r.name, c.str("keyword")) && !like(r.description, c.str("keyword")):
		case c.given("virtualmachineid") && !slices.ContainsFunc(r.members, func(m *lbMember) bool { return m.vm == member }):
		case !r.hasTags(tags) || !c.visible("fordisplay", r.hidden):
		default:
			out = append(out, r)
		}
	}
	return page(c, "loadbalancerrule", out, c.viewLB)
}

func createLoadBalancerRule(c *call) (*jobSpec, error) {
	ip := arg[*publicIP](c, "publicipid")
	if ip == nil {
		return nil, invalid("Can't define IP owner. Either specify account/domainId or publicIpId")
	}
	if ip.state != ipAllocated {
		return nil, invalid("Unable to create load balancer rule, invalid IP address ID %d", ip.id)
	}
	if !c.access(ip.owner) {
		return nil, denied()
	}
	n, err := c.lbNetwork(ip)
	if err != nil {
		return nil, err
	}
	r := &lbRule{
		entity: entity{created: c.now}, name: c.str("name"), description: c.str("description"), algorithm: strings.ToLower(c.str("algorithm")), ip: ip,
		publicPort: c.integer("publicport"), privatePort: c.integer("privateport"), state: ruleAdd, account: ip.owner,
		hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	}
	if p, ok := c.args["protocol"]; ok {
		r.protocol, r.hasProtocol = strings.ToLower(strings.TrimSpace(p)), true
	}
	if c.has("cidrlist") {
		r.cidrs, r.hasCIDRs = strings.Join(c.list("cidrlist"), " "), true
	}
	bind, err := c.checkLBRule(r, n)
	if err != nil {
		return nil, err
	}
	if bind != nil {
		ip.network = bind
		ip.sourceNAT = false // the trap: a VPC's source NAT address loses that role for good
	}
	r.network = ip.network
	c.st.addLBRule(r)
	openFirewall := c.boolOr("openfirewall", ip.vpc == nil) && ip.vpc == nil
	return &jobSpec{
		objectID: r.uuid, instanceType: "FirewallRule", instanceID: r.uuid,
		run:  func(time.Time) (any, error) { return c.finishLBRule(r, openFirewall) },
		undo: func() { c.st.removeLBRule(r) },
	}, nil
}

// lbNetwork finds the network of a new rule.
func (c *call) lbNetwork(ip *publicIP) (*network, error) {
	if n := arg[*network](c, "networkid"); n != nil {
		return n, nil
	}
	if ip.network != nil {
		return ip.network, nil
	}
	return nil, paramError("IP address ID=%d is not associated with any network", ip.id)
}

// checkLBRule applies the validations of the create phase in the server's
// order. bind is the tier that a VPC address gets with its first rule.
func (c *call) checkLBRule(r *lbRule, n *network) (bind *network, err error) {
	ip := r.ip
	if c.boolean("openfirewall") && ip.vpc != nil {
		return nil, paramError("Can't have openFirewall=true when IP address belongs to VPC")
	}
	if r.publicPort == 53 && ip.sourceNAT && n.provides("Dns") {
		return nil, paramError("Error adding load balancer rule, cannot add port 53 with network service offering having DNS service and Source NAT.")
	}
	if ip.staticVM != nil {
		return nil, errf(codeConflict, csGeneric, "Can't do load balance on ip address: %s", ip.addr)
	}
	for _, cidr := range c.list("cidrlist") {
		if !validCIDR(cidr) {
			return nil, paramError("CIDR [%s] is invalid.", cidr)
		}
	}
	if ip.network == nil {
		if ip.vpc == nil || n.vpc != ip.vpc {
			return nil, paramError("Ip address %s is not assigned to the network %s", ip.text(), n.text())
		}
		bind = n
	} else {
		n = ip.network // a networkid that differs is ignored
	}
	if !n.offering.spec.Conserve {
		if ip.sourceNAT {
			return nil, paramError("The IP %s is already used as SourceNat rather than Lb.", ip.addr)
		}
		if len(ip.fwRules) > 0 && n.vpc != nil {
			return nil, paramError("The IP %s is already used as Firewall rather than Lb.", ip.addr)
		}
	}
	if r.privatePort < 0 || r.privatePort > 65535 {
		return nil, paramError("privatePort is an invalid value: %d", r.privatePort)
	}
	if !slices.Contains(lbAlgorithms, r.algorithm) {
		return nil, paramError("Invalid algorithm: %s", c.str("algorithm"))
	}
	if !n.provides("Lb") {
		return nil, paramError("LB service is not supported in specified network id")
	}
	if !n.offering.providedBy("Lb", "VirtualRouter", "VpcVirtualRouter", "Nsx", "Netris", "Netscaler") {
		return nil, paramError("Scheme Public is not supported by the network offering %s", n.offering.text())
	}
	if r.publicPort < 0 || r.publicPort > 65535 {
		return nil, paramError("publicPort is an invalid value: %d", r.publicPort)
	}
	if n.state == netImplemented && (r.publicPort == statsPort || r.protocol == "udp") {
		return nil, paramError("LB service provider cannot support this rule")
	}
	if r.hasProtocol && !slices.Contains(lbProtocols, r.protocol) {
		return nil, paramError("protocol %s is not in valid protocols [%s]", r.protocol, strings.Join(lbProtocols, ", "))
	}
	for _, o := range ip.lbRules {
		if o.publicPort == r.publicPort {
			return nil, errf(codeConflict, csGeneric, "The range specified, %d-%d, conflicts with rule %s which has %d-%d",
				r.publicPort, r.publicPort, o.conflictText(), o.publicPort, o.publicPort)
		}
	}
	if err := ip.forwardConflict(r.publicPort); err != nil {
		return nil, err
	}
	return bind, nil
}

// conflictText is how exceptions print a rule.
func (r *lbRule) conflictText() string {
	return fmt.Sprintf(`FirewallRule {"id":%d,"networkId":%d,"purpose":"LoadBalancing","state":"%s","uuid":"%s"}`, r.id, r.network.id, r.state, r.uuid)
}

func (r *lbRule) text() string {
	return fmt.Sprintf(`LoadBalancer {"name":"%s","id":%d,"purpose":"LoadBalancing","state":"%s","uuid":"%s"}`, r.name, r.id, r.state, r.uuid)
}

func (ip *publicIP) text() string {
	return fmt.Sprintf(`IPAddress {"address":"%s","id":%d,"uuid":"%s"}`, ip.addr, ip.id, ip.uuid)
}

func (n *network) text() string {
	return fmt.Sprintf(`Network {"id": %d, "name": "%s", "uuid": "%s", "networkofferingid": %d}`, n.id, n.name, n.uuid, n.offering.id)
}

func (o *networkOffering) text() string {
	return fmt.Sprintf(`NetworkOffering {"id":%d,"name":"%s","uuid":"%s"}`, o.id, o.spec.Name, o.uuid)
}

// validCIDR accepts what a rule's source list may hold: ranges and single addresses of both families.
func validCIDR(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

type lbAnswer struct {
	LB lbView `json:"loadbalancer"`
}

// finishLBRule is the job of createLoadBalancerRule: it opens the firewall if asked to.
func (c *call) finishLBRule(r *lbRule, openFirewall bool) (any, error) {
	if r.removed {
		return nil, errf(codeInternal, csRuntime, "Failed to create load balancer rule")
	}
	if openFirewall {
		if err := c.openFirewallFor(r); err != nil {
			return nil, err
		}
	}
	return lbAnswer{c.viewLB(r)}, nil
}

// openFirewallFor adds the related rule: tcp, the public port, everybody. An
// equal rule that is there already stays on its own.
func (c *call) openFirewallFor(r *lbRule) error {
	port := r.publicPort
	for _, o := range r.ip.fwRules {
		if o.protocol != "tcp" || o.startPort == nil {
			continue
		}
		if *o.startPort == port && *o.endPort == port {
			return nil
		}
		if *o.startPort <= port && port <= *o.endPort && slices.Contains(o.cidrs, "0.0.0.0/0") {
			return errf(codeConflict, csRuleConflict, "The range specified, %d-%d, conflicts with rule %s which has %d-%d", port, port, o.conflictText(), *o.startPort, *o.endPort)
		}
	}
	fw := &fwRule{
		entity: entity{created: c.now}, ip: r.ip, network: r.network, protocol: "tcp", startPort: ptr(port), endPort: ptr(port), cidrs: []string{"0.0.0.0/0"},
		state: ruleActive, account: r.account,
	}
	c.st.addFWRule(fw)
	r.related = fw
	return nil
}

// removeLBRule deletes a rule with its related firewall rule; the last rule of a VPC address unbinds it from its tier.
func (st *state) removeLBRule(r *lbRule) {
	if r.removed {
		return
	}
	if r.related != nil {
		st.dropFWRule(r.related)
	}
	st.dropLBRule(r)
	st.unbind(r.ip)
}

func deleteLoadBalancerRule(c *call) (*jobSpec, error) {
	r := arg[*lbRule](c, "id")
	if r == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		if !c.access(r.owner()) {
			return nil, denied()
		}
		c.st.removeLBRule(r)
		return success{true}, nil
	}}, nil
}

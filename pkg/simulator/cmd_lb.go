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
	lbProtocols  = []string{"tcp", "udp", "tcp-proxy", protocolSSL} // the last since routerTLSSince
	lbAlgorithms = []string{"roundrobin", "leastconn", "source"}
)

// statsPort is where HAProxy on the virtual router serves its statistics.
const statsPort = 8081

// lbRefs: the id of a rule of another kind resolves as well, and then the command finds no load balancer.
var lbRefs = map[string]refKind{"id": refRule}

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
		case r.internal || !in(r.owner()) || !matches(c, "id", r) || !matches(c, "publicipid", r.ip) || !matches(c, "networkid", r.network):
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
	ip, err := c.lbSource()
	if err != nil {
		return nil, err
	}
	n, err := c.lbNetwork(ip)
	if err != nil {
		return nil, err
	}
	r := &lbRule{
		entity: entity{created: c.now}, name: c.str("name"), description: c.str("description"), algorithm: c.str("algorithm"), ip: ip,
		publicPort: c.integer("publicport"), privatePort: c.integer("privateport"), state: ruleAdd, account: ip.owner,
		hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	}
	if p, ok := c.args["protocol"]; ok {
		r.protocol, r.hasProtocol = strings.ToLower(strings.TrimSpace(p)), true
	}
	if c.has("cidrlist") {
		r.cidrs, r.hasCIDRs = strings.Join(c.list("cidrlist"), " "), true
	}
	if err := c.checkLBSource(r, n); err != nil {
		return nil, err
	}
	bound := ip.network == nil
	if bound {
		// The trap: a VPC's source NAT address loses that role for good, even when a later check refuses the rule.
		ip.network, ip.sourceNAT = n, false
	}
	r.network = ip.network
	if err := c.createLBRule(r); err != nil {
		if bound {
			ip.network = nil
		}
		return nil, err
	}
	return &jobSpec{
		objectID: r.uuid, instanceType: "FirewallRule", instanceID: r.uuid,
		run:  func(time.Time) (any, error) { return c.finishLBRule(r) },
		undo: func() { c.st.removeLBRule(r) }, refused: "Failed to create load balancer rule",
	}, nil
}

// lbSource is the address of a new rule, which the caller must be allowed to use.
func (c *call) lbSource() (*publicIP, error) {
	ip := arg[*publicIP](c, "publicipid")
	if !c.given("publicipid") {
		if c.str("account") == "" || !c.given("domainid") {
			return nil, invalid("Can't define IP owner. Either specify account/domainId or publicIpId")
		}
		owner, err := c.addressOwner()
		if err != nil {
			return nil, err
		}
		if !c.access(owner) {
			return nil, denied()
		}
		// Only an elastic load balancer takes an address by itself.
		return nil, paramError("Unable to create load balance rule; can't find/allocate source IP")
	}
	if ip == nil || ip.state != ipAllocated {
		return nil, invalid("Unable to create load balancer rule, invalid IP address ID %d", c.refs["publicipid"].id)
	}
	if !c.access(ip.owner) {
		return nil, denied()
	}
	return ip, nil
}

// lbNetwork finds the network of a new rule.
func (c *call) lbNetwork(ip *publicIP) (*network, error) {
	if n := arg[*network](c, "networkid"); n != nil {
		return n, nil
	}
	if z := arg[*zone](c, "zoneid"); z != nil {
		n, err := c.onlyNetwork(ip.owner, z)
		if err != nil {
			return nil, paramError("%s", asAPIError(err).text)
		}
		return n, nil
	}
	if ip.network != nil {
		return ip.network, nil
	}
	return nil, paramError("IP address ID=%d is not associated with any network", ip.id)
}

// checkLBSource applies the validations of the create phase up to the binding
// of a VPC's address to its tier, in the server's order.
func (c *call) checkLBSource(r *lbRule, n *network) error {
	ip := r.ip
	if c.boolean("openfirewall") && ip.vpc != nil {
		return paramError("Can't have openFirewall=true when IP address belongs to VPC")
	}
	if r.publicPort == 53 && ip.sourceNAT && n.provides("Dns") {
		return paramError("Error adding load balancer rule, cannot add port 53 with network service offering having DNS service and Source NAT.")
	}
	if ip.staticVM != nil {
		return errf(codeConflict, csGeneric, "Can't do load balance on ip address: %s", ip.addr)
	}
	for _, cidr := range c.list("cidrlist") {
		if !validCIDR(cidr) {
			return paramError("CIDR [%s] is invalid.", cidr)
		}
	}
	if ip.network == nil {
		if ip.vpc == nil || n.vpc != ip.vpc {
			return paramError("Ip address %s is not assigned to the network %s", ip.text(), n.text())
		}
	} else {
		n = ip.network // a networkid that differs is ignored
	}
	if !n.offering.spec.Conserve && ip.sourceNAT {
		return paramError("The IP %s is already used as SourceNat rather than Lb.", ip.addr)
	}
	return nil
}

// createLBRule applies the other validations, stores the rule and opens the firewall for it.
func (c *call) createLBRule(r *lbRule) error {
	n := r.network
	if r.privatePort < 0 || r.privatePort > 65535 {
		return paramError("privatePort is an invalid value: %d", r.privatePort)
	}
	if !slices.Contains(lbAlgorithms, strings.ToLower(r.algorithm)) {
		return paramError("Invalid algorithm: %s", c.str("algorithm"))
	}
	if !n.provides("Lb") {
		return paramError("LB service is not supported in specified network id")
	}
	if !n.offering.providedBy("Lb", "VirtualRouter", "VpcVirtualRouter", "Nsx", "Netris", "Netscaler") {
		return paramError("Scheme Public is not supported by the network offering %s", n.offering.text())
	}
	if r.publicPort < 0 || r.publicPort > 65535 {
		return paramError("publicPort is an invalid value: %d", r.publicPort)
	}
	if !r.routable(r.protocol) {
		return paramError("LB service provider cannot support this rule")
	}
	if r.hasProtocol {
		if err := c.checkLBProtocol(r.protocol); err != nil {
			err.cs = csGeneric
			return err
		}
	}
	if c.boolOr("openfirewall", r.ip.vpc == nil) && r.ip.vpc == nil {
		if err := c.openFirewallFor(r); err != nil {
			return err
		}
	}
	if err := r.conflict(); err != nil {
		if r.related != nil {
			c.st.dropFWRule(r.related)
		}
		return err
	}
	c.st.addLBRule(r)
	return nil
}

// routable tells whether the network's router, if there is one yet, takes the rule with a protocol.
func (r *lbRule) routable(protocol string) bool {
	return r.network.state != netImplemented || (r.internal || r.publicPort != statsPort) && protocol != "udp"
}

// checkLBProtocol compares a protocol with those of the release.
func (c *call) checkLBProtocol(protocol string) *apiError {
	known := lbProtocols
	if !c.server.cat.routerTLS {
		known = lbProtocols[:len(lbProtocols)-1]
	}
	if !slices.Contains(known, protocol) {
		return invalid("protocol %s is not in valid protocols [%s]", protocol, strings.Join(known, ", "))
	}
	return nil
}

// conflict refuses a port that another rule of the address has.
func (r *lbRule) conflict() error {
	for _, o := range r.ip.lbRules {
		if o.publicPort == r.publicPort && o.state != ruleRevoke {
			return errf(codeConflict, csGeneric, "The range specified, %d-%d, conflicts with rule %s which has %d-%d",
				r.publicPort, r.publicPort, o.conflictText(), o.publicPort, o.publicPort)
		}
	}
	return r.ip.forwardConflict(r.publicPort)
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
	return fmt.Sprintf(`NetworkOffering {"id":%d,"name":"%s","trafficType":"%s","uuid":"%s"}`, o.id, o.spec.Name, o.spec.TrafficType, o.uuid)
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

// finishLBRule is the job of createLoadBalancerRule: it makes the related firewall rule work.
func (c *call) finishLBRule(r *lbRule) (any, error) {
	if r.removed {
		return nil, errf(codeInternal, csGeneric, "Failed to create load balancer rule")
	}
	if r.related != nil && r.related.state == ruleAdd {
		r.related.state = ruleActive
	}
	return lbAnswer{c.viewLB(r)}, nil
}

// openFirewallFor adds the related rule in the create phase: tcp, the public
// port, everybody. An equal rule that is there already stays on its own.
func (c *call) openFirewallFor(r *lbRule) error {
	port := r.publicPort
	for _, o := range r.ip.fwRules {
		if o.protocol == "tcp" && o.state != ruleRevoke && o.startPort != nil && *o.startPort == port && *o.endPort == port {
			return nil
		}
	}
	fw := &fwRule{
		entity: entity{created: c.now}, ip: r.ip, network: r.network, protocol: "tcp", startPort: ptr(port), endPort: ptr(port), cidrs: []string{"0.0.0.0/0"},
		state: ruleAdd, account: r.account,
	}
	if err := fw.conflictWith(r.ip.fwRules); err != nil {
		e := asAPIError(err)
		e.cs = csGeneric
		return e
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
	if r == nil || !c.access(r.owner()) {
		return c.lbJob("id", nil, func(*lbRule, time.Time) (any, error) { return nil, denied() })
	}
	before, refused := r.state, "Unable to remove load balancer rule "+r.text()
	r.state = ruleRevoke // while the router is told
	r.deleting++
	return &jobSpec{
		run: func(time.Time) (any, error) {
			r.deleting--
			c.st.removeLBRule(r)
			return success{true}, nil
		},
		undo: func() {
			r.deleting--
			r.state = before
		}, refused: refused,
	}, nil
}

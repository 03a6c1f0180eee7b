// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

var internalRefs = map[string]refKind{"id": refRule, "sourceipaddressnetworkid": refNetwork}

// internalLBView is the object loadbalancer of an internal load balancer; its ports are numbers.
type internalLBView struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Description   string `json:"description,omitempty"`
	Algorithm     string `json:"algorithm"`
	NetworkID     string `json:"networkid"`
	SourceIP      string `json:"sourceipaddress"`
	SourceNetwork string `json:"sourceipaddressnetworkid"`
	ownerView
	Rules      []internalRuleView     `json:"loadbalancerrule"`
	Instances  []internalInstanceView `json:"loadbalancerinstance"`
	Tags       []tagView              `json:"tags"`
	ForDisplay *bool                  `json:"fordisplay,omitempty"`
}

type internalRuleView struct {
	SourcePort   int    `json:"sourceport"`
	InstancePort int    `json:"instanceport"`
	State        string `json:"state"`
}

// internalInstanceView is a member, by the hypervisor's name of the VM.
type internalInstanceView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	IP   string `json:"ipaddress"`
}

func (c *call) viewInternalLB(r *lbRule) internalLBView {
	v := internalLBView{
		ID: r.uuid, Name: r.name, Description: r.description, Algorithm: r.algorithm, NetworkID: r.network.uuid, SourceIP: r.ip.addr.String(),
		SourceNetwork: r.network.uuid, ownerView: viewOwner(r.owner()), Rules: []internalRuleView{{r.publicPort, r.privatePort, r.state}},
		Instances: []internalInstanceView{}, Tags: viewTags(&r.tagged),
	}
	seen := map[*vm]bool{}
	for _, m := range r.members {
		if n := m.vm.nicIn(r.network); n != nil && !seen[m.vm] { // one entry a VM, with the address of its NIC
			seen[m.vm] = true
			v.Instances = append(v.Instances, internalInstanceView{m.vm.uuid, m.vm.instanceName(), n.ip})
		}
	}
	if c.caller.rootAdmin() {
		v.ForDisplay = ptr(!r.hidden)
	}
	return v
}

type internalLBAnswer struct {
	LB internalLBView `json:"loadbalancer"`
}

// checkScheme accepts the one scheme that these commands know.
func checkScheme(s string) error {
	if !strings.EqualFold(s, "Internal") {
		return invalid("Invalid value for scheme. Supported value is internal")
	}
	return nil
}

func createLoadBalancer(c *call) (*jobSpec, error) {
	n, source := arg[*network](c, "networkid"), arg[*network](c, "sourceipaddressnetworkid")
	switch {
	case n == nil || n.removed:
		return nil, invalid("Invalid network ID specified")
	case n.owner == nil || !c.access(n.owner): // a domain's network belongs to the system account
		return nil, denied()
	}
	if err := checkScheme(c.str("scheme")); err != nil {
		return nil, err
	}
	if source == nil || source.removed {
		return nil, invalid("Can't find source ip network by id")
	}
	r := &lbRule{
		entity: entity{created: c.now}, name: c.str("name"), description: c.str("description"), algorithm: c.str("algorithm"), network: n,
		publicPort: c.integer("sourceport"), privatePort: c.integer("instanceport"), state: ruleAdd, account: n.owner, internal: true,
		hidden: c.has("fordisplay") && !c.boolean("fordisplay"),
	}
	if err := checkInternalLB(r); err != nil {
		return nil, err
	}
	ip, err := c.internalSource(source)
	if err != nil {
		return nil, err
	}
	if r.publicPort == statsPort && c.st.internalLBRuns(n) {
		return nil, invalid("LB service provider cannot support this rule")
	}
	for _, o := range ip.lbRules {
		if o.state == ruleRevoke {
			continue
		}
		if o.network != n {
			return nil, errf(codeConflict, csGeneric, "New rule is for a different network than what's specified in rule %s", o.uuid)
		}
		if o.publicPort == r.publicPort {
			return nil, errf(codeConflict, csGeneric, "The range specified, %d-%d, conflicts with rule %s which has %d-%d",
				r.publicPort, r.publicPort, o.conflictText(), o.publicPort, o.publicPort)
		}
	}
	if !slices.Contains(source.lbSources, ip) {
		source.lbSources = append(source.lbSources, ip)
	}
	r.ip = ip
	c.st.addLBRule(r)
	return &jobSpec{
		objectID: r.uuid, instanceType: "LoadBalancerRule",
		run: func(time.Time) (any, error) {
			if r.removed {
				return nil, errf(codeInternal, csGeneric, "Failed to create load balancer")
			}
			return internalLBAnswer{c.viewInternalLB(r)}, nil
		},
		undo: func() { c.st.dropLBRule(r) },
	}, nil
}

// checkInternalLB applies the validations of the rule itself in the server's order.
func checkInternalLB(r *lbRule) error {
	n := r.network
	port := func(p int) bool { return p >= 0 && p <= 65535 }
	switch {
	case !n.provides("Lb"):
		return invalid("LB service is not supported in specified network id")
	case !n.offering.providedBy("Lb", "InternalLbVm"):
		return invalid("Scheme Internal is not supported by the network offering %s", n.offering.text())
	case !port(r.privatePort):
		return invalid("Invalid value for instance port: %d", r.privatePort)
	case !port(r.publicPort):
		return invalid("Invalid value for source port: %d", r.publicPort)
	case !slices.Contains(lbAlgorithms, strings.ToLower(r.algorithm)):
		return invalid("Invalid algorithm: %s", r.algorithm)
	}
	return nil
}

// internalSource is the address that a new load balancer listens on: that of
// another one if the call names it, else a free one of the network.
func (c *call) internalSource(n *network) (*publicIP, error) {
	full := errf(codeCapacity, csGeneric, "Unable to acquire IP address for network %s", n.text())
	text, given := c.args["sourceipaddress"]
	if !n.cidr.IsValid() {
		return nil, invalid("Can't create the application load balancer rule for the network having NULL cidr")
	}
	if !given {
		if text = c.st.freeGuestIP(n); text == "" {
			return nil, full
		}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is4() {
		part, _, _ := strings.Cut(text, ".")
		for _, p := range strings.Split(text, ".") {
			if _, err := strconv.ParseInt(p, 10, 64); err != nil {
				part = p
				break
			}
		}
		return nil, paramError(`For input string: "%s"`, part)
	}
	if i := slices.IndexFunc(n.lbSources, func(ip *publicIP) bool { return ip.addr == addr }); i >= 0 {
		return n.lbSources[i], nil
	}
	switch {
	case !n.cidr.Contains(addr):
		return nil, invalid("The requested IP is not in the network's CIDR subnet.")
	case given && (text == n.gateway || n.guestIPTaken(text)):
		return nil, full
	}
	return &publicIP{entity: entity{created: c.now}, addr: addr, zone: n.zone, state: ipAllocated, owner: n.owner, network: n, vpc: n.vpc}, nil
}

// internalLBRuns: the VM that balances comes with the first member in the network.
func (st *state) internalLBRuns(n *network) bool {
	_, ok := st.lbRules.find(func(r *lbRule) bool { return r.internal && r.network == n && r.state == ruleActive })
	return ok
}

func updateLoadBalancer(c *call) (*jobSpec, error) {
	r := arg[*lbRule](c, "id")
	return &jobSpec{run: func(time.Time) (any, error) {
		switch {
		case r == nil || r.removed || !r.internal:
			return nil, invalid("Unable to find load balancer %d", c.refs["id"].id)
		case !c.access(r.owner()):
			return nil, denied()
		}
		setDisplay(c, c.st.lbRules, r, &r.hidden)
		return internalLBAnswer{c.viewInternalLB(r)}, nil
	}}, nil
}

func listLoadBalancers(c *call) (any, error) {
	if s, ok := c.args["scheme"]; ok {
		if err := checkScheme(s); err != nil {
			return nil, err
		}
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	tags := c.tagFilter()
	var out []*lbRule
	for _, r := range c.st.lbRules.rows {
		switch {
		case !r.internal || !in(r.owner()) || !matches(c, "id", r) || !matches(c, "networkid", r.network):
		case !matches(c, "sourceipaddressnetworkid", r.ip.network), c.has("sourceipaddress") && c.str("sourceipaddress") != r.ip.addr.String():
		case c.has("name") && !strings.EqualFold(c.str("name"), r.name):
		case c.has("keyword") && !like(r.name, c.str("keyword")) && !like(r.description, c.str("keyword")):
		case !r.hasTags(tags) || !c.visible("fordisplay", r.hidden):
		default:
			out = append(out, r)
		}
	}
	return page(c, "loadbalancer", out, c.viewInternalLB)
}

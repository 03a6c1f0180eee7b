// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

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
	wire.OwnerView
	State      string         `json:"state"`
	ZoneID     string         `json:"zoneid"`
	ZoneName   string         `json:"zonename"`
	Protocol   *string        `json:"protocol,omitempty"`
	Tags       []wire.TagView `json:"tags"`
	ForDisplay *bool          `json:"fordisplay,omitempty"`
}

func viewLB(c *wire.Call, r *store.LBRule) lbView {
	v := lbView{
		ID:          r.UUID,
		Name:        r.Name,
		Description: r.Description,
		PublicIPID:  r.IP.UUID,
		PublicIP:    r.IP.Addr.String(),
		PublicPort:  fmt.Sprint(r.PublicPort),
		PrivatePort: fmt.Sprint(r.PrivatePort),
		Algorithm:   r.Algorithm,
		NetworkID:   r.Network.UUID,
		OwnerView:   wire.ViewOwner(r.Owner()),
		State:       r.State,
		ZoneID:      r.IP.Zone.UUID,
		ZoneName:    r.IP.Zone.Name,
		Tags:        wire.ViewTags(&r.Tagged),
	}

	if r.HasCIDRs {
		v.CIDRList = wire.Ptr(r.CIDRs)
	}

	if r.HasProtocol {
		v.Protocol = wire.Ptr(r.Protocol)
	}

	if c.Caller.RootAdmin() {
		v.ForDisplay = wire.Ptr(!r.Hidden)
	}

	return v
}

func listLoadBalancerRules(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}
	tags := c.TagFilter()
	member := wire.Arg[*store.VM](c, "virtualmachineid")
	return wire.List(c, "loadbalancerrule", c.St.LBRules.Rows, func(r *store.LBRule) bool {
		return !r.Internal &&
			in(r.Owner()) &&
			wire.Matches(c, "publicipid", r.IP) &&
			wire.Matches(c, "networkid", r.Network) &&
			wire.Matches(c, "zoneid", r.IP.Zone) &&
			c.Is("name", r.Name) &&
			c.Like("keyword", r.Name, r.Description) &&
			(!c.Given("virtualmachineid") ||
				slices.ContainsFunc(r.Members, func(m *store.LBMember) bool { return m.VM == member })) &&
			r.HasTags(tags) &&
			c.Visible("fordisplay", r.Hidden)
	}, func(r *store.LBRule) lbView { return viewLB(c, r) })
}

func createLoadBalancerRule(c *wire.Call) (*wire.JobSpec, error) {
	ip, err := lbSource(c)
	if err != nil {
		return nil, err
	}

	n, err := lbNetwork(c, ip)
	if err != nil {
		return nil, err
	}

	r := &store.LBRule{
		Entity:      store.Entity{Created: c.Now},
		Name:        c.Str("name"),
		Description: c.Str("description"),
		Algorithm:   c.Str("algorithm"),
		IP:          ip,
		PublicPort:  c.Integer("publicport"),
		PrivatePort: c.Integer("privateport"),
		State:       store.RuleAdd,
		Account:     ip.Owner,
		Hidden:      c.Has("fordisplay") && !c.Boolean("fordisplay"),
	}

	if p, ok := c.Args["protocol"]; ok {
		r.Protocol, r.HasProtocol = strings.ToLower(strings.TrimSpace(p)), true
	}

	if c.Has("cidrlist") {
		r.CIDRs, r.HasCIDRs = strings.Join(c.List("cidrlist"), " "), true
	}

	if err := checkLBSource(c, r, n); err != nil {
		return nil, err
	}

	bound := ip.Network == nil
	if bound {
		// A VPC's source NAT address loses that role for good, even if a later check refuses the rule.
		ip.Network, ip.SourceNAT = n, false
	}

	r.Network = ip.Network
	if err := createLBRule(c, r); err != nil {
		if bound {
			ip.Network = nil
		}
		return nil, err
	}

	return &wire.JobSpec{
		ObjectID: r.UUID, InstanceType: "FirewallRule", InstanceID: r.UUID,
		Run:  func(time.Time) (any, error) { return finishLBRule(c, r) },
		Undo: func() { c.St.RemoveLBRule(r) }, Refused: "Failed to create load balancer rule",
	}, nil
}

// lbSource returns the address of a new rule if the caller may use it.
func lbSource(c *wire.Call) (*store.PublicIP, error) {
	ip := wire.Arg[*store.PublicIP](c, "publicipid")
	if !c.Given("publicipid") {
		if c.Str("account") == "" || !c.Given("domainid") {
			return nil, wire.Invalid("Can't define IP owner. Either specify account/domainId or publicIpId")
		}
		owner, err := c.AddressOwner()
		if err != nil {
			return nil, err
		}
		if !c.Access(owner) {
			return nil, wire.Denied()
		}
		// Only elastic load balancers allocate an address themselves.
		return nil, wire.ParamError("Unable to create load balance rule; can't find/allocate source IP")
	}

	if ip == nil || ip.State != store.IPAllocated {
		return nil, wire.Invalid("Unable to create load balancer rule, invalid IP address ID %d",
			c.Refs["publicipid"].ID)
	}

	if !c.Access(ip.Owner) {
		return nil, wire.Denied()
	}

	return ip, nil
}

// lbNetwork returns the network of a new rule.
func lbNetwork(c *wire.Call, ip *store.PublicIP) (*store.Network, error) {
	if n := wire.Arg[*store.Network](c, "networkid"); n != nil {
		return n, nil
	}
	if z := wire.Arg[*store.Zone](c, "zoneid"); z != nil {
		n, err := c.OnlyNetwork(ip.Owner, z)
		if err != nil {
			return nil, wire.ParamError("%s", wire.AsAPIError(err).Text)
		}
		return n, nil
	}
	if ip.Network != nil {
		return ip.Network, nil
	}
	return nil, wire.ParamError("IP address ID=%d is not associated with any network", ip.ID)
}

// checkLBSource checks a new rule in CloudStack's order, up to the point at which CloudStack binds a VPC's address to
// the tier.
func checkLBSource(c *wire.Call, r *store.LBRule, n *store.Network) error {
	ip := r.IP
	if c.Boolean("openfirewall") && ip.VPC != nil {
		return wire.ParamError("Can't have openFirewall=true when IP address belongs to VPC")
	}

	if r.PublicPort == 53 && ip.SourceNAT && n.Provides("Dns") {
		return wire.ParamError("Error adding load balancer rule, cannot add port 53 with network service offering " +
			"having DNS service and Source NAT.")
	}

	if ip.StaticVM != nil {
		return wire.Errf(wire.CodeConflict, wire.CSGeneric, "Can't do load balance on ip address: %s", ip.Addr)
	}

	for _, cidr := range c.List("cidrlist") {
		if !wire.ValidCIDR(cidr) {
			return wire.ParamError("CIDR [%s] is invalid.", cidr)
		}
	}

	if ip.Network == nil {
		if ip.VPC == nil || n.VPC != ip.VPC {
			return wire.ParamError("Ip address %s is not assigned to the network %s", ip.Text(), n.Text())
		}
	} else {
		n = ip.Network // CloudStack ignores another networkid
	}

	if s := ip.OtherPurpose(n, "Lb"); s != "" {
		return wire.ParamError("The IP %s is already used as %s rather than Lb", ip.Addr, s)
	}

	return nil
}

// createLBRule makes the remaining checks, opens the firewall and stores the rule.
func createLBRule(c *wire.Call, r *store.LBRule) error {
	n := r.Network
	if r.PrivatePort < 0 || r.PrivatePort > 65535 {
		return wire.ParamError("privatePort is an invalid value: %d", r.PrivatePort)
	}

	if !slices.Contains(store.LBAlgorithms, strings.ToLower(r.Algorithm)) {
		return wire.ParamError("Invalid algorithm: %s", c.Str("algorithm"))
	}

	if !n.Provides("Lb") {
		return wire.ParamError("LB service is not supported in specified network id")
	}

	if !n.Offering.ProvidedBy("Lb", "VirtualRouter", "VpcVirtualRouter", "Nsx", "Netris", "Netscaler") {
		return wire.ParamError("Scheme Public is not supported by the network offering %s", n.Offering.Text())
	}

	if r.PublicPort < 0 || r.PublicPort > 65535 {
		return wire.ParamError("publicPort is an invalid value: %d", r.PublicPort)
	}

	if !routable(r, r.Protocol) {
		return wire.ParamError("LB service provider cannot support this rule")
	}

	if r.HasProtocol {
		if err := checkLBProtocol(c, r.Protocol); err != nil {
			err.CS = wire.CSGeneric
			return err
		}
	}

	if c.BoolOr("openfirewall", r.IP.VPC == nil) && r.IP.VPC == nil {
		if err := openFirewallFor(c, r); err != nil {
			return err
		}
	}

	if err := wire.BalancerConflict(r); err != nil {
		if r.Related != nil {
			c.St.DeleteFWRule(r.Related)
		}
		return err
	}

	c.St.AddLBRule(r)
	return nil
}

// routable reports whether the network's router, if there is one, supports the rule with this protocol.
func routable(r *store.LBRule, protocol string) bool {
	return r.Network.State != store.NetImplemented ||
		(r.Internal || r.PublicPort != store.StatsPort) && protocol != "udp"
}

// checkLBProtocol refuses protocols that the release does not support.
func checkLBProtocol(c *wire.Call, protocol string) *wire.Error {
	known := store.LBProtocols
	if !c.Server.Cat.RouterTLS {
		known = store.LBProtocols[:len(store.LBProtocols)-1]
	}
	if !slices.Contains(known, protocol) {
		return wire.Invalid("protocol %s is not in valid protocols [%s]", protocol, strings.Join(known, ", "))
	}
	return nil
}

// finishLBRule is the job of createLoadBalancerRule. It activates the related firewall rule.
func finishLBRule(c *wire.Call, r *store.LBRule) (any, error) {
	if r.Removed {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Failed to create load balancer rule")
	}
	if r.Related != nil && r.Related.State == store.RuleAdd {
		r.Related.State = store.RuleActive
	}
	return wire.Object("loadbalancer", viewLB(c, r)), nil
}

// openFirewallFor adds a firewall rule that opens the public port to everybody, unless the same rule exists.
func openFirewallFor(c *wire.Call, r *store.LBRule) error {
	port := r.PublicPort
	for _, o := range r.IP.FWRules {
		if o.Protocol == "tcp" &&
			o.State != store.RuleRevoke &&
			o.StartPort != nil &&
			*o.StartPort == port &&
			*o.EndPort == port {
			return nil
		}
	}

	fw := &store.FWRule{
		Entity:    store.Entity{Created: c.Now},
		IP:        r.IP,
		Network:   r.Network,
		Protocol:  "tcp",
		StartPort: wire.Ptr(port),
		EndPort:   wire.Ptr(port),
		CIDRs:     []string{"0.0.0.0/0"},
		State:     store.RuleAdd,
		Account:   r.Account,
	}

	if err := wire.ConflictWith(fw, r.IP.FWRules); err != nil {
		e := wire.AsAPIError(err)
		e.CS = wire.CSGeneric
		return e
	}

	c.St.AddFWRule(fw)
	r.Related = fw
	return nil
}

func deleteLoadBalancerRule(c *wire.Call) (*wire.JobSpec, error) {
	r := wire.Arg[*store.LBRule](c, "id")
	if r == nil || !c.Access(r.Owner()) {
		return lbJob(c, "id", nil, func(*store.LBRule, time.Time) (any, error) { return nil, wire.Denied() })
	}

	before, refused := r.State, "Unable to remove load balancer rule "+r.Text()
	r.State = store.RuleRevoke // until the router has removed the rule
	r.Deleting++
	return &wire.JobSpec{
		Run: func(time.Time) (any, error) {
			if stops := c.St.RouterStopped(r.Network); stops != nil && stops != r && !r.Internal {
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "%s", refused)
			}
			r.Deleting--
			c.St.RemoveLBRule(r)
			return wire.Success{Success: true}, nil
		},
		Undo: func() {
			r.Deleting--
			r.State = before
		}, Refused: refused,
	}, nil
}

// lbJob returns a job for the load balancer rule that a parameter names. The parameter accepts ids of rules of every
// kind; the job then fails if the rule is of another kind. refused returns the error text if the router refuses the
// change.
func lbJob(
	c *wire.Call, param string, refused func(*store.LBRule) string,
	run func(r *store.LBRule, now time.Time) (any, error),
) (*wire.JobSpec, error) {
	r := wire.Arg[*store.LBRule](c, param)
	text := ""
	if r != nil && refused != nil {
		text = refused(r)
	}
	return &wire.JobSpec{Refused: text, Run: func(now time.Time) (any, error) {
		if r == nil {
			return nil, wire.Invalid("Unable to find load balancer rule: %d", c.Refs[param].ID)
		}
		return run(r, now)
	}}, nil
}

// apply sends a changed rule to the router. If another rule makes the router refuse all changes, undo reverts this
// change and the job fails with the text refused. If this rule is the cause, it keeps its change, and the router
// refuses from then on.
func apply(c *wire.Call, r *store.LBRule, refused string, undo func()) error {
	settle(r)
	if r.Internal {
		return nil // an internal load balancer has its own VM
	}
	switch stops := c.St.RouterStopped(r.Network); stops {
	case nil:
		c.St.TellRouter(r.Network)
		return nil
	case r:
	default:
		undo()
		settle(r)
	}
	return wire.Errf(wire.CodeInternal, wire.CSRuntime, "%s", refused)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// pfView is the API object portforwardingrule. Its ports are strings.
type pfView struct {
	ID          string         `json:"id"`
	PrivatePort string         `json:"privateport"`
	PrivateEnd  string         `json:"privateendport"`
	Protocol    string         `json:"protocol"`
	PublicPort  string         `json:"publicport"`
	PublicEnd   string         `json:"publicendport"`
	VMID        string         `json:"virtualmachineid"`
	VMName      string         `json:"virtualmachinename"`
	VMDisplay   string         `json:"virtualmachinedisplayname"`
	IPAddressID string         `json:"ipaddressid"`
	IPAddress   string         `json:"ipaddress"`
	State       string         `json:"state"`
	CIDRList    string         `json:"cidrlist"`
	Tags        []wire.TagView `json:"tags"`
	GuestIP     string         `json:"vmguestip"`
	NetworkID   string         `json:"networkid"`
	ForDisplay  *bool          `json:"fordisplay,omitempty"`
}

func viewPF(c *wire.Call, r *store.PFRule) pfView {
	v := pfView{
		ID:          r.UUID,
		PrivatePort: fmt.Sprint(r.PrivateStart),
		PrivateEnd:  fmt.Sprint(r.PrivateEnd),
		Protocol:    r.Protocol,
		PublicPort:  fmt.Sprint(r.PublicStart),
		PublicEnd:   fmt.Sprint(r.PublicEnd),
		VMID:        r.VM.UUID,
		VMName:      r.VM.Name,
		VMDisplay:   r.VM.Display,
		IPAddressID: r.IP.UUID,
		IPAddress:   r.IP.Addr.String(),
		State:       r.State,
		CIDRList:    strings.Join(r.CIDRs, ","),
		Tags:        wire.ViewTags(&r.Tagged),
		GuestIP:     r.GuestIP,
		NetworkID:   r.Network.UUID,
	}

	if c.Caller.RootAdmin() {
		v.ForDisplay = wire.Ptr(!r.Hidden)
	}

	return v
}

func listPortForwardingRules(c *wire.Call) (any, error) {
	if ip := wire.Arg[*store.PublicIP](c, "ipaddressid"); ip != nil {
		if ip.State != store.IPAllocated || ip.Owner == nil {
			return nil, wire.Invalid("Ip address id=%d not ready for port forwarding rules yet", ip.ID)
		}
		if !c.Access(ip.Owner) {
			return nil, wire.Denied()
		}
	}

	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}

	return wire.List(c, "portforwardingrule", wire.Newest(c.St.PFRules.Rows), func(r *store.PFRule) bool {
		return in(r.Account) &&
			wire.Matches(c, "ipaddressid", r.IP) &&
			wire.Matches(c, "networkid", r.Network) &&
			r.HasTags(c.TagFilter()) &&
			c.Visible("fordisplay", r.Hidden)
	}, func(r *store.PFRule) pfView { return viewPF(c, r) })
}

func createPortForwardingRule(c *wire.Call) (*wire.JobSpec, error) {
	ip := wire.Arg[*store.PublicIP](c, "ipaddressid")
	if ip == nil {
		return nil, c.BadRef("ipaddressid", c.Str("ipaddressid"))
	}

	r := &store.PFRule{
		Entity:       store.Entity{Created: c.Now},
		IP:           ip,
		Protocol:     strings.ToLower(strings.TrimSpace(c.Str("protocol"))),
		Account:      ip.Owner,
		CIDRs:        c.List("cidrlist"),
		State:        store.RuleAdd,
		PublicStart:  c.Integer("publicport"),
		PrivateStart: c.Integer("privateport"),
		VM:           wire.Arg[*store.VM](c, "virtualmachineid"),
		Hidden:       c.Has("fordisplay") && !c.Boolean("fordisplay"),
	}

	r.PublicEnd, r.PrivateEnd = r.PublicStart, r.PrivateStart
	if c.Has("publicendport") {
		r.PublicEnd = c.Integer("publicendport")
	}

	if c.Has("privateendport") {
		r.PrivateEnd = c.Integer("privateendport")
	}

	if !c.Access(ip.Owner) || r.VM != nil && !r.VM.Removed && !c.Access(r.VM.Owner) { // before all other checks
		return nil, wire.Denied()
	}

	var err error
	if r.Network, err = forwardNetwork(c, r); err != nil {
		return nil, err
	}

	if err := checkForward(c, r); err != nil {
		return nil, err
	}

	if err := checkForwardTarget(c, r); err != nil {
		return nil, err
	}

	if c.BoolOr("openfirewall", ip.VPC == nil) {
		if r.Related, err = openFirewall(r); err != nil {
			return nil, err
		}
	}

	if err := wire.ForwardConflict(r); err != nil {
		return nil, err
	}

	ip.Bind(r.Network)
	c.St.AddPFRule(r)
	if r.Related != nil {
		c.St.AddFWRule(r.Related)
	}

	return &wire.JobSpec{
		ObjectID: r.UUID, InstanceType: "FirewallRule", InstanceID: r.UUID,
		Run: func(time.Time) (any, error) {
			if r.Removed {
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to apply port forwarding rule")
			}
			r.State = store.RuleActive
			if r.Related != nil {
				r.Related.State = store.RuleActive
			}
			return wire.Object("portforwardingrule", viewPF(c, r)), nil
		},
		Undo: func() { c.St.RemovePFRule(r) }, Refused: "Failed to apply port forwarding rule",
	}, nil
}

// forwardNetwork returns the network of a new rule and checks that the address can be used for port forwarding.
func forwardNetwork(c *wire.Call, r *store.PFRule) (*store.Network, error) {
	ip := r.IP
	if s, ok := c.Args["vmguestip"]; ok {
		if a, err := netip.ParseAddr(s); err != nil || !a.Is4() {
			return nil, wire.Invalid("Invalid Instance ip address")
		}
	}

	for _, s := range r.CIDRs {
		if _, err := netip.ParsePrefix(s); err != nil {
			return nil, wire.Invalid("The given source CIDR [%s] is invalid.", s)
		}
	}

	n := ip.Network
	if n == nil {
		n = wire.Arg[*store.Network](c, "networkid")
	}

	switch {
	case ip.State != store.IPAllocated:
		return nil, wire.Invalid("Unable to create PF rule, invalid IP address id %d", ip.ID)
	case c.Boolean("openfirewall") && ip.VPC != nil:
		return nil, wire.Invalid("Can't have openFirewall=true when IP address belongs to VPC")
	case ip.StaticVM != nil:
		return nil, wire.Invalid("Unable to create port forwarding rule; ip %s has static nat enabled", ip.Text())
	case n == nil:
		return nil, wire.Invalid("Unable to create port forwarding rule for the ipAddress id=%d as ip is not "+
			"associated with any network and no networkId is passed in", ip.ID)
	case ip.Network == nil && (ip.VPC == nil || n.VPC != ip.VPC):
		return nil, wire.Invalid("Ip address %s is not assigned to the network %s", ip.Text(), n.Text())
	}

	return n, usable(c, ip, n, "PortForwarding")
}

// usable checks that the network has the service, and that the offering allows the address to provide the service in
// addition to those that it already provides.
func usable(c *wire.Call, ip *store.PublicIP, n *store.Network, service string) error {
	if s := ip.OtherPurpose(n, service); s != "" {
		return wire.Invalid("The IP %s is already used as %s rather than %s", ip.Addr, s, service)
	}
	if !n.Provides(service) {
		if ip.HasRules() || ip.StaticVM != nil {
			return wire.Invalid("There is no new provider for IP %s of service %s!", ip.Addr, service)
		}
		return c.Internal(4390, "Service %s is not supported in the network %s", service, n.Text())
	}
	return nil
}

// checkForward checks ports and protocol of a rule.
func checkForward(c *wire.Call, r *store.PFRule) error {
	switch {
	case !validPort(r.PublicStart):
		return wire.Invalid("publicPort is an invalid value: %d", r.PublicStart)
	case !validPort(r.PublicEnd):
		return wire.Invalid("Public port range is an invalid value: %d", r.PublicEnd)
	case r.PublicStart > r.PublicEnd:
		return wire.Invalid("Start port can't be bigger than end port")
	case r.Protocol == "icmp" ||
		r.Protocol == "" ||
		!strings.Contains("tcp,udp", r.Protocol): //nolint:gocritic // CloudStack searches the list as a text
		return wire.Invalid("Protocol %s is not supported in zone %d", c.Str("protocol"), r.IP.Zone.ID)
	case r.PrivateStart > r.PrivateEnd:
		return wire.Invalid("Start port can't be bigger than end port")
	case r.PrivateEnd-r.PrivateStart != r.PublicEnd-r.PublicStart:
		return wire.Invalid("Source port and destination port ranges should be of equal sizes.")
	}
	return nil
}

// checkForwardTarget checks the VM and sets the address that the rule forwards to.
func checkForwardTarget(c *wire.Call, r *store.PFRule) error {
	switch {
	case r.VM == nil || r.VM.Removed:
		return wire.Invalid("Unable to create port forwarding rule on address %s, invalid virtual machine id "+
			"specified (%d).", r.IP.Text(), c.Refs["virtualmachineid"].ID)
	case r.VM.Gone():
		return wire.Invalid("Invalid user vm: %s", r.VM.Text())
	}

	var err error
	if r.GuestIP, err = guestAddress(r.VM, r.Network, c.Str("vmguestip")); err != nil {
		return err
	}

	if r.PublicStart != r.PublicEnd || r.PrivateStart != r.PrivateEnd {
		switch {
		case r.PublicStart != r.PrivateStart:
			return wire.Invalid("Private port start should be equal to public port start")
		case r.PublicEnd != r.PrivateEnd:
			return wire.Invalid("Private port end should be equal to public port end")
		}
	}

	return nil
}

// guestAddress returns the VM's address in the network: want if it is an address of the VM, or the primary address if
// want is empty.
func guestAddress(v *store.VM, n *store.Network, want string) (string, error) {
	card := v.NICIn(n)
	switch {
	case card == nil || card.IP == "":
		return "", wire.Invalid("Vm doesn't belong to network associated with ipAddress")
	case want == "" || want == card.IP:
		return card.IP, nil
	case !slices.ContainsFunc(card.Secondary, func(s *store.SecondaryIP) bool { return s.IP == want }):
		return "", wire.Invalid("IP Address is not in the VM nic's network ")
	}
	return want, nil
}

// openFirewall returns the firewall rule that allows every source address to reach the forwarded ports. If one with
// these ports exists, it returns nil, so the existing rule stays independent of the port forwarding rule.
func openFirewall(r *store.PFRule) (*store.FWRule, error) {
	for _, o := range r.IP.FWRules {
		if o.State != store.RuleRevoke &&
			o.Protocol == r.Protocol &&
			o.StartPort != nil &&
			*o.StartPort == r.PublicStart &&
			*o.EndPort == r.PublicEnd {
			return nil, nil
		}
	}

	fw := &store.FWRule{
		Entity:    store.Entity{Created: r.Created},
		IP:        r.IP,
		Network:   r.Network,
		Protocol:  r.Protocol,
		StartPort: wire.Ptr(r.PublicStart),
		EndPort:   wire.Ptr(r.PublicEnd),
		CIDRs:     []string{"0.0.0.0/0"},
		State:     store.RuleAdd,
		Account:   r.Account,
	}

	return fw, wire.ConflictWith(fw, r.IP.FWRules)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// internalLBView is the object loadbalancer of an internal load balancer; its ports are numbers.
type internalLBView struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Description   string `json:"description,omitempty"`
	Algorithm     string `json:"algorithm"`
	NetworkID     string `json:"networkid"`
	SourceIP      string `json:"sourceipaddress"`
	SourceNetwork string `json:"sourceipaddressnetworkid"`
	wire.OwnerView
	Rules      []internalRuleView     `json:"loadbalancerrule"`
	Instances  []internalInstanceView `json:"loadbalancerinstance"`
	Tags       []wire.TagView         `json:"tags"`
	ForDisplay *bool                  `json:"fordisplay,omitempty"`
}

type internalRuleView struct {
	SourcePort   int    `json:"sourceport"`
	InstancePort int    `json:"instanceport"`
	State        string `json:"state"`
}

// internalInstanceView is a member. Name is the hypervisor's name of the VM.
type internalInstanceView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	IP   string `json:"ipaddress"`
}

func viewInternalLB(c *wire.Call, r *store.LBRule) internalLBView {
	v := internalLBView{
		ID:            r.UUID,
		Name:          r.Name,
		Description:   r.Description,
		Algorithm:     r.Algorithm,
		NetworkID:     r.Network.UUID,
		SourceIP:      r.IP.Addr.String(),
		SourceNetwork: r.Network.UUID,
		OwnerView:     wire.ViewOwner(r.Owner()),
		Rules:         []internalRuleView{{r.PublicPort, r.PrivatePort, r.State}},
		Instances:     []internalInstanceView{},
		Tags:          wire.ViewTags(&r.Tagged),
	}

	seen := map[*store.VM]bool{}
	for _, m := range r.Members {
		if n := m.VM.NICIn(r.Network); n != nil && !seen[m.VM] { // one entry per VM, with the address of its NIC
			seen[m.VM] = true
			v.Instances = append(v.Instances, internalInstanceView{m.VM.UUID, m.VM.InstanceName(), n.IP})
		}
	}

	if c.Caller.RootAdmin() {
		v.ForDisplay = wire.Ptr(!r.Hidden)
	}

	return v
}

// checkScheme checks for Internal, the only scheme of these commands.
func checkScheme(s string) error {
	if !strings.EqualFold(s, "Internal") {
		return wire.Invalid("Invalid value for scheme. Supported value is internal")
	}
	return nil
}

func createLoadBalancer(c *wire.Call) (*wire.JobSpec, error) {
	n, source := wire.Arg[*store.Network](c, "networkid"), wire.Arg[*store.Network](c, "sourceipaddressnetworkid")
	switch {
	case n == nil || n.Removed:
		return nil, wire.Invalid("Invalid network ID specified")
	case n.Owner == nil || !c.Access(n.Owner): // a domain's network belongs to the system account
		return nil, wire.Denied()
	}

	if err := checkScheme(c.Str("scheme")); err != nil {
		return nil, err
	}

	if source == nil || source.Removed {
		return nil, wire.Invalid("Can't find source ip network by id")
	}

	r := &store.LBRule{
		Entity:      store.Entity{Created: c.Now},
		Name:        c.Str("name"),
		Description: c.Str("description"),
		Algorithm:   c.Str("algorithm"),
		Network:     n,
		PublicPort:  c.Integer("sourceport"),
		PrivatePort: c.Integer("instanceport"),
		State:       store.RuleAdd,
		Account:     n.Owner,
		Internal:    true,
		Hidden:      c.Has("fordisplay") && !c.Boolean("fordisplay"),
	}

	if err := checkInternalLB(r); err != nil {
		return nil, err
	}

	ip, err := internalSource(c, source)
	if err != nil {
		return nil, err
	}

	if r.PublicPort == store.StatsPort && internalLBRuns(c.St, n) {
		return nil, wire.Invalid("LB service provider cannot support this rule")
	}

	for _, o := range ip.LBRules {
		if o.State == store.RuleRevoke {
			continue
		}
		if o.Network != n {
			return nil, wire.Errf(wire.CodeConflict, wire.CSGeneric,
				"New rule is for a different network than what's specified in rule %s", o.UUID)
		}
		if o.PublicPort == r.PublicPort {
			return nil, wire.Errf(wire.CodeConflict, wire.CSGeneric,
				"The range specified, %d-%d, conflicts with rule %s which has %d-%d",
				r.PublicPort, r.PublicPort, o.ConflictText(), o.PublicPort, o.PublicPort)
		}
	}

	if !slices.Contains(source.LBSources, ip) {
		source.LBSources = append(source.LBSources, ip)
	}

	r.IP = ip
	c.St.AddLBRule(r)
	return &wire.JobSpec{
		ObjectID: r.UUID, InstanceType: "LoadBalancerRule",
		Run: func(time.Time) (any, error) {
			if r.Removed {
				return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Failed to create load balancer")
			}
			return wire.Object("loadbalancer", viewInternalLB(c, r)), nil
		},
		Undo: func() { c.St.DeleteLBRule(r) },
	}, nil
}

// checkInternalLB validates the rule in CloudStack's order.
func checkInternalLB(r *store.LBRule) error {
	n := r.Network
	port := func(p int) bool { return p >= 0 && p <= 65535 }
	switch {
	case !n.Provides("Lb"):
		return wire.Invalid("LB service is not supported in specified network id")
	case !n.Offering.ProvidedBy("Lb", "InternalLbVm"):
		return wire.Invalid("Scheme Internal is not supported by the network offering %s", n.Offering.Text())
	case !port(r.PrivatePort):
		return wire.Invalid("Invalid value for instance port: %d", r.PrivatePort)
	case !port(r.PublicPort):
		return wire.Invalid("Invalid value for source port: %d", r.PublicPort)
	case !slices.Contains(store.LBAlgorithms, strings.ToLower(r.Algorithm)):
		return wire.Invalid("Invalid algorithm: %s", r.Algorithm)
	}
	return nil
}

// internalSource returns the address that a new load balancer listens on: an existing load balancer's address if the
// call names it, otherwise a free address of the network.
func internalSource(c *wire.Call, n *store.Network) (*store.PublicIP, error) {
	full := wire.Errf(wire.CodeCapacity, wire.CSGeneric, "Unable to acquire IP address for network %s", n.Text())
	text, given := c.Args["sourceipaddress"]
	if !n.CIDR.IsValid() {
		return nil, wire.Invalid("Can't create the application load balancer rule for the network having NULL cidr")
	}

	if !given {
		if text = c.St.FreeGuestIP(n); text == "" {
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
		return nil, wire.ParamError(`For input string: "%s"`, part)
	}

	if i := slices.IndexFunc(n.LBSources, func(ip *store.PublicIP) bool { return ip.Addr == addr }); i >= 0 {
		return n.LBSources[i], nil
	}

	switch {
	case !n.CIDR.Contains(addr):
		return nil, wire.Invalid("The requested IP is not in the network's CIDR subnet.")
	case given && (text == n.Gateway || n.GuestIPTaken(text)):
		return nil, full
	}

	return &store.PublicIP{
		Entity:  store.Entity{Created: c.Now},
		Addr:    addr,
		Zone:    n.Zone,
		State:   store.IPAllocated,
		Owner:   n.Owner,
		Network: n,
		VPC:     n.VPC,
	}, nil
}

// internalLBRuns reports whether the network has the VM of an internal load balancer. CloudStack starts it with the
// first member.
func internalLBRuns(st *store.State, n *store.Network) bool {
	_, ok := st.LBRules.Find(func(r *store.LBRule) bool {
		return r.Internal && r.Network == n && r.State == store.RuleActive
	})
	return ok
}

func updateLoadBalancer(c *wire.Call) (*wire.JobSpec, error) {
	r := wire.Arg[*store.LBRule](c, "id")
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		switch {
		case r == nil || r.Removed || !r.Internal:
			return nil, wire.Invalid("Unable to find load balancer %d", c.Refs["id"].ID)
		case !c.Access(r.Owner()):
			return nil, wire.Denied()
		}
		wire.SetDisplay(c, c.St.LBRules, r, &r.Hidden)
		return wire.Object("loadbalancer", viewInternalLB(c, r)), nil
	}}, nil
}

func listLoadBalancers(c *wire.Call) (any, error) {
	if s, ok := c.Args["scheme"]; ok {
		if err := checkScheme(s); err != nil {
			return nil, err
		}
	}

	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}

	tags := c.TagFilter()
	return wire.List(c, "loadbalancer", c.St.LBRules.Rows, func(r *store.LBRule) bool {
		return r.Internal &&
			in(r.Owner()) &&
			wire.Matches(c, "networkid", r.Network) &&
			wire.Matches(c, "sourceipaddressnetworkid", r.IP.Network) &&
			(!c.Has("sourceipaddress") || c.Str("sourceipaddress") == r.IP.Addr.String()) &&
			c.Is("name", r.Name) &&
			c.Like("keyword", r.Name, r.Description) &&
			r.HasTags(tags) &&
			c.Visible("fordisplay", r.Hidden)
	}, func(r *store.LBRule) internalLBView { return viewInternalLB(c, r) })
}

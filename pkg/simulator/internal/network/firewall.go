// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// fwView is the API object firewallrule. Its ports are numbers, unlike those of other rules.
type fwView struct {
	ID          string         `json:"id"`
	Protocol    string         `json:"protocol"`
	StartPort   *int           `json:"startport,omitempty"`
	EndPort     *int           `json:"endport,omitempty"`
	IPAddressID string         `json:"ipaddressid"`
	NetworkID   string         `json:"networkid"`
	IPAddress   string         `json:"ipaddress"`
	State       string         `json:"state"`
	CIDRList    string         `json:"cidrlist"`
	ICMPType    *int           `json:"icmptype,omitempty"`
	ICMPCode    *int           `json:"icmpcode,omitempty"`
	Tags        []wire.TagView `json:"tags"`
	ForDisplay  *bool          `json:"fordisplay,omitempty"`
	DestCIDRs   string         `json:"destcidrlist"`
	TrafficType string         `json:"traffictype"`
}

func viewFW(c *wire.Call, r *store.FWRule) fwView {
	v := fwView{
		ID:          r.UUID,
		Protocol:    r.Protocol,
		StartPort:   r.StartPort,
		EndPort:     r.EndPort,
		NetworkID:   r.Network.UUID,
		State:       r.State,
		CIDRList:    strings.Join(r.CIDRs, ","),
		ICMPType:    r.IcmpType,
		ICMPCode:    r.IcmpCode,
		Tags:        wire.ViewTags(&r.Tagged),
		IPAddressID: r.IP.UUID,
		IPAddress:   r.IP.Addr.String(),
		TrafficType: "Ingress",
	}

	if c.Caller.RootAdmin() {
		v.ForDisplay = wire.Ptr(!r.Hidden)
	}

	return v
}

func listFirewallRules(c *wire.Call) (any, error) {
	if ip := wire.Arg[*store.PublicIP](c, "ipaddressid"); ip != nil {
		if ip.State != store.IPAllocated || ip.Owner == nil {
			return nil, wire.Invalid("Ip address id=%d not ready for firewall rules yet", ip.ID)
		}
		if !c.Access(ip.Owner) {
			return nil, wire.Denied()
		}
	}

	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}

	return wire.List(c, "firewallrule", wire.Newest(c.St.FWRules.Rows), func(r *store.FWRule) bool {
		return in(r.Account) &&
			wire.Matches(c, "ipaddressid", r.IP) &&
			wire.Matches(c, "networkid", r.Network) &&
			r.HasTags(c.TagFilter()) &&
			c.Visible("fordisplay", r.Hidden)
	}, func(r *store.FWRule) fwView { return viewFW(c, r) })
}

func createFirewallRule(c *wire.Call) (*wire.JobSpec, error) {
	ip := wire.Arg[*store.PublicIP](c, "ipaddressid")
	if ip == nil {
		return nil, c.BadRef("ipaddressid", c.Str("ipaddressid"))
	}

	r := &store.FWRule{
		Entity:    store.Entity{Created: c.Now},
		IP:        ip,
		Protocol:  strings.ToLower(strings.TrimSpace(c.Str("protocol"))),
		StartPort: c.OptInt("startport"),
		EndPort:   c.OptInt("endport"),
		IcmpType:  c.OptInt("icmptype"),
		IcmpCode:  c.OptInt("icmpcode"),
		CIDRs:     c.List("cidrlist"),
		State:     store.RuleAdd,
		Account:   ip.Owner,
		Network:   ip.Network,
		Hidden:    c.Has("fordisplay") && !c.Boolean("fordisplay"),
	}

	if err := checkFWRule(c, r); err != nil {
		return nil, err
	}

	c.St.AddFWRule(r)
	return &wire.JobSpec{
		ObjectID: r.UUID, InstanceType: "FirewallRule", InstanceID: r.UUID,
		Run: func(time.Time) (any, error) {
			if r.Removed {
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to create firewall rule")
			}
			r.State = store.RuleActive
			return wire.Object("firewallrule", viewFW(c, r)), nil
		},
		Undo: func() { c.St.DeleteFWRule(r) }, Refused: "Failed to create firewall rule",
	}, nil
}

// applying reports whether the job of another new rule of the address still runs. That job locks the address, so the
// create phase of the next rule waits 5 s (seen: 5,026 and 5,040 ms).
func applying(c *wire.Call) bool {
	ip := wire.Arg[*store.PublicIP](c, "ipaddressid")
	return ip != nil && slices.ContainsFunc(c.St.Due, func(j *store.Job) bool {
		return j.Command == c.API.Name &&
			slices.ContainsFunc(ip.FWRules, func(r *store.FWRule) bool { return r.UUID == j.InstanceID })
	})
}

// checkFWRule runs the checks of the create phase and sets defaults of the rule.
func checkFWRule(c *wire.Call, r *store.FWRule) error {
	ip := r.IP
	for _, s := range r.CIDRs {
		if !wire.ValidCIDR(s) || !strings.Contains(s, "/") {
			return wire.ParamError("Source CIDRs formatting error %s", s)
		}
	}

	if len(r.CIDRs) == 0 {
		r.CIDRs = []string{"0.0.0.0/0"}
	}

	if ip.Owner != nil && !c.Access(ip.Owner) {
		return wire.Denied()
	}

	if r.EndPort == nil {
		r.EndPort = r.StartPort
	}

	if ip.Network == nil || ip.State != store.IPAllocated {
		return wire.Invalid("Unable to create firewall rule for the ipaddress id=%d as ip is not associated with any "+
			"network and no networkId is passed in", ip.ID)
	}

	if !ip.Network.Provides("Firewall") {
		if ip.HasRules() || ip.StaticVM != nil {
			return wire.Invalid("There is no new provider for IP %s of service Firewall!", ip.Addr)
		}
		return c.Internal(4390, "Service Firewall is not supported in the network %s", ip.Network.Text())
	}

	if err := checkPorts(r, ip.Zone); err != nil {
		return err
	}

	return wire.ConflictWith(r, ip.FWRules)
}

func checkPorts(r *store.FWRule, z *store.Zone) error {
	if err := checkPortRange(r); err != nil {
		return err
	}
	if r.Protocol != "tcp" && r.Protocol != "udp" && r.Protocol != "icmp" {
		return wire.Invalid("Protocol %s is not supported in zone %d", r.Protocol, z.ID)
	}
	return checkICMP(r)
}

func checkPortRange(r *store.FWRule) error {
	switch {
	case r.StartPort != nil && !validPort(*r.StartPort):
		return wire.Invalid("publicPort is an invalid value: %d", *r.StartPort)
	case r.EndPort != nil && !validPort(*r.EndPort):
		return wire.Invalid("Public port range is an invalid value: %d", *r.EndPort)
	case r.StartPort != nil && r.EndPort != nil && *r.StartPort > *r.EndPort:
		return wire.Invalid("Start port can't be bigger than end port")
	}
	return nil
}

// checkICMP refuses ports with ICMP, and ICMP types with other protocols. An ICMP rule without type and code matches
// all ICMP packets.
func checkICMP(r *store.FWRule) error {
	switch {
	case r.Protocol != "icmp" && (r.IcmpType != nil || r.IcmpCode != nil):
		return wire.Invalid("Can specify icmpCode and icmpType for ICMP protocol only")
	case r.Protocol == "icmp" && (r.StartPort != nil || r.EndPort != nil):
		return wire.Invalid("Can't specify start/end port when protocol is ICMP")
	case r.Protocol != "icmp":
		return nil
	}
	for _, p := range []**int{&r.IcmpType, &r.IcmpCode} {
		if *p == nil {
			*p = wire.Ptr(-1)
		}
	}
	return nil
}

func deleteFirewallRule(c *wire.Call) (*wire.JobSpec, error) {
	if err := ruleTarget(c, c.Refs["id"].Obj); err != nil {
		return nil, err
	}

	switch r := c.Refs["id"].Obj.(type) {
	case *store.FWRule:
		if !c.Access(r.Account) {
			return &wire.JobSpec{Run: func(time.Time) (any, error) { return nil, wire.Denied() }}, nil
		}
		r.State = store.RuleRevoke // while the router applies it, and permanently if the router refuses
		return &wire.JobSpec{Refused: "Failed to delete firewall rule", Run: func(time.Time) (any, error) {
			c.St.DeleteFWRule(r)
			return wire.Success{Success: true}, nil
		}}, nil
	case *store.LBRule:
		return wrongPurpose(r.ID), nil
	case *store.PFRule:
		return wrongPurpose(r.ID), nil
	}

	return nil, c.BadRef("id", c.Str("id"))
}

// wrongPurpose returns a job that fails because the id refers to another kind of rule.
func wrongPurpose(id int64) *wire.JobSpec {
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		return nil, wire.Invalid("Unable to find %d having purpose Firewall", id)
	}}
}

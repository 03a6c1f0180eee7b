// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
)

// Protocols and algorithms of load balancer rules that virtual routers support.
var (
	LBProtocols  = []string{"tcp", "udp", "tcp-proxy", catalogue.ProtocolSSL} // the last one since 4.22
	LBAlgorithms = []string{"roundrobin", "leastconn", "source"}
)

// StatsPort is the port on which HAProxy on the virtual router serves its statistics.
const StatsPort = 8081

// MaxRanges is the maximum number of source ranges of a rule on a virtual router. HAProxy reads at most 64 words of a
// line, and the ranges of a rule are on one line.
const MaxRanges = 60

// TooLong reports whether HAProxy cannot read the line of the rule's source ranges.
func (r *LBRule) TooLong() bool {
	return len(strings.FieldsFunc(r.CIDRs, func(c rune) bool { return c == ' ' || c == ',' })) > MaxRanges
}

// RouterStopped returns a rule that HAProxy cannot read, or nil. The router of a network or VPC has one configuration
// file for all rules with members. If it contains such a rule, the router refuses every later change of any rule.
func (st *State) RouterStopped(n *Network) *LBRule {
	r, _ := st.LBRules.Find(func(r *LBRule) bool {
		return r.TooLong() &&
			!r.Internal &&
			len(r.Members) > 0 &&
			r.Network.sharesRouter(n)
	})
	return r
}

// sharesRouter reports whether two networks have the same virtual router.
func (n *Network) sharesRouter(o *Network) bool { return n == o || n.VPC != nil && n.VPC == o.VPC }

// Lose makes the router lose a rule, or all present and future rules of a network, although lists show them.
func (st *State) Lose(id string) {
	if r, ok := st.LBRules.Get(id); ok {
		st.lost[id] = r.Network
	}
	if r, ok := st.FWRules.Get(id); ok {
		st.lost[id] = r.Network
	}
	if r, ok := st.PFRules.Get(id); ok {
		st.lost[id] = r.Network
	}
	if n, ok := st.Networks.Get(id); ok {
		st.lost[id] = n
	}
}

// Lost reports whether the router has lost a rule of a network.
func (st *State) Lost(id string, n *Network) bool {
	return st.lost[id] != nil || n != nil && st.lost[n.UUID] != nil
}

// CleanRouter replaces the router of a network by a new one, which has all rules.
func (st *State) CleanRouter(n *Network) {
	maps.DeleteFunc(st.lost, func(_ string, of *Network) bool { return of.sharesRouter(n) })
}

// TellRouter sends all rules of a network or VPC to its router, with their current protocols.
func (st *State) TellRouter(n *Network) {
	for _, r := range st.LBRules.Rows {
		if r.Network != nil && r.Network.sharesRouter(n) {
			r.RouterProtocol = ""
		}
	}
}

// ReleaseRefused sets the states after a release that fails on the router: the address stays in state Releasing and
// its rules in state Deleting until the address is released again.
func (ip *PublicIP) ReleaseRefused() {
	ip.State = IPReleasing
	for _, r := range ip.LBRules {
		r.State = RuleRevoke
	}
	for _, r := range ip.FWRules {
		r.State = RuleRevoke
	}
	for _, r := range ip.PFRules {
		r.State = RuleRevoke
	}
}

// Owner returns the owner of the rule's address.
func (r *LBRule) Owner() *Account { return r.Account }

// ConflictText formats a rule like CloudStack's exceptions.
func (r *LBRule) ConflictText() string {
	return fmt.Sprintf(`FirewallRule {"id":%d,"networkId":%d,"purpose":"LoadBalancing","state":"%s","uuid":"%s"}`, r.ID,
		r.Network.ID, r.State, r.UUID)
}

// Text formats the rule like CloudStack's error texts.
func (r *LBRule) Text() string {
	return fmt.Sprintf(`LoadBalancer {"name":"%s","id":%d,"purpose":"LoadBalancing","state":"%s","uuid":"%s"}`, r.Name,
		r.ID, r.State, r.UUID)
}

// RemoveLBRule deletes a rule and its related firewall rule. A VPC address that has no rules left is unbound from its
// tier.
func (st *State) RemoveLBRule(r *LBRule) {
	if r.Removed {
		return
	}
	if r.Related != nil {
		st.DeleteFWRule(r.Related)
	}
	st.DeleteLBRule(r)
	st.unbind(r.IP)
}

// PFRule is a port forwarding rule from a port range of a public address to a port range of a VM.
type PFRule struct {
	Entity
	Tagged
	IP                       *PublicIP
	Network                  *Network
	Protocol                 string
	PublicStart, PublicEnd   int
	PrivateStart, PrivateEnd int
	VM                       *VM
	GuestIP                  string
	CIDRs                    []string
	State                    string
	Related                  *FWRule // created by openfirewall
	Account                  *Account
	Hidden                   bool
}

// AddPFRule stores a rule and adds it to its address.
func (st *State) AddPFRule(r *PFRule) {
	st.PFRules.AddWithID(r, st.RuleID())
	r.IP.PFRules = append(r.IP.PFRules, r)
}

// RemovePFRule deletes a rule and its related firewall rule. A VPC address that has no rules left is unbound from its
// tier.
func (st *State) RemovePFRule(r *PFRule) {
	if r.Removed {
		return
	}
	if r.Related != nil {
		st.DeleteFWRule(r.Related)
	}
	st.PFRules.Delete(r)
	r.IP.PFRules = slices.DeleteFunc(r.IP.PFRules, func(o *PFRule) bool { return o == r })
	st.unbind(r.IP)
}

// unbind removes a VPC address without rules from its tier.
func (st *State) unbind(ip *PublicIP) {
	if ip.VPC != nil && !ip.HasRules() && ip.StaticVM == nil {
		ip.Network = nil
	}
}

// ConflictText formats a rule like CloudStack's exceptions.
func (r *PFRule) ConflictText() string {
	return fmt.Sprintf(`FirewallRule {"id":%d,"networkId":%d,"purpose":"PortForwarding","state":"%s","uuid":"%s"}`,
		r.ID, r.Network.ID, r.State, r.UUID)
}

// clearRules removes all rules of an address, including static NAT.
func (st *State) clearRules(ip *PublicIP) {
	for _, r := range slices.Clone(ip.LBRules) {
		st.DeleteLBRule(r)
	}
	for _, r := range slices.Clone(ip.FWRules) {
		st.DeleteFWRule(r)
	}
	for _, r := range slices.Clone(ip.PFRules) {
		st.RemovePFRule(r)
	}
	st.EndStaticNAT(ip)
}

// leaveForwards removes the port forwarding rules and static NAT of a VM.
func (st *State) leaveForwards(v *VM) {
	for _, r := range slices.Clone(st.PFRules.Rows) {
		if r.VM == v {
			st.RemovePFRule(r)
		}
	}
	for _, ip := range st.IPs.Rows {
		if ip.StaticVM == v {
			st.EndStaticNAT(ip)
		}
	}
}

// leaveNetwork removes a NIC from all rules.
func (st *State) leaveNetwork(n *NIC) {
	for _, r := range st.LBRules.Rows {
		if r.Network == n.Network {
			r.Members = slices.DeleteFunc(r.Members, func(m *LBMember) bool { return m.VM == n.VM })
		}
	}
	for _, r := range slices.Clone(st.PFRules.Rows) {
		if r.VM == n.VM && r.Network == n.Network {
			st.RemovePFRule(r)
		}
	}
	if n.StaticNAT != nil {
		st.EndStaticNAT(n.StaticNAT)
	}
}

// StickyPolicy is a stickiness policy of a load balancer rule, which keeps a client on one VM.
type StickyPolicy struct {
	Entity
	Rule                      *LBRule
	Name, Description, Method string
	Params                    map[string]string
	Hidden                    bool
	Pending                   bool // its job has not configured the router yet
}

// AddPolicy stores a policy. A rule may have two policies until the job of the newer one ends.
func (st *State) AddPolicy(p *StickyPolicy) {
	st.Policies.Add(p)
	p.Rule.Policies = append(p.Rule.Policies, p)
}

// DeletePolicy deletes a policy permanently.
func (st *State) DeletePolicy(p *StickyPolicy) {
	if p.Removed {
		return
	}
	st.Policies.Delete(p)
	p.Rule.Policies = slices.DeleteFunc(p.Rule.Policies, func(o *StickyPolicy) bool { return o == p })
}

// SSLCert is an uploaded certificate.
type SSLCert struct {
	Entity
	Name, Certificate, Fingerprint string
	Owner                          *Account
	Pair                           *tls.Certificate
}

// RulesWith returns the rules to which a certificate is bound.
func (st *State) RulesWith(cert *SSLCert) []*LBRule {
	var out []*LBRule
	for _, r := range st.LBRules.Rows {
		if r.Cert == cert {
			out = append(out, r)
		}
	}
	return out
}

// LBCapability returns the value of a capability of the network's load balancer.
func (n *Network) LBCapability(name string) (string, bool) {
	for _, s := range n.Offering.NetworkServices() {
		if s.Name != "Lb" {
			continue
		}
		for _, k := range s.Capabilities {
			if k.Name == name {
				return k.Value, true
			}
		}
	}
	return "", false
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

// Desire says what should be in CloudStack, or why the Service cannot be served.
func Desire(f Facts) (Desired, *RefusalError) {
	if r := checkPorts(f); r != nil {
		return Desired{}, r
	}
	if r := checkMode(f); r != nil {
		return Desired{}, r
	}
	if r := checkTimeouts(f); r != nil {
		return Desired{}, r
	}
	if f.Network != nil {
		if r := checkNetwork(f); r != nil {
			return Desired{}, r
		}
	}
	d := Desired{
		Address:     f.Spec.Address,
		KeepAddress: f.Spec.KeepIP,
		Internal:    f.Spec.Internal,
		Ranges:      slices.Clone(f.Spec.SourceRanges),
		Firewall:    !f.Spec.Internal,
	}
	if n := f.Network; n != nil {
		d.NetworkID, d.VPCID = n.ID, n.VPCID
		d.Firewall = n.Firewall && n.VPCID == "" && !f.Spec.Internal
		d.CIDRsDecide = !d.Firewall && !f.Spec.Internal
		if n.ownACL() && !f.LeaveACLs {
			d.ACLID = n.ACLID
		}
	}
	d.Rules = rules(f)
	if d.Forwards = forwardPorts(f); len(d.Forwards) > 0 {
		d.UID = f.Service.UID
		if d.VPCID != "" {
			d.Buckets = buckets(cmp.Or(f.Spec.DirectSpread, annotation.DefaultSpread))
		}
	}
	// Without a firewall that stays closed, nobody is let in by having nobody to be led to.
	if f.Spec.DenyAll() && !d.Firewall {
		return d, nil
	}
	d.Members = memberNames(f.Members, d.NetworkID)
	if len(d.Forwards) > 0 {
		d.Serving = serving(f, d.NetworkID, d.Members)
	}
	return d, nil
}

// serving are the members to which ports may be forwarded. Where none is fit, all of them are: then ports stay where they
// are as long as that is a member, which may serve again any moment.
func serving(f Facts, networkID string, members []string) []string {
	fit := slices.DeleteFunc(slices.Clone(f.Members), func(m Member) bool { _, unfit := f.Unfit[m.Node]; return unfit })
	if names := memberNames(fit, networkID); len(names) > 0 {
		return names
	}
	return members
}

// buckets is the spread made a power of two, the next one up.
func buckets(spread int) int {
	n := 1
	for n < spread {
		n *= 2
	}
	return n
}

func rules(f Facts) []Rule {
	// With nobody let in there is nothing to list: an empty list on a rule would let everybody in.
	var cidrs []string
	if !f.Spec.DenyAll() && !f.Spec.Internal {
		cidrs = f.Spec.SourceRanges
	}
	out := make([]Rule, 0, len(f.Service.Ports))
	for _, p := range f.Service.Ports {
		if f.forwarded(p) {
			continue
		}
		r := Rule{
			Protocol:    ruleProtocol(f.Spec, p),
			Algorithm:   f.Spec.Algorithm,
			PublicPort:  p.Port,
			PrivatePort: p.NodePort,
			CIDRs:       slices.Clone(cidrs),
			Stickiness:  f.Spec.Stickiness,
			IdleTimeout: f.Spec.IdleTimeout.Milliseconds(),
		}
		r.Name = RuleName(f.Service.LB, r.Protocol, p.Port)
		if r.Protocol == ProtocolSSL {
			r.Certificate = f.Spec.SSLCertificate
		}
		if r.http() {
			r.KeepAlive = f.Spec.KeepAlive
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Rule) int { return cmp.Compare(a.PublicPort, b.PublicPort) })
	return out
}

func ruleProtocol(spec annotation.Spec, p Port) string {
	switch {
	case p.Protocol == "UDP":
		return ProtocolUDP
	case spec.ProxyProtocol.Has(p.Port):
		return ProtocolTCPProxy
	case spec.SSLPorts.Has(p.Port):
		return ProtocolSSL
	}
	return ProtocolTCP
}

// memberNames are the members that have a NIC in a network, at their addresses there.
func memberNames(members []Member, networkID string) []string {
	var names []string
	for i := range members {
		m := &members[i]
		if nic := m.nicIn(networkID); nic != nil {
			if names == nil {
				names = make([]string, 0, len(members))
			}
			names = append(names, MemberName(m.VMID, nic.secondary(m.Addresses)))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Outside are the nodes without a NIC in a network.
func Outside(members []Member, networkID string) []string {
	var nodes []string
	for i := range members {
		if members[i].nicIn(networkID) == nil {
			nodes = append(nodes, members[i].Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func (m *Member) nicIn(networkID string) *NIC {
	if at := slices.IndexFunc(m.NICs, func(n NIC) bool { return n.NetworkID == networkID }); at >= 0 {
		return &m.NICs[at]
	}
	return nil
}

// secondary is the secondary address at which a node wants to be reached: one that it gives as its own, when it
// does not give the NIC's primary one.
func (n NIC) secondary(own []string) string {
	if slices.Contains(own, n.IP) {
		return ""
	}
	for _, a := range own {
		if slices.Contains(n.Secondary, a) {
			return a
		}
	}
	return ""
}

// PrimaryAddresses returns what PrimaryAddress does, of all members by VM.
func PrimaryAddresses(members []Member, networkID string) map[string]string {
	out := make(map[string]string, len(members))
	for i := range members {
		m := &members[i]
		if _, known := out[m.VMID]; known {
			continue
		}
		if ip, ok := PrimaryAddress(members[i:i+1], m.VMID, networkID); ok {
			out[m.VMID] = ip
		}
	}
	return out
}

// PrimaryAddress returns the address of a member's NIC in a network.
func PrimaryAddress(members []Member, vm, networkID string) (ip string, ok bool) {
	for i := range members {
		if members[i].VMID != vm {
			continue
		}
		for _, nic := range members[i].NICs {
			if nic.NetworkID == networkID && nic.IP != "" {
				return nic.IP, true
			}
		}
	}
	return "", false
}

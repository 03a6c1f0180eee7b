// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// Objects are the networks, VMs, addresses and rules of the simulated CloudStack, for display. They contain no
// secrets.
type Objects struct {
	Version   string
	Networks  []NetworkInfo
	VMs       []VMInfo
	Addresses []AddressInfo
	Rules     []RuleInfo
	Forwards  []ForwardInfo
}

// NetworkInfo is a guest network or a tier of a VPC.
type NetworkInfo struct {
	ID, Name, Type, State, CIDR string
	Owner                       string // account or project; empty if it belongs to a domain
	Offering                    string
	VPC, ACL                    string // names; empty unless it is a tier
}

// VMInfo is a virtual machine.
type VMInfo struct {
	ID, Name, State, Owner, Offering, Template, Zone, Host string
	NICs                                                   []NICInfo // the default NIC first
	Tags                                                   []string  // KEY=VALUE
}

// NICInfo is a network interface of a VM.
type NICInfo struct {
	Network string // ID
	Address string // empty in a network without addresses
}

// AddressInfo is an acquired public address.
type AddressInfo struct {
	ID, Address, State, Owner string
	Network                   string // ID; empty for an address of a VPC that no tier uses
	VPC                       string // name
	SourceNAT                 bool
	StaticNAT                 string   // ID of the VM
	Open                      []string // what the firewall allows, such as "tcp 80-443 from 0.0.0.0/0"
	Tags                      []string // KEY=VALUE
}

// RuleInfo is a load balancer rule.
type RuleInfo struct {
	ID, Name, State, Owner string
	Address                string // ID; empty for an internal load balancer
	Internal               string // the address of an internal load balancer
	Network                string // ID; empty if not known
	Port, PrivatePort      int
	Protocol, Algorithm    string
	Sources                string // the rule's own CIDR list; empty: all
	Members                []string
	Tags                   []string // KEY=VALUE
}

// ForwardInfo is a port forwarding rule.
type ForwardInfo struct {
	ID, State, Owner     string
	Address, VM          string // IDs
	Protocol             string
	PublicPorts, VMPorts string
	Target               string // the VM's address
	Sources              []string
}

// Objects runs the jobs that are due and returns the objects that exist.
func (s *Simulator) Objects() Objects {
	s.runDue()
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := Objects{Version: s.st.Version}
	for _, n := range s.st.Networks.Rows {
		if !n.Removed {
			out.Networks = append(out.Networks, networkInfo(n))
		}
	}

	for _, vm := range s.st.VMs.Rows {
		if !vm.Removed {
			out.VMs = append(out.VMs, vmInfo(vm))
		}
	}

	for _, ip := range s.st.IPs.Rows {
		if ip.Removed || ip.System || ip.Owner == nil || ip.State == store.IPFree {
			continue
		}
		out.Addresses = append(out.Addresses, addressInfo(ip))
		for _, r := range ip.PFRules {
			out.Forwards = append(out.Forwards, forwardInfo(r))
		}
	}

	for _, r := range s.st.LBRules.Rows {
		if !r.Removed {
			out.Rules = append(out.Rules, ruleInfo(r))
		}
	}

	return out
}

// ownerName returns the name of an account, or of the project whose account it is.
func ownerName(a *store.Account) string {
	switch {
	case a == nil:
		return ""
	case a.Project != nil:
		return a.Project.Name
	}
	return a.Name
}

func tagTexts(tags []store.Tag) []string {
	out := make([]string, 0, len(tags))
	for _, t := range tags {
		out = append(out, t.Key+"="+t.Value)
	}
	return out
}

func networkInfo(n *store.Network) NetworkInfo {
	out := NetworkInfo{ID: n.UUID, Name: n.Name, Type: n.Typ, State: n.State, Owner: ownerName(n.Owner)}
	if n.CIDR.IsValid() {
		out.CIDR = n.CIDR.String()
	}
	if n.Offering != nil {
		out.Offering = n.Offering.Spec.Name
	}
	if n.VPC != nil {
		out.VPC = n.VPC.Name
	}
	if n.ACL != nil {
		out.ACL = n.ACL.Name
	}
	return out
}

func vmInfo(vm *store.VM) VMInfo {
	out := VMInfo{ID: vm.UUID, Name: vm.Name, State: vm.State, Owner: ownerName(vm.Owner), Tags: tagTexts(vm.Tags)}
	if vm.Offering != nil {
		out.Offering = vm.Offering.Name
	}

	if vm.Template != nil {
		out.Template = vm.Template.Name
	}

	if vm.Zone != nil {
		out.Zone = vm.Zone.Name
	}

	if vm.Host != nil {
		out.Host = vm.Host.Name
	}

	for _, n := range vm.NICs {
		nic := NICInfo{Network: n.Network.UUID, Address: n.IP}
		if n.IsDefault {
			out.NICs = append([]NICInfo{nic}, out.NICs...)
		} else {
			out.NICs = append(out.NICs, nic)
		}
	}

	return out
}

func addressInfo(ip *store.PublicIP) AddressInfo {
	out := AddressInfo{
		ID:        ip.UUID,
		Address:   ip.Addr.String(),
		State:     ip.State,
		Owner:     ownerName(ip.Owner),
		SourceNAT: ip.SourceNAT,
		Tags:      tagTexts(ip.Tags),
	}

	if ip.Network != nil {
		out.Network = ip.Network.UUID
	}

	if ip.VPC != nil {
		out.VPC = ip.VPC.Name
	}

	if ip.StaticVM != nil {
		out.StaticNAT = ip.StaticVM.UUID
	}

	for _, f := range ip.FWRules {
		text := f.Protocol
		if f.StartPort != nil && f.EndPort != nil {
			text += " " + portRange(*f.StartPort, *f.EndPort)
		}
		out.Open = append(out.Open, fmt.Sprintf("%s from %s", text, strings.Join(f.CIDRs, ",")))
	}

	return out
}

func ruleInfo(r *store.LBRule) RuleInfo {
	out := RuleInfo{
		ID:          r.UUID,
		Name:        r.Name,
		State:       r.State,
		Owner:       ownerName(r.Account),
		Port:        r.PublicPort,
		PrivatePort: r.PrivatePort,
		Protocol:    r.Protocol,
		Algorithm:   r.Algorithm,
		Sources:     r.CIDRs,
		Tags:        tagTexts(r.Tags),
	}

	if r.Internal {
		out.Internal = r.IP.Addr.String()
	} else {
		out.Address = r.IP.UUID
	}

	if r.Network != nil {
		out.Network = r.Network.UUID
	}

	for _, m := range r.Members {
		if !m.VM.Removed {
			out.Members = append(out.Members, m.VM.UUID)
		}
	}

	return out
}

func forwardInfo(r *store.PFRule) ForwardInfo {
	out := ForwardInfo{
		ID:          r.UUID,
		State:       r.State,
		Owner:       ownerName(r.Account),
		Address:     r.IP.UUID,
		Protocol:    r.Protocol,
		Target:      r.GuestIP,
		PublicPorts: portRange(r.PublicStart, r.PublicEnd),
		VMPorts:     portRange(r.PrivateStart, r.PrivateEnd),
		Sources:     r.CIDRs,
	}
	if r.VM != nil && !r.VM.Removed {
		out.VM = r.VM.UUID
	}
	return out
}

func portRange(first, last int) string {
	if first == last {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

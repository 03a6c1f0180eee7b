// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Annotations of a Node that override the two lists of AddressRules. Their values have the same syntax as the flags.
const (
	AnnotationInternalCIDRs = "csccm.io/node-internal-cidrs"
	AnnotationExternalCIDRs = "csccm.io/node-external-cidrs"
)

// AddressRules select which of a VM's addresses a Node gets, and as which type. The zero value selects all addresses.
type AddressRules struct {
	// Internal, if not empty, restricts InternalIP to NIC addresses in these networks, in the order of the list.
	Internal []netip.Prefix
	// External, if not empty, defines ExternalIP: exactly the NIC and static NAT addresses in these networks, in the
	// order of the list. NIC addresses in them are not InternalIP.
	External []netip.Prefix
}

// ParseCIDRs parses a comma-separated list of CIDRs; a bare IP address is a /32 or /128 network.
func ParseCIDRs(s string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if ip, err := netip.ParseAddr(part); err == nil && ip.Zone() == "" {
			ip = ip.Unmap()
			out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network: write for example 10.0.0.0/8,2001:db8::/32", part)
		}
		out = append(out, p.Masked())
	}

	return out, nil
}

// Of returns the rules for one Node: each list is replaced if the Node has its annotation. The error names the
// annotations that are ignored: invalid ones, and networks for InternalIP that contain none of the VM's addresses.
func (r AddressRules) Of(n *corev1.Node, vm *cloudstack.VirtualMachine) (AddressRules, error) {
	var errs []error
	parse := func(list *[]netip.Prefix, annotation string, choose bool) {
		text, ok := n.Annotations[annotation]
		if !ok {
			return
		}
		parsed, err := ParseCIDRs(text)
		own, all := ownAddresses(vm)
		if err == nil &&
			choose &&
			all &&
			len(parsed) > 0 &&
			!slices.ContainsFunc(own, func(ip netip.Addr) bool { return within(parsed, ip) }) {
			err = fmt.Errorf("VM %s has no address in %s", vm.Name, text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %w", annotation, err))
			return
		}
		*list = parsed
	}

	parse(&r.Internal, AnnotationInternalCIDRs, true)
	parse(&r.External, AnnotationExternalCIDRs, false)
	return r, errors.Join(errs...)
}

// ownAddresses returns the addresses of a VM's NICs. all is false if CloudStack may not know all of them, as in L2
// networks.
func ownAddresses(vm *cloudstack.VirtualMachine) (ips []netip.Addr, all bool) {
	all = len(vm.NICs) > 0
	for _, nic := range vm.NICs {
		has := parseIPs(append([]string{nic.IPv4, nic.IPv6}, nic.SecondaryIP...)...)
		ips, all = append(ips, has...), all && len(has) > 0
	}
	return ips, all
}

// addressesOf returns the VM's addresses as CloudStack reports them, those of the default NIC first:
//
//   - InternalIP: the IPv4 and IPv6 address of each NIC. The default NIC's address is internal even if it is a
//     public address of a shared network: the kubelet listens on it, and Kubernetes expects an InternalIP on
//     every Node. Secondary addresses are omitted because they move between VMs (keepalived, MetalLB), except the
//     one that the kubelet uses as its --node-ip.
//   - ExternalIP: static NAT addresses, and public addresses of additional NICs on shared networks, unless the
//     kubelet uses that address as its --node-ip.
//   - Hostname: the Node's name.
//
// Non-empty lists of AddressRules replace these defaults. When no internal address is left (no NIC yet, L2 networks
// only, no address in the configured networks), the Node keeps its current addresses and its kubelet's --node-ip: an
// answer with only a host name would remove them. If CloudStack knows all addresses of the VM, only those are kept.
func addressesOf(vm *cloudstack.VirtualMachine, n *corev1.Node, rules AddressRules) []corev1.NodeAddress {
	var list []corev1.NodeAddress
	add := func(t corev1.NodeAddressType, ips []netip.Addr) {
		for _, ip := range ips {
			if a := (corev1.NodeAddress{Type: t, Address: ip.String()}); !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}

	provided := providedIPs(n)
	var internal, external []netip.Addr
	nat := []string{vm.PublicIP}
	for i, nic := range vm.NICs {
		nat = append(nat, nic.PublicIP)
		for _, ip := range parseIPs(nic.IPv4, nic.IPv6) {
			switch {
			case len(rules.External) > 0 && within(rules.External, ip):
				external = append(external, ip)
			case len(rules.Internal) > 0 && !within(rules.Internal, ip):
			case len(rules.Internal) == 0 && len(rules.External) == 0 && i > 0 &&
				strings.EqualFold(nic.Type, "Shared") && public(ip) && !slices.Contains(provided, ip):
				external = append(external, ip)
			default:
				internal = append(internal, ip)
			}
		}
	}

	for _, nic := range vm.NICs {
		for _, ip := range parseIPs(nic.SecondaryIP...) {
			if slices.Contains(provided, ip) && (len(rules.Internal) == 0 || within(rules.Internal, ip)) {
				internal = append(internal, ip)
			}
		}
	}

	for _, ip := range parseIPs(nat...) {
		if len(rules.External) == 0 || within(rules.External, ip) {
			external = append(external, ip)
		}
	}

	add(corev1.NodeInternalIP, inOrder(rules.Internal, internal))
	add(corev1.NodeExternalIP, inOrder(rules.External, external))
	if own, all := ownAddresses(vm); len(internalIPs(list)) == 0 {
		appendExisting := func(t corev1.NodeAddressType, ips []netip.Addr) {
			add(t, slices.DeleteFunc(ips, func(ip netip.Addr) bool { return all && !slices.Contains(own, ip) }))
		}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				appendExisting(a.Type, parseIPs(a.Address))
			}
		}
		appendExisting(corev1.NodeInternalIP, provided)
	}

	if len(list) == 0 {
		return nil
	}

	return append(list, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.Name})
}

// UnlistedNodeIPs returns the kubelet's --node-ip addresses that are not in listed. The cloud-provider framework
// neither initialises such a Node nor updates its addresses, and reports that only in its log.
func UnlistedNodeIPs(n *corev1.Node, listed []corev1.NodeAddress) []string {
	var out []string
	for _, ip := range providedIPs(n) {
		if !slices.ContainsFunc(listed, func(a corev1.NodeAddress) bool { return a.Address == ip.String() }) {
			out = append(out, ip.String())
		}
	}
	return out
}

// providedIPs returns the kubelet's --node-ip addresses without unspecified ones such as 0.0.0.0. On dual stack the
// annotation holds two, separated by a comma.
func providedIPs(n *corev1.Node) []netip.Addr {
	provided := parseIPs(strings.Split(n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr], ",")...)
	return slices.DeleteFunc(provided, netip.Addr.IsUnspecified)
}

// parseIPs skips strings that are not IP addresses.
func parseIPs(in ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range in {
		if ip, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

func within(list []netip.Prefix, ip netip.Addr) bool { return rank(list, ip) >= 0 }

// rank returns the index of the first network that contains the address, or -1.
func rank(list []netip.Prefix, ip netip.Addr) int {
	return slices.IndexFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func inOrder(list []netip.Prefix, ips []netip.Addr) []netip.Addr {
	slices.SortStableFunc(ips, func(a, b netip.Addr) int { return rank(list, a) - rank(list, b) })
	return ips
}

// carrierGrade is the carrier-grade NAT range of RFC 6598, which netip.Addr.IsPrivate does not cover.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

func public(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !carrierGrade.Contains(ip)
}

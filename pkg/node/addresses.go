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

// Annotations of a Node that take the place of the two lists of AddressRules, in the same form.
const (
	AnnotationInternalCIDRs = "csccm.io/node-internal-cidrs"
	AnnotationExternalCIDRs = "csccm.io/node-external-cidrs"
)

// AddressRules say which of a VM's addresses a Node gets. The zero value takes them all.
type AddressRules struct {
	// Internal, if not empty, leaves only the addresses of NICs in these networks as InternalIP, in the
	// order of the list.
	Internal []netip.Prefix
	// External, if not empty, are the networks whose addresses are ExternalIP: those of NICs as well as
	// static NAT's, and no others.
	External []netip.Prefix
}

// ParseCIDRs reads networks separated by commas; a bare address is a network of one.
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
			return nil, fmt.Errorf("%q is no network: write for example 10.0.0.0/8,2001:db8::/32", part)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Of are the rules for one Node: these, but for the lists that the Node's annotations replace. The error
// names the annotations that cannot be read; the rules returned with it leave them out.
func (r AddressRules) Of(n *corev1.Node) (AddressRules, error) {
	if n == nil {
		return r, nil
	}
	var errs []error
	for _, a := range []struct {
		key  string
		list *[]netip.Prefix
	}{{AnnotationInternalCIDRs, &r.Internal}, {AnnotationExternalCIDRs, &r.External}} {
		text, ok := n.Annotations[a.key]
		if !ok {
			continue
		}
		list, err := ParseCIDRs(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %w", a.key, err))
			continue
		}
		*a.list = list
	}
	return r, errors.Join(errs...)
}

// addressesOf lists what CloudStack knows, the default NIC first:
//
//   - InternalIP: the IPv4 and IPv6 address of each NIC. A shared network's address may be public, but the
//     default NIC's is the one that the kubelet listens on, and Kubernetes wants an InternalIP on every Node.
//     Secondary addresses are left out: they float (keepalived, MetalLB).
//   - ExternalIP: static NAT addresses, and public addresses of further NICs on shared networks, unless the
//     kubelet was told to use one.
//   - Hostname: the Node's name.
//
// The lists of AddressRules decide instead, where there are any. When no internal address is left (no NIC
// yet, L2 networks only, a list that fits none) the Node keeps the addresses that it has and the one that
// its kubelet was told: an answer with a host name alone would take them away.
func addressesOf(vm *cloudstack.VirtualMachine, n *corev1.Node, rules AddressRules) []corev1.NodeAddress {
	var list addressList
	told := providedIPs(n)
	nics := defaultFirst(vm.NICs)
	var internal, external []netip.Addr
	for i, nic := range nics {
		for _, ip := range parseIPs(nic.IPv4, nic.IPv6) {
			switch {
			case len(rules.External) > 0 && within(rules.External, ip):
				external = append(external, ip)
			case len(rules.Internal) > 0 && !within(rules.Internal, ip):
			case len(rules.Internal) == 0 && len(rules.External) == 0 && i > 0 &&
				strings.EqualFold(nic.Type, "Shared") && public(ip) && !slices.Contains(told, ip):
				external = append(external, ip)
			default:
				internal = append(internal, ip)
			}
		}
	}
	nat := []string{vm.PublicIP}
	for _, nic := range nics {
		nat = append(nat, nic.PublicIP)
	}
	for _, ip := range parseIPs(nat...) {
		if len(rules.External) == 0 || within(rules.External, ip) {
			external = append(external, ip)
		}
	}
	list.addAll(corev1.NodeInternalIP, inOrder(rules.Internal, internal))
	list.addAll(corev1.NodeExternalIP, inOrder(rules.External, external))
	if n == nil {
		return list.addresses
	}
	if !list.has(corev1.NodeInternalIP) {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				list.addAll(a.Type, parseIPs(a.Address))
			}
		}
		list.addAll(corev1.NodeInternalIP, told)
	}
	if len(list.addresses) == 0 {
		return nil
	}
	return append(list.addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.Name})
}

// UnlistedNodeIPs are the addresses that the Node's kubelet was told to use (--node-ip) and that are not
// among the given ones. The framework does not initialise such a Node, nor update its addresses, and tells
// nobody but its log.
func UnlistedNodeIPs(n *corev1.Node, listed []corev1.NodeAddress) []string {
	var out []string
	for _, ip := range providedIPs(n) {
		if !slices.ContainsFunc(listed, func(a corev1.NodeAddress) bool { return a.Address == ip.String() }) {
			out = append(out, ip.String())
		}
	}
	return out
}

// providedIPs are what the kubelet was told; on dual stack two, with a comma.
func providedIPs(n *corev1.Node) []netip.Addr {
	if n == nil {
		return nil
	}
	return parseIPs(strings.Split(n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr], ",")...)
}

// parseIPs leaves out what is no IP address.
func parseIPs(in ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range in {
		if ip, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

func within(list []netip.Prefix, ip netip.Addr) bool { return rank(list, ip) < len(list) }

// rank is the place of the first network that holds the address.
func rank(list []netip.Prefix, ip netip.Addr) int {
	if i := slices.IndexFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) }); i >= 0 {
		return i
	}
	return len(list)
}

func inOrder(list []netip.Prefix, ips []netip.Addr) []netip.Addr {
	slices.SortStableFunc(ips, func(a, b netip.Addr) int { return rank(list, a) - rank(list, b) })
	return ips
}

// carrierGrade is the address space of RFC 6598, which the standard library does not call private.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

func public(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !carrierGrade.Contains(ip)
}

type addressList struct {
	addresses []corev1.NodeAddress
}

// addAll takes each address once.
func (l *addressList) addAll(t corev1.NodeAddressType, ips []netip.Addr) {
	for _, ip := range ips {
		a := corev1.NodeAddress{Type: t, Address: ip.String()}
		if !slices.Contains(l.addresses, a) {
			l.addresses = append(l.addresses, a)
		}
	}
}

func (l *addressList) has(t corev1.NodeAddressType) bool {
	return slices.ContainsFunc(l.addresses, func(a corev1.NodeAddress) bool { return a.Type == t })
}

// defaultFirst does not rely on the order of the server's answer.
func defaultFirst(nics []cloudstack.NIC) []*cloudstack.NIC {
	out := make([]*cloudstack.NIC, 0, len(nics))
	for i := range nics {
		if nics[i].Default {
			out = append(out, &nics[i])
		}
	}
	for i := range nics {
		if !nics[i].Default {
			out = append(out, &nics[i])
		}
	}
	return out
}

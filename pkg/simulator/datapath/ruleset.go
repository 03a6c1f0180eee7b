// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator"
)

// Table is the nftables table of the port forwarding rules.
const Table = "cloudstack_router"

// Ruleset returns the nftables ruleset for port forwarding rules, for nft -f. It replaces the rules of Table in one
// transaction and does not touch connection tracking. Its chains do what those of a virtual router do:
//
//   - the firewall of an address decides in an isolated network, before the destination is changed;
//   - the first rule that matches changes the destination, for packets of the router itself too;
//   - in a VPC, packets then pass the ACL of the tier with the VM's address and the private port;
//   - packets of tracked connections pass both filters;
//   - a client in the isolated network itself gets the router's address.
func Ruleset(forwards []simulator.RouterForward) string {
	var firewall, destination, acl, hairpin []string
	for i := range forwards {
		f := &forwards[i]
		destination = append(destination, publicMatch(f)+oneOf("saddr", f.Sources)+"dnat to "+target(f))
		if f.Hairpin.IsValid() {
			hairpin = append(hairpin, "ct status dnat ip saddr "+f.Hairpin.String()+" "+privateMatch(f)+"masquerade")
		}
		switch {
		case !f.Filtered:
		case f.ByACL:
			acl = append(acl, filterRules("ct status dnat "+privateMatch(f), f)...)
		default:
			firewall = append(firewall, filterRules(publicMatch(f), f)...)
		}
	}

	const tracked = "ct state established,related accept"
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %[1]s\nflush table ip %[1]s\ntable ip %[1]s {\n", Table)
	for _, c := range []struct {
		name, hook string
		rules      []string
	}{
		{"firewall", "filter hook prerouting priority mangle", prepend(tracked, firewall)},
		{"destination", "nat hook prerouting priority dstnat", destination},
		// -100 is the priority dstnat; nft knows that name only in prerouting.
		{"own", "nat hook output priority -100", destination},
		{"acl", "filter hook forward priority filter", prepend(tracked, acl)},
		{"hairpin", "nat hook postrouting priority srcnat", hairpin},
	} {
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype %s; policy accept;\n", c.name, c.hook)
		for _, r := range slices.Compact(c.rules) {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}

	b.WriteString("}\n")
	return b.String()
}

func prepend(first string, rest []string) []string {
	if len(rest) == 0 {
		return nil
	}
	return append([]string{first}, rest...)
}

// filterRules returns the rules of a filter: its items in their order, then a drop.
func filterRules(match string, f *simulator.RouterForward) []string {
	var out []string
	for _, it := range f.Filter {
		if len(it.Sources) == 0 {
			continue // no client matches
		}
		verdict := "drop"
		if it.Allow {
			verdict = "accept"
		}
		out = append(out, match+oneOf("saddr", it.Sources)+itemPorts(f.Protocol, it)+verdict)
	}
	return append(out, match+"drop")
}

// itemPorts restricts a filter's item to its ports.
func itemPorts(protocol string, it simulator.RouterFilter) string {
	if it.From == 0 && it.To == 0 {
		return ""
	}
	return protocol + " dport " + ports(it.From, it.To) + " "
}

func publicMatch(f *simulator.RouterForward) string {
	return fmt.Sprintf("ip daddr %s %s dport %s ", f.Address, f.Protocol, ports(f.Port, f.EndPort))
}

func privateMatch(f *simulator.RouterForward) string {
	return fmt.Sprintf("ip daddr %s %s dport %s ", f.Guest, f.Protocol,
		ports(f.PrivatePort, f.PrivatePort+f.EndPort-f.Port))
}

// target returns the new destination. In a range, ports stay as they are.
func target(f *simulator.RouterForward) string {
	if f.Port != f.EndPort {
		return f.Guest.String()
	}
	return fmt.Sprintf("%s:%d", f.Guest, f.PrivatePort)
}

func ports(from, to int) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d-%d", from, to)
}

// oneOf matches addresses in ranges; an empty list matches all addresses. nft refuses sets with overlapping ranges, so
// ranges within others are left out.
func oneOf(field string, ranges []netip.Prefix) string {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b netip.Prefix) int {
		if c := a.Bits() - b.Bits(); c != 0 {
			return c
		}
		return a.Addr().Compare(b.Addr())
	})

	var texts []string
	for i, p := range ranges {
		if p.Bits() == 0 {
			return ""
		}
		if !slices.ContainsFunc(ranges[:i], p.Overlaps) {
			texts = append(texts, p.String())
		}
	}

	switch len(texts) {
	case 0:
		return ""
	case 1:
		return "ip " + field + " " + texts[0] + " "
	}

	return "ip " + field + " { " + strings.Join(texts, ", ") + " } "
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const booleans = "true, false, enabled, disabled, yes, no, on, off"

// Bool parses a boolean in any of its spellings and any case.
func Bool(value string) (b, ok bool) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true", "enabled", "yes", "on":
		return true, true
	case "false", "disabled", "no", "off":
		return false, true
	}
	return false, false
}

// Algorithms of CloudStack's load balancer.
const (
	RoundRobin = "roundrobin"
	LeastConn  = "leastconn"
	Source     = "source"
)

// Modes of a Service.
const (
	// Auto uses load balancer rules for what the network's provider can balance, and port forwardings for the rest.
	// Proxy uses load balancer rules only, Direct port forwardings only.
	Auto   = "auto"
	Proxy  = "proxy"
	Direct = "direct"
)

// Modes returns all modes.
func Modes() []string { return []string{Auto, Proxy, Direct} }

// Anyone is the source range that contains every address.
const Anyone = "0.0.0.0/0"

// ParseRanges parses source ranges that are separated by commas, blanks or line breaks, also within an item. It returns
// IPv4 ranges masked, sorted and without duplicates; a bare address is a /32. IPv6 ranges are returned separately.
func ParseRanges(items []string) (v4 []netip.Prefix, v6 []string, err error) {
	for _, item := range items {
		for text := range strings.FieldsFuncSeq(item, separates) {
			prefix, ok := parseRange(text)
			switch {
			case !ok:
				return nil, nil, fmt.Errorf("%q is not a CIDR, such as 10.0.0.0/8", text)
			case prefix.Addr().Is4():
				v4 = append(v4, prefix.Masked())
			default:
				v6 = append(v6, text)
			}
		}
	}
	return Normalise(v4), v6, nil
}

// separates reports whether a character separates the items of a list.
func separates(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }

// padding matches leading zeros of the numbers in an address.
var padding = regexp.MustCompile(`(^|[.:])0+([0-9])`)

// parseRange parses an address or a prefix. Numbers with leading zeros are decimal, as in Kubernetes. An IPv4-mapped
// IPv6 range is an IPv4 range.
func parseRange(text string) (p netip.Prefix, ok bool) {
	address, length, prefix := strings.Cut(text, "/")
	addr, err := netip.ParseAddr(address)
	if err != nil {
		addr, err = netip.ParseAddr(padding.ReplaceAllString(address, "$1$2"))
	}
	bits := addr.BitLen()
	if prefix && err == nil {
		var n uint64
		n, err = strconv.ParseUint(length, 10, 8)
		bits = int(n)
	}
	if err != nil {
		return p, false
	}

	if addr.Is4In6() && 96 <= bits {
		addr, bits = addr.Unmap(), bits-96
	}
	p = netip.PrefixFrom(addr.WithZone(""), bits)
	return p, p.IsValid()
}

// Normalise sorts prefixes and removes duplicates.
func Normalise(in []netip.Prefix) []netip.Prefix {
	out := slices.Clone(in)
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// Intersect returns the addresses that are in both lists, as prefixes: each prefix that lies within one of the other
// list.
func Intersect(a, b []netip.Prefix) []netip.Prefix {
	out := slices.Concat(within(outermost(b), a), within(outermost(a), b))
	return Normalise(out)
}

// within returns the prefixes of in that lie within one of outer, which is a result of outermost.
func within(outer, in []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(in), func(p netip.Prefix) bool {
		at, _ := slices.BinarySearchFunc(outer, p,
			func(o, p netip.Prefix) int { return cmp.Or(o.Addr().Compare(p.Addr()), -1) })
		return at == 0 || !covers(outer[at-1], p)
	})
}

// outermost returns the prefixes that lie within no other one, sorted.
func outermost(in []netip.Prefix) (out []netip.Prefix) {
	for _, p := range Normalise(in) {
		if n := len(out); n == 0 || !covers(out[n-1], p) {
			out = append(out, p)
		}
	}
	return out
}

// covers reports whether every address of the inner prefix is in the outer one.
func covers(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// Aggregate returns the shortest list of prefixes that contains the same addresses.
func Aggregate(in []netip.Prefix) (out []netip.Prefix) {
	for _, p := range outermost(in) {
		for n := len(out); n > 0 && p.Bits() > 0 && out[n-1].Bits() == p.Bits() && parent(out[n-1]) == parent(p); n-- {
			out, p = out[:n-1], parent(p)
		}
		out = append(out, p)
	}
	return out
}

func parent(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked() }

// Halves returns the two halves of an IPv4 prefix; none of a single address.
func Halves(p netip.Prefix) []netip.Prefix {
	if p.IsSingleIP() {
		return nil
	}
	low := p.Masked().Addr()
	high := low.As4()
	high[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	return []netip.Prefix{
		netip.PrefixFrom(low, p.Bits()+1),
		netip.PrefixFrom(netip.AddrFrom4(high), p.Bits()+1),
	}
}

// Strings formats prefixes.
func Strings(prefixes []netip.Prefix) []string {
	out := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return out
}

// Canonical masks, sorts and aggregates ranges; ranges that do not parse are kept unchanged.
func Canonical(in []string) []string {
	var odd []string
	var prefixes []netip.Prefix
	for _, r := range in {
		v4, _, err := ParseRanges([]string{r})
		if err != nil || len(v4) != 1 {
			odd = append(odd, r)
			continue
		}
		prefixes = append(prefixes, v4[0])
	}
	out := append(Strings(Aggregate(prefixes)), odd...)
	slices.Sort(out)
	return slices.Compact(out)
}

// SameRanges reports whether two lists allow the same sources.
func SameRanges(a, b []string) bool { return slices.Equal(Canonical(a), Canonical(b)) }

// Contain reports whether every inner range lies within the outer ones.
func Contain(outer, inner []string) bool {
	out, _, err1 := ParseRanges(outer)
	in, _, err2 := ParseRanges(inner)
	return err1 == nil && err2 == nil && len(within(Aggregate(out), in)) == len(in)
}

// Common returns the sources that are in both lists.
func Common(a, b []string) []string {
	x, _, err1 := ParseRanges(a)
	y, _, err2 := ParseRanges(b)
	if err1 != nil || err2 != nil {
		return nil
	}
	return Strings(Aggregate(Intersect(x, y)))
}

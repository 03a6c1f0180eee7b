// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// PortSet are public ports by transport protocol ("tcp", "udp"), sorted. A firewall rule has no name and
// takes no tag of ours: that it governs nothing but such ports is what proves it ours. The Service's record
// therefore names them before the rule is made, and until it is gone.
type PortSet map[string][]int

// PortsOf are the ports that rules serve.
func PortsOf(rules []Rule) PortSet {
	out := PortSet{}
	for _, r := range rules {
		p := transport(r.Protocol)
		out[p] = append(out[p], r.PublicPort)
	}
	return out.union(nil)
}

// ParsePorts reads what String wrote. What it cannot read proves nothing and is left out.
func ParsePorts(text string) PortSet {
	out := PortSet{}
	for _, field := range strings.Fields(text) {
		protocol, list, _ := strings.Cut(field, ":")
		for _, s := range strings.Split(list, ",") {
			if port, err := strconv.Atoi(s); err == nil {
				out[protocol] = append(out[protocol], port)
			}
		}
	}
	return out.union(nil)
}

func (o PortSet) String() string {
	var fields []string
	for _, protocol := range slices.Sorted(maps.Keys(o)) {
		var ports []string
		for _, p := range o[protocol] {
			ports = append(ports, strconv.Itoa(p))
		}
		if len(ports) > 0 {
			fields = append(fields, protocol+":"+strings.Join(ports, ","))
		}
	}
	return strings.Join(fields, " ")
}

// union returns a new set with the ports of both.
func (o PortSet) union(other PortSet) PortSet {
	if len(o) == 0 && len(other) == 0 {
		return nil
	}
	out := PortSet{}
	for _, set := range []PortSet{o, other} {
		for protocol, ports := range set {
			out[protocol] = append(out[protocol], ports...)
		}
	}
	for protocol := range out {
		slices.Sort(out[protocol])
		out[protocol] = slices.Compact(out[protocol])
	}
	return out
}

// without returns a new set without some ports.
func (o PortSet) without(ports map[int]bool) PortSet {
	out := PortSet{}
	for protocol, list := range o {
		for _, p := range list {
			if !ports[p] {
				out[protocol] = append(out[protocol], p)
			}
		}
	}
	return out.union(nil)
}

// covers reports whether every port of the other set is in this one.
func (o PortSet) covers(other PortSet) bool {
	return o.union(other).String() == o.union(nil).String()
}

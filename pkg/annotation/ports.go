// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Ports are all ports of a Service, or some of them.
type Ports struct {
	All     bool
	Numbers []int // sorted; empty with All
}

// Has reports whether a port is among them.
func (p Ports) Has(port int) bool { return p.All || slices.Contains(p.Numbers, port) }

// Any reports whether there is any.
func (p Ports) Any() bool { return p.All || len(p.Numbers) > 0 }

// ports reads a list of the Service's ports, by name or number.
func (p *parser) ports(name, value string) Ports {
	known := map[string]int{}
	for _, port := range slices.Backward(p.svc.Spec.Ports) { // if a name or number matches two ports, the first counts
		known[port.Name], known[strconv.Itoa(int(port.Port))] = int(port.Port), int(port.Port)
	}
	delete(known, "")

	var out Ports
	for _, item := range strings.Split(value, ",") {
		number, ok := known[strings.TrimSpace(item)]
		if !ok {
			p.wrong(name, "the Service has no port "+strings.TrimSpace(item))
			return Ports{}
		}
		out.Numbers = append(out.Numbers, number)
	}
	slices.Sort(out.Numbers)
	out.Numbers = slices.Compact(out.Numbers)
	return out
}

// proxyProtocol reads a boolean or a list of ports. A port whose name is a boolean can only be listed by its number.
func (p *parser) proxyProtocol() Ports {
	value, set := p.svc.Annotations[ProxyProtocol]
	if all, ok := Bool(value); ok || !set {
		return Ports{All: all}
	}
	return p.ports(ProxyProtocol, value)
}

func (p *parser) ssl() (certificate string, ports Ports) {
	value, set := p.value(SSLCertificate)
	certificate = strings.ToLower(value)
	if set && !uuid.MatchString(certificate) {
		p.wrong(SSLCertificate, "")
		certificate = ""
	}
	list, listed := p.svc.Annotations[SSLPorts]
	switch {
	case listed && !set:
		p.refuse(SSLPorts, list, SSLCertificate+" is not set", "a certificate in "+SSLCertificate+", or no "+SSLPorts)
	case listed:
		ports = p.ports(SSLPorts, list)
	case certificate != "":
		ports = Ports{All: true}
	}
	return certificate, ports
}

// exclusive refuses TLS and the PROXY protocol on the same port.
func (p *parser) exclusive(proxy, ssl Ports) {
	for i := range p.svc.Spec.Ports {
		port := int(p.svc.Spec.Ports[i].Port)
		if ssl.Has(port) && proxy.Has(port) {
			p.refuse(SSLCertificate, p.svc.Annotations[SSLCertificate],
				"port "+strconv.Itoa(port)+" is also wanted with the PROXY protocol",
				"TLS or the PROXY protocol on a port, see "+SSLPorts+" and "+ProxyProtocol)
			return
		}
	}
}

// PortSet holds public ports by transport protocol ("tcp", "udp"), sorted. The Service's record contains a port from
// before its firewall rule is created until the rule is deleted. If the answer to the creation is lost, the rule has no
// tags, and only this record identifies it.
type PortSet map[string][]int

// ParsePorts parses what String wrote. It leaves out what it cannot parse.
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
	return out.Union(nil)
}

func (p PortSet) String() string {
	var fields []string
	for _, protocol := range slices.Sorted(maps.Keys(p)) {
		var ports []string
		for _, port := range p[protocol] {
			ports = append(ports, strconv.Itoa(port))
		}
		if len(ports) > 0 {
			fields = append(fields, protocol+":"+strings.Join(ports, ","))
		}
	}
	return strings.Join(fields, " ")
}

// Union returns a new set with the ports of both, or nil if there are none.
func (p PortSet) Union(other PortSet) PortSet {
	if len(p) == 0 && len(other) == 0 {
		return nil
	}
	out := PortSet{}
	for _, set := range []PortSet{p, other} {
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

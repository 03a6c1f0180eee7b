// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"slices"
	"strconv"
	"strings"
)

// Ports are some ports of a Service, or all.
type Ports struct {
	All     bool
	Numbers []int // sorted; empty with All
}

// Has reports whether a port is among them.
func (p Ports) Has(port int) bool { return p.All || slices.Contains(p.Numbers, port) }

// Any reports whether there is any.
func (p Ports) Any() bool { return p.All || len(p.Numbers) > 0 }

// ports reads names and numbers of ports of the Service.
func (p *parser) ports(name, value string) Ports {
	var out Ports
	for _, item := range strings.Split(value, ",") {
		number, ok := p.port(strings.TrimSpace(item))
		if !ok {
			p.refuse(name, value, "the Service has no port "+strings.TrimSpace(item), allowed(name))
			return Ports{}
		}
		out.Numbers = append(out.Numbers, number)
	}
	slices.Sort(out.Numbers)
	out.Numbers = slices.Compact(out.Numbers)
	return out
}

func (p *parser) port(text string) (int, bool) {
	for i := range p.svc.Spec.Ports {
		port := &p.svc.Spec.Ports[i]
		if text != "" && (port.Name == text || strconv.Itoa(int(port.Port)) == text) {
			return int(port.Port), true
		}
	}
	return 0, false
}

// proxyProtocol reads a boolean or ports. A port named like a boolean is meant by its number only.
func (p *parser) proxyProtocol() Ports {
	value, set := p.svc.Annotations[ProxyProtocol]
	if !set {
		return Ports{}
	}
	if all, ok := Bool(value); ok {
		return Ports{All: all}
	}
	return p.ports(ProxyProtocol, value)
}

func (p *parser) ssl() (certificate string, ports Ports) {
	value, set := p.svc.Annotations[SSLCertificate]
	certificate = strings.ToLower(strings.TrimSpace(value))
	if set && !uuid.MatchString(certificate) {
		p.refuse(SSLCertificate, value, "", allowed(SSLCertificate))
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

// exclusive refuses what cannot be had together on one port.
func (p *parser) exclusive(proxy, ssl Ports) {
	if !ssl.Any() || !proxy.Any() {
		return
	}
	for i := range p.svc.Spec.Ports {
		port := int(p.svc.Spec.Ports[i].Port)
		if ssl.Has(port) && proxy.Has(port) {
			p.refuse(SSLCertificate, p.svc.Annotations[SSLCertificate], "port "+strconv.Itoa(port)+" is also wanted with the PROXY protocol",
				"TLS or the PROXY protocol on a port, see "+SSLPorts+" and "+ProxyProtocol)
			return
		}
	}
}

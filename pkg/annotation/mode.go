// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"slices"
	"strconv"
)

// DefaultSpread is the value of DirectSpread if the annotation is not set.
const DefaultSpread = 8

const maxSpread = 32

func (p *parser) directSpread() int {
	text, set := p.value(DirectSpread)
	n, _ := strconv.Atoi(text) // 0 for what is no number
	if set && (n < 1 || n > maxSpread || strconv.Itoa(n) != text) {
		p.wrong(DirectSpread, "")
		return 0
	}
	return n
}

// NeedsBalancer returns the names of the annotations that only a load balancer can serve, sorted.
func (s Spec) NeedsBalancer() (names []string) {
	for name, set := range map[string]bool{
		ProxyProtocol: s.ProxyProtocol.Any(), SSLCertificate: s.SSLPorts.Any(), StickinessMethod: s.Stickiness != nil,
		Algorithm: s.AlgorithmSet, Internal: s.Internal,
	} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// NeedsBalancerAt returns the feature that needs a load balancer for a TCP port, and the annotation that requests it.
// Both are empty if there is none.
func (s Spec) NeedsBalancerAt(port int) (what, name string) {
	switch {
	case s.ProxyProtocol.Has(port):
		return "PROXY protocol", ProxyProtocol
	case s.SSLPorts.Has(port):
		return "TLS", SSLCertificate
	case s.Stickiness != nil:
		return "stickiness (a forwarded port has one node for all clients, or in a VPC one for each client address)",
			StickinessMethod
	}
	return "", ""
}

// direct refuses mode direct together with annotations that port forwardings cannot serve.
func (p *parser) direct(spec Spec) {
	if spec.Mode != Direct {
		return
	}
	for _, name := range spec.NeedsBalancer() {
		p.refuse(Mode, p.svc.Annotations[Mode], name+" is set, which needs a load balancer",
			Direct+" without "+name+", or "+Proxy+" or "+Auto)
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DefaultSpread is the value of DirectSpread where the annotation is not set.
const DefaultSpread = 8

const maxSpread = 32

func (p *parser) mode() string {
	value, set := p.svc.Annotations[Mode]
	if !set {
		return ""
	}
	mode := strings.ToLower(strings.TrimSpace(value))
	if !slices.Contains(Modes(), mode) {
		p.refuse(Mode, value, "", allowed(Mode))
		return ""
	}
	return mode
}

func (p *parser) directSpread() int {
	value, set := p.svc.Annotations[DirectSpread]
	if !set {
		return 0
	}
	text := strings.TrimSpace(value)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSpread || strconv.Itoa(n) != text {
		p.refuse(DirectSpread, value, "", allowed(DirectSpread))
		return 0
	}
	return n
}

// direct refuses what port forwardings cannot do.
func (p *parser) direct(spec Spec) {
	if spec.Mode != Direct {
		return
	}
	wanted := map[string]bool{
		ProxyProtocol: spec.ProxyProtocol.Any(), SSLCertificate: spec.SSLCertificate != "", StickinessMethod: spec.Stickiness != nil,
		Algorithm: spec.AlgorithmSet, Internal: spec.Internal,
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[name] {
			p.refuse(Mode, p.svc.Annotations[Mode], name+" is set, which needs a load balancer", Direct+" without "+name+", or "+Proxy+" or "+Auto)
		}
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxValue is the length in bytes of the longest value that an annotation may have: some 800 CIDRs. It keeps the checks
// of the API server within their cost limits.
const MaxValue = 16384

// MaxSourceRanges is how many source ranges a load balancer rule can have. The virtual router writes them to one line of
// haproxy.cfg, of which HAProxy reads at most 64 words. With more, every later change of any rule in the network or VPC fails.
const MaxSourceRanges = 60

// maxName is the length in characters of the names of networks, projects and zones in CloudStack.
const maxName = 255

// word reads the name of a CloudStack resource. An empty one is refused: it is more likely an error in a template than
// intended. Characters beyond the basic plane are refused because CloudStack's database may not store them.
func (p *parser) word(name string) string {
	value, set := p.svc.Annotations[name]
	if !set {
		return ""
	}
	value = strings.TrimSpace(value)
	odd := func(r rune) bool { return unicode.IsControl(r) || r > 0xFFFF || r == unicode.ReplacementChar }
	var problem string
	switch {
	case value == "":
		problem = "it is empty"
	case utf8.RuneCountInString(value) > maxName:
		problem = fmt.Sprintf("it is longer than %d characters", maxName)
	case strings.ContainsFunc(value, odd):
		problem = "it contains control characters or emoji"
	default:
		return value
	}
	p.refuse(name, shortened(p.svc.Annotations[name]), problem, allowed(name))
	return ""
}

// predecessorAddress reads the id that Leaseweb's provider wrote. A value that is not an id proves nothing and is
// ignored: it is sent to CloudStack.
func (p *parser) predecessorAddress() string {
	id := strings.TrimSpace(p.svc.Annotations[LeasewebID])
	if id != "" && !uuid.MatchString(strings.ToLower(id)) {
		p.warnings = append(p.warnings, fmt.Sprintf("annotation %s is not the id of an address and is ignored", LeasewebID))
		return ""
	}
	return id
}

// length refuses values that are too long.
func (p *parser) length() {
	for i := range table {
		d := &table[i]
		if value := p.svc.Annotations[d.Name]; d.Writer == ByUser && len(value) > MaxValue {
			p.refuse(d.Name, shortened(value), fmt.Sprintf("it is longer than %d bytes", MaxValue), allowed(d.Name))
		}
	}
}

// shortened keeps an error message readable.
func shortened(value string) string {
	if runes := []rune(value); len(runes) > 64 {
		return string(runes[:64]) + "…"
	}
	return value
}

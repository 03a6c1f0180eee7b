// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxValue is the length in bytes of the longest value that an annotation may have: some 800 CIDRs. It keeps the checks
// of the API server within their cost limits.
const MaxValue = 16384

// MaxItems is the largest number of items in a list of a Service, its ports included. Tenants choose the length of
// these lists, and all other Services wait while the controller reads them.
const MaxItems = 1000

// MaxRange is the length in bytes of an item of spec.loadBalancerSourceRanges, which the API server accepts with any
// number of blanks.
const MaxRange = 64

// maxWarnings is the largest number of settings without effect that warnings name.
const maxWarnings = 10

// MaxSourceRanges is how many source ranges a load balancer rule can have. The virtual router writes them to one line
// of haproxy.cfg, of which HAProxy reads at most 64 words. With more, every later change of any rule in the network or
// VPC fails.
const MaxSourceRanges = 60

// maxName is the length in characters of the names of networks, projects and zones in CloudStack.
const maxName = 255

// Unstorable reports whether a character must not be in a name or a tag. Characters beyond the basic plane are among
// them, because CloudStack's database may not store them.
func Unstorable(r rune) bool {
	return unicode.IsControl(r) || r > 0xFFFF || r == unicode.ReplacementChar
}

// word reads the name of a CloudStack resource. An empty one is refused: it is more likely an error in a template than
// intended.
func (p *parser) word(name string) string {
	value, set := p.value(name)
	var problem string
	switch {
	case !set:
		return ""
	case value == "":
		problem = "it is empty"
	case utf8.RuneCountInString(value) > maxName:
		problem = fmt.Sprintf("it is longer than %d characters", maxName)
	case strings.ContainsFunc(value, Unstorable):
		problem = "it contains control characters or emoji"
	default:
		return value
	}

	p.wrong(name, problem)
	return ""
}

// predecessorAddress reads the id that Leaseweb's provider wrote. The id is sent to CloudStack, so a value that is not
// an id is ignored.
func (p *parser) predecessorAddress() string {
	id, _ := p.value(LeasewebID)
	if id != "" && !uuid.MatchString(strings.ToLower(id)) {
		p.warnings = append(p.warnings,
			fmt.Sprintf("annotation %s is not the id of an address and is ignored", LeasewebID))
		return ""
	}
	return id
}

// bounded refuses lists and values above the limits, and reports whether all are within them.
func (p *parser) bounded() bool {
	for i := range table {
		d := &table[i]
		if d.Writer != ByUser {
			continue
		}
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			value := p.svc.Annotations[name]
			p.limit(name, value, len(value), MaxValue, "bytes")
			p.limit(name, value, count(value), MaxItems, "items")
		}
	}

	ranges := p.svc.Spec.LoadBalancerSourceRanges
	p.limit(specRanges, "", len(ranges), MaxItems, "items")
	if i := slices.IndexFunc(ranges, func(r string) bool { return len(r) > MaxRange }); i >= 0 {
		p.limit(specRanges, ranges[i], len(ranges[i]), MaxRange, "bytes in an item")
	}
	p.limit("spec.ports", "", len(p.svc.Spec.Ports), MaxItems, "items")
	return len(p.errs) == 0
}

// limit refuses a list or value of more than most units.
func (p *parser) limit(name, value string, n, most int, unit string) {
	if n > most {
		p.refuse(name, value, fmt.Sprintf("it has %d %s", n, unit), fmt.Sprintf("at most %d %s", most, unit))
	}
}

// count returns how many items a value has, if it is a list.
func count(value string) (n int) {
	for range strings.FieldsFuncSeq(value, separates) {
		n++
	}
	return n
}

// shortened returns at most the first most characters of a text, to keep an error message readable.
func shortened(text string, most int) string {
	if runes := []rune(text[:min(len(text), 4*most+1)]); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

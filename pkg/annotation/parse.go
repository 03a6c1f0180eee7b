// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csccm/csccm/pkg/typo"
)

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$`)

// Spec is what a Service requests of its load balancer, except for its ports.
type Spec struct {
	// ProxyProtocol are the ports on which the nodes receive the PROXY protocol.
	ProxyProtocol Ports
	Hostname      string
	// SourceRanges are the IPv4 ranges that may connect, masked and sorted. If empty, no source may connect.
	SourceRanges []string
	// Address is the requested public address; empty for any.
	Address   string
	KeepIP    bool
	Algorithm string // roundrobin, leastconn or source
	// AlgorithmSet means that an annotation chose it.
	AlgorithmSet bool
	// Mode is Proxy, Direct or Auto; empty for the default of the cloud-config.
	Mode string
	// DirectSpread is the largest number of nodes over which a forwarded port is spread, if it can be spread; 0 means
	// DefaultSpread.
	DirectSpread int
	// Internal requests an address of the VPC tier instead of a public one.
	Internal bool
	// Network, Project and Zone are names or ids; empty for the default.
	Network, Project, Zone string
	// NodeSelector chooses the nodes that serve; nil for all.
	NodeSelector labels.Selector
	// SSLCertificate is the id of the certificate with which TLS ends on SSLPorts.
	SSLCertificate string
	SSLPorts       Ports
	Stickiness     *Stickiness // nil for none
	// ShareWith are other namespaces whose Services may use this Service's address, sorted and unique; "*" is all.
	ShareWith []string
	// Records is what the controller wrote earlier.
	Records Records
	// PredecessorAddress is Leaseweb's record of the id of the address.
	PredecessorAddress string
	// Warnings are settings that have no effect, one sentence each.
	Warnings []string
}

// DenyAll reports whether no source may connect.
func (s Spec) DenyAll() bool { return len(s.SourceRanges) == 0 }

// Restricted reports whether some sources may connect and others may not.
func (s Spec) Restricted() bool { return !s.DenyAll() && !SameRanges(s.SourceRanges, []string{Anyone}) }

// InvalidError is a value that does not parse.
type InvalidError struct {
	Name    string // annotation or field
	Value   string
	Problem string // optional detail
	Allowed string // the allowed values
}

func (e *InvalidError) Error() string {
	text := fmt.Sprintf("%s: %q is not allowed", e.Name, e.Value)
	if e.Problem != "" {
		text += " (" + e.Problem + ")"
	}
	return text + "; allowed: " + e.Allowed
}

// specRanges is the name of the spec field of source ranges.
const specRanges = "spec.loadBalancerSourceRanges"

// Parse reads a Service. Its error names every value that does not parse (each an *InvalidError). The Spec then still
// holds the records, so that a Service with a wrong value can be deleted. If a list of the Service is too long, nothing
// else is read.
func Parse(svc *corev1.Service) (Spec, error) {
	p := parser{svc: svc}
	records, err := ParseRecords(svc.Annotations)
	if !p.bounded() {
		return Spec{Records: records, KeepIP: p.keepIP()}, errors.Join(append(p.errs, err)...)
	}

	if err != nil {
		p.errs = append(p.errs, err)
	}

	spec := Spec{
		ProxyProtocol: p.proxyProtocol(),
		Hostname:      p.hostname(),
		SourceRanges:  p.sourceRanges(),
		Address:       p.address(),
		KeepIP:        p.keepIP(),
		Algorithm:     p.algorithm(),
		Mode:          p.oneOf(Mode, "", Modes()...),
		DirectSpread:  p.directSpread(),
		Internal:      p.boolean(Internal),
		Network:       p.word(Network),
		Project:       p.word(Project),
		Zone:          p.word(Zone),
		NodeSelector:  p.nodeSelector(),
		Stickiness:    p.stickiness(),
		ShareWith:     p.shareWith(),
		Records:       records,
	}

	spec.SSLCertificate, spec.SSLPorts = p.ssl()
	p.exclusive(spec.ProxyProtocol, spec.SSLPorts)
	_, spec.AlgorithmSet = svc.Annotations[Algorithm]
	p.direct(spec)
	p.affinity()
	spec.PredecessorAddress = p.predecessorAddress()
	p.elsewhere()
	p.unknown()
	spec.Warnings = p.warnings
	return spec, errors.Join(p.errs...)
}

type parser struct {
	svc      *corev1.Service
	errs     []error
	warnings []string
}

func (p *parser) refuse(name, value, problem, allowedValues string) {
	p.errs = append(p.errs, &InvalidError{
		Name: name, Value: shortened(value, 64), Problem: shortened(problem, 256), Allowed: allowedValues,
	})
}

// wrong refuses the value of an annotation.
func (p *parser) wrong(name, problem string) {
	p.refuse(name, p.svc.Annotations[name], problem, allowed(name))
}

// value returns the value of an annotation without blanks around it.
func (p *parser) value(name string) (value string, set bool) {
	value, set = p.svc.Annotations[name]
	return strings.TrimSpace(value), set
}

// oneOf reads an annotation whose value is one of some words, in any case; otherwise is for one that is not set.
func (p *parser) oneOf(name, otherwise string, words ...string) string {
	value, set := p.value(name)
	word := strings.ToLower(value)
	switch {
	case !set:
		return otherwise
	case slices.Contains(words, word):
		return word
	}
	p.wrong(name, "")
	return otherwise
}

func (p *parser) boolean(name string) bool {
	value, set := p.svc.Annotations[name]
	b, ok := Bool(value)
	if set && !ok {
		p.wrong(name, "")
	}
	return b
}

// keepIP also returns true for a value that does not parse. Such a Service is refused but can be deleted, and its
// address must not be lost then.
func (p *parser) keepIP() bool {
	before := len(p.errs)
	return p.boolean(KeepIP) || len(p.errs) > before
}

// emptyValue describes the problem with an empty value, which is more likely an error in a template than intended.
const emptyValue = "it is empty; remove the annotation if it is not meant"

func (p *parser) hostname() string {
	value, set := p.value(Hostname)
	_, noAddress := netip.ParseAddr(value)
	switch {
	case !set:
	case value == "":
		p.wrong(Hostname, emptyValue)
	case noAddress == nil:
		p.wrong(Hostname, "an address is not a name")
	case len(validation.IsDNS1123Subdomain(value)) > 0:
		p.wrong(Hostname, "")
	default:
		return value
	}
	return ""
}

func (p *parser) nodeSelector() labels.Selector {
	value, _ := p.value(NodeSelector)
	if value == "" {
		return nil
	}
	selector, err := labels.Parse(value)
	if err != nil {
		p.wrong(NodeSelector, err.Error())
		return nil
	}
	return selector
}

// affinity warns about a timeout that has no effect: the algorithm source keeps no table.
func (p *parser) affinity() {
	c := p.svc.Spec.SessionAffinityConfig
	if p.svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP ||
		c == nil ||
		c.ClientIP == nil ||
		c.ClientIP.TimeoutSeconds == nil ||
		*c.ClientIP.TimeoutSeconds == corev1.DefaultClientIPServiceAffinitySeconds {
		return
	}
	p.warnings = append(p.warnings,
		"spec.sessionAffinityConfig.clientIP.timeoutSeconds has no effect in the load balancer; "+
			StickinessMethod+": source with "+StickinessOptions+": expire=… has")
}

func (p *parser) algorithm() string {
	affinity := p.svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP
	usual := RoundRobin
	if affinity {
		usual = Source
	}
	algorithm := p.oneOf(Algorithm, usual, RoundRobin, LeastConn, Source)
	if affinity && algorithm != Source {
		p.refuse(Algorithm, algorithm, "spec.sessionAffinity is ClientIP", "source, or spec.sessionAffinity None")
	}
	return algorithm
}

func (p *parser) address() string {
	fromSpec := strings.TrimSpace(p.svc.Spec.LoadBalancerIP)
	fromAnnotation, set := p.value(Address)
	if set && fromAnnotation == "" {
		p.wrong(Address, emptyValue)
	}

	read := func(name, value string) string {
		if value == "" {
			return ""
		}
		addr, err := netip.ParseAddr(value)
		if err != nil || !addr.Is4() {
			p.refuse(name, value, "", allowed(Address))
			return ""
		}
		return addr.String()
	}

	a, b := read("spec.loadBalancerIP", fromSpec), read(Address, fromAnnotation)
	if a != "" && b != "" && a != b {
		p.refuse(Address, fromAnnotation, "spec.loadBalancerIP is "+a, "the same address in both, or only one of them")
	}

	return cmp.Or(b, a)
}

func (p *parser) sourceRanges() []string {
	ranges := []netip.Prefix{netip.MustParsePrefix(Anyone)}
	var names []string // of the lists with IPv4 ranges
	restrict := func(name, value string, items []string) {
		v4, v6, err := ParseRanges(items)
		if len(v6) > 0 {
			p.warnings = append(p.warnings, fmt.Sprintf("%s: %s%s has no effect, public addresses are IPv4",
				name, shortened(v6[0], MaxRange), andMore(v6)))
		}

		switch {
		case err != nil: // a list that cannot be read allows nobody
			p.refuse(name, value, err.Error(), allowed(SourceCIDRs))
		case len(v4) > 0:
			names = append(names, name)
		case len(v6) > 0:
			p.warnings = append(p.warnings, name+" has no IPv4 range, so nobody may connect")
		case strings.TrimSpace(value) != "":
			p.refuse(name, value, "it has no range", allowed(SourceCIDRs))
		}

		ranges = Intersect(ranges, v4)
		if len(ranges) == 0 && len(v4) > 0 && len(names) > 1 {
			p.warnings = append(p.warnings,
				strings.Join(names, " and ")+" have no source range in common, so nobody may connect")
		}
	}

	// An empty spec field looks like one that is not set, so only the annotations can deny all sources.
	if items := p.svc.Spec.LoadBalancerSourceRanges; len(items) > 0 {
		restrict(specRanges, strings.Join(items, ","), items)
	}

	if value, set := p.svc.Annotations[SourceRangesBeta]; set && strings.TrimSpace(value) != "" {
		restrict(SourceRangesBeta, value, []string{value})
	}

	if value, set := p.svc.Annotations[SourceCIDRs]; set {
		restrict(SourceCIDRs, value, []string{value})
	}

	return Strings(ranges)
}

// shareWith reads a list of namespaces; an empty value means none.
func (p *parser) shareWith() []string {
	value, _ := p.value(ShareWith)
	if value == "" {
		return nil
	}
	var out []string
	for _, item := range strings.Split(value, ",") {
		name := strings.TrimSpace(item)
		if name != "*" && len(validation.IsDNS1123Label(name)) > 0 {
			p.wrong(ShareWith, fmt.Sprintf("%q is not a namespace", name))
			return nil
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// family is the prefix of all annotations of csccm, misspelt ones included.
const family = "service.beta.kubernetes.io/cloudstack-"

// unknown warns about annotations that are not in the table: most are typos.
func (p *parser) unknown() {
	names := slices.DeleteFunc(named(p.svc.Annotations, family), func(name string) bool {
		_, known := byName[name]
		return known
	})
	settings := slices.DeleteFunc(slices.Collect(maps.Keys(byName)), func(name string) bool {
		return byName[name].Writer != ByUser
	})
	for i, name := range names {
		if i == maxWarnings {
			p.warnings = append(p.warnings,
				fmt.Sprintf("%d more annotations %s... are not known and have no effect", len(names)-i, family))
			break
		}
		text := fmt.Sprintf("annotation %s is not known and has no effect", name)
		if near := typo.Nearest(name, settings, 1+len(name[len(family):])/4); len(near) > 0 {
			text += ", did you mean " + strings.Join(near, " or ") + "?"
		}
		p.warnings = append(p.warnings, text)
	}
	slices.Sort(p.warnings)
}

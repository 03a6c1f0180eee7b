// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

// Denial is why the policy refuses something.
type Denial struct { //nolint:errname // a decision first; the controller makes a RefusalError of it
	Rule    string // the chart value that refuses it, such as tenancy.annotations.network
	Message string // what is refused
	Remedy  string // what a tenant and an operator can do
}

func (d *Denial) Error() string { return d.Message + "; " + d.Remedy }

// Check returns why the policy refuses what the Service itself shows: its annotations, spec.loadBalancerIP and ports.
// It returns nil when the policy allows them.
func (p Policy) Check(ns Namespace, svc *corev1.Service) *Denial {
	if p.Trusts(ns) {
		return nil
	}
	for _, rule := range slices.Sorted(maps.Keys(p.Annotations)) {
		for _, use := range uses(svc, rule) {
			if d := p.decide(p.Annotations[rule], "annotations."+rule, use.what, ns, use.value); d != nil {
				return d
			}
		}
	}
	if keep, _ := annotation.Bool(svc.Annotations[annotation.KeepIP]); keep {
		if kept := p.Limits.KeepIP.MaxPerNamespace; kept != nil && *kept == 0 {
			return denied("limits.keepIP.maxPerNamespace", "annotation "+annotation.KeepIP+" is not allowed in namespace "+ns.Name,
				"remove the annotation, or ask your cluster's operator, who can raise the limit")
		}
	}
	if limit := p.Limits.MaxPortsPerService; limit > 0 && len(svc.Spec.Ports) > limit {
		return denied("limits.maxPortsPerService", fmt.Sprintf("the Service has %d ports, and in namespace %s %d are allowed", len(svc.Spec.Ports), ns.Name, limit),
			"use several Services, or ask your cluster's operator, who can raise the limit")
	}
	return nil
}

// Allows returns why a rule refuses a value to a namespace, nil when it does not. The rule is the name of an
// annotation without its prefix, SourceNATAddress or ForeignAddress.
func (p Policy) Allows(rule string, ns Namespace, value string) *Denial {
	if p.Trusts(ns) {
		return nil
	}
	switch rule {
	case SourceNATAddress:
		return p.decide(p.SourceNATAddress, rule, "the source NAT address of a network", ns, value)
	case ForeignAddress:
		return p.decide(p.ForeignAddress, rule, "an address that this cluster did not acquire", ns, value)
	}
	return p.decide(p.Annotations[rule], "annotations."+rule, "annotation "+annotation.Prefix+rule, ns, value)
}

type use struct{ what, value string }

// uses returns where a Service uses what a rule is about.
func uses(svc *corev1.Service, rule string) []use {
	name := annotation.Prefix + rule
	value, set := svc.Annotations[name]
	value = strings.TrimSpace(value)
	if name != annotation.Address {
		if !set {
			return nil
		}
		return []use{{"annotation " + name, value}}
	}
	// An empty address asks for any address, as annotation.Parse reads it.
	var out []use
	if value != "" {
		out = append(out, use{"annotation " + name, value})
	}
	if ip := strings.TrimSpace(svc.Spec.LoadBalancerIP); ip != "" {
		out = append(out, use{"spec.loadBalancerIP", ip})
	}
	return out
}

func (p Policy) decide(r Rule, path, what string, ns Namespace, value string) *Denial {
	switch {
	case r.restricted() && !anyMatches(r.Allow, ns):
		return denied(path, fmt.Sprintf("%s (%q) is not allowed in namespace %s", what, value, ns.Name),
			fmt.Sprintf("do without it, or ask your cluster's operator, who can add the namespace to tenancy.%s.allow", path))
	case len(r.Values) > 0 && !slices.Contains(r.Values, value):
		return denied(path, fmt.Sprintf("%s: %q is not one of the allowed values: %s", what, value, strings.Join(r.Values, ", ")),
			fmt.Sprintf("use one of them, or ask your cluster's operator, who can add the value to tenancy.%s.values", path))
	}
	return nil
}

func denied(path, message, remedy string) *Denial {
	rule := "tenancy." + path
	return &Denial{Rule: rule, Message: message + " (chart value " + rule + ")", Remedy: remedy}
}

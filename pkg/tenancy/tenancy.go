// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenancy decides what the Services of a namespace may ask of CloudStack. A cluster's operator writes one
// Policy: the chart's value tenancy. The controller enforces it. The package is pure: no clients, no clock.
package tenancy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
)

// Everybody matches every namespace in a list of namespaces. The other entries of such a list are a namespace's name,
// or a label selector as kubectl -l takes it, such as team=platform or env in (test, stage).
const Everybody = "*"

// Names of the rules about the address that a Service gets, which its annotations do not show.
const (
	SourceNATAddress = "sourceNATAddress" // the source NAT address of an isolated network
	ForeignAddress   = "foreignAddress"   // an address that the account holds but this cluster did not acquire
)

// Policy is what an operator allows. The zero Policy allows everything.
type Policy struct {
	// TrustedNamespaces are exempt from every rule and limit.
	TrustedNamespaces []string `json:"trustedNamespaces,omitempty"`
	// Annotations are rules for annotations of Services. A key is the annotation's name without annotation.Prefix.
	Annotations      map[string]Rule `json:"annotations,omitempty"`
	SourceNATAddress Rule            `json:"sourceNATAddress,omitzero"`
	ForeignAddress   Rule            `json:"foreignAddress,omitzero"`
	Limits           Limits          `json:"limits,omitzero"`
	// AddressReservation is how long an address is reserved for a namespace after the last of its Services left it.
	AddressReservation metav1.Duration `json:"addressReservation,omitzero"`
}

// Rule says who may use something, and with which values. The zero Rule allows every namespace every value.
type Rule struct {
	// the namespaces that may use it; empty means all namespaces, or with Deny no namespace
	Allow  []string `json:"allow,omitempty"`
	Values []string `json:"values,omitempty"` // the only values allowed; empty means any
	Deny   bool     `json:"deny,omitempty"`   // refuses it to all namespaces that Allow does not name
}

// Limits are numbers that a namespace or a Service may not exceed.
type Limits struct {
	// MaxAddressesPerNamespace counts the addresses of a namespace's Services, including internal ones; 0 means no
	// limit.
	MaxAddressesPerNamespace int         `json:"maxAddressesPerNamespace,omitempty"`
	MaxPortsPerService       int         `json:"maxPortsPerService,omitempty"`   // 0 means no limit
	MaxPortsPerNamespace     int         `json:"maxPortsPerNamespace,omitempty"` // 0 means no limit
	KeepIP                   KeepIPLimit `json:"keepIP,omitzero"`
}

// KeepIPLimit limits the addresses that stay allocated because of the annotation keep-ip.
type KeepIPLimit struct {
	// MaxPerNamespace counts the addresses of a namespace; nil means no limit, 0 means none.
	MaxPerNamespace *int `json:"maxPerNamespace,omitempty"`
}

// Namespace is the namespace of a Service.
type Namespace struct {
	Name   string
	Labels map[string]string
}

// Default returns the policy of a cluster whose operator wrote none. The chart's default values are the same.
func Default() Policy {
	no := Rule{Deny: true}
	return Policy{
		TrustedNamespaces: []string{metav1.NamespaceSystem},
		Annotations:       map[string]Rule{"network": no, "project": no, "zone": no, "ssl-certificate": no},
		SourceNATAddress:  no,
		ForeignAddress:    no,
		Limits: Limits{
			MaxPortsPerService:   100,
			MaxPortsPerNamespace: 200,
			KeepIP:               KeepIPLimit{MaxPerNamespace: new(2)},
		},
		AddressReservation: metav1.Duration{Duration: 5 * time.Minute},
	}
}

// Trusts reports whether a namespace is exempt from every rule and limit.
func (p Policy) Trusts(ns Namespace) bool {
	return slices.ContainsFunc(p.TrustedNamespaces, ns.Matches)
}

// NeedsLabels reports whether a decision may depend on the labels of the namespace.
func (p Policy) NeedsLabels() bool {
	return slices.ContainsFunc(p.entries(), isSelector)
}

// entries returns all lists of namespaces as one.
func (p Policy) entries() []string {
	all := slices.Concat(p.TrustedNamespaces, p.SourceNATAddress.Allow, p.ForeignAddress.Allow)
	for _, r := range p.Annotations {
		all = append(all, r.Allow...)
	}
	return all
}

// isSelector reports whether an entry contains an operator of a label selector, which the name of a namespace cannot.
func isSelector(entry string) bool { return strings.ContainsAny(entry, "=!(") }

// Matches reports whether an entry of a list matches the namespace. An invalid entry matches none.
func (ns Namespace) Matches(entry string) bool {
	if !isSelector(entry) {
		return entry == Everybody || entry == ns.Name
	}
	selector, err := labels.Parse(entry)
	return err == nil && selector.Matches(labels.Set(ns.Labels))
}

// Parse parses the JSON of a policy, as the chart writes it. An unknown field is an error. Omitted fields restrict
// nothing: Parse does not apply the values of Default.
func Parse(text []byte) (Policy, error) {
	var p Policy
	if err := json.Unmarshal(text, &p, json.RejectUnknownMembers(true)); err != nil {
		return Policy{}, fmt.Errorf("tenancy: %w", err)
	}
	return p, p.validate()
}

// validate returns all errors in the policy, joined.
func (p Policy) validate() error {
	var errs []error
	names := annotation.UserNames()
	for _, name := range slices.Sorted(maps.Keys(p.Annotations)) {
		if !slices.Contains(names, name) {
			errs = append(errs,
				fmt.Errorf("tenancy.annotations: there is no annotation %q; allowed: %s", name,
					strings.Join(names, ", ")))
		}
	}

	for _, entry := range p.entries() {
		if _, err := labels.Parse(entry); isSelector(entry) && err != nil {
			errs = append(errs, fmt.Errorf("tenancy: label selector %q: %w", entry, err))
		} else if !isSelector(entry) && entry != Everybody && len(validation.IsDNS1123Label(entry)) > 0 {
			errs = append(errs,
				fmt.Errorf("tenancy: %q is not a namespace; allowed: a namespace's name, \"*\", or a label selector "+
					"such as team=platform", entry))
		}
	}

	for name, limit := range map[string]int{
		"maxAddressesPerNamespace": p.Limits.MaxAddressesPerNamespace,
		"maxPortsPerService":       p.Limits.MaxPortsPerService,
		"maxPortsPerNamespace":     p.Limits.MaxPortsPerNamespace,
		"keepIP.maxPerNamespace":   ptr.Deref(p.Limits.KeepIP.MaxPerNamespace, 0),
	} {
		if limit < 0 {
			errs = append(errs, fmt.Errorf("tenancy.limits.%s: %d is negative", name, limit))
		}
	}

	if p.AddressReservation.Duration < 0 {
		errs = append(errs, fmt.Errorf("tenancy.addressReservation: %s is negative", p.AddressReservation.Duration))
	}

	return errors.Join(errs...)
}

// Denial is why the policy refuses something.
type Denial struct {
	Message string // what is refused, and the chart value that refuses it, such as tenancy.annotations.network
	Remedy  string // what a tenant and an operator can do
}

// Check returns why the policy refuses what the Service itself shows: its annotations, spec.loadBalancerIP and ports.
// It returns nil when the policy allows them.
func (p Policy) Check(ns Namespace, svc *corev1.Service) *Denial {
	if p.Trusts(ns) {
		return nil
	}

	address := strings.TrimPrefix(annotation.Address, annotation.Prefix)
	for _, rule := range slices.Sorted(maps.Keys(p.Annotations)) {
		value, set := svc.Annotations[annotation.Prefix+rule]
		value = strings.TrimSpace(value)
		// An empty address means any address, as in annotation.Parse.
		if set && (value != "" || rule != address) {
			if d := p.Allows(rule, ns, value); d != nil {
				return d
			}
		}
	}

	if ip := strings.TrimSpace(svc.Spec.LoadBalancerIP); ip != "" {
		if d := p.Annotations[address].decide("annotations."+address, "spec.loadBalancerIP", ns, ip); d != nil {
			return d
		}
	}

	if keepIP, _ := annotation.Bool(svc.Annotations[annotation.KeepIP]); keepIP &&
		ptr.Deref(p.Limits.KeepIP.MaxPerNamespace, 1) == 0 {
		return denied("limits.keepIP.maxPerNamespace",
			"annotation "+annotation.KeepIP+" is not allowed in namespace "+ns.Name,
			"remove the annotation, or ask your cluster's operator, who can raise the limit")
	}

	if limit := p.Limits.MaxPortsPerService; limit > 0 && len(svc.Spec.Ports) > limit {
		return denied("limits.maxPortsPerService",
			fmt.Sprintf("the Service has %d ports, and in namespace %s %d are allowed", len(svc.Spec.Ports), ns.Name,
				limit),
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
		return p.SourceNATAddress.decide(rule, "the source NAT address of a network", ns, value)
	case ForeignAddress:
		return p.ForeignAddress.decide(rule, "an address that this cluster did not acquire", ns, value)
	}
	return p.Annotations[rule].decide("annotations."+rule, "annotation "+annotation.Prefix+rule, ns, value)
}

func (r Rule) decide(path, what string, ns Namespace, value string) *Denial {
	switch {
	case (r.Deny || len(r.Allow) > 0) && !slices.ContainsFunc(r.Allow, ns.Matches):
		return denied(path, fmt.Sprintf("%s (%q) is not allowed in namespace %s", what, value, ns.Name),
			fmt.Sprintf("do without it, or ask your cluster's operator, who can add the namespace to tenancy.%s.allow",
				path))
	case len(r.Values) > 0 && !slices.Contains(r.Values, value):
		return denied(path,
			fmt.Sprintf("%s: %q is not one of the allowed values: %s", what, value, strings.Join(r.Values, ", ")),
			fmt.Sprintf("use one of them, or ask your cluster's operator, who can add the value to tenancy.%s.values",
				path))
	}
	return nil
}

func denied(path, message, remedy string) *Denial {
	return &Denial{Message: message + " (chart value tenancy." + path + ")", Remedy: remedy}
}

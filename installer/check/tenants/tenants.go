// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenants compares the Services of a cluster with the operator's policy (pkg/tenancy): which Services the policy
// refuses, and which chart values keep them working. It is pure, apart from Decide.
package tenants

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// View is what the policy is compared with.
type View struct {
	Services []corev1.Service
	// Labels of the namespaces, by name. They matter only to a policy with label selectors.
	Labels map[string]map[string]string
	// Addresses are CloudStack's, by IP. An address that is missing is not judged.
	Addresses map[string]Address
}

// Address is what CloudStack says about a public address.
type Address struct {
	SourceNAT bool
	// Foreign reports whether the address carries rules that no Service of this cluster has, and CloudStack's tags do not
	// say that this cluster acquired it.
	Foreign bool
}

// Refusal is one rule that a Service breaks.
type Refusal struct {
	Service string `json:"service"` // namespace/name
	Rule    string `json:"rule"`    // chart value, such as tenancy.annotations.network
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Serving reports whether the Service has an address now, so that a refusal would end something that works.
	Serving bool `json:"serving"`
}

// Keep returns the chart values that let the serving Services be which the policy refuses, nil when none is needed, and
// all refusals. A Service without an address has nothing to lose and stays refused.
func Keep(p tenancy.Policy, v View) (map[string]any, []Refusal, error) {
	kept, out := compare(p, v)
	values, err := difference(p, kept)
	return values, out, err
}

// compare returns the policy that keeps the serving Services, and what the given one refuses.
func compare(p tenancy.Policy, v View) (tenancy.Policy, []Refusal) {
	kept := clone(p)
	var out []Refusal
	note := func(svc *corev1.Service, d *tenancy.Denial, allow func(*tenancy.Policy)) {
		r := Refusal{Service: key(svc), Rule: d.Rule, Message: d.Message, Remedy: d.Remedy, Serving: serving(svc)}
		if r.Serving && allow != nil {
			allow(&kept)
		}
		out = append(out, r)
	}
	for _, svc := range Balanced(v.Services) {
		ns := v.namespace(svc)
		// Check names one rule at a time: what it names is allowed in a copy, until nothing is left.
		judged := clone(p)
		for range maxRules {
			d := v.deny(judged, ns, svc)
			if d == nil {
				break
			}
			if !v.allow(&judged, d.Rule, ns, svc) {
				note(svc, d, nil) // a rule that is not known here
				break
			}
			note(svc, d, func(kept *tenancy.Policy) { v.allow(kept, d.Rule, ns, svc) })
		}
	}
	for _, over := range v.overLimit(p) {
		note(over.svc, over.denial, over.raise)
	}
	slices.SortStableFunc(out, func(a, b Refusal) int { return cmp.Compare(a.Service, b.Service) })
	return kept, out
}

// maxRules bounds the rules that one Service can break: those of the annotations, two of addresses, and the limits.
const maxRules = 64

// deny returns the first rule that the Service breaks, by itself or by the address that it has.
func (v View) deny(p tenancy.Policy, ns tenancy.Namespace, svc *corev1.Service) *tenancy.Denial {
	if d := p.Check(ns, svc); d != nil {
		return d
	}
	for _, ip := range append(ingress(svc), wanted(svc)...) {
		a := v.Addresses[ip]
		for rule, applies := range map[string]bool{tenancy.SourceNATAddress: a.SourceNAT, tenancy.ForeignAddress: a.Foreign && !a.SourceNAT} {
			if !applies {
				continue
			}
			if d := p.Allows(rule, ns, ip); d != nil {
				return d
			}
		}
	}
	return nil
}

func (v View) namespace(svc *corev1.Service) tenancy.Namespace {
	return tenancy.Namespace{Name: svc.Namespace, Labels: v.Labels[svc.Namespace]}
}

// Balanced returns the Services that the controller serves, sorted by name.
func Balanced(services []corev1.Service) []*corev1.Service {
	var out []*corev1.Service
	for i := range services {
		s := &services[i]
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Service) int { return cmp.Compare(key(a), key(b)) })
	return out
}

func key(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

func serving(svc *corev1.Service) bool { return len(svc.Status.LoadBalancer.Ingress) > 0 }

// ingress returns the addresses that the Service shows.
func ingress(svc *corev1.Service) []string {
	var out []string
	for i := range svc.Status.LoadBalancer.Ingress {
		if ip := svc.Status.LoadBalancer.Ingress[i].IP; ip != "" {
			out = append(out, ip)
		}
	}
	return out
}

// wanted returns the addresses that the Service asks for.
func wanted(svc *corev1.Service) []string {
	var out []string
	for _, ip := range []string{svc.Annotations[annotation.Address], svc.Spec.LoadBalancerIP} {
		if ip = strings.TrimSpace(ip); ip != "" {
			out = append(out, ip)
		}
	}
	return out
}

// Addresses returns what the policy's rules about addresses are judged by. clusterIDs are the ids of the
// cluster in tags.
func Addresses(addresses []cloudstack.PublicIP, rules []cloudstack.LoadBalancerRule, services []corev1.Service, clusterIDs []string) map[string]Address {
	others := foreign(rules, services)
	out := make(map[string]Address, len(addresses))
	for i := range addresses {
		a := &addresses[i]
		acquired := a.Tags[plan.TagAllocatedBy] == plan.ManagedBy && slices.Contains(clusterIDs, a.Tags[plan.TagCluster])
		out[a.Address] = Address{SourceNAT: a.SourceNAT, Foreign: !acquired && others[a.Address]}
	}
	return out
}

// foreign returns the addresses that carry rules which no Service has.
func foreign(have []cloudstack.LoadBalancerRule, services []corev1.Service) map[string]bool {
	inventory := rules.Inventory{Services: services}
	for i := range have {
		inventory.Rules = append(inventory.Rules, rules.Rule{LoadBalancerRule: have[i]})
	}
	out := map[string]bool{}
	plan := rules.MakePlan(inventory, rules.Selection{})
	for i := range plan.Items {
		if plan.Items[i].Service == "" {
			out[plan.Items[i].PublicIP] = true
		}
	}
	return out
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenants compares the Services of a cluster with the operator's policy (pkg/tenancy): which Services the policy
// refuses. It is pure, apart from Decide.
package tenants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

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

func (r *Refusal) String() string {
	if r.Serving {
		return fmt.Sprintf("Service %s is refused: %s", r.Service, r.Message)
	}
	return fmt.Sprintf("Service %s is refused; it has no address yet: %s", r.Service, r.Message)
}

// Refusals returns what the policy refuses, by Service. Of the rules for what a Service itself shows it names the first; of a
// namespace that exceeds a limit the oldest Services are within it.
func Refusals(p tenancy.Policy, v View) []Refusal {
	var out []Refusal
	kept, held := map[string]int{}, map[string]sets.Set[string]{}
	byAge := Balanced(v.Services)
	slices.SortStableFunc(byAge, func(a, b *corev1.Service) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, svc := range byAge {
		ns := tenancy.Namespace{Name: svc.Namespace, Labels: v.Labels[svc.Namespace]}
		if p.Trusts(ns) {
			continue
		}
		note := func(d *tenancy.Denial) {
			if d != nil {
				out = append(out, Refusal{Service: key(svc), Rule: d.Rule, Message: d.Message, Remedy: d.Remedy, Serving: len(svc.Status.LoadBalancer.Ingress) > 0})
			}
		}
		exceeds := func(rule string, n, limit int, what string) {
			if n > limit {
				note(&tenancy.Denial{
					Rule: rule, Remedy: "delete a Service, or raise the limit",
					Message: fmt.Sprintf("namespace %s has %d %s, and %d are allowed (chart value %s)", ns.Name, n, what, limit, rule),
				})
			}
		}
		note(p.Check(ns, svc))
		shown := sets.New(Ingress(svc)...)
		for _, ip := range sets.List(shown.Union(sets.New(wanted(svc)...))) {
			switch a := v.Addresses[ip]; {
			case a.SourceNAT:
				note(p.Allows(tenancy.SourceNATAddress, ns, ip))
			case a.Foreign:
				note(p.Allows(tenancy.ForeignAddress, ns, ip))
			}
		}
		before := len(held[ns.Name])
		held[ns.Name] = shown.Union(held[ns.Name])
		if limit, n := p.Limits.MaxAddressesPerNamespace, len(held[ns.Name]); limit > 0 && n > before {
			exceeds("tenancy.limits.maxAddressesPerNamespace", n, limit, "addresses")
		}
		if keep, _ := annotation.Bool(svc.Annotations[annotation.KeepIP]); keep {
			kept[ns.Name]++
			if limit := ptr.Deref(p.Limits.KeepIP.MaxPerNamespace, 0); limit > 0 { // Check judges none at all
				exceeds("tenancy.limits.keepIP.maxPerNamespace", kept[ns.Name], limit, "Services with annotation "+annotation.KeepIP)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Refusal) int { return cmp.Compare(a.Service, b.Service) })
	return out
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

// Ingress returns the addresses that the Service shows.
func Ingress(svc *corev1.Service) []string {
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
	out := map[string]bool{}
	plan := rules.MakePlan(have, services, nil, nil)
	for i := range plan.Items {
		if plan.Items[i].Service == "" {
			out[plan.Items[i].PublicIP] = true
		}
	}
	return out
}

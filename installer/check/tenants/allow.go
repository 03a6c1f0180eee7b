// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Names of rules as a Denial has them: paths of chart values.
const (
	prefix          = "tenancy."
	annotationRules = prefix + "annotations."
	rulePorts       = prefix + "limits.maxPortsPerService"
	ruleAddresses   = prefix + "limits.maxAddressesPerNamespace"
	ruleKept        = prefix + "limits.keepIP.maxPerNamespace"
)

// allow changes the policy so that the rule does not refuse the Service. It reports whether it could.
func (v View) allow(p *tenancy.Policy, rule string, ns tenancy.Namespace, svc *corev1.Service) bool {
	switch {
	case strings.HasPrefix(rule, annotationRules):
		name := strings.TrimPrefix(rule, annotationRules)
		r := p.Annotations[name]
		changed := permit(&r, ns, values(svc, name))
		if changed {
			p.Annotations[name] = r
		}
		return changed
	case rule == prefix+tenancy.SourceNATAddress:
		return permit(&p.SourceNATAddress, ns, ingress(svc))
	case rule == prefix+tenancy.ForeignAddress:
		return permit(&p.ForeignAddress, ns, ingress(svc))
	case rule == rulePorts:
		p.Limits.MaxPortsPerService = max(p.Limits.MaxPortsPerService, len(svc.Spec.Ports))
		return true
	case rule == ruleKept: // none may be kept
		n := 0
		for _, s := range Balanced(v.Services) {
			if s.Namespace == svc.Namespace && keeps(s) {
				n++
			}
		}
		p.Limits.KeepIP.MaxPerNamespace = raised(p.Limits.KeepIP.MaxPerNamespace, n)
		return true
	}
	return false
}

// permit adds the namespace and the values to a rule. It returns false where the rule is not what refuses them.
func permit(r *tenancy.Rule, ns tenancy.Namespace, values []string) bool {
	changed := false
	restricted := r.Deny || len(r.Allow) > 0
	if restricted && !slices.ContainsFunc(r.Allow, ns.Matches) {
		r.Allow = append(slices.Clone(r.Allow), ns.Name)
		changed = true
	}
	if len(r.Values) == 0 {
		return changed
	}
	for _, v := range values {
		if !slices.Contains(r.Values, v) {
			r.Values = append(slices.Clone(r.Values), v)
			changed = true
		}
	}
	return changed
}

// values returns what a Service gives an annotation, by its name without the prefix.
func values(svc *corev1.Service, name string) []string {
	if annotation.Prefix+name == annotation.Address {
		return wanted(svc)
	}
	return []string{strings.TrimSpace(svc.Annotations[annotation.Prefix+name])}
}

// over is a Service by which a namespace exceeds a limit.
type over struct {
	svc    *corev1.Service
	denial *tenancy.Denial
	raise  func(*tenancy.Policy)
}

// overLimit returns the Services that exceed a limit of their namespace: the oldest are within it. A limit of 0 for kept
// addresses is not judged here, Check does that for each Service.
func (v View) overLimit(p tenancy.Policy) []over {
	var out []over
	kept, held := map[string]int{}, map[string]map[string]bool{}
	byAge := Balanced(v.Services)
	slices.SortStableFunc(byAge, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(key(a), key(b)))
	})
	for _, svc := range byAge {
		ns := v.namespace(svc)
		if p.Trusts(ns) {
			continue
		}
		if keeps(svc) {
			kept[ns.Name]++
			n := kept[ns.Name]
			if limit := p.Limits.KeepIP.MaxPerNamespace; limit != nil && *limit > 0 && n > *limit {
				out = append(out, exceeded(svc, ruleKept, n, *limit, "Services with annotation "+annotation.KeepIP, func(p *tenancy.Policy) {
					p.Limits.KeepIP.MaxPerNamespace = raised(p.Limits.KeepIP.MaxPerNamespace, n)
				}))
			}
		}
		if held[ns.Name] == nil {
			held[ns.Name] = map[string]bool{}
		}
		for _, ip := range ingress(svc) {
			if held[ns.Name][ip] {
				continue
			}
			held[ns.Name][ip] = true
			n := len(held[ns.Name])
			if limit := p.Limits.MaxAddressesPerNamespace; limit > 0 && n > limit {
				out = append(out, exceeded(svc, ruleAddresses, n, limit, "addresses", func(p *tenancy.Policy) {
					p.Limits.MaxAddressesPerNamespace = max(p.Limits.MaxAddressesPerNamespace, n)
				}))
			}
		}
	}
	return out
}

func keeps(svc *corev1.Service) bool {
	keep, _ := annotation.Bool(svc.Annotations[annotation.KeepIP])
	return keep
}

func raised(limit *int, n int) *int {
	if limit == nil || *limit >= n {
		return limit
	}
	return &n
}

func exceeded(svc *corev1.Service, rule string, n, limit int, what string, raise func(*tenancy.Policy)) over {
	return over{svc, &tenancy.Denial{
		Rule:    rule,
		Message: fmt.Sprintf("namespace %s has %d %s, and %d are allowed (chart value %s)", svc.Namespace, n, what, limit, rule),
		Remedy:  "delete a Service, or raise the limit",
	}, raise}
}

func clone(p tenancy.Policy) tenancy.Policy {
	p.Annotations = maps.Clone(p.Annotations)
	return p
}

// difference returns the chart values that make one policy of another: the rules and limits that differ, whole, since a
// list in chart values replaces the one below it.
func difference(from, to tenancy.Policy) (map[string]any, error) {
	was, err := generic(from)
	if err != nil {
		return nil, err
	}
	now, err := generic(to)
	if err != nil {
		return nil, err
	}
	changed := differing(was, now)
	if len(changed) == 0 {
		return nil, nil //nolint:nilnil // no values are an answer
	}
	return map[string]any{"tenancy": changed}, nil
}

func generic(p tenancy.Policy) (map[string]any, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("tenancy: %w", err)
	}
	var out map[string]any
	err = json.Unmarshal(text, &out)
	return out, err
}

func differing(was, now map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range now {
		below, isMap := value.(map[string]any)
		before, wasMap := was[name].(map[string]any)
		switch {
		case reflect.DeepEqual(was[name], value):
		case isMap && wasMap:
			out[name] = differing(before, below)
		default:
			out[name] = value
		}
	}
	return out
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	_ "embed" // the manifest
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// Names of the roles and of the groups that they are bound to.
const (
	Operator = "csccm-operator"
	Reader   = "csccm-reader"
)

//go:embed roles.yaml.tmpl
var manifest string

// Granted holds the rules that the chart grants to the controller, by the place of their role.
type Granted map[Place][]rbacv1.PolicyRule

// role is a role of the manifest, which is bound to the group of its name.
type role struct{ Kind, Name, Namespace, Rules string }

// Roles returns the manifest docs/csccm-rights.yaml.
func Roles(granted Granted) (string, error) {
	reads := []string{"doctor", "status", "plan", "support-bundle", "ui"}
	var roles []role
	for _, name := range []string{Operator, Reader} {
		keep, given := func(*Right, string) bool { return true }, granted
		if name == Reader {
			given = nil
			keep = func(r *Right, verb string) bool {
				return (verb == "get" || verb == "list" || verb == "watch") && slices.ContainsFunc(reads, func(c string) bool { return slices.Contains(r.Commands, c) })
			}
		}
		for _, places := range [][]Place{{Everywhere}, {System, Release}, {Heartbeats}} {
			text, err := yaml.Marshal(rules(keep, given, places...))
			if err != nil {
				return "", fmt.Errorf("roles: %w", err)
			}
			r := role{"Role", name, string(places[0]), string(text)}
			if r.Namespace == "" {
				r.Kind = "ClusterRole"
			}
			roles = append(roles, r)
		}
	}
	var b strings.Builder
	t, err := template.New("roles").Parse(manifest)
	if err == nil {
		err = t.Execute(&b, roles)
	}
	return b.String(), err
}

// rules returns the rules for some places, combined into as few rules as possible.
func rules(keep func(*Right, string) bool, granted Granted, places ...Place) []rbacv1.PolicyRule {
	verbs := map[Kind]sets.Set[string]{}
	add := func(k Kind, more ...string) { verbs[k] = verbs[k].Union(sets.New(more...)) }
	var named, out []rbacv1.PolicyRule
	table := Table()
	for _, place := range places {
		for i := range table {
			r := &table[i]
			for _, v := range r.Verbs {
				if r.Place == place && keep(r, v) {
					add(Kind{r.Group, r.Resource}, v)
				}
			}
		}
		for _, rule := range granted[place] {
			if len(rule.ResourceNames) > 0 {
				named = append(named, rule)
				continue
			}
			for _, g := range rule.APIGroups {
				for _, r := range rule.Resources {
					add(Kind{g, r}, rule.Verbs...)
				}
			}
		}
	}
	order := func(a, b Kind) int { return strings.Compare(a.Group+" "+a.Resource, b.Group+" "+b.Resource) }
	for _, k := range slices.SortedFunc(maps.Keys(verbs), order) {
		v := sets.List(verbs[k])
		i := slices.IndexFunc(out, func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == k.Group && slices.Equal(r.Verbs, v) })
		if i < 0 {
			i, out = len(out), append(out, rbacv1.PolicyRule{APIGroups: []string{k.Group}, Verbs: v})
		}
		out[i].Resources = append(out[i].Resources, k.Resource)
	}
	return append(out, named...)
}

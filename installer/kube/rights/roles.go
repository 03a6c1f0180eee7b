// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Names of the roles and of the groups that they are bound to.
const (
	Operator = "csccm-operator"
	Reader   = "csccm-reader"
)

const rolesHead = `# Written by go generate ./installer/kube/rights. Do not edit.
#
# The minimum permissions for users of csccm who are not cluster administrators: group csccm-operator may run all
# commands, group csccm-reader those that change nothing. Replace the groups in the bindings by your groups or users.
#
# An operator also needs the controller's permissions, because Kubernetes does not allow granting permissions that one does
# not have. Users who may write workloads and read Secrets in kube-system, or use nodes/proxy, can obtain more permissions
# than this file lists: see docs/security.md.
#
# If the release is not in kube-system, also apply the roles and bindings of kube-system in the namespace of the release.
`

// Granted holds the rules that the chart grants to the controller, by the place of their role.
type Granted map[Place][]rbacv1.PolicyRule

// Roles returns the manifest docs/csccm-rights.yaml.
func Roles(granted Granted) (string, error) {
	reads := []string{"doctor", "status", "plan", "support-bundle", "ui"}
	var objects []runtime.Object
	for _, role := range []struct {
		name    string
		granted Granted
		keep    func(r *Right, verb string) bool
	}{
		{Operator, granted, func(*Right, string) bool { return true }},
		{Reader, nil, func(r *Right, verb string) bool {
			return (verb == "get" || verb == "list" || verb == "watch") && slices.ContainsFunc(reads, func(c string) bool { return slices.Contains(r.Commands, c) })
		}},
	} {
		objects = append(objects, clusterRole(role.name, rules(role.keep, role.granted, Everywhere))...)
		for _, place := range []Place{System, Heartbeats} {
			from := []Place{place}
			if place == System {
				from = append(from, Release)
			}
			objects = append(objects, namespacedRole(role.name, string(place), rules(role.keep, role.granted, from...))...)
		}
	}
	var b strings.Builder
	b.WriteString(rolesHead)
	for i, o := range objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("roles: %w", err)
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(raw)
	}
	return b.String(), nil
}

// rules returns the rules for some places, combined into as few rules as possible.
func rules(keep func(*Right, string) bool, granted Granted, places ...Place) []rbacv1.PolicyRule {
	verbs := map[Kind][]string{}
	var named []rbacv1.PolicyRule
	add := func(k Kind, more ...string) {
		for _, v := range more {
			if !slices.Contains(verbs[k], v) {
				verbs[k] = append(verbs[k], v)
			}
		}
	}
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
	var out []rbacv1.PolicyRule
	for k, v := range verbs {
		slices.Sort(v)
		i := slices.IndexFunc(out, func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == k.Group && slices.Equal(r.Verbs, v) })
		if i < 0 {
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{k.Group}, Verbs: v})
			i = len(out) - 1
		}
		out[i].Resources = append(out[i].Resources, k.Resource)
	}
	for i := range out {
		slices.Sort(out[i].Resources)
	}
	slices.SortFunc(out, func(a, b rbacv1.PolicyRule) int {
		return strings.Compare(a.APIGroups[0]+" "+a.Resources[0], b.APIGroups[0]+" "+b.Resources[0])
	})
	return append(out, named...)
}

func clusterRole(name string, rules []rbacv1.PolicyRule) []runtime.Object {
	meta := metav1.ObjectMeta{Name: name}
	return []runtime.Object{
		&rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta, RoleRef: ref("ClusterRole", name), Subjects: group(name)},
	}
}

func namespacedRole(name, namespace string, rules []rbacv1.PolicyRule) []runtime.Object {
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	return []runtime.Object{
		&rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: rules},
		&rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta, RoleRef: ref("Role", name), Subjects: group(name)},
	}
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
}

func ref(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func group(name string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}}
}

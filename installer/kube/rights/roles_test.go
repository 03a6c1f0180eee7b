// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/pkg/testenv/golden"
)

var update = flag.Bool("update", false, "write docs/csccm-rights.yaml again")

// TestRoles compares docs/csccm-rights.yaml, in which each role is bound to the group of its name, with the table and
// the chart.
func TestRoles(t *testing.T) {
	t.Parallel()
	chart := grantedByChart(t)
	var all []rbacv1.Role
	for _, name := range []string{rights.Operator, rights.Reader} {
		for _, places := range [][]rights.Place{
			{rights.Everywhere},
			{rights.System, rights.Release},
			{rights.Heartbeats},
		} {
			where := metav1.ObjectMeta{Name: name, Namespace: string(places[0])}
			all = append(all, rbacv1.Role{ObjectMeta: where, Rules: rules(name == rights.Reader, chart, places...)})
		}
	}

	text := func(v any) (string, error) {
		out, err := yaml.Marshal(v)
		return string(out), err
	}

	var b strings.Builder
	manifest, err := template.New("roles.yaml.tmpl").Funcs(template.FuncMap{
		"yaml": text,
	}).ParseFiles("testdata/roles.yaml.tmpl")
	require.NoError(t, err)
	require.NoError(t, manifest.Execute(&b, all))
	want := b.String()
	golden.File(t, "../../../docs/csccm-rights.yaml", want, *update, "go generate ./installer/kube/rights")
	require.Contains(t, want,
		"  resourceNames:\n  - system:auth-delegator\n  resources:\n  - clusterroles\n  verbs:\n  - bind\n")
	_, reader, ok := strings.Cut(want, "kind: ClusterRole\nmetadata:\n  name: "+rights.Reader)
	require.True(t, ok)
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		require.NotContains(t, reader, "- "+verb+"\n")
	}
}

// granted has the rules that the chart grants to the controller, by the place of their role.
type granted map[rights.Place][]rbacv1.PolicyRule

// reads reports whether a reader has the verb.
func reads(r *rights.Right, verb string) bool {
	commands := []string{"doctor", "status", "plan", "support-bundle", "ui"}
	return slices.Contains([]string{"get", "list", "watch"}, verb) &&
		slices.ContainsFunc(commands, func(c string) bool { return slices.Contains(r.Commands, c) })
}

// rules returns the rules for some places, combined into as few rules as possible. A reader gets none of the rules that
// the chart grants.
func rules(reader bool, chart granted, places ...rights.Place) []rbacv1.PolicyRule {
	verbs := map[schema.GroupResource]sets.Set[string]{}
	add := func(group, resource string, more ...string) {
		k := schema.GroupResource{Group: group, Resource: resource}
		verbs[k] = verbs[k].Union(sets.New(more...))
	}

	var named, out []rbacv1.PolicyRule
	table := rights.Table()
	for _, place := range places {
		for _, r := range table {
			for _, v := range r.Verbs {
				if r.Place == place && (!reader || reads(&r, v)) {
					add(r.Group, r.Resource, v)
				}
			}
		}

		for _, rule := range chart[place] {
			switch {
			case reader:
			case len(rule.ResourceNames) > 0:
				named = append(named, rule)
			default:
				for _, g := range rule.APIGroups {
					for _, r := range rule.Resources {
						add(g, r, rule.Verbs...)
					}
				}
			}
		}
	}

	order := func(a, b schema.GroupResource) int {
		return strings.Compare(a.Group+" "+a.Resource, b.Group+" "+b.Resource)
	}
	for _, k := range slices.SortedFunc(maps.Keys(verbs), order) {
		v := sets.List(verbs[k])
		i := slices.IndexFunc(out,
			func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == k.Group && slices.Equal(r.Verbs, v) })
		if i < 0 {
			i, out = len(out), append(out, rbacv1.PolicyRule{APIGroups: []string{k.Group}, Verbs: v})
		}
		out[i].Resources = append(out[i].Resources, k.Resource)
	}

	return append(out, named...)
}

// grantedByChart returns the rules of the chart's roles, and the permission to bind the predefined roles of Kubernetes
// that the chart binds.
func grantedByChart(t *testing.T) granted {
	t.Helper()
	chart, err := helm.Embedded()
	require.NoError(t, err)
	manifest, err := helm.Template(t.Context(), metav1.NamespaceSystem,
		helm.ApplyRequest{Name: "cloudstack-ccm", Chart: chart, KubeVersion: "v1.37.0"})
	require.NoError(t, err)
	out := granted{}
	var own []string
	var bound []rbacv1.RoleRef
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		var o struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Rules             []rbacv1.PolicyRule `json:"rules"`
			RoleRef           rbacv1.RoleRef      `json:"roleRef"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &o))
		switch {
		case len(o.Rules) > 0:
			place := rights.Place(o.Namespace)
			out[place] = append(out[place], o.Rules...)
			own = append(own, o.Kind+"/"+o.Name)
		case o.RoleRef.Name != "":
			bound = append(bound, o.RoleRef)
		}
	}

	for _, r := range bound {
		if slices.Contains(own, r.Kind+"/"+r.Name) {
			continue
		}
		place, resource := rights.Everywhere, "clusterroles"
		if r.Kind == "Role" {
			place, resource = rights.System, "roles"
		}
		out[place] = append(out[place], rbacv1.PolicyRule{
			APIGroups:     []string{rbacv1.GroupName},
			Resources:     []string{resource},
			ResourceNames: []string{r.Name},
			Verbs:         []string{"bind"},
		})
	}

	return out
}

func TestRequests(t *testing.T) {
	t.Parallel()
	text := func(rs []rights.Request) []string {
		var out []string
		for _, r := range rs {
			out = append(out, r.String())
		}
		return out
	}
	needed, optional := rights.Requests("install", "infra", nil)
	all := text(needed)
	require.NotContains(t, all, "create namespaces", "only if the namespace does not exist")
	require.NotContains(t, all, "create daemonsets.apps in infra", "not by default")
	require.NotContains(t, all, "patch daemonsets.apps in kube-system", "only for takeover")
	require.Subset(t, text(optional), []string{"get nodes/proxy", "get pods/proxy in infra"})
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "each once")

	needed, _ = rights.Requests("install", "infra", []schema.GroupResource{{Group: "apps", Resource: "daemonsets"}})
	require.Contains(t, text(needed), "create daemonsets.apps in infra")
	require.NotContains(t, text(needed), "create deployments.apps in infra", "the chart has no Deployment")

	needed, _ = rights.Requests("takeover", "infra", nil)
	require.Contains(t, text(needed), "patch deployments.apps in kube-system")
	needed, optional = rights.Requests("no such command", "infra", nil)
	require.Empty(t, needed)
	require.Empty(t, optional)
}

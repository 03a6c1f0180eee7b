// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/tenancy"
)

// tenancyArgument is the policy that the controller gets.
func tenancyArgument(t *testing.T, v values) tenancy.Policy {
	t.Helper()
	for _, arg := range args(t, v) {
		if text, ok := strings.CutPrefix(arg, "--tenancy="); ok {
			p, err := tenancy.Parse([]byte(text))
			require.NoError(t, err, text)
			return p
		}
	}
	t.Fatal("no --tenancy")
	return tenancy.Policy{}
}

func TestTenancyDefaults(t *testing.T) {
	t.Parallel()
	assert.Equal(t, tenancy.Default(), tenancyArgument(t, nil))
	raw, err := os.ReadFile(filepath.Join(charts.Name, "values.yaml"))
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &all))
	text, err := json.Marshal(all["tenancy"])
	require.NoError(t, err)
	written, err := tenancy.Parse(text)
	require.NoError(t, err)
	assert.Equal(t, tenancy.Default(), written)
	assert.Nil(t, tenancyArgument(t, values{"tenancy": values{"limits": values{"keepIP": values{"maxPerNamespace": nil}}}}).Limits.KeepIP.MaxPerNamespace)
}

func TestTenancySchemaKnowsTheAnnotations(t *testing.T) {
	t.Parallel()
	var names []string
	for name := range readSchema(t).Properties["tenancy"].Properties["annotations"].Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	assert.Equal(t, tenancy.AnnotationNames(), names)
}

// Namespaces are read as far as the policy needs them.
func TestTenancyPermissions(t *testing.T) {
	t.Parallel()
	selector := values{"matchLabels": values{"a": "b"}}
	for name, tc := range map[string]struct {
		v   values
		all bool
	}{
		"default":  {nil, false},
		"names":    {values{"tenancy": values{"annotations": values{"zone": values{"allow": []any{"a", "*"}}}}}, false},
		"trusted":  {values{"tenancy": values{"trustedNamespaces": []any{"a", selector}}}, true},
		"rule":     {values{"tenancy": values{"annotations": values{"zone": values{"allow": []any{selector}}}}}, true},
		"address":  {values{"tenancy": values{"foreignAddress": values{"allow": []any{selector}}}}, true},
		"no nodes": {values{"controllers": []any{"service-lb-controller"}}, false},
	} {
		role := find[*rbacv1.ClusterRole](t, objects(t, render(t, tc.v)))
		at := slices.IndexFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "namespaces") })
		require.GreaterOrEqual(t, at, 0, name)
		want := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}}
		if tc.all {
			want.ResourceNames = nil
		}
		assert.Equal(t, want, role.Rules[at], name)
		assert.Equal(t, tc.all, tenancyArgument(t, tc.v).NeedsLabels(), name)
	}
	role := find[*rbacv1.ClusterRole](t, objects(t, render(t, values{"controllers": []any{"cloud-node-controller"}})))
	for _, r := range role.Rules {
		assert.NotContains(t, r.Resources, "namespaces")
	}
}

// The API server and the controller decide the same, for policies and Services at random.
func TestTenancyPolicyAgreesWithTheController(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(15, 2))
	pick := func(list ...any) any { return list[random.IntN(len(list))] }
	namespaces := func() []any {
		var out []any
		for range random.IntN(3) {
			expression := func(operator string, more ...any) any {
				return values{"matchExpressions": []any{values{"key": pick("team", "a.b/c"), "operator": operator, "values": append([]any{}, more...)}}}
			}
			out = append(out, pick("default", "other", "*", values{"matchLabels": values{"team": pick("red", "blue")}}, values{"matchLabels": values{"team": "red", "a.b/c": "d"}},
				expression("In", "red", "blue"), expression("NotIn", "red"), expression("Exists"), expression("DoesNotExist")))
		}
		return out
	}
	rule := func() values {
		r := values{}
		if list := namespaces(); len(list) > 0 {
			r["allow"] = list
		}
		if random.IntN(3) == 0 {
			r["deny"] = true
		}
		if random.IntN(3) == 0 {
			r["values"] = []any{"x", `it's "y" & {z}`, "203.0.113.9"}[:1+random.IntN(3)]
		}
		return r
	}
	names := []string{"address", "network", "zone", "keep-ip", "share-with"}
	service := func() *corev1.Service {
		svc := loadBalancer(map[string]string{})
		for _, name := range names {
			if random.IntN(3) == 0 {
				svc.Annotations[annotation.Prefix+name] = pick("", " ", "x", " x ", "203.0.113.9", "true", `it's "y" & {z}`).(string)
			}
		}
		svc.Spec.LoadBalancerIP = pick("", "", "203.0.113.9", "203.0.113.8", " ").(string)
		svc.Spec.Ports = make([]corev1.ServicePort, random.IntN(5))
		return svc
	}
	refused, allowed := 0, 0
	for range 60 {
		rules := values{"network": pick(nil, values{}), "project": nil, "zone": nil, "ssl-certificate": nil}
		for range random.IntN(3) {
			rules[names[random.IntN(len(names))]] = rule()
		}
		trusted := []any{"kube-system"}
		if random.IntN(4) == 0 {
			trusted = namespaces()
		}
		v := values{"tenancy": values{
			"trustedNamespaces": trusted, "annotations": rules,
			"limits": values{"maxPortsPerService": pick(0, 3, 3), "keepIP": values{"maxPerNamespace": pick(0, 1, nil)}},
		}}
		p, controller := policyOf(t, "tenancy", v), tenancyArgument(t, v)
		for range 40 {
			svc, labels := service(), map[string]string(nil)
			if random.IntN(3) > 0 {
				labels = map[string]string{"team": pick("red", "blue", "green").(string)}
			}
			if random.IntN(4) == 0 {
				labels = map[string]string{"a.b/c": "d", "team": "red"}
			}
			denial := controller.Check(tenancy.Namespace{Name: "default", Labels: labels}, svc)
			messages := p.denies(t, write{now: svc, labels: labels})
			if denial == nil {
				allowed++
				require.Empty(t, messages, "%v\n%v\n%v", v, labels, svc.Annotations)
				continue
			}
			refused++
			require.NotEmpty(t, messages, "%v\n%v\n%v\n%v", v, labels, svc.Annotations, denial)
			require.Condition(t, func() bool {
				return slices.ContainsFunc(messages, func(m string) bool {
					return strings.Contains(m, "chart value "+denial.Rule+")") && strings.Contains(m, "operator")
				})
			}, "%v: %v", denial, messages)
			require.Empty(t, p.denies(t, write{now: svc, was: svc, labels: labels}), "it was there before")
			inert := svc.DeepCopy()
			inert.Spec.Type = corev1.ServiceTypeNodePort
			require.Empty(t, p.denies(t, write{now: inert, labels: labels}), "not a load balancer")
			require.Equal(t, messages, p.denies(t, write{now: svc, was: inert, labels: labels}), "when it becomes one")
		}
	}
	assert.Greater(t, refused, 200)
	assert.Greater(t, allowed, 200)
}

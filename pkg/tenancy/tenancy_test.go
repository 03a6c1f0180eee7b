// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

func parse(t *testing.T, text string) Policy {
	t.Helper()
	p, err := Parse([]byte(text))
	require.NoError(t, err)
	return p
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"empty", `{}`, ""},
		{"names and selectors", `{"trustedNamespaces":["a","*","x=y","k in (v,w),!gone"]}`, ""},
		{"rules", `{"annotations":{"network":{"allow":["a"],"values":["n1"],"deny":true},"share-with":{"deny":true}},"sourceNATAddress":{"deny":true}}`, ""},
		{"no JSON", `allow`, "invalid character"},
		{"nothing", ``, "EOF"},
		{"more than one", `{} {}`, "after top-level value"},
		{"unknown name", `{"annotation":{}}`, `unknown object member name "annotation"`},
		{"unknown name in a rule", `{"annotations":{"network":{"allowed":["a"]}}}`, `unknown object member name "allowed"`},
		{"unknown annotation", `{"annotations":{"networks":{}}}`, `no annotation "networks"`},
		{"an annotation of the controller", `{"annotations":{"addresses":{}}}`, `no annotation "addresses"`},
		{"not a namespace", `{"trustedNamespaces":["Team A"]}`, `"Team A" is not a namespace`},
		{"a number", `{"trustedNamespaces":[1]}`, `JSON number`},
		{"nothing", `{"trustedNamespaces":[""]}`, `"" is not a namespace`},
		{"not a selector", `{"annotations":{"zone":{"allow":["team=(a"]}}}`, `label selector "team=(a"`},
		{"a negative limit of ports", `{"limits":{"maxPortsPerNamespace":-1}}`, `limits.maxPortsPerNamespace: -1`},
		{"a negative limit", `{"limits":{"maxPortsPerService":-1}}`, `limits.maxPortsPerService: -1`},
		{"a negative limit of kept addresses", `{"limits":{"keepIP":{"maxPerNamespace":-1}}}`, `limits.keepIP.maxPerNamespace: -1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := Parse([]byte(tc.text))
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			text, err := json.Marshal(p)
			require.NoError(t, err)
			assert.JSONEq(t, tc.text, string(text))
		})
	}
}

func TestDefaultSurvivesJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Default())
	require.NoError(t, err)
	assert.Equal(t, Default(), parse(t, string(text)))
	assert.False(t, Default().NeedsLabels())
}

func service(annotations map[string]string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: annotations}}
	svc.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func withPorts(n int) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, n) }
}

func withIP(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
}

func TestCheck(t *testing.T) {
	t.Parallel()
	standard, err := json.Marshal(Default())
	require.NoError(t, err)
	shop := Namespace{Name: "shop", Labels: map[string]string{"tier": "gold"}}
	on := func(name, value string) *corev1.Service {
		return service(map[string]string{annotation.Prefix + name: value})
	}
	for _, tc := range []struct {
		name, policy string
		ns           Namespace
		svc          *corev1.Service
		rule         string // empty: allowed
	}{
		{"default, nothing set", string(standard), shop, service(nil), ""},
		{"default, address", string(standard), shop, on("address", "203.0.113.9"), ""},
		{"default, network", string(standard), shop, on("network", "n"), "tenancy.annotations.network"},
		{"default, project", string(standard), shop, on("project", "n"), "tenancy.annotations.project"},
		{"default, zone", string(standard), shop, on("zone", "n"), "tenancy.annotations.zone"},
		{"default, certificate", string(standard), shop, on("ssl-certificate", "n"), "tenancy.annotations.ssl-certificate"},
		{"default, an empty network is refused too", string(standard), shop, on("network", ""), "tenancy.annotations.network"},
		{"default, trusted", string(standard), Namespace{Name: "kube-system"}, on("network", "n"), ""},
		{"default, 100 ports", string(standard), shop, service(nil, withPorts(100)), ""},
		{"default, 101 ports", string(standard), shop, service(nil, withPorts(101)), "tenancy.limits.maxPortsPerService"},
		{"trusted, 101 ports", string(standard), Namespace{Name: "kube-system"}, service(nil, withPorts(101)), ""},
		{"default, keep-ip", string(standard), shop, on("keep-ip", "true"), ""},
		{"nothing kept", `{"limits":{"keepIP":{"maxPerNamespace":0}}}`, shop, on("keep-ip", "on"), "tenancy.limits.keepIP.maxPerNamespace"},
		{"nothing kept, and not asked for", `{"limits":{"keepIP":{"maxPerNamespace":0}}}`, shop, on("keep-ip", "off"), ""},
		{"no rules", `{}`, shop, on("network", "n"), ""},
		{"an empty rule", `{"annotations":{"network":{}}}`, shop, on("network", "n"), ""},
		{"allowed by name", `{"annotations":{"network":{"deny":true,"allow":["shop"]}}}`, shop, on("network", "n"), ""},
		{"allow alone restricts", `{"annotations":{"network":{"allow":["blog"]}}}`, shop, on("network", "n"), "tenancy.annotations.network"},
		{"allowed by label", `{"annotations":{"network":{"allow":["tier=gold"]}}}`, shop, on("network", "n"), ""},
		{"another label", `{"annotations":{"network":{"allow":["tier=tin"]}}}`, shop, on("network", "n"), "tenancy.annotations.network"},
		{"no labels", `{"annotations":{"network":{"allow":["tier=gold"]}}}`, Namespace{Name: "shop"}, on("network", "n"), "tenancy.annotations.network"},
		{"expression", `{"annotations":{"network":{"allow":["tier in (gold,silver)"]}}}`, shop, on("network", "n"), ""},
		{"a value", `{"annotations":{"network":{"values":["n1","n2"]}}}`, shop, on("network", " n2 "), ""},
		{"another value", `{"annotations":{"network":{"values":["n1","n2"]}}}`, shop, on("network", "n3"), "tenancy.annotations.network"},
		{"the value, but not the namespace", `{"annotations":{"network":{"deny":true,"values":["n1"]}}}`, shop, on("network", "n1"), "tenancy.annotations.network"},
		{"address by annotation", `{"annotations":{"address":{"deny":true}}}`, shop, on("address", "203.0.113.9"), "tenancy.annotations.address"},
		{"address by field", `{"annotations":{"address":{"deny":true}}}`, shop, service(nil, withIP("203.0.113.9")), "tenancy.annotations.address"},
		{"an empty address is any", `{"annotations":{"address":{"deny":true}}}`, shop, on("address", " "), ""},
		{"one address of two is not allowed", `{"annotations":{"address":{"values":["203.0.113.9"]}}}`, shop, service(map[string]string{annotation.Address: "203.0.113.9"}, withIP("203.0.113.8")), "tenancy.annotations.address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, tc.policy).Check(tc.ns, tc.svc)
			if tc.rule == "" {
				assert.Nil(t, d)
				return
			}
			require.NotNil(t, d)
			assert.Equal(t, tc.rule, d.Rule)
			assert.Contains(t, d.Message, tc.rule)
			assert.Contains(t, d.Remedy, "operator")
		})
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	p, shop, system := Default(), Namespace{Name: "shop"}, Namespace{Name: "kube-system"}
	for _, rule := range []string{SourceNATAddress, ForeignAddress, "network"} {
		require.NotNil(t, p.Allows(rule, shop, "x"), rule)
		assert.Nil(t, p.Allows(rule, system, "x"), rule)
		assert.Nil(t, Policy{}.Allows(rule, shop, "x"), rule)
	}
	assert.Equal(t, `the source NAT address of a network ("203.0.113.10") is not allowed in namespace shop (chart value tenancy.sourceNATAddress); `+
		"do without it, or ask your cluster's operator, who can add the namespace to tenancy.sourceNATAddress.allow",
		p.Allows(SourceNATAddress, shop, "203.0.113.10").Error())
	assert.Nil(t, p.Allows("address", shop, "203.0.113.10"))
}

func TestNeedsLabels(t *testing.T) {
	t.Parallel()
	const selector = `"a=b"`
	for _, text := range []string{
		`{"trustedNamespaces":[` + selector + `]}`,
		`{"annotations":{"zone":{"allow":["x",` + selector + `]}}}`,
		`{"sourceNATAddress":{"allow":[` + selector + `]}}`,
		`{"foreignAddress":{"allow":[` + selector + `]}}`,
	} {
		assert.True(t, parse(t, text).NeedsLabels(), text)
	}
	assert.False(t, parse(t, `{"trustedNamespaces":["*"]}`).NeedsLabels())
}

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
	"github.com/csccm/csccm/pkg/testenv/cases"
)

func parse(t *testing.T, text string) Policy {
	t.Helper()
	p, err := Parse([]byte(text))
	require.NoError(t, err)
	return p
}

func TestParse(t *testing.T) {
	cases.Run(t, "testdata/parse.yaml", func(t *testing.T, _ string, c struct{ Text, Error string }) {
		p, err := Parse([]byte(c.Text))
		if c.Error != "" {
			require.ErrorContains(t, err, c.Error)
			return
		}
		require.NoError(t, err)
		text, err := json.Marshal(p)
		require.NoError(t, err)
		assert.JSONEq(t, c.Text, string(text))
	})
}

func TestDefaultSurvivesJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Default())
	require.NoError(t, err)
	assert.Equal(t, Default(), parse(t, string(text)))
	assert.False(t, Default().NeedsLabels())
}

func TestCheck(t *testing.T) {
	cases.Run(t, "testdata/check.yaml", func(t *testing.T, _ string, c struct {
		Policy         json.RawMessage
		Namespace      Namespace
		Annotations    map[string]string
		Ports          int
		LoadBalancerIP string
		Rule           string
	}) {
		policy := Default()
		if c.Policy != nil {
			policy = parse(t, string(c.Policy))
		}
		if c.Namespace.Name == "" {
			c.Namespace = Namespace{Name: "shop", Labels: map[string]string{"tier": "gold"}}
		}
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{}},
		}
		for name, value := range c.Annotations {
			svc.Annotations[annotation.Prefix+name] = value
		}
		svc.Spec.Ports, svc.Spec.LoadBalancerIP = make([]corev1.ServicePort, max(c.Ports, 1)), c.LoadBalancerIP

		d := policy.Check(c.Namespace, svc)
		if c.Rule == "" {
			assert.Nil(t, d)
			return
		}
		require.NotNil(t, d)
		assert.Contains(t, d.Message, "(chart value "+c.Rule+")")
		assert.Contains(t, d.Remedy, "operator")
	})
}

func TestAllows(t *testing.T) {
	t.Parallel()
	p, shop, system := Default(), Namespace{Name: "shop"}, Namespace{Name: "kube-system"}
	for _, rule := range []string{SourceNATAddress, ForeignAddress, "network"} {
		require.NotNil(t, p.Allows(rule, shop, "x"), rule)
		assert.Nil(t, p.Allows(rule, system, "x"), rule)
		assert.Nil(t, Policy{}.Allows(rule, shop, "x"), rule)
	}
	assert.Equal(t, &Denial{
		Message: `the source NAT address of a network ("203.0.113.10") is not allowed in namespace shop ` +
			`(chart value tenancy.sourceNATAddress)`,
		Remedy: "do without it, or ask your cluster's operator, who can add the namespace to " +
			"tenancy.sourceNATAddress.allow",
	}, p.Allows(SourceNATAddress, shop, "203.0.113.10"))
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

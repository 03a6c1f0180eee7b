// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/annotation"
)

var helmAction = regexp.MustCompile(`(?m)\{\{.*?\}\}`)

// policy is the rendered policy as the API server gets it.
func policy(t *testing.T) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	document, _, _ := strings.Cut(Policy(), "\n---\n")
	text := helmAction.ReplaceAllString(strings.ReplaceAll(document, "    {{- include \"cloudstack-ccm.labels\" . | nindent 4 }}\n", "    a: b\n"), "")
	var p admissionregistrationv1.ValidatingAdmissionPolicy
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &p))
	return &p
}

// verdict asks the API server's own evaluator; it returns the messages of what is denied.
type verdict func(now, was *corev1.Service) []string

func evaluator(t *testing.T) verdict {
	t.Helper()
	p := policy(t)
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	require.NoError(t, err)
	options := plugincel.OptionalVariableDeclarations{}
	for i := range p.Spec.Variables {
		v := p.Spec.Variables[i]
		result := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, options, environment.NewExpressions)
		require.Nil(t, result.Error)
	}
	var conditions, validations []plugincel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message})
	}
	match := compiler.CompileCondition(conditions, options, environment.NewExpressions)
	require.Empty(t, match.CompilationErrors())
	filter := compiler.CompileCondition(validations, options, environment.NewExpressions)
	require.Empty(t, filter.CompilationErrors())
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	return func(now, was *corev1.Service) []string {
		attributes := &admission.VersionedAttributes{VersionedKind: kind, VersionedObject: admission.NewLazyObject(now)}
		operation := admission.Create
		if was != nil {
			attributes.VersionedOldObject, operation = admission.NewLazyObject(was), admission.Update
		}
		attributes.Attributes = admission.NewAttributesRecord(now, nil, kind, "default", "web", resource, "", operation, nil, false, nil)
		request := plugincel.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind))
		eval := func(c plugincel.ConditionEvaluator, r *admissionv1.AdmissionRequest) []plugincel.EvaluationResult {
			results, _, err := c.ForInput(compiler.CreateContext(t.Context()), attributes, r, plugincel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
			require.NoError(t, err)
			return results
		}
		for _, r := range eval(match, request) {
			require.NoError(t, r.Error)
			if r.EvalResult.Value() != true {
				return nil
			}
		}
		var denied []string
		for _, r := range eval(filter, request) {
			require.NoError(t, r.Error)
			if r.EvalResult.Value() != true {
				denied = append(denied, r.ExpressionAccessor.(*validating.ValidationCondition).Message)
			}
		}
		return denied
	}
}

func loadBalancer(annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80}, {Name: "https", Port: 443},
		}},
	}
}

// What the API server denies the controller would refuse as well, and it denies the common slips.
func TestPolicyAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	deny := evaluator(t)
	assert.Empty(t, deny(loadBalancer(nil), nil))
	values := []string{
		"", " ", "true", "Enabled", " off ", "maybe", "http", "443, http", "80;443", "v2", "203.0.113.9", "203.0.113", "2001:db8::1", "10.0.0.0/8", "10.0.0.0/8, 192.168.0.0/16",
		"10.0.0.0/8;10.0.0.0/9", "::/0", "anyone", "LeastConn", "round-robin", "lb.example.org", "LB.example.org", "a_b", "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11", "my-cert",
		"lb-cookie", "cookie", "none", "cookie-name=x,nocache", "Cookie-Name=x", "k8s-net", "a=b",
	}
	for _, d := range annotation.Table() {
		if d.CEL == "" {
			continue
		}
		for _, value := range append(values, d.Example) {
			svc := loadBalancer(map[string]string{d.Name: value})
			switch d.Name {
			case annotation.SSLPorts:
				svc.Annotations[annotation.SSLCertificate] = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"
			case annotation.StickinessOptions:
				svc.Annotations[annotation.StickinessMethod] = "lb-cookie"
			}
			messages := deny(svc, nil)
			_, err := annotation.Parse(svc)
			if len(messages) > 0 {
				require.Error(t, err, "the policy denies %s=%q, the parser does not", d.Name, value)
				assert.Contains(t, messages[0], d.Name)
			}
			assert.Empty(t, deny(svc, svc), "%s=%q was there before", d.Name, value)
		}
		if d.Name == annotation.Network || d.Name == annotation.Project || d.Name == annotation.Zone {
			continue // any name is one
		}
		assert.NotEmpty(t, deny(loadBalancer(map[string]string{d.Name: "!?"}), nil), d.Name)
	}
	other := loadBalancer(map[string]string{annotation.KeepIP: "maybe"})
	other.Spec.Type = corev1.ServiceTypeClusterIP
	assert.Empty(t, deny(other, nil), "not a load balancer")
	class := "example.org/other"
	other = loadBalancer(map[string]string{annotation.KeepIP: "maybe"})
	other.Spec.LoadBalancerClass = &class
	assert.Empty(t, deny(other, nil), "another controller's")
}

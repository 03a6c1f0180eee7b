// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// write is a write of a Service that the API server judges.
type write struct {
	now, was *corev1.Service
	labels   map[string]string // of the namespace
	who      string            // "writer" may patch services/status
}

// admissionPolicy is a rendered policy in the API server's own evaluator.
type admissionPolicy struct {
	compiler    *plugincel.CompositedCompiler
	match       plugincel.ConditionEvaluator
	validations plugincel.ConditionEvaluator
}

var serviceKind = apischema.GroupVersionKind{Version: "v1", Kind: "Service"}

// policyOf renders the chart and compiles one of its policies; nil if the chart renders none of that name.
func policyOf(t *testing.T, name string, v values) *admissionPolicy {
	t.Helper()
	for _, o := range objects(t, render(t, v)) {
		if p, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok && strings.HasSuffix(p.Name, "-"+name) {
			return compilePolicy(t, p)
		}
	}
	return nil
}

func compilePolicy(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionPolicy {
	t.Helper()
	assert.Equal(t, admissionregistrationv1.Fail, *p.Spec.FailurePolicy, p.Name)
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	require.NoError(t, err)
	out := &admissionPolicy{compiler: compiler}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	var conditions, validations []plugincel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	// Match conditions are compiled first: they see no variables.
	out.match = compiler.CompileCondition(conditions, options, environment.NewExpressions)
	require.Empty(t, out.match.CompilationErrors())
	for _, v := range p.Spec.Variables {
		result := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, options, environment.NewExpressions)
		require.Nil(t, result.Error, v.Name)
	}
	require.NotEmpty(t, p.Spec.Validations)
	for _, v := range p.Spec.Validations {
		assert.NotEmpty(t, v.Message)
		assert.NotContains(t, v.Message, "\n", "the API server refuses it")
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
	}
	out.validations = compiler.CompileCondition(validations, options, environment.NewExpressions)
	require.Empty(t, out.validations.CompilationErrors())
	return out
}

// mayPatchStatus is the authorizer of the tests.
func mayPatchStatus(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == "writer" && a.GetVerb() == "patch" && a.GetResource() == "services" && a.GetSubresource() == "status" && a.GetNamespace() == "default" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// denies returns the messages of what a policy refuses, and fails when an expression cannot be evaluated or costs too much.
func (p *admissionPolicy) denies(t *testing.T, w write) []string {
	t.Helper()
	if p == nil {
		return nil
	}
	resource := apischema.GroupVersionResource{Version: "v1", Resource: "services"}
	attributes := &admission.VersionedAttributes{VersionedKind: serviceKind, VersionedObject: admission.NewLazyObject(w.now)}
	operation := admission.Create
	if w.was != nil {
		attributes.VersionedOldObject, operation = admission.NewLazyObject(w.was), admission.Update
	}
	caller := &user.DefaultInfo{Name: w.who}
	attributes.Attributes = admission.NewAttributesRecord(w.now, nil, serviceKind, "default", w.now.Name, resource, "", operation, nil, false, caller)
	request := plugincel.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(serviceKind))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: w.labels}}
	bindings := plugincel.OptionalVariableBindings{Authorizer: authorizer.AuthorizerFunc(mayPatchStatus)}
	eval := func(c plugincel.ConditionEvaluator, ns *corev1.Namespace) []plugincel.EvaluationResult {
		results, left, err := c.ForInput(p.compiler.CreateContext(t.Context()), attributes, request, bindings, ns, celconfig.RuntimeCELCostBudget)
		require.NoError(t, err)
		require.Positive(t, left)
		return results
	}
	for _, r := range eval(p.match, nil) {
		require.NoError(t, r.Error)
		if r.EvalResult.Value() != true {
			return nil
		}
	}
	var denied []string
	for _, r := range eval(p.validations, namespace) {
		validation := r.ExpressionAccessor.(*validating.ValidationCondition)
		require.NoError(t, r.Error, validation.Expression)
		if r.EvalResult.Value() != true {
			denied = append(denied, validation.Message)
		}
	}
	return denied
}

func loadBalancer(annotations map[string]string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80}, {Name: "https", Port: 443},
		}},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func ofType(kind corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = kind }
}

func otherClass(s *corev1.Service) {
	class := "example.org/other"
	s.Spec.LoadBalancerClass = &class
}

func requested(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
}

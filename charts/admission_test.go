// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"context"
	"fmt"
	"slices"
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

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// sameInThePolicy are annotations of which the policy denies exactly what the parser refuses, among the values here.
var sameInThePolicy = map[string]bool{
	annotation.Address: true, annotation.Hostname: true, annotation.NodeSelector: true, annotation.SourceCIDRs: true, annotation.SSLCertificate: true,
	annotation.KeepIP: true, annotation.Internal: true, annotation.Algorithm: true, annotation.ShareWith: true,
	annotation.Mode: true, annotation.DirectSpread: true,
}

// What the API server denies the controller would refuse as well, and it denies the common slips.
func TestPolicyAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "annotations", nil)
	assert.Empty(t, p.denies(t, write{now: loadBalancer(nil)}))
	values := []string{
		"", " ", "true", "Enabled", " off ", "maybe", "http", "443, http", "80;443", "v2", "203.0.113.9", "203.0.113", "1.2.3.256", "01.2.3.4", "2001:db8::1", "10.0.0.0/8",
		"10.0.0.0/8, 192.168.0.0/16", "1.2.3.4/40", "10.1.2.3/8", "::ffff:10.0.0.1", "::ffff:10.0.0.0/104", "fe80::1%eth0",
		"10.0.0.0/8;10.0.0.0/9", "::/0", "::/129", "anyone", "LeastConn", "round-robin", "lb.example.org", "LB.example.org", "a_b", "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11", "my-cert",
		"lb-cookie", "cookie", "none", "cookie-name=x,nocache", "Cookie-Name=x", "k8s-net", "a=b", "a=b=c", "a in (b,c),!d", "a notin(b)", "! a , b", "a>5,b < 6", "a in b", "a,,b", "a=",
		"x.y/z!=w", "a in (b", "=a", "a\nb", "a==b", "in in (in)", "a in ()", "shop, blog", "*", "Shop", "shop,", strings.Repeat("a", 256), "a\x00b", "a\u0085b", "cookie-name=a b", "cookie-name = x",
		"a in (b c)", "a in (b,)", "a in (-b)", "a notin (b, c )", "-a", "a b", "a<x", "a!b", "10.0.0.1", "example.org.", "Direct", "auto ", "dsr", "1", "32", "33", "08", " 8", "cookie-name=x\n", "cookie-name=\"x\"", "indirect=true", "indirect=no", "domain=.example.org", "domain=a..b", "expire=30m", "expire=30y", "tablesize=1g", strings.Repeat("1.2.3.4,", 3000) + "1.2.3.4",
	}
	for _, d := range annotation.Table() {
		if d.CEL == "" {
			continue
		}
		refused := 0
		for _, value := range append(values, d.Example) {
			svc := loadBalancer(map[string]string{d.Name: value})
			switch d.Name {
			case annotation.SSLPorts:
				svc.Annotations[annotation.SSLCertificate] = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"
			case annotation.StickinessOptions:
				svc.Annotations[annotation.StickinessMethod] = "lb-cookie"
			}
			messages := p.denies(t, write{now: svc})
			_, err := annotation.Parse(svc)
			if sameInThePolicy[d.Name] && (d.Name != annotation.NodeSelector || len(value) < 63) { // the policy does not count
				assert.Equal(t, err != nil, len(messages) > 0, "%s=%.80q: the parser says %v", d.Name, value, err)
			}
			if len(messages) > 0 {
				refused++
				require.Error(t, err, "the policy denies %s=%.80q, the parser does not", d.Name, value)
				assert.Contains(t, messages[0], annotation.Prefix)
			}
			assert.Empty(t, p.denies(t, write{now: svc, was: svc}), "%s=%.80q was there before", d.Name, value)
			inert := svc.DeepCopy()
			inert.Spec.Type = corev1.ServiceTypeClusterIP
			assert.Empty(t, p.denies(t, write{now: inert}), "not a load balancer")
			assert.Equal(t, messages, p.denies(t, write{now: svc, was: inert}), "%s=%.80q when it becomes one", d.Name, value)
			other := svc.DeepCopy()
			otherClass(other)
			assert.Empty(t, p.denies(t, write{now: other}), "another controller's")
		}
		assert.Positive(t, refused, d.Name)
		svc := loadBalancer(map[string]string{d.Name: strings.Repeat("a", 200000)})
		assert.NotEmpty(t, p.denies(t, write{now: svc}), "%s is too long", d.Name)
	}
	// TLS without its certificate is denied too when the certificate goes, and in no other write.
	both := map[string]string{annotation.SSLPorts: "443", annotation.SSLCertificate: "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"}
	alone := map[string]string{annotation.SSLPorts: "443"}
	for name, c := range map[string]struct {
		w    write
		want int
	}{
		"set without":             {write{now: loadBalancer(alone)}, 1},
		"the certificate goes":    {write{now: loadBalancer(alone), was: loadBalancer(both)}, 1},
		"both go":                 {write{now: loadBalancer(nil), was: loadBalancer(both)}, 0},
		"it was there before":     {write{now: loadBalancer(alone), was: loadBalancer(alone)}, 0},
		"it becomes LoadBalancer": {write{now: loadBalancer(alone), was: loadBalancer(alone, ofType(corev1.ServiceTypeClusterIP))}, 1},
		"with the certificate":    {write{now: loadBalancer(both)}, 0},
	} {
		messages := p.denies(t, c.w)
		if assert.Len(t, messages, c.want, name) && c.want > 0 {
			assert.Contains(t, messages[0], "needs "+annotation.SSLCertificate)
		}
	}
	// Mode direct beside what needs a load balancer.
	for name, values := range map[string]map[string]bool{
		annotation.ProxyProtocol: {"true": false, "off": true}, annotation.Internal: {"yes": false, "No": true}, annotation.StickinessMethod: {"source": false, " None": true},
		annotation.Algorithm: {"source": false}, annotation.SSLCertificate: {"8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11": false},
	} {
		for value, goes := range values {
			for mode, direct := range map[string]bool{" Direct": true, "auto": false, "proxy": false} {
				svc := loadBalancer(map[string]string{annotation.Mode: mode, name: value})
				_, err := annotation.Parse(svc)
				denied := p.denies(t, write{now: svc})
				assert.Equal(t, direct && !goes, len(denied) > 0, "%s=%s in mode %s: %v", name, value, mode, denied)
				assert.Equal(t, direct && !goes, err != nil, "%s=%s in mode %s: %v", name, value, mode, err)
				assert.Empty(t, p.denies(t, write{now: svc, was: svc}), "it was there before")
			}
		}
	}
	// The cheap slips are found by the API server.
	for name, value := range map[string]string{
		annotation.SourceCIDRs: "1.2.3.4/40", annotation.NodeSelector: "a=b=c", annotation.SSLPorts: "443", annotation.Address: "1.2.3.256", annotation.StickinessOptions: "cookie-name=a b",
		annotation.Hostname: "",
	} {
		assert.NotEmpty(t, p.denies(t, write{now: loadBalancer(map[string]string{name: value})}), name)
	}
}

func TestPolicyChecksTheRequestedAddress(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "annotations", nil)
	for value, want := range map[string]int{"": 0, "203.0.113.9": 0, "nonsense": 1, "2001:db8::1": 1, "1.2.3.4.5": 1, strings.Repeat("1", 100000): 1} {
		svc := loadBalancer(nil, requested(value))
		assert.Len(t, p.denies(t, write{now: svc}), want, "%.20s", value)
		assert.Len(t, p.denies(t, write{now: svc, was: loadBalancer(nil)}), want, "%.20s", value)
		assert.Len(t, p.denies(t, write{now: svc, was: loadBalancer(nil, requested(value), ofType(corev1.ServiceTypeNodePort))}), want, "%.20s", value)
		assert.Empty(t, p.denies(t, write{now: svc, was: svc}), "%.20s", value)
	}
}

// Records are written only by who may patch services/status, whatever the type of the Service.
func TestPolicyProtectsRecords(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "records", nil)
	protected := map[string]bool{}
	for _, d := range annotation.Table() {
		if d.Writer != annotation.ByUser {
			protected[d.Name] = true
		}
	}
	for _, name := range []string{annotation.Addresses, annotation.Allocation, annotation.AssociatedByController, annotation.LeasewebID, annotation.LeasewebNetworkID} {
		require.True(t, protected[name], name)
	}
	for name := range protected {
		for _, kind := range []corev1.ServiceType{"", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"} {
			plain, a, b := loadBalancer(nil, ofType(kind)), loadBalancer(map[string]string{name: "a"}, ofType(kind)), loadBalancer(map[string]string{name: "b"}, ofType(kind))
			generated := loadBalancer(map[string]string{name: "a"}, ofType(kind), func(s *corev1.Service) { s.Name, s.GenerateName = "", "web-" })
			empty := loadBalancer(map[string]string{name: ""}, ofType(kind))
			for what, w := range map[string]write{
				"created": {now: a}, "created, empty": {now: empty}, "created with a generated name": {now: generated},
				"set": {now: a, was: plain}, "changed": {now: b, was: a}, "removed": {now: plain, was: a}, "emptied": {now: empty, was: a},
				"of another class": {now: loadBalancer(map[string]string{name: "a"}, otherClass)},
			} {
				messages := p.denies(t, w)
				require.Len(t, messages, 1, "%s %s of a %s", name, what, kind)
				assert.Contains(t, messages[0], name)
				assert.Contains(t, messages[0], "services/status")
				w.who = "writer"
				assert.Empty(t, p.denies(t, w), "%s %s by the controller", name, what)
			}
			for what, w := range map[string]write{"created without": {now: plain}, "kept": {now: a, was: a}, "edited without": {now: plain, was: plain}} {
				assert.Empty(t, p.denies(t, w), "%s %s", name, what)
			}
			becomes := loadBalancer(map[string]string{name: "a"})
			assert.Empty(t, p.denies(t, write{now: becomes, was: a}), "the type changes, the record does not")
		}
	}
	for _, d := range annotation.Table() {
		if d.Writer == annotation.ByUser {
			assert.Empty(t, p.denies(t, write{now: loadBalancer(map[string]string{d.Name: "x"})}), d.Name)
		}
	}
}

// A policy that fails closed must not stop Services that it is not about: every expression can be evaluated, within its
// cost, for Services of every shape.
func TestPoliciesLetOtherServicesThrough(t *testing.T) {
	t.Parallel()
	many, wide := map[string]string{}, loadBalancer(nil, ofType(corev1.ServiceTypeClusterIP))
	for i := range 5000 {
		many[fmt.Sprintf("example.org/%d", i)] = strings.Repeat("x", 40)
	}
	for i := range 1000 {
		wide.Spec.Ports = append(wide.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(1000 + i)})
	}
	shapes := map[string]*corev1.Service{
		"empty":                {TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}},
		"only a name":          {ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}},
		"no annotations":       loadBalancer(nil, ofType(corev1.ServiceTypeClusterIP)),
		"empty annotations":    loadBalancer(map[string]string{}, ofType(corev1.ServiceTypeNodePort)),
		"headless":             loadBalancer(nil, ofType(corev1.ServiceTypeClusterIP), func(s *corev1.Service) { s.Spec.ClusterIP = "None" }),
		"without ports":        loadBalancer(nil, ofType(corev1.ServiceTypeClusterIP), func(s *corev1.Service) { s.Spec.Ports = nil }),
		"external name":        loadBalancer(nil, ofType(corev1.ServiceTypeExternalName), func(s *corev1.Service) { s.Spec.ExternalName, s.Spec.Ports = "example.org", nil }),
		"many annotations":     loadBalancer(many, ofType(corev1.ServiceTypeClusterIP)),
		"a balancer with many": loadBalancer(many),
		"many ports":           wide,
		"plain balancer":       loadBalancer(nil),
		"balancer, no ports":   loadBalancer(nil, func(s *corev1.Service) { s.Spec.Ports = nil }),
		"labels":               loadBalancer(nil, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }),
		"another class":        loadBalancer(map[string]string{annotation.Network: ""}, otherClass),
		"deleted":              loadBalancer(nil, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{}; s.Finalizers = []string{"x"} }),
	}
	for _, name := range []string{"annotations", "records"} {
		p := policyOf(t, name, nil)
		require.NotNil(t, p, name)
		for what, now := range shapes {
			assert.Empty(t, p.denies(t, write{now: now}), "%s: %s", name, what)
			for before, was := range shapes {
				assert.Empty(t, p.denies(t, write{now: now, was: was}), "%s: %s to %s", name, before, what)
			}
		}
	}
}

func TestAdmissionPolicySwitch(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"annotations", "records"} {
		assert.Nil(t, policyOf(t, name, values{"admissionPolicy": values{"enabled": false}}), name)
	}
}

// What the policy refuses for the number of source ranges, the controller would refuse as well.
func TestPolicyLimitsSourceRanges(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "annotations", nil)
	list := func(n int, more ...string) []string {
		out := slices.Clone(more)
		for i := range n {
			out = append(out, fmt.Sprintf("10.%d.0.0/17", i))
		}
		return out
	}
	text := func(n int, more ...string) string { return strings.Join(list(n, more...), ", ") }
	field := func(n int, more ...string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = list(n, more...) }
	}
	const most = annotation.MaxSourceRanges
	for name, tc := range map[string]struct {
		svc    *corev1.Service
		denied bool
	}{
		"as many as fit":         {loadBalancer(map[string]string{annotation.SourceCIDRs: text(most), annotation.SourceRangesBeta: text(most)}, field(most)), false},
		"annotation":             {loadBalancer(map[string]string{annotation.SourceCIDRs: text(most + 1)}), true},
		"Kubernetes' annotation": {loadBalancer(map[string]string{annotation.SourceRangesBeta: text(most + 1)}), true},
		"field":                  {loadBalancer(nil, field(most+1)), true},
		"IPv6 does not count":    {loadBalancer(map[string]string{annotation.SourceCIDRs: text(most, "2001:db8::/32")}, field(most, "2001:db8::/32")), false},
		"mode direct":            {loadBalancer(map[string]string{annotation.SourceCIDRs: text(200), annotation.Mode: " Direct"}, field(200)), false},
		"mode proxy":             {loadBalancer(map[string]string{annotation.SourceCIDRs: text(200), annotation.Mode: "proxy"}), true},
		"internal":               {loadBalancer(map[string]string{annotation.SourceCIDRs: text(200), annotation.Internal: "Yes"}, field(200)), false},
	} {
		messages := p.denies(t, write{now: tc.svc})
		spec, err := annotation.Parse(tc.svc)
		require.NoError(t, err, name)
		refusal := plan.CheckService(plan.Service{Ports: []plan.Port{{Protocol: "TCP", Port: 80, NodePort: 30080}}}, spec)
		if !tc.denied {
			assert.Empty(t, messages, name)
			assert.Nil(t, refusal, name)
			continue
		}
		if assert.Len(t, messages, 1, name) {
			assert.Contains(t, messages[0], "use fewer, larger ranges", name)
		}
		if assert.NotNil(t, refusal, name) {
			assert.Equal(t, plan.ReasonSourceRanges, refusal.Reason, name)
			assert.Contains(t, refusal.Remedy, "use fewer, larger ranges", name)
		}
		assert.Empty(t, p.denies(t, write{now: tc.svc, was: tc.svc}), "%s was there before", name)
		inert := tc.svc.DeepCopy()
		inert.Spec.Type = corev1.ServiceTypeNodePort
		assert.Empty(t, p.denies(t, write{now: inert}), name)
		assert.Equal(t, messages, p.denies(t, write{now: tc.svc, was: inert}), "%s, when it becomes a load balancer", name)
	}
}

// write is a write of a Service that the API server judges.
type write struct {
	now, was *corev1.Service
	who      string // "writer" may patch services/status
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
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
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

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

// sameInThePolicy are the annotations for which the policy denies exactly the values that the parser refuses, as far as
// this test tries them.
var sameInThePolicy = map[string]bool{
	annotation.Address:        true,
	annotation.Hostname:       true,
	annotation.NodeSelector:   true,
	annotation.SourceCIDRs:    true,
	annotation.SSLCertificate: true,
	annotation.KeepIP:         true, annotation.Internal: true, annotation.Algorithm: true, annotation.ShareWith: true,
	annotation.Mode: true, annotation.DirectSpread: true,
}

// judged is a Service that both the policy and the controller check. If exact is set, both must agree.
type judged struct {
	*corev1.Service
	exact bool
}

// The policy denies only what the controller would refuse, and it denies common mistakes.
func TestPolicyAgreesWithTheController(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "annotations", nil)
	const certificate = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"
	with := func(pairs ...string) map[string]string {
		out := map[string]string{}
		for pair := range slices.Chunk(pairs, 2) {
			out[pair[0]] = pair[1]
		}
		return out
	}
	texts := []string{
		"", " ", "true", "Enabled", " off ", "maybe", "http", "443, http", "80;443", "v2", "203.0.113.9", "203.0.113",
		"1.2.3.256", "01.2.3.4", "2001:db8::1", "10.0.0.0/8",
		"10.0.0.0/8, 192.168.0.0/16", "1.2.3.4/40", "10.1.2.3/8", "::ffff:10.0.0.1", "::ffff:10.0.0.0/104",
		"fe80::1%eth0",
		"10.0.0.0/8 11.0.0.0/8,\n12.0.0.0/8", "010.008.0.0/08", "::ffff:203.0.113.0/120", " , ", "10.0.0.0/255.0.0.0",
		"256.0.0.0/8", "10.0.0.0 / 8",
		"10.0.0.0/8;10.0.0.0/9", "::/0", "::/129", "anyone", "LeastConn", "round-robin", "lb.example.org",
		"LB.example.org", "a_b", "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11", "my-cert",
		"lb-cookie", "cookie", "none", "cookie-name=x,nocache", "Cookie-Name=x", "k8s-net", "a=b", "a=b=c",
		"a in (b,c),!d", "a notin(b)", "! a , b", "a>5,b < 6", "a in b", "a,,b", "a=",
		"x.y/z!=w", "a in (b", "=a", "a\nb", "a==b", "in in (in)", "a in ()", "shop, blog", "*", "Shop", "shop,",
		strings.Repeat("a", 256), "a\x00b", "a\u0085b", "cookie-name=a b", "cookie-name = x",
		"a in (b c)", "a in (b,)", "a in (-b)", "a notin (b, c )", "-a", "a b", "a<x", "a!b", "10.0.0.1",
		"example.org.", "Direct", "auto ", "dsr", "1", "32", "33", "08", " 8", "cookie-name=x\n", "cookie-name=\"x\"",
		"indirect=true", "indirect=no", "domain=.example.org", "domain=a..b", "expire=30m", "expire=30y",
		"tablesize=1g", strings.Repeat("1.2.3.4,", 3000) + "1.2.3.4",
	}
	var all []judged
	add := func(exact bool, annotations map[string]string, change ...func(*corev1.Service)) {
		all = append(all, judged{loadBalancer(annotations, change...), exact})
	}
	for _, d := range annotation.Table() {
		if d.CEL == "" {
			continue
		}
		for _, value := range append(texts, d.Example) {
			// the policy does not count the items of a node selector
			exact := sameInThePolicy[d.Name] && (d.Name != annotation.NodeSelector || len(value) < 63)
			switch d.Name {
			case annotation.SSLPorts:
				add(exact, with(d.Name, value, annotation.SSLCertificate, certificate))
			case annotation.StickinessOptions:
				add(exact, with(d.Name, value, annotation.StickinessMethod, "lb-cookie"))
			default:
				add(exact, with(d.Name, value))
			}
		}
		refuses := func(value string) bool {
			return len(p.denies(t, write{now: loadBalancer(with(d.Name, value))})) > 0
		}
		assert.True(t, slices.ContainsFunc(texts, refuses), d.Name)
		assert.True(t, refuses(strings.Repeat("a", 200000)), "%s is too long", d.Name)
	}
	for name, values := range map[string][]string{ // mode direct together with values that need a load balancer
		annotation.ProxyProtocol:    {"true", "off"},
		annotation.Internal:         {"yes", "No"},
		annotation.StickinessMethod: {"source", " None"},
		annotation.Algorithm:        {"source"}, annotation.SSLCertificate: {certificate},
	} {
		for _, value := range values {
			for _, mode := range []string{" Direct", "auto", "proxy"} {
				add(true, with(annotation.Mode, mode, name, value))
			}
		}
	}
	for _, value := range []string{"", "203.0.113.9", "nonsense", "2001:db8::1", "1.2.3.4.5",
		strings.Repeat("1", 100000)} {
		add(true, nil, func(s *corev1.Service) { s.Spec.LoadBalancerIP = value })
	}
	list := func(n int, more ...string) []string {
		for i := range n {
			more = append(more, fmt.Sprintf("10.%d.0.0/17", i))
		}
		return more
	}
	text := func(n int, more ...string) string { return strings.Join(list(n, more...), ", ") }
	field := func(n int, more ...string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = list(n, more...) }
	}
	const most, cidrs, beta = annotation.MaxSourceRanges, annotation.SourceCIDRs, annotation.SourceRangesBeta
	add(true, with(cidrs, text(most), beta, text(most)), field(most))
	add(true, with(cidrs, text(most+1)))
	add(true, with(beta, text(most+1)))
	add(true, nil, field(most+1))
	add(true, with(cidrs, text(most, "2001:db8::/32")), field(most, "2001:db8::/32"))
	add(true, with(cidrs, text(200), annotation.Mode, " Direct"), field(200))
	add(true, with(cidrs, text(200), annotation.Mode, "proxy"))
	add(true, with(cidrs, text(200), annotation.Internal, "Yes"), field(200))
	add(true, with(annotation.SSLPorts, "443"))
	short := func(n int) string { return strings.Repeat("10.0.0.1,", n-1) + "10.0.0.1" }
	direct := func(pairs ...string) map[string]string {
		return with(append(pairs, annotation.Mode, annotation.Direct)...)
	}
	for _, n := range []int{annotation.MaxItems, annotation.MaxItems + 1, 40000} {
		add(true, direct(cidrs, short(n)))
		add(true, direct(beta, short(n)))
		add(true, with(annotation.ShareWith, strings.Repeat("shop,", n-1)+"shop"))
		add(true, with(annotation.NodeSelector, strings.Repeat("a=b,", n-1)+"a=b"))
		add(true, direct(), func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = strings.Split(short(n), ",") })
		add(true, nil, func(s *corev1.Service) {
			for i := range n {
				s.Spec.Ports = append(s.Spec.Ports[:i],
					corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
			}
		})
	}
	for _, n := range []int{0, annotation.MaxRange, 100_000} {
		add(true, direct(), func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", strings.Repeat(" ", n) + "::"}
		})
	}

	denied := 0
	for _, j := range all {
		what := fmt.Sprintf("%.200v, loadBalancerIP %.20q", j.Annotations, j.Spec.LoadBalancerIP)
		spec, refusal := annotation.Parse(j.Service)
		if refusal == nil {
			if r := plan.CheckService(plan.Service{Ports: []plan.Port{{Protocol: "TCP", Port: 80, NodePort: 30080}}},
				spec); r != nil {
				refusal = r
			}
		}
		messages := p.denies(t, write{now: j.Service})
		if j.exact {
			assert.Equal(t, refusal != nil, len(messages) > 0, "%s: the controller says %v", what, refusal)
		}
		if len(messages) > 0 {
			denied++
			require.Error(t, refusal, "the policy denies %s, the controller does not", what)
		}
		assert.Empty(t, p.denies(t, write{now: j.Service, was: j.Service}), "%s was there before", what)
		inert, other := j.DeepCopy(), j.DeepCopy()
		inert.Spec.Type = corev1.ServiceTypeClusterIP
		otherClass(other)
		assert.Empty(t, p.denies(t, write{now: inert}), "%s is not a load balancer's", what)
		assert.Equal(t, messages, p.denies(t, write{now: j.Service, was: inert}), "%s when it becomes one", what)
		assert.Empty(t, p.denies(t, write{now: other}), "%s is another controller's", what)
	}
	assert.Greater(t, denied, 300)
	// TLS without a certificate is denied when a write removes the certificate. A write that also removes the TLS ports
	// is allowed.
	both, alone := loadBalancer(with(annotation.SSLPorts, "443", annotation.SSLCertificate,
		certificate)), loadBalancer(with(annotation.SSLPorts, "443"))
	assert.Len(t, p.denies(t, write{now: alone, was: both}), 1)
	assert.Empty(t, p.denies(t, write{now: loadBalancer(nil), was: both}))
	// The policy also denies this mistake, although the controller alone could report it.
	assert.NotEmpty(t, p.denies(t, write{now: loadBalancer(with(annotation.StickinessOptions, "cookie-name=a b"))}))
}

// Ranges that were written while no limit applied are counted once they apply to a load balancer rule.
func TestPolicyLimitsSourceRanges(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "annotations", nil)
	var list []string
	for i := range annotation.MaxSourceRanges + 1 {
		list = append(list, fmt.Sprintf("10.%d.0.0/17", i))
	}

	for what, with := range map[string]func(*corev1.Service){
		annotation.SourceCIDRs: func(s *corev1.Service) {
			s.Annotations[annotation.SourceCIDRs] = strings.Join(list, ",")
		},
		annotation.SourceRangesBeta: func(s *corev1.Service) {
			s.Annotations[annotation.SourceRangesBeta] = strings.Join(list, ",")
		},
		"spec": func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = list },
	} {
		of := func(pairs ...string) *corev1.Service {
			svc := loadBalancer(map[string]string{})
			for pair := range slices.Chunk(pairs, 2) {
				svc.Annotations[pair[0]] = pair[1]
			}
			with(svc)
			return svc
		}

		direct, internal, plain := of(annotation.Mode, "direct"), of(annotation.Internal, "yes"), of()
		for _, w := range []write{
			{now: plain}, {now: plain, was: direct}, {now: plain, was: internal},
			{now: of(annotation.Mode, "auto"), was: direct},
			{now: of(annotation.Mode, "proxy"), was: direct}, {now: of(annotation.Internal, "no"), was: internal},
		} {
			require.Len(t, p.denies(t, w), 1, "%s: %v", what, w)
		}

		for _, w := range []write{
			{now: direct}, {now: internal}, {now: direct, was: plain}, {now: direct, was: internal},
			{now: plain, was: plain},
			{now: of(annotation.Mode, "proxy"), was: plain},
		} {
			assert.Empty(t, p.denies(t, w), "%s: %v", what, w)
		}
	}
}

// Only users who may patch services/status may write records, for every type of Service.
func TestPolicyProtectsRecords(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "records", nil)
	var protected []string
	for _, d := range annotation.Table() {
		if d.Writer == annotation.ByUser {
			assert.Empty(t, p.denies(t, write{now: loadBalancer(map[string]string{d.Name: "x"})}), d.Name)
		} else {
			protected = append(protected, d.Name)
		}
	}

	require.Subset(t, protected, []string{
		annotation.Addresses, annotation.Allocation, annotation.AssociatedByController, annotation.LeasewebID,
		annotation.LeasewebNetworkID,
	})

	for _, name := range protected {
		for _, kind := range []corev1.ServiceType{"", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"} {
			of := func(value string, change ...func(*corev1.Service)) *corev1.Service {
				return loadBalancer(map[string]string{name: value}, append(change, ofType(kind))...)
			}
			generated := func(s *corev1.Service) { s.Name, s.GenerateName = "", "web-" }
			plain, a, b, empty := loadBalancer(nil, ofType(kind)), of("a"), of("b"), of("")
			for _, w := range []write{
				{now: a}, {now: empty}, {now: of("a", generated)}, {now: a, was: plain}, {now: b, was: a},
				{now: plain, was: a}, {now: empty, was: a},
				{now: loadBalancer(a.Annotations, otherClass)},
			} {
				messages := p.denies(t, w)
				require.Len(t, messages, 1, "%s of a %s: %v", name, kind, w)
				assert.Contains(t, messages[0], name)
				assert.Contains(t, messages[0], "services/status")
				w.who = "writer"
				assert.Empty(t, p.denies(t, w), "%s of a %s by the controller: %v", name, kind, w)
			}

			for _, w := range []write{
				{now: plain},
				{now: a, was: a},
				{now: plain, was: plain},
				{now: loadBalancer(a.Annotations), was: a},
			} {
				assert.Empty(t, p.denies(t, w), "%s of a %s: %v", name, kind, w)
			}
		}
	}
}

// A policy that fails closed must not block other Services: every expression can be evaluated, within its cost limit,
// for Services of every shape.
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
		"empty":             {TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}},
		"only a name":       {ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}},
		"no annotations":    loadBalancer(nil, ofType(corev1.ServiceTypeClusterIP)),
		"empty annotations": loadBalancer(map[string]string{}, ofType(corev1.ServiceTypeNodePort)),
		"headless": loadBalancer(nil, ofType(corev1.ServiceTypeClusterIP),
			func(s *corev1.Service) { s.Spec.ClusterIP = "None" }),
		"without ports": loadBalancer(nil, ofType(corev1.ServiceTypeClusterIP),
			func(s *corev1.Service) { s.Spec.Ports = nil }),
		"external name": loadBalancer(nil, ofType(corev1.ServiceTypeExternalName),
			func(s *corev1.Service) { s.Spec.ExternalName, s.Spec.Ports = "example.org", nil }),
		"many annotations":     loadBalancer(many, ofType(corev1.ServiceTypeClusterIP)),
		"a balancer with many": loadBalancer(many),
		"many ports":           wide,
		"plain balancer":       loadBalancer(nil),
		"balancer, no ports":   loadBalancer(nil, func(s *corev1.Service) { s.Spec.Ports = nil }),
		"labels":               loadBalancer(nil, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }),
		"another class":        loadBalancer(map[string]string{annotation.Network: ""}, otherClass),
		"deleted": loadBalancer(nil,
			func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{}; s.Finalizers = []string{"x"} }),
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

// write is a create or update of a Service that the API server checks.
type write struct {
	now, was *corev1.Service
	who      string // "writer" may patch services/status
}

// admissionPolicy is a rendered policy in the API server's evaluator.
type admissionPolicy struct {
	validating.Validator
	compiler *plugincel.CompositedCompiler
}

var serviceKind = apischema.GroupVersionKind{Version: "v1", Kind: "Service"}

// policyOf renders the chart and compiles the policy of that name.
func policyOf(t *testing.T, name string, v values) *admissionPolicy {
	t.Helper()
	for _, o := range objects(t, render(t, v)) {
		if p, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok && strings.HasSuffix(p.Name, "-"+name) {
			return compilePolicy(t, p)
		}
	}
	t.Fatal("there is no such policy")
	return nil
}

func compilePolicy(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionPolicy {
	t.Helper()
	assert.Equal(t, admissionregistrationv1.Fail, *p.Spec.FailurePolicy, p.Name)
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	compiler, err := plugincel.NewCompositedCompiler(base)
	require.NoError(t, err)
	compile := func(all ...plugincel.ExpressionAccessor) plugincel.ConditionEvaluator {
		return compiler.CompileCondition(all, plugincel.OptionalVariableDeclarations{HasAuthorizer: true},
			environment.NewExpressions)
	}

	var conditions, validations []plugincel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}

	// match conditions cannot use variables
	match := matchconditions.NewMatcher(compile(conditions...), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	for _, v := range p.Spec.Variables {
		variable := &validating.Variable{Name: v.Name, Expression: v.Expression}
		result := compiler.CompileAndStoreVariable(variable,
			plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
		require.Nil(t, result.Error, v.Name)
	}

	for _, v := range p.Spec.Validations {
		assert.NotContains(t, v.Message, "\n", "the API server refuses it")
		validations = append(validations,
			&validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
	}

	require.NotEmpty(t, validations)
	return &admissionPolicy{validating.NewValidator(compile(validations...), match, compile(), compile(),
		p.Spec.FailurePolicy, nil), compiler}
}

// mayPatchStatus is the authorizer of the tests.
func mayPatchStatus(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	of := []string{a.GetUser().GetName(), a.GetVerb(), a.GetResource(), a.GetSubresource(), a.GetNamespace()}
	if slices.Equal(of, []string{"writer", "patch", "services", "status", "default"}) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// denies returns the messages of the failed validations. It fails the test if an expression cannot be evaluated or
// exceeds its cost limit.
func (p *admissionPolicy) denies(t *testing.T, w write) (denied []string) {
	t.Helper()
	resource := apischema.GroupVersionResource{Version: "v1", Resource: "services"}
	attributes := &admission.VersionedAttributes{
		VersionedKind:   serviceKind,
		VersionedObject: admission.NewLazyObject(w.now),
	}

	operation := admission.Create
	if w.was != nil {
		attributes.VersionedOldObject, operation = admission.NewLazyObject(w.was), admission.Update
	}

	caller := &user.DefaultInfo{Name: w.who}
	attributes.Attributes = admission.NewAttributesRecord(w.now, nil, serviceKind, "default", w.now.Name, resource, "",
		operation, nil, false, caller)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	result := p.Validate(p.compiler.CreateContext(t.Context()), resource, attributes, nil, namespace,
		celconfig.RuntimeCELCostBudget, authorizer.AuthorizerFunc(mayPatchStatus))
	for _, d := range result.Decisions {
		require.NotEqual(t, validating.EvalError, d.Evaluation, d.Message)
		if d.Action == validating.ActionDeny {
			denied = append(denied, d.Message)
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

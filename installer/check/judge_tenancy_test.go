// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

func TestAdmission(t *testing.T) {
	t.Parallel()
	fail, ignore := admissionv1.Fail, admissionv1.Ignore
	whole := func(f *Facts) {
		f.Controllers = []Workload{{Ours: true}}
		for _, end := range admissionPolicies {
			meta := metav1.ObjectMeta{Name: "prod" + end}
			f.Policies = append(f.Policies,
				admissionv1.ValidatingAdmissionPolicy{
					ObjectMeta: meta,
					Spec:       admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: &fail},
				})
			f.Bindings = append(f.Bindings,
				admissionv1.ValidatingAdmissionPolicyBinding{
					ObjectMeta: meta,
					Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
						PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
					},
				})
		}
	}

	const kind = "ValidatingAdmissionPolicy "
	for name, tt := range map[string]struct {
		change func(*Facts)
		expect expect
	}{
		"the default of the API": {func(a *Facts) { a.Policies[0].Spec.FailurePolicy = nil }, passes("2 policies")},
		"none": {func(a *Facts) { a.Policies = nil },
			fails("2 faults", kind+"*-annotations: not in", kind+"*-records: not in")},
		"not bound": {func(a *Facts) { a.Bindings = a.Bindings[:1] },
			fails("1 fault", kind+"prod-records: no binding")},
		"bound to warn": {func(a *Facts) {
			a.Bindings[0].Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}
		}, fails("1 fault", kind+"prod-annotations: no binding")},
		"open and not bound": {func(a *Facts) {
			a.Bindings = a.Bindings[1:]
			a.Policies[0].Spec.FailurePolicy = &ignore
		},
			fails("2 faults", kind+"prod-annotations: failurePolicy is Ignore: what it cannot evaluate is allowed",
				kind+"prod-annotations: no binding")},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); tt.expect.of(t, "TEN-001", whole, tt.change) })
	}

	skips("not installed").of(t, "TEN-001")
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	services := []corev1.Service{tenantService("a/web", "192.0.2.1", with("network", "n")),
		tenantService("b/web", "192.0.2.2")}
	policy := func(words ...string) func(*Facts) {
		return func(f *Facts) { f.Services, f.Controllers = services, []Workload{{Ours: true, words: words}} }
	}
	refused := fails("1 setting more than the policy allows", "Service a/web: cloudstack-load-balancer-network")
	refused.of(t, "TEN-002", policy())
	refused.of(t, "TEN-002", policy("--tenancy="))
	passes("none").of(t, "TEN-002", policy("--tenancy={}"))
	fails("cannot be read").of(t, "TEN-002", policy("--tenancy={"))
	// Labels of namespaces are read only for a policy with selectors.
	unread := failing(Namespaces, errors.New("no"))
	unknown("no").of(t, "TEN-002", unread, policy(`--tenancy={"trustedNamespaces":["a=b"]}`))
	refused.of(t, "TEN-002", unread, policy())
}

func TestShared(t *testing.T) {
	t.Parallel()
	const ip, uid = "192.0.2.1", "01234567-89ab-cdef-0123-456789abcdef"
	service := func(name, uid, ip, share string, minutes int) corev1.Service {
		return tenantService(name, ip, with("share-with", share), aged(minutes),
			func(s *corev1.Service) { s.UID = types.UID(uid) })
	}

	web, guest, hidden := service("b/web", "2", ip, "",
		1), service("a/web", "1", ip, "", 0), service("a/web", uid, "", "", 0)
	toC, toAll := service("b/web", "2", ip, "c, a", 1), service("b/web", "2", ip, "*", 1)
	const taken, other = "Service b/web has it and does not share " +
		"it with a/web", "Service a/web has it and does not share it with b/web"
	for name, tt := range map[string]struct {
		services []corev1.Service
		owner    string // UID in the tags
		rule     string
		says     string // "" for OK
	}{
		"alone": {[]corev1.Service{web, service("a/web", "1", "192.0.2.2", "", 0)}, "", "",
			""},
		"within a namespace":      {[]corev1.Service{web, service("b/db", "1", ip, "", 0)}, "", "", ""},
		"across namespaces":       {[]corev1.Service{web, guest}, "", "", taken},
		"shared":                  {[]corev1.Service{toC, guest}, "", "", ""},
		"shared with all":         {[]corev1.Service{toAll, guest}, "", "", ""},
		"the guest says so":       {[]corev1.Service{web, service("a/web", "1", ip, "*", 0)}, "", "", taken},
		"the tag names the owner": {[]corev1.Service{toAll, guest}, "1", "", other},
		"the owner is gone":       {[]corev1.Service{web, guest}, "gone", "", taken},
		"by a rule that no status shows": {[]corev1.Service{web, hidden}, "", "a0123456789abcdef0123456789abcde-tcp-80",
			taken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := passes("none")
			if tt.says != "" {
				want = fails("1 address used", "PublicIpAddress "+ip+": "+tt.says)
			}
			want.of(t, "TEN-003", func(f *Facts) {
				f.Services, f.Addresses = tt.services, []cloudstack.PublicIP{
					{Address: ip, Tags: map[string]string{plan.TagServiceUID: tt.owner}},
					{Address: "192.0.2.9"},
				}
				if tt.rule != "" {
					f.AllRules = []cloudstack.LoadBalancerRule{{ID: "r", Name: tt.rule, PublicIP: ip, PublicPort: 80}}
				}
			})
		})
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	const id = "the-uid-of-kube-system"
	tags := func(cluster, uid string) map[string]string {
		return map[string]string{plan.TagCluster: cluster, plan.TagServiceUID: uid, plan.TagService: "x/y"}
	}
	sameName := func(cluster string) map[string]string {
		return map[string]string{plan.TagCluster: cluster, plan.TagServiceUID: "9", plan.TagService: "a/web"}
	}
	const record = `[{"id":"i","ip":"192.0.2.1","allocated":true}]`
	const found = "Service a/web: "
	const adopt, remove = "`csccm adopt a/web`", "`kubectl annotate service -n a web " + annotation.Addresses + "-`"
	const two = `[{"id":"i","ip":"192.0.2.1","allocated":true},{"id":"j","ip":"192.0.2.2","allocated":true}]`
	for name, tt := range map[string]struct {
		record string
		tags   map[string]string
		mayTag bool
		says   string // "" for OK
		fix    string // the only command of the remedy that writes
	}{
		"ours":                            {record, tags(id, "1"), true, "", ""},
		"a former id":                     {record, tags("former", "1"), true, "", ""},
		"ours, without the cluster's tag": {record, map[string]string{plan.TagServiceUID: "1"}, true, "", ""},
		"ours of a cluster's id that is unknown": {record, tags("prod", "1"), true,
			`name this Service, but of cluster "prod"`, "former-cluster-ids"},
		"another cluster":                        {record, tags("prod", "9"), true, `name cluster "prod"`, remove},
		"another Service":                        {record, tags(id, "9"), true, "Service x/y with another UID", remove},
		"another cluster's Service of this name": {record, sameName("prod"), true, `name cluster "prod"`, remove},
		"this Service, before it was made again": {record, sameName(id), true, "Service a/web with another UID",
			"`cmk delete tags resourcetype=PublicIpAddress resourceids=i`; tag the address again, or it stays when " +
				"its Service is deleted: `csccm adopt a/web`"},
		"left to the others":            {record, tags(id, ""), true, "", ""},
		"no tags":                       {record, nil, true, "name nobody", adopt},
		"no tags, and the role may not": {record, nil, false, "", ""},
		"no tags, of another provider":  {record, nil, true, "name nobody", adopt},
		"no tags, and the record says there are": {
			`[{"id":"i","ip":"192.0.2.1","allocated":true,"tagged":true}]`, nil, false, "name nobody", adopt,
		},
		"not acquired":    {`[{"id":"i","ip":"192.0.2.1"}]`, tags("prod", "9"), true, "", ""},
		"another address": {`[{"id":"k","ip":"192.0.2.1","allocated":true}]`, tags("prod", "9"), true, "", ""},
		"no record":       {"", tags("prod", "9"), true, "", ""},
		"broken": {"{", nil, true, "is not what the controller wrote",
			adopt + "; find out who wrote the record"},
		"somebody else's beside one without tags": {two, tags(id, "9"), true, "Service x/y with another UID",
			adopt + "; find out who wrote the record"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tenantService(
				"a/web", "192.0.2.1",
				func(s *corev1.Service) { s.UID, s.Annotations[annotation.Addresses] = "1", tt.record },
			)

			if name == "no tags, of another provider" {
				s.Annotations[annotation.AssociatedByController] = "true"
			}

			want := passes("none")
			if tt.says != "" {
				want = fails("1 record", found+tt.says)
			}

			got := want.of(t, "TEN-004", func(f *Facts) {
				f.Services, f.ClusterIDs = []corev1.Service{s}, []string{id, "former"}
				f.Addresses = []cloudstack.PublicIP{
					{ID: "i", Address: "192.0.2.1", Tags: tt.tags},
					{ID: "j", Address: "192.0.2.2"},
				}

				if tt.mayTag {
					f.APIs = sets.New("createTags")
				}
			})

			require.Contains(t, got.Remedy, tt.fix)
			if tt.fix != remove && !strings.Contains(tt.fix, "who wrote") {
				require.NotContains(t, got.Remedy, "annotate",
					"the record may be all that says that the address is the Service's")
			}
		})
	}
}

// tenantService returns a Service of type LoadBalancer with an address, or without one if ip is "".
func tenantService(name, ip string, change ...func(*corev1.Service)) corev1.Service {
	ns, name := name[:1], name[2:]
	s := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   ns,
			Name:        name,
			UID:         types.UID(ns + name),
			Annotations: map[string]string{},
		},
	}

	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	if ip != "" {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	}

	aged(0)(&s)
	for _, c := range change {
		c(&s)
	}

	return s
}

func with(name, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[annotation.Prefix+name] = value }
}

func aged(minutes int) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 3, 0, 0, 0,
			time.UTC).Add(-time.Duration(minutes) * time.Minute))
	}
}

func ports(n int) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, n) }
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const onNetwork, kept = " tenancy.annotations.network", " tenancy.limits.keepIP.maxPerNamespace"
	for name, tt := range map[string]struct {
		policy    string // "" means the default policy
		services  []corev1.Service
		labels    map[string]map[string]string
		addresses []cloudstack.PublicIP
		rules     []cloudstack.LoadBalancerRule
		refused   []string // "+NAMESPACE/NAME RULE"; the plus means that the Service has an address
	}{
		"nothing special": {services: []corev1.Service{
			tenantService("a/web", "192.0.2.1", with("algorithm", "source")),
			tenantService("b/web", "192.0.2.2", with("keep-ip", "true")),
		}},
		"networks": {services: []corev1.Service{
			tenantService("b/web", "192.0.2.2", with("network", "n2")),
			tenantService("a/db", "192.0.2.3", with("network", "n1")),
			tenantService("a/web", "192.0.2.1", with("network", "n1"), with("project", "p")),
			tenantService("a/new", "", with("network", "n1")),
		}, refused: []string{"+a/db" + onNetwork, " a/new" + onNetwork, "+a/web" + onNetwork, "+b/web" + onNetwork}},
		"of another class, of another type, being deleted": {services: []corev1.Service{
			tenantService("a/x", "192.0.2.1", with("network", "n1"),
				func(s *corev1.Service) { class := "c"; s.Spec.LoadBalancerClass = &class }),
			tenantService("a/y", "192.0.2.1", with("network", "n1"),
				func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
			tenantService("a/z", "192.0.2.1", with("network", "n1"),
				func(s *corev1.Service) { now := metav1.Now(); s.DeletionTimestamp = &now }),
		}},
		"a trusted namespace": {
			policy: `{"trustedNamespaces":["team=infra"],"annotations":{"network":{"deny":true}}}`,
			services: []corev1.Service{tenantService("a/web", "192.0.2.1", with("network", "n1")),
				tenantService("b/web", "192.0.2.2", with("network", "n1"))},
			labels:  map[string]map[string]string{"a": {"team": "infra"}},
			refused: []string{"+b/web" + onNetwork},
		},
		"the operator's own lists stay": {
			policy: `{"annotations":{"network":{"allow":["x","team=infra"],"values":["n9"]}}}`,
			services: []corev1.Service{tenantService("a/web", "192.0.2.1", with("network", "n1")),
				tenantService("x/web", "192.0.2.2", with("network", "n9"))},
			refused: []string{"+a/web" + onNetwork},
		},
		"a value alone": {
			policy: `{"annotations":{"algorithm":{"values":["source"]},"address":{"values":["192.0.2.9"]}}}`,
			services: []corev1.Service{
				tenantService("a/web", "192.0.2.1", with("algorithm", "leastconn"),
					func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" }),
			},
			refused: []string{"+a/web tenancy.annotations.algorithm"},
		},
		"addresses of CloudStack": {
			services: []corev1.Service{
				tenantService("a/nat", "192.0.2.1"),
				tenantService("b/foreign", "192.0.2.2", with("address", "192.0.2.2")),
				tenantService("c/chosen", "192.0.2.3"),
				tenantService("d/own", "192.0.2.4", with("address", "192.0.2.4")),
				tenantService("e/unknown", "192.0.2.5", with("address", "192.0.2.5")),
				tenantService("f/asks", "", with("address", "192.0.2.2")),
			},
			addresses: []cloudstack.PublicIP{
				{Address: "192.0.2.1", SourceNAT: true},
				{Address: "192.0.2.2"},
				{Address: "192.0.2.3"},
			},
			rules: []cloudstack.LoadBalancerRule{{Name: "intranet", PublicIP: "192.0.2.2", PublicPort: 80}},
			refused: []string{"+a/nat tenancy.sourceNATAddress", "+b/foreign tenancy.foreignAddress",
				" f/asks tenancy.foreignAddress"},
		},
		"limits": {
			policy: `{"limits":{"maxPortsPerService":2,"maxAddressesPerNamespace":1,"keepIP":{"maxPerNamespace":1}}}`,
			services: []corev1.Service{
				tenantService("a/1", "192.0.2.1", aged(1), ports(5)), tenantService("a/2", "192.0.2.2", aged(2)),
				tenantService("a/3", "192.0.2.2", aged(0)),
				tenantService("b/1", "192.0.2.4", aged(1), with("keep-ip", "yes")),
				tenantService("b/2", "192.0.2.4", aged(3), with("keep-ip", "on")),
			},
			refused: []string{"+a/1 tenancy.limits.maxPortsPerService", "+a/1 tenancy.limits.maxAddressesPerNamespace",
				"+b/1" + kept},
		},
		"no address may be kept": {
			policy: `{"limits":{"keepIP":{"maxPerNamespace":0}}}`,
			services: []corev1.Service{tenantService("a/1", "192.0.2.1", with("keep-ip", "true")),
				tenantService("a/2", "192.0.2.2", with("keep-ip", "true"))},
			refused: []string{"+a/1" + kept, "+a/2" + kept},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, err := PolicyOf([]string{"--tenancy=" + tt.policy})
			require.NoError(t, err)
			var got []string
			for _, r := range Refusals(p,
				&Facts{Services: tt.services, Namespaces: tt.labels, Addresses: tt.addresses, AllRules: tt.rules}) {
				mark := map[bool]string{true: "+", false: " "}[len(Ingress(r.Service)) > 0]
				_, rule, _ := strings.Cut(strings.TrimSuffix(r.Denial.Message, ")"), "(chart value ")
				got = append(got, mark+key(r.Service)+" "+rule)
			}

			require.Equal(t, tt.refused, got)
		})
	}
}

func TestRuledAddresses(t *testing.T) {
	t.Parallel()
	const uid = "01234567-89ab-cdef-0123-456789abcdef"
	svc := tenantService("a/web", "192.0.2.1", func(s *corev1.Service) { s.UID = uid })
	tags := func(cluster, uid string) map[string]string {
		return map[string]string{plan.TagCluster: cluster, plan.TagServiceUID: uid, plan.TagAllocatedBy: plan.ManagedBy}
	}
	rule := func(name, ip string) cloudstack.LoadBalancerRule {
		return cloudstack.LoadBalancerRule{ID: name + ip, Name: name, PublicIP: ip, PublicPort: 80}
	}
	f := &Facts{Services: []corev1.Service{svc}, ClusterIDs: []string{"ours"}, Addresses: []cloudstack.PublicIP{
		{Address: "192.0.2.1"}, {Address: "192.0.2.2"}, {Address: "192.0.2.3", Tags: tags("ours", uid)},
		{Address: "192.0.2.4", Tags: tags("others", uid)},
		{Address: "192.0.2.5", SourceNAT: true}, {Address: "192.0.2.6"},
	}, AllRules: []cloudstack.LoadBalancerRule{
		rule("a0123456789abcdef0123456789abcde-tcp-80", "192.0.2.1"), rule("intranet", "192.0.2.2"),
		rule("intranet", "192.0.2.3"), rule("intranet", "192.0.2.4"),
	}}

	require.Equal(t, map[string]string{
		"192.0.2.2": tenancy.ForeignAddress, "192.0.2.4": tenancy.ForeignAddress, "192.0.2.5": tenancy.SourceNATAddress,
	}, f.ruledAddresses())
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/test/plane"
)

const (
	tenantsTranscript = "testdata/tenants.txt"
	controllerAccount = "system:serviceaccount:kube-system:cloudstack-cloud-controller-manager"
	record            = `[{"id":"8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11","ip":"203.0.113.20","allocated":true}]`
)

var generatedName = regexp.MustCompile(`forged-[a-z0-9]{5}`)

// tenants is an API server with the chart's admission policies, and a user with the role edit in one namespace.
type tenants struct {
	env
	text bytes.Buffer // the transcript
}

// TestTenantsAreRefused asks a real API server, by kubectl, as a user who has the role edit in one namespace.
func TestTenantsAreRefused(t *testing.T) {
	t.Parallel()
	s := newTenants(t)
	for _, kind := range []string{"ClusterIP", "NodePort", "ExternalName", "LoadBalancer"} {
		s.allowed(t, "shop", "plain "+kind, s.service("plain-"+strings.ToLower(kind), kind, nil))
	}
	s.allowed(t, "shop", "another controller's class", s.service("other-class", "LoadBalancer", map[string]string{"network": "backbone"}, "loadBalancerClass: example.org/other"))

	s.say("# user tenant: role edit in namespace shop. The chart's policies are those of its default values.")
	s.refused(t, "a forged record", "-records", "addresses is written by the controller", s.service("forged", "LoadBalancer", map[string]string{"addresses": record}))
	s.refused(t, "a forged record, and a name that the API server generates", "-records", "addresses is written by", s.service("", "ClusterIP", map[string]string{"addresses": record}, "generateName: forged-"))
	s.refused(t, "a record of another provider on a Service that has no load balancer", "-records", "ip-associated-by-controller is written by",
		s.service("plain-clusterip", "ClusterIP", map[string]string{"ip-associated-by-controller": "true"}))
	s.refused(t, "a cookie name that would break the router's configuration", "-annotations", "stickiness-options: allowed",
		s.service("cookie", "LoadBalancer", map[string]string{"stickiness": "lb-cookie", "stickiness-options": `cookie-name=SRV insert#`}))
	s.refused(t, "61 source ranges, with which the virtual router would refuse every later change", "-annotations", "use fewer, larger ranges",
		s.service("ranges", "LoadBalancer", nil, rangeList(61)))
	s.refused(t, "an address that is none", "-annotations", "spec.loadBalancerIP", s.service("address", "LoadBalancer", nil, "loadBalancerIP: 203.0.113.300"))

	// Annotations of a Service without a load balancer are nobody's business until it gets one.
	has, later := map[string]string{"keep-ip": "maybe"}, "later-keep-ip"
	s.allowed(t, "shop", "keep-ip of a Service that has no load balancer", s.service(later, "ClusterIP", has))
	s.refused(t, "the Service has had the annotation keep-ip while it was a ClusterIP, and becomes a load balancer", "-annotations", "keep-ip: allowed",
		s.service(later, "LoadBalancer", has))

	// What the controller wrote.
	address := annotations + "addresses"
	if out, err := s.as(t, controllerAccount, "shop", "", "annotate", "service", "plain-loadbalancer", address+"="+record); err != nil {
		t.Errorf("the controller may not write its record: %v\n%s", err, out)
	}
	s.say("# The controller has written its record on the Service plain-loadbalancer.")
	s.refusedCommand(t, "-records", "addresses is written by", "annotate", "--overwrite", "service", "plain-loadbalancer", address+"=[]")
	s.refusedCommand(t, "-records", "addresses is written by", "annotate", "service", "plain-loadbalancer", address+"-")
	s.allowed(t, "shop", "an edit that keeps the record", s.service("plain-loadbalancer", "LoadBalancer", map[string]string{"algorithm": "source"}))
	s.allowed(t, "shop", "what the controller judges by the operator's policy", s.service("network", "LoadBalancer", map[string]string{"network": "backbone"}))
	if out, err := s.as(t, controllerAccount, "shop", "", "annotate", "service", "plain-loadbalancer", address+"-"); err != nil {
		t.Errorf("the controller may not remove its record: %v\n%s", err, out)
	}
	s.compare(t)
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	s := &tenants{env: env{Plane: borrow(t, plane.Options{}), home: t.TempDir()}}
	config, err := s.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	if s.Client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	s.install(t)
	s.admin(t, "create", "namespace", "shop")
	s.admin(t, "-n", "shop", "create", "rolebinding", "tenant", "--clusterrole=edit", "--user=tenant")
	s.await(t)
	return s
}

// install applies what the chart has for the API server; no Pod runs.
func (s *tenants) install(t *testing.T) {
	t.Helper()
	manifest, err := helm.Template(t.Context(), metav1.NamespaceSystem, helm.ApplyRequest{
		Name: release, Chart: applyRequest(t, nil).Chart, KubeVersion: "v1.37.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, document := range strings.Split(manifest, "\n---\n") {
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"} {
			if strings.Contains(document, "\nkind: "+kind+"\n") {
				wanted = append(wanted, document)
			}
		}
	}
	s.admin(t, "apply", "-f", s.file(t, "chart.yaml", strings.Join(wanted, "\n---\n")))
}

// await waits until the API server enforces the policies, has found no fault in their types, and the role edit is filled.
func (s *tenants) await(t *testing.T) {
	t.Helper()
	s.eventually(t, "the role edit", func(ctx context.Context) error {
		role, err := s.Client.RbacV1().ClusterRoles().Get(ctx, "edit", metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, "services") && slices.Contains(r.Verbs, "create")
		}) {
			err = errors.New("it may not create Services yet")
		}
		return err
	})
	policies, err := s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(policies.Items) != 2 {
		t.Fatalf("%d policies: %v", len(policies.Items), err)
	}
	for i := range policies.Items {
		name := policies.Items[i].Name
		s.eventually(t, "the types of "+name, func(ctx context.Context) error {
			p, err := s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
			if err != nil || p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
				return errors.Join(err, errors.New("not checked yet"))
			}
			for _, w := range p.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", name, w.FieldRef, w.Warning)
			}
			return nil
		})
	}
	for policy, service := range map[string]string{
		"-annotations": s.service("a", "LoadBalancer", map[string]string{"keep-ip": "maybe"}),
		"-records":     s.service("a", "ClusterIP", map[string]string{"addresses": "x"}),
	} {
		s.eventually(t, "the policy "+policy, func(context.Context) error {
			out, err := s.as(t, "tenant", "shop", service, "create", "--dry-run=server", "-f", "-")
			if err == nil || !strings.Contains(out, policy+"'") {
				return fmt.Errorf("it is not enforced yet: %s", out)
			}
			return nil
		})
	}
}

// service is a manifest. Lines are of the spec, or generateName.
func (s *tenants) service(name, kind string, has map[string]string, lines ...string) string {
	meta, spec, ports := "", "", "ports: [{port: 80}]"
	if name != "" {
		meta = "  name: " + name + "\n"
	}
	if kind == "ExternalName" {
		ports = "externalName: example.org"
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "generateName:") {
			meta += "  " + line + "\n"
		} else {
			spec += "  " + line + "\n"
		}
	}
	if len(has) > 0 {
		meta += "  annotations:\n"
	}
	for _, key := range slices.Sorted(maps.Keys(has)) {
		meta += fmt.Sprintf("    %s%s: '%s'\n", annotations, key, has[key])
	}
	return "apiVersion: v1\nkind: Service\nmetadata:\n" + meta + "spec:\n  type: " + kind + "\n" + spec + "  " + ports + "\n"
}

func rangeList(n int) string {
	ranges := make([]string, 0, n)
	for i := range n {
		ranges = append(ranges, fmt.Sprintf("10.0.%d.0/24", i))
	}
	return "loadBalancerSourceRanges: [" + strings.Join(ranges, ", ") + "]"
}

// as runs kubectl as somebody in a namespace.
func (s *tenants) as(t *testing.T, user, namespace, stdin string, args ...string) (string, error) {
	t.Helper()
	return s.kubectl(t.Context(), stdin, append([]string{"--as", user, "-n", namespace}, args...)...)
}

func (s *tenants) admin(t *testing.T, args ...string) {
	t.Helper()
	if out, err := s.kubectl(t.Context(), "", args...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (s *tenants) allowed(t *testing.T, namespace, what, manifest string) {
	t.Helper()
	if out, err := s.as(t, "tenant", namespace, manifest, "apply", "-f", "-"); err != nil {
		t.Errorf("%s is refused: %v\n%s", what, err, out)
	}
}

// refused applies a manifest, which a policy must refuse with a text.
func (s *tenants) refused(t *testing.T, what, policy, text, manifest string) {
	t.Helper()
	verb := "apply"
	if strings.Contains(manifest, "generateName:") {
		verb = "create" // apply needs a name
	}
	s.say("# " + what)
	s.say("$ kubectl --as tenant -n shop " + verb + " -f - <<EOF\n" + shorter(manifest) + "EOF")
	out, err := s.as(t, "tenant", "shop", manifest, verb, "-f", "-")
	s.judge(t, what, policy, text, out, err)
}

func (s *tenants) refusedCommand(t *testing.T, policy, text string, args ...string) {
	t.Helper()
	s.say("$ kubectl --as tenant -n shop " + strings.Join(args, " "))
	out, err := s.as(t, "tenant", "shop", "", args...)
	s.judge(t, strings.Join(args, " "), policy, text, out, err)
}

func (s *tenants) judge(t *testing.T, what, policy, text, out string, err error) {
	t.Helper()
	s.say(generatedName.ReplaceAllString(strings.TrimSpace(out), "forged-xxxxx") + "\n")
	if err == nil {
		t.Errorf("%s is not refused: %s", what, out)
	}
	if !strings.Contains(out, policy+"'") || !strings.Contains(out, text) {
		t.Errorf("%s is not refused by %s with %q: %s", what, policy, text, out)
	}
}

func (s *tenants) say(line string) { s.text.WriteString(line + "\n") }

// shorter leaves out most of a long list of source ranges.
func shorter(manifest string) string {
	head, tail, ok := strings.Cut(manifest, "10.0.2.0/24")
	if !ok {
		return manifest
	}
	last := strings.LastIndex(tail, "10.0.")
	return head + "..., " + tail[last:]
}

// compare compares the transcript with the page, or writes it where CSCCM_TRANSCRIPTS is set.
func (s *tenants) compare(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	if os.Getenv("CSCCM_TRANSCRIPTS") != "" {
		if err := os.WriteFile(tenantsTranscript, s.text.Bytes(), 0o644); err != nil { // #nosec G306 -- documentation
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(tenantsTranscript)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, s.text.Bytes()) {
		t.Errorf("%s is not what the API server says now; write it by CSCCM_TRANSCRIPTS=1 go test ./e2e -run TestTenantsAreRefused\n%s", tenantsTranscript, s.text.String())
	}
}

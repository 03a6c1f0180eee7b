// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// TestCSCCM takes a cluster that lives already, without a cloud provider, through install and daily work: doctor, status, plan,
// a Service through its life, new keys, migrate-rules, VMs that go. One node is new, two have been there before and must be tainted to be
// initialised. The parts build on each other.
func TestCSCCM(t *testing.T) {
	t.Parallel()
	e := newClusterEnv(t, nil)
	e.join(t, cp1, joined(worker1), joined(worker2))
	e.service(t, "web", 80, 443)
	e.csccm(t, adminPassword+"\n", installArgs(e)...).want(t, 0)
	e.initialised(t, 3)
	ip := e.address(t, "web")
	e.wantRules(t, ip, "443:demo-worker-1,demo-worker-2", "80:demo-worker-1,demo-worker-2")

	for _, part := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"nodes have what their VMs have", e.testNodes},
		{"installed again, nothing changes", func(t *testing.T) {
			before := e.controllerPods(t)
			e.csccm(t, "", append([]string{"install", "--yes"}, podNetwork...)...).want(t, 0)
			if after := e.controllerPods(t); !slices.Equal(before, after) {
				t.Errorf("Pods before %v and after %v", before, after)
			}
		}},
		{"doctor", func(t *testing.T) {
			e.csccm(t, "", "doctor").want(t, 0, "✓ HELM-003", "✓ CS-006", "✓ CCM-004", "✓ NODE-006", "✓ NODE-007")
			if s := e.csccm(t, "", "doctor", "-o", "json").want(t, 0); !json.Valid([]byte(s.out)) {
				t.Errorf("no JSON: %s", s.out)
			}
		}},
		{"status", func(t *testing.T) {
			if s := e.csccm(t, "", "status").want(t, 0, ip, worker1.Name); strings.Count(s.out, "\n") > 30 {
				t.Errorf("it has %d lines", strings.Count(s.out, "\n"))
			}
		}},
		{"support-bundle", func(t *testing.T) {
			e.csccm(t, "", "support-bundle", "--file", filepath.Join(e.home, "bundle.tar.gz")).want(t, 0)
		}},
		{"migrate-rules", e.testMigrate},
		{"plan", e.testPlan},
		{"keys are rotated without a restart", e.testRotation},
		{"ports change", func(t *testing.T) {
			services := e.Client.CoreV1().Services(metav1.NamespaceDefault)
			e.eventually(t, "the Service to take its new ports", func(ctx context.Context) error {
				s, err := services.Get(ctx, "web", metav1.GetOptions{})
				if err == nil {
					s.Spec.Ports = servicePorts(443, 8080)
					_, err = services.Update(ctx, s, metav1.UpdateOptions{})
				}
				return err
			})
			e.wantRules(t, ip, "443:demo-worker-1,demo-worker-2", "8080:demo-worker-1,demo-worker-2")
			if now := e.address(t, "web"); now != ip {
				t.Errorf("the address changed from %s to %s", ip, now)
			}
		}},
		{"a VM is stopped, then destroyed", func(t *testing.T) {
			nodes := e.nodes.Nodes()
			nodes[len(nodes)-1].Stop() // the last that joined is worker2
			_, vm, _ := strings.Cut(e.node(t, worker2.Name).Spec.ProviderID, "://")
			e.admin(t, "stopVirtualMachine", map[string]string{"id": vm, "forced": "true"})
			e.notReady(t, worker2.Name)
			e.shutDown(t, worker2.Name)
			e.admin(t, "destroyVirtualMachine", map[string]string{"id": vm, "expunge": "true"})
			e.nodeGone(t, worker2.Name)
			e.wantRules(t, ip, "443:demo-worker-1", "8080:demo-worker-1")
			e.node(t, cp1.Name)
			e.node(t, worker1.Name)
		}},
		{"Services are deleted", func(t *testing.T) {
			e.remove(t, "web")
			e.remove(t, "after")
			client := e.api(t, owner)
			e.eventually(t, "CloudStack to have the world's own addresses alone", func(ctx context.Context) error {
				ips, err := client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{})
				if err != nil || len(ips) != 2 {
					return errors.Join(err, fmt.Errorf("there are %v", ips))
				}
				return nil
			})
			if rules := e.rulesAt(t, legacyAddress); len(rules) != 2 {
				t.Errorf("the world's own rules are %v", rules)
			}
		}},
		{"only calls that a User may make", func(t *testing.T) {
			commands := e.noneRefused(t, "kubeadmin")
			if commands["listVirtualMachines"] == 0 || commands["createLoadBalancerRule"] == 0 {
				t.Errorf("the ledger shows none of the controller's calls: %v", commands)
			}
			t.Logf("calls of the whole test: %v", commands)
		}},
		{"no secret is anywhere", e.noSecrets},
	} {
		if !t.Run(part.name, part.do) {
			t.FailNow()
		}
	}
}

// testNodes compares each node with its VM.
func (e *clusterEnv) testNodes(t *testing.T) {
	vms, err := e.api(t, owner).ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range vms {
		n := e.node(t, vms[i].Name)
		want := []string{
			"external-cloudstack://" + vms[i].ID, "Small_Instance", "zone-1", "zone-1",
			fmt.Sprintf("[{InternalIP %s} {Hostname %s}]", vms[i].NICs[0].IPv4, vms[i].Name),
		}
		if got := []string{
			n.Spec.ProviderID, n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelTopologyRegion],
			fmt.Sprint(n.Status.Addresses),
		}; !slices.Equal(got, want) {
			t.Errorf("node %s has %q, want %q", n.Name, got, want)
		}
	}
}

// Of the example world: the name and the address of a load balancer of another provider.
const (
	legacyBalancer = "a0123456789abcdef0123456789abcde"
	legacyAddress  = "203.0.113.20"
)

func (e *clusterEnv) testMigrate(t *testing.T) {
	names := func() map[string]string {
		out := map[string]string{}
		for id, r := range e.rulesAt(t, legacyAddress) {
			out[id] = r.Name
		}
		return out
	}
	before, journal := names(), filepath.Join(e.home, "journal.jsonl")
	renamed := map[string]string{}
	for id, name := range before {
		renamed[id] = strings.Replace(name, legacyBalancer+"-", legacyBalancer+"-tcp-", 1)
	}
	for _, c := range []struct {
		args []string
		says string
		want map[string]string
	}{
		{[]string{"--dry-run", "--lb", legacyBalancer}, "rename to " + legacyBalancer + "-tcp-80", before},
		{[]string{"--yes", "--lb", legacyBalancer, "--journal", journal}, "", renamed},
		{[]string{"--yes", "--undo", journal, "--journal", journal + ".undo"}, "", before},
	} {
		e.csccm(t, "", append([]string{"migrate-rules"}, c.args...)...).want(t, 0, c.says)
		if now := names(); !reflect.DeepEqual(now, c.want) {
			t.Errorf("after %v the rules are named %v, want %v", c.args, now, c.want)
		}
	}
}

// testPlan runs csccm plan beside the controller, with the credentials of its Secret and the flags of its Deployment.
func (e *clusterEnv) testPlan(t *testing.T) {
	e.csccm(t, "", "plan").want(t, 0, "1 Service: 1 as asked for.")
	// A Service that the controller refuses stays as it is: no load balancer takes SCTP.
	services := e.Client.CoreV1().Services(metav1.NamespaceDefault)
	udp := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "udp"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "dns", Protocol: corev1.ProtocolSCTP, Port: 53}},
	}}
	if _, err := services.Create(t.Context(), udp, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.csccm(t, "", "plan", "--detailed-exitcode", "default/udp").want(t, 2, "refused: UnsupportedProtocol", "fix: ")
	e.remove(t, "udp")
}

// testRotation rotates while the controller serves: the kubelet swaps the mounted Secret, and the controller takes the keys over.
// That no call is refused before, meanwhile or after, is seen in the end.
func (e *clusterEnv) testRotation(t *testing.T) {
	pods := e.controllerPods(t)
	acquirer := func() string {
		calls := e.cloud.Ledger().Find("associateIpAddress", "")
		return calls[len(calls)-1].Caller
	}
	before := acquirer()
	e.csccm(t, adminPassword+"\n", "rotate-keys", "--admin-user", "admin", "--admin-password-stdin", "--yes").want(t, 0, "revoked")
	e.service(t, "after", 81)
	e.wantRules(t, e.address(t, "after"), "81:demo-worker-1,demo-worker-2")
	if now := acquirer(); now == before {
		t.Errorf("the address was acquired with the old keys, by %s", now)
	}
	if now := e.controllerPods(t); !slices.Equal(pods, now) {
		t.Errorf("Pods were %v and are %v", pods, now)
	}
}

// TestLeastRights runs csccm as people who have no more than docs/csccm-rights.yaml gives them: an install that is killed again
// and again, what only reads, upgrade, rollback, new keys, uninstall. The audit log would show a request that is refused.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	e := newClusterEnv(t, nil)
	e.join(t, cp1, joined(worker1), joined(worker2))
	if out, err := e.kubectl(t.Context(), "", "apply", "-f", "../../docs/csccm-rights.yaml"); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, group := range []string{rights.Operator, rights.Reader} {
		for _, resource := range []authorizationv1.ResourceAttributes{{Verb: "list", Resource: "nodes"}, {Verb: "get", Resource: "secrets", Namespace: metav1.NamespaceSystem}} {
			e.eventually(t, fmt.Sprintf("%s to be allowed to %s %s", group, resource.Verb, resource.Resource), func(ctx context.Context) error {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane", Groups: []string{group}, ResourceAttributes: &resource}}
				review, err := e.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				if err == nil && !review.Status.Allowed {
					err = errors.New("not yet")
				}
				return err
			})
		}
	}
	as := func(group string) { e.more = []string{"--as", "jane", "--as-group", group} }

	as(rights.Operator)
	install := installArgs(e, "--set", "replicaCount=1")
	e.killedInTurn(t, 4, adminPassword+"\n", []string{
		`made user "kubeadmin"`, "Secret kube-system/", "Helm release kube-system/", "Waiting for the controller's Pods: ",
		"The controller's self-test in the cluster: passed", "Initialising node demo-worker-1",
	}, install)
	s := e.csccm(t, adminPassword+"\n", install...).want(t, 0, "without a word; continuing")
	for _, lacks := range []string{"K8S-003", "may not"} {
		if strings.Contains(s.all, lacks) {
			t.Errorf("the install says %q:\n%s", lacks, s.all)
		}
	}
	e.initialised(t, 3)
	if n := e.cloud.Ledger().Count("createUser"); n != 1 {
		t.Errorf("%d users were made", n)
	}
	m, err := e.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "csccm-journal", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(m.Data["install"]), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"event":"end"`) || strings.Contains(last, "error") {
		t.Errorf("the journal ends with %s", last)
	}
	e.service(t, "web", 80)
	e.address(t, "web")

	reads := [][]string{{"doctor"}, {"status"}, {"plan"}}
	as(rights.Reader)
	for _, args := range append(reads, []string{"support-bundle", "--file", filepath.Join(e.home, "read.tar.gz")}) {
		e.csccm(t, "", args...).want(t, 0)
	}
	e.csccm(t, "", "doctor", "--phase", "preflight", "--only", "K8S-003").want(t, 3, "patch nodes")
	as(rights.Operator)
	for _, args := range append(reads, []string{"support-bundle", "--file", filepath.Join(e.home, "bundle.tar.gz")},
		[]string{"migrate-rules", "--yes"}, []string{"taint", "--dry-run"}, []string{"takeover", "--dry-run"}) {
		e.csccm(t, "", args...).want(t, 0)
	}
	upgrade := []string{"upgrade", "--set", "logVerbosity=4"}
	e.csccm(t, "", append(upgrade, "--dry-run")...).want(t, 0, `"--v=2"`, `"--v=4"`, "change Deployment")
	e.csccm(t, "", append(upgrade, "--yes")...).want(t, 0, "Go back: csccm rollback")
	e.csccm(t, "", "upgrade", "--yes").want(t, 0)
	e.csccm(t, "", "rollback", "--yes").want(t, 0)
	if r, err := e.helm.Get(t.Context(), release); err != nil || fmt.Sprint(r.Values["logVerbosity"]) == "4" {
		t.Errorf("after the rollback: %v, %v", r, err)
	}
	secret := func() string {
		s, err := e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(s.Data[secretKey])
	}
	before := secret()
	e.csccm(t, adminPassword+"\n", "rotate-keys", "--admin-user", "admin", "--admin-password-stdin", "--yes").
		want(t, 0, "csccm may not read Secrets in namespaces other than kube-system")
	e.csccm(t, adminPassword+"\n", "rotate-keys", "--admin-user", "admin", "--admin-password-stdin", "--finish", "--yes").
		want(t, 0, "the old keys of kubeadmin are revoked")
	if secret() == before {
		t.Error("the keys are the same")
	}
	e.noSecrets(t)

	e.csccm(t, "", "uninstall", "--yes").want(t, 3, "default/web", "--orphan-load-balancers")
	was := e.node(t, cp1.Name).Spec.ProviderID
	e.csccm(t, "", "uninstall", "--orphan-load-balancers", "--remove-finalizers", "--delete-secret", "--yes").want(t, 0)
	if now := e.node(t, cp1.Name).Spec.ProviderID; now != was {
		t.Errorf("the node's provider ID was %q and is %q", was, now)
	}
	e.remove(t, "web") // without a controller
	if s := e.csccm(t, "", "uninstall", "--delete-secret", "-o", "json", "--yes").want(t, 0); !json.Valid([]byte(s.out)) {
		t.Errorf("no JSON: %s", s.out)
	}
}

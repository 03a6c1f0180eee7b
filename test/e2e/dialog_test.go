// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/testenv"
)

// TestInstallOnATerminal installs with nothing but answers: a login, a plan, a confirmation. At first each question gets a wrong
// answer, none of which ends the run, and in the end a no; then all goes well. ^C and SIGTERM end a question.
func TestInstallOnATerminal(t *testing.T) {
	t.Parallel()
	world := simulator.ExampleWorld()
	world.Domains = append(world.Domains, simulator.Domain{Path: "ROOT/tenants"})
	world.Zones = append(world.Zones, simulator.Zone{Name: "zone-2", PublicRanges: []string{"198.51.100.10-198.51.100.19"}})
	world.Accounts = append(world.Accounts, simulator.Account{Name: "plain", Role: "User", Users: []simulator.User{{Name: "plain", Password: "plain-word"}}})
	e := newClusterEnv(t, world)
	e.join(t, cp1, joined(worker1), joined(worker2))
	const (
		how, url  = "Credentials for the controller:", "URL of the CloudStack API:"
		user      = "CloudStack administrator:"
		account   = "Account that owns the cluster's VMs:"
		zone, yes = "Zone of the cluster's VMs:", "Go on in cluster "
	)
	install := append([]string{"install"}, processFlags...)
	e.dialog(t, []answer{{how, terminate}}, install...).want(t, report.ExitInterrupted, "interrupted")
	e.dialog(t, []answer{
		{how, enter}, {url, e.cloud.URL + enter}, {user, enter}, {"Domain of admin:", enter}, {"Password of admin:", "half" + interrupt},
	}, install...).want(t, report.ExitInterrupted)
	e.dialog(t, []answer{
		{how, enter}, // the first: a login
		{url, "cloud.example.org" + enter},
		{url, clearLine + "http://127.0.0.1:1/client/api" + enter},
		{url, clearLine + e.cloud.URL + "/elsewhere" + enter},
		{url, clearLine + e.cloud.URL + enter},
		{user, enter}, {"Domain of admin:", enter}, {"Password of admin:", "wrong-word" + enter},
		{user, "plain" + enter}, {"Domain of plain:", enter}, {"Password of plain:", "plain-word" + enter},
		{user, enter}, {"Domain of admin:", enter}, {"Password of admin:", adminPassword + enter},
		{zone, down + enter},
		{account, "nosuch" + enter}, {account, clearLine + "ROOT/nosuch/k8s" + enter}, {account, clearLine + "ROOT/tenants/k8s" + enter},
		{account, enter}, // the owner of the VMs is the default
		{"Do this in CloudStack for the controller in cluster ", enter},
		{yes, "n" + enter},
	}, install...).shows(t, report.ExitUsage, // a prompt shows why it refuses the last answer, in place of the one before
		"no CloudStack API answers at "+e.cloud.URL+"/elsewhere",
		`refuses the login of user "admin"`, `user "plain" is not an administrator`,
		`there is no account "k8s" in domain ROOT/tenants (there is one in ROOT: --domain ROOT)`,
		"To do in CloudStack:", "Do this in CloudStack for the controller in cluster ", "namespace kube-system? Yes", "Go on in cluster ", "namespace kube-system? No",
		`Made in CloudStack: user "kubeadmin" of account "k8s", domain ROOT`, "csccm uninstall --context ", " --delete-user removes it",
		"error: nothing was changed in the cluster: not confirmed")
	for _, secret := range []string{"wrong-word", "plain-word"} {
		if strings.Contains(e.session.String(), secret) {
			t.Errorf("the password %s is on the screen", secret)
		}
	}

	e.dialog(t, []answer{
		{how, enter}, {url, e.cloud.URL + enter}, {user, enter}, {"Domain of admin:", enter}, {"Password of admin:", adminPassword + enter},
		{zone, enter}, {account, "k8s" + enter}, {yes, enter},
	}, install...).shows(t, 0,
		"Log in as a CloudStack administrator", "Password of admin: "+strings.Repeat("*", len(adminPassword)),
		"Credentials against CloudStack: verified", "Plan for ", "Secret create kube-system/"+secretName,
		"Helm install release kube-system/"+release, "Node demo-worker-1 is initialised by a taint", "Go on in cluster ", "namespace kube-system? Yes",
		"The controller's self-test in the cluster: passed", "runs in namespace kube-system; 3 of 3 nodes initialised.",
		"The same again: csccm install --context ", " --api-url "+e.cloud.URL+" --admin-user admin --admin-password-file FILE")
	e.initialised(t, 3)
	e.dialog(t, nil, install...).shows(t, 0, "Helm keep release", "3 of 3 nodes initialised.") // nothing to do, nothing to ask
}

// TestInstallTakesOverOnATerminal installs in the place of another provider. A flag agrees to what changes of one Service, and a
// person keeps the current state of the other.
func TestInstallTakesOverOnATerminal(t *testing.T) {
	t.Parallel()
	e := newOccupied(t, testenv.Predecessor{})
	client := e.api(t, owner)
	var mail string
	for id, r := range e.before {
		if r.PublicIP != e.ips[1] {
			continue
		}
		mail = id
		s, err := client.UpdateLoadBalancerRule(t.Context(), cloudstack.UpdateLoadBalancerRuleRequest{ID: id, Name: r.Name, Protocol: r.Protocol, Algorithm: "leastconn"})
		require.NoError(t, err)
		if _, err := client.Jobs().Wait(t.Context(), "updateLoadBalancerRule", s.JobID); err != nil {
			t.Fatal(err)
		}
	}
	e.before = e.rulesAt(t, e.ips...)
	w := e.witness(t)
	install := append([]string{"install"}, processFlags...)

	e.dialog(t, []answer{{"Services that would change: default/documented, default/mail:", down + down + enter}}, install...).
		shows(t, report.ExitCheckFailed, "default/mail: stop here", "--accept default/documented,default/mail", "--pin default/documented,default/mail")
	if now := e.rulesAt(t, e.ips...); now[mail].Algorithm != "leastconn" {
		t.Errorf("the rule has changed to %+v", now[mail])
	}
	install = append(install, "--accept", "default/mail")
	e.dialog(t, []answer{{"Services that would change: default/documented:", enter}, {"Go on in cluster ", enter}}, install...).shows(t, 0,
		"found Deployment kube-system/"+oldName+", another provider", "Takeover in the place of another provider",
		"the protocol of port 8080 changes from tcp to tcp-proxy", "the algorithm of port 25 changes from leastconn to roundrobin",
		"Services that would change: default/documented: keep the current state", "Go on in cluster ", "namespace kube-system? Yes",
		"The controller's self-test in the cluster: passed", "Stopping Deployment kube-system/"+oldName, "Rules and addresses: ids kept: 3",
		"Took the place of Deployment kube-system/"+oldName, "csccm install --context csccm-test --accept default/mail", "--pin default/documented --yes")
	e.taken(t, w)
	e.isPinned(t, "false")
	if now := e.rulesAt(t, e.ips...); now[mail].Algorithm != "roundrobin" {
		t.Errorf("the change that was agreed to is not made: %+v", now[mail])
	}
}

// testTaint has csccm ask before it taints a node that was there before any provider, and before it sets it back.
func testTaint(t *testing.T, e *clusterEnv) {
	labelled := func() bool { return e.node(t, worker2.Name).Labels[corev1.LabelTopologyZone] == "zone-1" }
	if id := e.node(t, worker2.Name).Spec.ProviderID; id != "" {
		t.Fatalf("provider ID %q", id)
	}
	const question, back = "Taint 1 node, demo-worker-2 first and alone in cluster ", "Set the labels of these nodes back in cluster "
	e.csccm(t, "", "taint", "--dry-run").want(t, 0)
	e.dialog(t, []answer{{question, enter}}, "taint").shows(t, report.ExitUsage, "demo-worker-2 is initialised by a taint", question, "namespace kube-system? No") // no is the default
	if labelled() {
		t.Error("declined, it is initialised")
	}
	e.dialog(t, []answer{{question, "y" + enter}}, "taint").shows(t, 0, question, "namespace kube-system? Yes", "Initialised: demo-worker-2. Back: csccm taint --context ")
	if n := e.node(t, worker2.Name); !labelled() || n.Spec.ProviderID == "" || hasTaint(n, taint) || n.Labels[corev1.LabelInstanceTypeStable] != "SmallInstance" {
		t.Errorf("provider ID %q, taints %v, labels %v", n.Spec.ProviderID, n.Spec.Taints, n.Labels)
	}
	e.dialog(t, []answer{{back, "y" + enter}}, "taint", "--undo").shows(t, 0, "demo-worker-2 topology.kubernetes.io/zone", back, "namespace kube-system? Yes", "1 node set back")
	if n := e.node(t, worker2.Name); labelled() || n.Spec.ProviderID == "" {
		t.Errorf("set back, it has provider ID %q and labels %v", n.Spec.ProviderID, n.Labels)
	}
}

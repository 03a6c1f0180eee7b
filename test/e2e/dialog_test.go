// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// shows compares what a person saw with what must be there, in this order, line breaks aside.
func shows(t *testing.T, screen string, want ...string) {
	t.Helper()
	rest := strings.Join(strings.Fields(screen), " ")
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("the screen does not show %q (after what comes before it):\n%s", w, screen)
			return
		}
		rest = after
	}
}

// cloudConfig is what the Secret in the cluster holds.
func (env *clusterEnv) cloudConfig(t *testing.T) string {
	t.Helper()
	s, err := env.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(s.Data[secretKey])
}

// TestInstallOnATerminal installs with nothing but answers: a login, a plan, a confirmation.
func TestInstallOnATerminal(t *testing.T) {
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1, joined(worker1), joined(worker2))
	script := &transcript{b: env}
	screen, code := script.dialog(t, []answer{
		{"Credentials for the controller:", enter}, // the first: a login
		{"URL of the CloudStack API:", "cloud.example.org" + enter},
		{"URL of the CloudStack API:", "\x15" + env.cloud.URL + enter}, // ^U clears the line
		{"CloudStack administrator:", enter},
		{"Domain of admin:", enter},
		{"Password of admin:", adminPassword + enter},
		{"Account that owns the cluster's VMs:", "k8s" + enter},
		{"Do this in CloudStack?", enter},
		{"Go on?", enter},
	}, append([]string{"install"}, processFlags...)...)
	if code != 0 {
		t.Fatalf("the install ended with %d:\n%s", code, screen)
	}
	shows(t, screen, "Log in as a CloudStack administrator", "it must start with https://", "Password of admin: "+strings.Repeat("*", len(adminPassword)),
		"To do in CloudStack:", "Do this in CloudStack? Yes", "Credentials against CloudStack: verified", "Plan for ", "Secret create kube-system/"+secretName,
		"Helm install release kube-system/"+release, "Node demo-worker-1 is initialised by a taint", "Go on? Yes",
		"The controller's self-test in the cluster: passed", "runs in namespace kube-system; 3 of 3 nodes initialised.",
		"The same again: csccm install --api-url "+env.cloud.URL+" --admin-user admin --admin-password-file FILE --account k8s")
	env.initialized(t, cp1.Name, worker1.Name, worker2.Name)
	noSecrets(t, env, script.text.String(), env.cloudConfig(t))

	screen, code = script.dialog(t, []answer{{"Go on?", "n" + enter}}, append([]string{"install"}, processFlags...)...)
	if code != 2 {
		t.Errorf("declined, it ended with %d:\n%s", code, screen)
	}
	shows(t, screen, "Helm keep release", "nothing was changed: not confirmed")
	script.write(t, "install-interactive.txt")
}

// TestInstallTakesOverOnATerminal installs in the place of another provider. A person agrees to what changes of one
// Service, and keeps the current state of the other.
func TestInstallTakesOverOnATerminal(t *testing.T) {
	t.Parallel()
	env := newOccupied(t)
	mail := env.ips[1]
	var of string
	for id, r := range env.before {
		if r.PublicIP != mail {
			continue
		}
		of = id
		s, err := env.client.UpdateLoadBalancerRule(t.Context(), cloudstack.UpdateLoadBalancerRuleRequest{ID: id, Name: r.Name, Protocol: r.Protocol, Algorithm: "leastconn"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := env.client.Jobs().Wait(t.Context(), "updateLoadBalancerRule", s.JobID); err != nil {
			t.Fatal(err)
		}
	}
	env.before = balancerRules(t, env.client, env.ips...)
	watch := env.witness(t)
	script := &transcript{b: env.clusterEnv}
	install := append([]string{"install"}, processFlags...)

	documented := answer{"Service default/documented:", enter} // the first choice keeps the current state
	screen, code := script.dialog(t, []answer{documented, {"Service default/mail:", down + down + enter}}, install...)
	if code != 3 {
		t.Fatalf("stopped by a person, it ended with %d:\n%s", code, screen)
	}
	shows(t, screen, "Service default/mail: stop here", "--accept default/mail")
	if now := balancerRules(t, env.client, env.ips...); now[of].Algorithm != "leastconn" {
		t.Errorf("the rule has changed to %+v", now[of])
	}
	screen, code = script.dialog(t, []answer{documented, {"Service default/mail:", down + enter}, {"Go on?", enter}}, install...)
	if code != 0 {
		t.Fatalf("the install ended with %d:\n%s", code, screen)
	}
	shows(t, screen, "found Deployment kube-system/"+oldName+", another provider", "Takeover in the place of another provider",
		"the protocol of port 8080 changes from tcp to tcp-proxy", "the algorithm of port 25 changes from leastconn to roundrobin",
		"Service default/documented: keep the current state", "Service default/mail: agree to the change", "Go on? Yes",
		"The controller's self-test in the cluster: passed", "Stopping Deployment kube-system/"+oldName, "Rules and addresses: ids kept: 3",
		"Took the place of Deployment kube-system/"+oldName, "--accept default/mail --pin default/documented --yes")
	env.eventually(t, "the new controller to be alone", env.rolledOut)
	env.recorded(t)
	env.kept(t)
	after := balancerRules(t, env.client, env.ips...)
	if after[of].Algorithm != "roundrobin" {
		t.Errorf("the change that was agreed to is not made: %+v", after[of])
	}
	watch.stop()
	<-watch.done
	watch.check(t)
	noSecrets(t, env.clusterEnv, script.text.String(), env.cloudConfig(t))
	script.rules(env.before, after)
	script.write(t, "install-takeover.txt")
}

// TestTaintOnATerminal has csccm ask before it taints nodes, and before it sets them back.
func TestTaintOnATerminal(t *testing.T) {
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1, joined(worker1), joined(worker2))
	env.secret(t, string(env.config(t).Render()))
	if _, err := env.helm.Apply(t.Context(), applyRequest(t)); err != nil {
		t.Fatal(err)
	}
	env.initialized(t, cp1.Name)
	env.eventually(t, "the controller's Pods", env.rolledOut)
	labelled := func() []string {
		var out []string
		for _, name := range []string{worker1.Name, worker2.Name} {
			n, err := env.node(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if n.Labels[corev1.LabelTopologyZone] == "zone-1" {
				out = append(out, name)
			}
		}
		return out
	}
	script := &transcript{b: env}
	const question, back = "Taint 2 nodes, demo-worker-1 first and alone?", "Set the labels of the nodes back that csccm tainted?"
	screen, code := script.dialog(t, []answer{{question, enter}}, "taint") // no is the default
	if code != report.ExitUsage || len(labelled()) > 0 {
		t.Errorf("declined, it ended with %d, and %v are initialised:\n%s", code, labelled(), screen)
	}
	shows(t, screen, "demo-worker-1 needs taint, first", "demo-worker-2 needs taint", question+" No")
	screen, code = script.dialog(t, []answer{{question, "y" + enter}}, "taint")
	if code != 0 || !slices.Equal(labelled(), []string{worker1.Name, worker2.Name}) {
		t.Errorf("it ended with %d, and %v are initialised:\n%s", code, labelled(), screen)
	}
	shows(t, screen, question+" Yes", "Node demo-worker-1, alone at first", "Initialised: demo-worker-1, demo-worker-2. Back: csccm taint --undo")
	screen, code = script.dialog(t, []answer{{back, "y" + enter}}, "taint", "--undo")
	if code != 0 || len(labelled()) > 0 {
		t.Errorf("the undo ended with %d, and %v have labels:\n%s", code, labelled(), screen)
	}
	shows(t, screen, back+" Yes", "demo-worker-1 SET BACK: topology.kubernetes.io/zone", "demo-worker-2 SET BACK: topology.kubernetes.io/zone")
	script.write(t, "taint.txt")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"cmp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/testenv/exitcodes"
)

// TestExitCodesOnACluster runs the rows of the table of exit codes that need a real API server: every command that changes
// a release, in a dry run, without a terminal and --yes, with no at the question, and where a gate refuses it. None of
// them changes anything.
func TestExitCodesOnACluster(t *testing.T) {
	t.Parallel()
	e := newDirectEnv(t, 2)
	file := e.file(t, "cloud-config", string(e.config(t, "ccm-a").Render()))
	password, wrong := e.file(t, "password", "password"), e.file(t, "wrong", "not it")
	// A release with two revisions. No node runs its Pods, so the rollouts do not end.
	for _, args := range [][]string{
		{"install", "--cloud-config", file, "--skip-self-test", "--skip-taint"}, {"upgrade", "--set", "logVerbosity=3"},
	} {
		e.csccm(t, "", append(args, "--yes", "--rollout-timeout", "1s")...).want(t, 124)
	}
	e.register(t, 1, 2, func(n *corev1.Node) { n.Spec.Taints = nil }) // nodes that were there before the controller
	login := []string{"--admin-user", "admin", "--admin-password-file"}
	lines := map[string][]string{
		"install": {"--cloud-config", file, "--set", "logVerbosity=4"}, "upgrade": {"--set", "logVerbosity=4"}, "rollback": nil, "uninstall": nil,
		"rotate-keys": append(login, password),
	}
	before := e.state(t)
	row := func(name string, run func(t *testing.T, command string, args []string, code int)) {
		t.Helper()
		for _, r := range exitcodes.Rows() {
			if r.Name != name || r.Test != exitcodes.OnACluster {
				continue
			}
			for _, command := range r.Commands {
				t.Run(name+": csccm "+command, func(t *testing.T) {
					run(t, command, slices.Concat([]string{command}, lines[command]), r.Code)
					e.unchanged(t, before)
				})
			}
		}
	}
	row("refused", func(t *testing.T, command string, args []string, code int) {
		want := map[string][2]string{"rotate-keys": {"no Pod of the controller runs", "csccm doctor"}, "uninstall": {"", "--orphan-load-balancers"}}[command]
		if command == "uninstall" {
			e.service(t, "balanced", 80)
			defer e.remove(t, "balanced")
		}
		for _, flag := range []string{"--yes", "--dry-run"} {
			e.csccm(t, "", append(slices.Clone(args), flag)...).refused(t, code, want[0], want[1])
		}
	})
	e.runningPod(t)
	before = e.state(t)
	row("login refused", func(t *testing.T, command string, _ []string, code int) {
		e.csccm(t, "", append(append([]string{command}, login...), wrong, "--yes")...).refused(t, code, "refuses the login of user", "password")
	})
	row("no terminal", func(t *testing.T, _ string, args []string, code int) {
		e.csccm(t, "", args...).refused(t, code, "not given, and there is no terminal to ask on", "--yes")
	})
	row("no", func(t *testing.T, command string, args []string, code int) {
		question := map[string]string{"uninstall": "Uninstall in cluster "}[command]
		e.dialog(t, []answer{{cmp.Or(question, "Go on in cluster "), "n" + enter}}, args...).want(t, code, "not confirmed")
	})
	row("fine", func(t *testing.T, _ string, args []string, code int) {
		for _, flag := range []string{"--dry-run"} {
			e.csccm(t, "", append(slices.Clone(args), flag)...).want(t, code)
		}
	})
}

// runningPod makes a Pod of the controller that runs, as far as the API server knows.
func (e *directEnv) runningPod(t *testing.T) {
	t.Helper()
	deployments, err := e.Client.AppsV1().Deployments("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm"})
	if err != nil || len(deployments.Items) != 1 {
		t.Fatal(err, len(deployments.Items))
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}} // no controller of Kubernetes runs here
	if _, err := e.Client.CoreV1().ServiceAccounts("kube-system").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "controller-1", Labels: deployments.Items[0].Spec.Template.Labels}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "x"}}
	pods := e.Client.CoreV1().Pods("kube-system")
	if pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

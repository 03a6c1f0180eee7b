// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine/exitcodes"
)

// TestExitCodesOnACluster runs the rows of the table of exit codes that need a real API server: every command that changes
// a release, in a dry run, without a terminal and --yes, with no at the question, and where a gate refuses it. None of
// them changes anything.
func TestExitCodesOnACluster(t *testing.T) {
	t.Parallel()
	env := newDirectEnv(t, 2)
	good, err := env.Cloud.Config("ccm-a")
	if err != nil {
		t.Fatal(err)
	}
	file := env.file(t, "cloud-config", string(good.Render()))
	password, wrong := env.file(t, "password", "password"), env.file(t, "wrong", "not it")
	// A release with two revisions. No node runs its Pods, so the rollouts do not end.
	for _, args := range [][]string{
		{"install", "--cloud-config", file, "--skip-self-test", "--skip-taint"}, {"upgrade", "--set", "logVerbosity=3"},
	} {
		if s := env.csccm(t, nil, append(args, "--yes", "--rollout-timeout", "1s")...); s.code != 124 {
			t.Fatalf("%v: exit code %d:\n%s%s", args, s.code, s.out, s.errOut)
		}
	}
	env.register(t, 1, 2, func(n *corev1.Node) { n.Spec.Taints = nil }) // nodes that were there before the controller
	login := []string{"--admin-user", "admin", "--admin-password-file"}
	lines := map[string][]string{
		"install": {"--cloud-config", file, "--set", "logVerbosity=4"}, "upgrade": {"--set", "logVerbosity=4"}, "rollback": nil, "uninstall": nil,
		"rotate-keys": append(login, password),
	}
	before := env.state(t)
	unchanged := func(t *testing.T) {
		t.Helper()
		if now := env.state(t); !slices.Equal(before, now) {
			t.Errorf("it was\n%q\nand is\n%q", before, now)
		}
	}
	row := func(name string, run func(t *testing.T, command string, args []string, code int)) {
		t.Helper()
		for _, r := range exitcodes.Rows() {
			if r.Name != name || r.Test != exitcodes.OnACluster {
				continue
			}
			for _, command := range r.Commands {
				t.Run(name+": csccm "+command, func(t *testing.T) {
					run(t, command, slices.Concat([]string{command}, lines[command]), r.Code)
					unchanged(t)
				})
			}
		}
	}
	row("refused", func(t *testing.T, command string, args []string, code int) {
		switch command {
		case "rotate-keys":
			refused(t, env.csccm(t, nil, append(args, "--yes")...), code, "no Pod of the controller runs", "csccm doctor")
			refused(t, env.csccm(t, nil, append(args, "--dry-run")...), code, "no Pod of the controller runs", "csccm doctor")
		case "uninstall":
			env.service(t, "balanced")
			refused(t, env.csccm(t, nil, append(args, "--yes")...), code, "", "--orphan-load-balancers")
			refused(t, env.csccm(t, nil, append(args, "--dry-run")...), code, "", "--orphan-load-balancers")
			if err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "balanced", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("no command line for it")
		}
	})
	env.runningPod(t)
	before = env.state(t)
	row("login refused", func(t *testing.T, command string, _ []string, code int) {
		refused(t, env.csccm(t, nil, append(append([]string{command}, login...), wrong, "--yes")...), code, "refuses the login of user", "password")
	})
	row("no terminal", func(t *testing.T, _ string, args []string, code int) {
		refused(t, env.csccm(t, nil, args...), code, "not given, and there is no terminal to ask on", "--yes")
	})
	row("no", func(t *testing.T, command string, args []string, code int) {
		question := map[string]string{"uninstall": "Uninstall?"}[command]
		screen, got := onTerminal(t, env.Kubeconfig, env.dir, []answer{{cmp.Or(question, "Go on?"), "n" + enter}}, args...)
		if got != code || !strings.Contains(screen, "not confirmed") {
			t.Errorf("exit code %d, want %d:\n%s", got, code, screen)
		}
	})
	row("fine", func(t *testing.T, _ string, args []string, code int) {
		for _, flag := range []string{"--dry-run", "--dry-run=client", "--dry-run=server", "--dry-run=true"} {
			if s := env.csccm(t, nil, append(slices.Clone(args), flag)...); s.code != code {
				t.Errorf("%s: exit code %d, want %d:\n%s%s", flag, s.code, code, s.out, s.errOut)
			}
		}
	})
}

// runningPod makes a Pod of the controller that runs, as far as the API server knows.
func (env *directEnv) runningPod(t *testing.T) {
	t.Helper()
	deployments, err := env.Client.AppsV1().Deployments("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm"})
	if err != nil || len(deployments.Items) != 1 {
		t.Fatal(err, len(deployments.Items))
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}} // no controller of Kubernetes runs here
	if _, err := env.Client.CoreV1().ServiceAccounts("kube-system").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "controller-1", Labels: deployments.Items[0].Spec.Template.Labels}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "x"}}
	pods := env.Client.CoreV1().Pods("kube-system")
	if pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(fmt.Errorf("the controller's Pod: %w", err))
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// processFlags suit process nodes.
var processFlags = []string{"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)", "--set", "replicaCount=1"}

// watched is a program's output, and a channel that is closed when it holds a text.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	seen chan struct{}
	once sync.Once
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(p)
	if strings.Contains(w.text.String(), w.want) {
		w.once.Do(func() { close(w.seen) })
	}
	return n, err
}

func (w *watched) String() string { w.mu.Lock(); defer w.mu.Unlock(); return w.text.String() }

// killedAt runs csccm and kills it as soon as it says a text. It is false when csccm has done all there was to do
// without it: the run before was killed a step later than it was meant to be.
func (env *clusterEnv) killedAt(t *testing.T, text string, args ...string) (killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), programs.CLI, args...)
	cmd.Env = []string{"KUBECONFIG=" + env.Kubeconfig, "HOME=" + env.home, "PATH=" + os.Getenv("PATH")}
	cmd.Dir = env.home
	w := &watched{want: text, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-w.seen:
		killed = true
		_ = cmd.Process.Kill()
		t.Log("csccm:", <-ended)
	case err := <-ended:
		select {
		case <-w.seen: // it was said, too late for a kill
			t.Logf("%q: csccm: %v", text, err)
			return true
		default:
		}
		var exit *exec.ExitError
		switch {
		case err != nil && !errors.As(err, &exit):
			t.Fatal(err)
		case err != nil:
			t.Errorf("csccm %s ended (%v) without saying %q:\n%s", args[0], err, text, w)
		default:
			t.Logf("done, without a step %q left", text)
		}
		return false
	case <-time.After(limit):
		_ = cmd.Process.Kill()
		t.Log("csccm:", <-ended)
		t.Fatalf("csccm %s does not say %q:\n%s", args[0], text, w)
	}
	t.Logf("killed after %q", text)
	return killed
}

// killedInTurn kills csccm after each of these texts, one run after the other, at least so many times.
func (env *clusterEnv) killedInTurn(t *testing.T, least int, texts, args []string) {
	t.Helper()
	n := 0
	for _, text := range texts {
		if !env.killedAt(t, text, args...) {
			break // nothing is left
		}
		n++
	}
	if n < least {
		t.Errorf("csccm %s was killed %d times, want %d or more", args[0], n, least)
	}
}

// What csccm says at the end of each step of a takeover, in order; killed there, the next step has begun.
var (
	beforeChart = []string{"Record of what was: ", "Annotations that keep the current state"}
	swapping    = []string{"Holding lease kube-system/" + lease, "Stopping Deployment kube-system/" + oldName, "Rules to change in place: "}
	afterSwap   = []string{"Waiting for the new controller to lead: ", "Rules and addresses: ids kept: 3", "deleted ClusterRole system:" + oldName}
)

// TestInstallKilledWhileItTakesOver kills an install in the place of another provider after each of its steps; the
// last run completes. Rules and addresses are those that were, and two controllers never lead.
func TestInstallKilledWhileItTakesOver(t *testing.T) {
	t.Parallel()
	env := newOccupied(t)
	watch := env.witness(t)
	install := append([]string{"install", "--yes", "--pin", "all"}, processFlags...)
	if out, code := env.csccm(t, "", append([]string{"install", "--yes"}, processFlags...)...); code != 3 || !strings.Contains(out, "--pin default/documented") {
		t.Fatalf("unattended, without consent, it ended with %d:\n%s", code, out)
	}
	said := append(append([]string{}, beforeChart...), "Secret kube-system/", "Helm release kube-system/", "Waiting for the controller's Pods: ", "The controller's self-test in the cluster: passed")
	env.killedInTurn(t, 1+len(said), append(append(said, swapping...), afterSwap...), install)
	out, code := env.csccm(t, "", install...)
	if code != 0 {
		t.Fatalf("the install after all the kills ended with %d:\n%s", code, out)
	}
	env.complete(t, watch)
	noSecrets(t, env.clusterEnv, out, string(env.config(t).Render()))
}

// TestTakeoverKilled does the same to csccm takeover, beside a chart that was installed for it.
func TestTakeoverKilled(t *testing.T) {
	t.Parallel()
	env := newOccupied(t)
	watch := env.witness(t)
	takeover := []string{"takeover", "--yes", "--pin", "all"}
	for _, text := range beforeChart {
		env.killedAt(t, text, takeover...)
	}
	r := applyRequest(t)
	r.Values["instanceTypeFormat"] = "upstream"
	if _, err := env.helm.Apply(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	env.eventually(t, "the new controller to stand by", env.standsBy)
	env.killedInTurn(t, 1, append(append([]string{}, swapping...), afterSwap...), takeover)
	out, code := env.csccm(t, "", takeover...)
	if code != 0 {
		t.Fatalf("the takeover after all the kills ended with %d:\n%s", code, out)
	}
	env.complete(t, watch)
}

// complete tells that a takeover is done, and that nobody noticed it.
func (env *occupied) complete(t *testing.T, watch *witness) {
	t.Helper()
	env.eventually(t, "the new controller to be alone", env.rolledOut)
	env.recorded(t)
	env.kept(t)
	watch.stop()
	<-watch.done
	watch.check(t)
	n, err := env.node(t.Context(), worker1.Name)
	if err != nil || n.Labels["node.kubernetes.io/instance-type"] != "SmallInstance" {
		t.Errorf("%v, labels %v", err, n.Labels)
	}
	s, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "documented", metav1.GetOptions{})
	if err != nil || s.Annotations["service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol"] != "false" {
		t.Errorf("%v, annotations %v", err, s.Annotations)
	}
	if pods, err := env.Client.CoreV1().Pods(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm-self-test"}); err != nil || len(pods.Items) > 0 {
		t.Errorf("%d Pods of self-tests are left: %v", len(pods.Items), err)
	}
	for _, call := range env.cloud.Ledger().Calls() {
		switch call.Command {
		case "deleteLoadBalancerRule", "disassociateIpAddress", "removeFromLoadBalancerRule":
			t.Errorf("somebody called %s", call.Command)
		}
	}
}

// standsBy tells whether a Pod of the new controller is ready, beside the old one.
func (env *occupied) standsBy(ctx context.Context) error {
	pods, err := env.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.ContainerStatuses {
			if c.Ready {
				return nil
			}
		}
	}
	return fmt.Errorf("none of %d Pods is ready", len(pods.Items))
}

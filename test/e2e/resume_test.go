// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// installSteps are those that change something or wait for it, by their names in the journal.
var installSteps = []string{
	"the user in CloudStack", "Secret", "Helm release", "rollout", "self-test in the cluster", "initialisation of new nodes", "initialisation of existing nodes",
	"checks after the install",
}

// testKilled kills an install in each of its steps, one after the other; each run
// continues where the one before was killed, and the last completes.
func testKilled(t *testing.T, env *clusterEnv) {
	kills, killed := 0, false // the last: whether the run before was killed
	for i, step := range installSteps {
		journal := filepath.Join(env.home, fmt.Sprintf("killed-%d.jsonl", i))
		args := installArgs(env, "--journal", journal, "--set", "replicaCount=1")
		cmd := exec.CommandContext(t.Context(), programs.CLI, args...)
		cmd.Env = []string{"KUBECONFIG=" + env.Kubeconfig, "HOME=" + env.home, "PATH=" + os.Getenv("PATH")}
		cmd.Stdin = strings.NewReader(adminPassword + "\n")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var result error
		ended := make(chan struct{})
		go func() { defer close(ended); result = cmd.Wait() }()
		begun := fmt.Sprintf(`"event":"begin","step":%q`, step)
		env.eventually(t, fmt.Sprintf("step %q to begin", step), func(ctx context.Context) error {
			select {
			case <-ended: // on a busy machine the run before was killed late, and nothing is left of this step
				return nil
			default:
			}
			text, err := os.ReadFile(journal) // #nosec G304 -- a file of the test
			if err != nil || !strings.Contains(string(text), begun) {
				return errors.New("not yet")
			}
			if i == 0 {
				return nil // nothing is in the cluster
			}
			// The next run knows by the cluster's copy, which a step writes when it begins.
			m, err := env.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "csccm-journal", metav1.GetOptions{})
			if err == nil && !strings.Contains(m.Data["install"], begun) {
				err = errors.New("not in the cluster yet")
			}
			return err
		})
		_ = cmd.Process.Kill() // it may have ended since
		<-ended
		continues := i > 1 && killed
		var exit *exec.ExitError
		if killed = errors.As(result, &exit) && !exit.Exited(); killed {
			kills++
		} else {
			t.Logf("step %q: the run had ended by itself: %v", step, result)
		}
		if result != nil && !killed {
			t.Errorf("step %q: the run failed (%v):\n%s", step, result, &out)
		}
		if continues && !strings.Contains(out.String(), "without a word; continuing") {
			t.Errorf("the run after the kill in %q does not say that it continues:\n%s", installSteps[i-1], &out)
		}
	}
	if kills < len(installSteps)/2 {
		t.Errorf("%d of %d runs were killed", kills, len(installSteps))
	}
	out, code := env.csccm(t, adminPassword+"\n", installArgs(env, "--set", "replicaCount=1")...)
	if code != 0 {
		t.Fatalf("the install after all the kills ended with %d:\n%s", code, out)
	}
	env.initialized(t, cp1.Name, worker1.Name)
	if n := env.cloud.Ledger().Count("createUser"); n != 1 {
		t.Errorf("%d users were made", n)
	}
	r, err := env.helm.Get(t.Context(), release)
	if err != nil || !r.Deployed() {
		t.Errorf("release: %v, %v", r, err)
	}
	m, err := env.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "csccm-journal", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(m.Data["install"]), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"event":"end"`) || strings.Contains(last, "error") {
		t.Errorf("the journal ends with %s", last)
	}
	secret, err := env.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	noSecrets(t, env, out+m.Data["install"], string(secret.Data[secretKey]))
}

// transcript keeps what a command said, for docs/transcripts, when CSCCM_TRANSCRIPTS names a folder.
func (env *clusterEnv) transcript(t *testing.T, name, stdin string, want int, args ...string) string {
	t.Helper()
	out, code := env.csccm(t, stdin, args...)
	if code != want {
		t.Fatalf("csccm %s ended with %d, want %d:\n%s", strings.Join(args, " "), code, want, out)
	}
	if dir := os.Getenv("CSCCM_TRANSCRIPTS"); dir != "" {
		text := "$ csccm " + strings.Join(args, " ") + "\n" + out + fmt.Sprintf("(exit code %d)\n\n", code)
		text = strings.NewReplacer(env.home, "/home/me", env.cloud.URL, "https://cloud.example.org/client/api").Replace(text)
		f, err := os.OpenFile(filepath.Join(dir, name+".txt"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644) // #nosec -- documentation
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(text)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// testLife takes the installed controller through the rest of its life.
func testLife(t *testing.T, env *clusterEnv) {
	out := env.transcript(t, "upgrade", "", 0, "upgrade", "--set", "logVerbosity=4", "--dry-run=server")
	if !strings.Contains(out, `"--v=2"`) || !strings.Contains(out, `"--v=4"`) || !strings.Contains(out, "change Deployment") {
		t.Errorf("the plan does not show what changes:\n%s", out)
	}
	out = env.transcript(t, "upgrade", "", 0, "upgrade", "--set", "logVerbosity=4", "--yes")
	if !strings.Contains(out, "Go back:   csccm rollback") {
		t.Error(out)
	}
	env.transcript(t, "upgrade", "", 0, "upgrade", "--yes")
	env.transcript(t, "upgrade", "", 0, "rollback", "--yes")
	r, err := env.helm.Get(t.Context(), release)
	if err != nil || fmt.Sprint(r.Values["logVerbosity"]) == "4" {
		t.Errorf("after the rollback: %v, %v", r, err)
	}
	before, err := env.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out = env.transcript(t, "rotate-keys", adminPassword+"\n", 0, "rotate-keys", "--admin-user", "admin", "--admin-password-stdin", "--restart", "--yes")
	after, err := env.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before.Data[secretKey], after.Data[secretKey]) {
		t.Error("the keys are the same")
	}
	noSecrets(t, env, out, string(before.Data[secretKey]))
	noSecrets(t, env, out, string(after.Data[secretKey]))
	env.balanced(t, "web", 80)
	env.address(t, "web")

	out = env.transcript(t, "uninstall", "", 3, "uninstall", "--yes")
	if !strings.Contains(out, "default/web") || !strings.Contains(out, "--orphan-load-balancers") {
		t.Error(out)
	}
	n, err := env.node(t.Context(), cp1.Name)
	if err != nil {
		t.Fatal(err)
	}
	env.transcript(t, "uninstall", "", 0, "uninstall", "--orphan-load-balancers", "--remove-finalizers", "--delete-secret", "--yes")
	if now, err := env.node(t.Context(), cp1.Name); err != nil || now.Spec.ProviderID != n.Spec.ProviderID {
		t.Errorf("the node's provider ID was %q: %v", n.Spec.ProviderID, err)
	}
	if err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	env.eventually(t, "the Service to go without a controller", func(ctx context.Context) error {
		list, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web"})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("still there")
		}
		return err
	})
	out = env.transcript(t, "uninstall", "", 0, "uninstall", "--delete-secret", "-o", "json", "--yes")
	if i := strings.Index(out, "{"); i < 0 || !json.Valid([]byte(out[i:])) {
		t.Errorf("no JSON: %s", out)
	}
}

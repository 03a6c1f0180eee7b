// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	adminPassword  = "password"
	legacyBalancer = "a0123456789abcdef0123456789abcde"
)

// installArgs are a user's flags for the example world and process nodes.
func installArgs(env *clusterEnv, more ...string) []string {
	return append([]string{"install", "--yes", "--api-url", env.cloud.URL, "--admin-user", "admin", "--admin-password-stdin", "--account", "k8s",
		"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)"}, more...)
}

// TestCSCCM takes a cluster that lives already, without a cloud provider, through
// install, doctor and migrate-rules. One node is new, two have been there before
// and must be tainted to be initialised.
func TestCSCCM(t *testing.T) { //nolint:tparallel // the parts share one cluster, in this order
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1, joined(worker1), joined(worker2))
	env.balanced(t, "web", 80)

	out, code := env.csccm(t, adminPassword+"\n", installArgs(env)...)
	if code != 0 {
		t.Fatalf("csccm install ended with %d:\n%s", code, out)
	}
	t.Logf("csccm install says:\n%s", out)
	env.initialized(t, cp1.Name, worker1.Name, worker2.Name)
	ip := env.address(t, "web")
	env.wantRules(t, ip, "80:demo-worker-1,demo-worker-2")

	secret, err := env.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	noSecrets(t, env, out, string(secret.Data[secretKey]))

	t.Run("again, nothing changes", func(t *testing.T) {
		before := env.controllerPods(t)
		out, code := env.csccm(t, "", "install", "--yes", "--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)")
		if code != 0 {
			t.Fatalf("the second install ended with %d:\n%s", code, out)
		}
		if after := env.controllerPods(t); !slices.Equal(before, after) {
			t.Errorf("Pods before %v and after %v", before, after)
		}
	})
	t.Run("doctor", func(t *testing.T) {
		out, code := env.csccm(t, "", "doctor")
		if code != 0 {
			t.Errorf("doctor ended with %d:\n%s", code, out)
		}
		out, code = env.csccm(t, "", "doctor", "-o", "json")
		if code != 0 || !json.Valid([]byte(out)) {
			t.Errorf("doctor -o json ended with %d:\n%s", code, out)
		}
		noSecrets(t, env, out, string(secret.Data[secretKey]))
		for _, code := range []string{"HELM-003", "CS-006", "CCM-004", "NODE-006", "NODE-007"} {
			if out, _ := env.csccm(t, "", "doctor", "--only", code); !strings.Contains(out, "✓ "+code) {
				t.Errorf("%s is not ok on a cluster that is:\n%s", code, out)
			}
		}
	})
	t.Run("doctor finds drift", func(t *testing.T) { testDrift(t, env) })
	t.Run("status", func(t *testing.T) {
		out, code := env.csccm(t, "", "status")
		if code != 0 || !strings.Contains(out, ip) || !strings.Contains(out, worker1.Name) || strings.Count(out, "\n") > 30 {
			t.Errorf("status ended with %d:\n%s", code, out)
		}
		t.Logf("csccm status says:\n%s", out)
		noSecrets(t, env, out, string(secret.Data[secretKey]))
	})
	t.Run("support-bundle", func(t *testing.T) {
		out, code := env.csccm(t, "", "support-bundle", "--file", filepath.Join(env.home, "bundle.tar.gz"))
		if code != 0 {
			t.Errorf("support-bundle ended with %d:\n%s", code, out)
		}
	})
	t.Run("migrate-rules", func(t *testing.T) { testMigrate(t, env) })
}

// testDrift changes by hand what the release made, which a server-side dry run shows, and changes it back.
func testDrift(t *testing.T, env *clusterEnv) {
	deployments := env.Client.AppsV1().Deployments(metav1.NamespaceSystem)
	list, err := deployments.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Deployments: %v", len(list.Items), err)
	}
	d := &list.Items[0]
	patch := func(limit int32) {
		body := fmt.Appendf(nil, `{"spec":{"revisionHistoryLimit":%d}}`, limit)
		if _, err := deployments.Patch(t.Context(), d.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
	was := *d.Spec.RevisionHistoryLimit
	patch(was + 1)
	out, _ := env.csccm(t, "", "doctor", "--only", "HELM-003")
	if want := fmt.Sprintf("spec.revisionHistoryLimit is %d, the release says %d", was+1, was); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("drift is not found:\n%s", out)
	}
	patch(was)
}

func testMigrate(t *testing.T, env *clusterEnv) {
	const address = "203.0.113.20"
	before := ruleNames(t, env, address)
	if out, code := env.csccm(t, "", "migrate-rules", "--dry-run", "--lb", legacyBalancer); code != 0 || !strings.Contains(out, "rename to "+legacyBalancer+"-tcp-80") {
		t.Errorf("the dry run ended with %d:\n%s", code, out)
	}
	if now := ruleNames(t, env, address); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the dry run changed %v to %v", before, now)
	}
	journal := filepath.Join(env.home, "journal.jsonl")
	if out, code := env.csccm(t, "", "migrate-rules", "--yes", "--lb", legacyBalancer, "--journal", journal); code != 0 {
		t.Errorf("migrate-rules ended with %d:\n%s", code, out)
	}
	after := ruleNames(t, env, address)
	for id, old := range before {
		want := strings.Replace(old, legacyBalancer+"-", legacyBalancer+"-tcp-", 1)
		if after[id] != want {
			t.Errorf("rule %s is named %q, want %q", id, after[id], want)
		}
	}
	if out, code := env.csccm(t, "", "migrate-rules", "--yes", "--undo", journal, "--journal", journal+".undo"); code != 0 {
		t.Errorf("undo ended with %d:\n%s", code, out)
	}
	if now := ruleNames(t, env, address); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("undo left %v, want %v", now, before)
	}
}

// ruleNames are the names of the rules at an address by id.
func ruleNames(t *testing.T, env *clusterEnv, address string) map[string]string {
	t.Helper()
	list, err := env.cloud.Admin(t.Context(), "listLoadBalancerRules", map[string]string{"listall": "true"})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	rules, ok := list["loadbalancerrule"].([]any)
	if !ok {
		t.Fatalf("no rules in %v", list)
	}
	for _, r := range rules {
		r := r.(map[string]any)
		if r["publicip"] == address {
			names[r["id"].(string)] = r["name"].(string)
		}
	}
	return names
}

// controllerPods are the names of the controller's Pods with their restarts.
func (env *clusterEnv) controllerPods(t *testing.T) []string {
	t.Helper()
	pods, err := env.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range pods {
		names = append(names, fmt.Sprintf("%s/%d", pods[i].Name, pods[i].Status.ContainerStatuses[0].RestartCount))
	}
	slices.Sort(names)
	return names
}

// noSecrets looks for the admin's session and the controller's keys where they must
// not be: the output, the controller's logs, Events, and the release that Helm keeps.
func noSecrets(t *testing.T, env *clusterEnv, out, cloudConfig string) {
	t.Helper()
	var keys []string
	for line := range strings.SplitSeq(cloudConfig, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); ok && (name == "api-key" || name == "secret-key") {
			keys = append(keys, strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	if len(keys) != 2 {
		t.Fatalf("%d keys in the cloud-config", len(keys))
	}
	events, err := env.Client.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	release, err := env.helm.Get(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	var files strings.Builder
	err = filepath.WalkDir(env.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path) // #nosec G304 -- a file of the test
		files.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{
		"the output": out, "the controller's logs": env.logs(t.Context()), "Events": eventTexts(events.Items),
		"the Helm release": release.Manifest + fmt.Sprint(release.Values) + release.Notes, "files in HOME": files.String(),
	} {
		for _, key := range keys {
			if strings.Contains(text, key) {
				t.Errorf("%s hold a key", where)
			}
		}
	}
}

func eventTexts(events []corev1.Event) string {
	var b strings.Builder
	for i := range events {
		b.WriteString(events[i].Message + "\n")
	}
	return b.String()
}

// TestInstallRefuses shows that wrong answers are found before anything is written.
func TestInstallRefuses(t *testing.T) { //nolint:tparallel // the parts share one cluster, in this order
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1)
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  []string
	}{
		"wrong password":  {"wrong\n", installArgs(env), []string{"admin"}},
		"unknown account": {adminPassword + "\n", replace(installArgs(env), "k8s", "nobody"), []string{"nobody"}},
		"unknown project": {adminPassword + "\n", installArgs(env, "--project", "no-such-project"), []string{"no-such-project"}},
		"unknown zone":    {adminPassword + "\n", installArgs(env, "--zone", "zone-9"), []string{"zone-9"}},
		"bad URL":         {adminPassword + "\n", replace(installArgs(env), env.cloud.URL, "cloud.example.org"), []string{"--api-url"}},
		"unknown value":   {adminPassword + "\n", installArgs(env, "--set", "replicas=3"), []string{"replicas"}},
		"no terminal":     {"", []string{"install"}, []string{"--admin-user"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := env.csccm(t, c.stdin, c.args...)
			if code == 0 {
				t.Fatalf("it went through:\n%s", out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("the output does not name %q:\n%s", want, out)
				}
			}
		})
	}
	if err := func(ctx context.Context) error {
		list, err := env.Client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			return fmt.Errorf("%d Deployments", len(list.Items))
		}
		secrets, serr := env.Client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err == nil && serr == nil && len(secrets.Items) > 0 {
			return fmt.Errorf("%d Secrets, the first is %s", len(secrets.Items), secrets.Items[0].Name)
		}
		return err
	}(t.Context()); err != nil {
		t.Errorf("refused installs left behind: %v", err)
	}
	env.join(t, joined(worker1))
	if t.Run("killed at every step, then completed", func(t *testing.T) { testKilled(t, env) }) {
		t.Run("upgrade, rollback, rotate-keys, uninstall", func(t *testing.T) { testLife(t, env) })
	}
}

func replace(args []string, from, to string) []string {
	out := slices.Clone(args)
	out[slices.Index(out, from)] = to
	return out
}

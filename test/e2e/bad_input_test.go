// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// said is what a command said.
type said struct {
	out, errOut string
	code        int
}

// csccm runs the command line tool on the API server, with the credentials of a cluster admin.
func (env *directEnv) csccm(t *testing.T, environ []string, args ...string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.CLI, args...)
	cmd.Env = append([]string{"KUBECONFIG=" + env.Kubeconfig, "HOME=" + env.dir, "PATH=" + os.Getenv("PATH")}, environ...)
	cmd.Dir = env.dir
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return said{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// file writes a file that commands read.
func (env *directEnv) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(env.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// state is what commands may change: what is in the cluster, by version, and who changed something in CloudStack.
func (env *directEnv) state(t *testing.T) []string {
	t.Helper()
	var out []string
	add := func(kind string, err error, items ...metav1.ObjectMeta) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range items {
			out = append(out, fmt.Sprintf("%s %s/%s %s", kind, items[i].Namespace, items[i].Name, items[i].ResourceVersion))
		}
	}
	core, apps := env.Client.CoreV1(), env.Client.AppsV1()
	nodes, err := core.Nodes().List(t.Context(), metav1.ListOptions{})
	for i := range nodes.Items {
		add("Node", err, nodes.Items[i].ObjectMeta)
	}
	secrets, err := core.Secrets("").List(t.Context(), metav1.ListOptions{})
	for i := range secrets.Items {
		add("Secret", err, secrets.Items[i].ObjectMeta)
	}
	deployments, err := apps.Deployments("").List(t.Context(), metav1.ListOptions{})
	for i := range deployments.Items {
		add("Deployment", err, deployments.Items[i].ObjectMeta)
	}
	configMaps, err := core.ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{})
	for i := range configMaps.Items {
		if strings.Contains(configMaps.Items[i].Name, "csccm") {
			add("ConfigMap", err, configMaps.Items[i].ObjectMeta)
		}
	}
	for _, c := range env.Cloud.Ledger().Calls() {
		if !strings.HasPrefix(c.Command, "list") && c.Command != "login" && c.Command != "logout" {
			out = append(out, "CloudStack "+c.Command)
		}
	}
	slices.Sort(out)
	return out
}

// refused is what a command must say that cannot do its work: its last lines are one of what and why, and one of
// how to go on.
func refused(t *testing.T, s said, code int, what, fix string) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(s.errOut, "\n"), "\n")
	last := max(len(lines)-2, 0)
	switch {
	case s.code != code:
		t.Errorf("exit code %d, want %d", s.code, code)
	case len(lines) < 2 || !strings.HasPrefix(lines[last], "error: ") || !strings.HasPrefix(lines[last+1], "  fix: "):
		t.Error("no line of what is wrong, or none of how to go on")
	case !strings.Contains(lines[last], what):
		t.Errorf("%q is not in what is wrong", what)
	case !strings.Contains(lines[last+1], fix):
		t.Errorf("%q is not in how to go on", fix)
	case strings.Count(s.errOut, "error: ") != 1:
		t.Error("it is said more than once")
	default:
		return
	}
	t.Logf("stdout:\n%s\nstderr:\n%s", s.out, s.errOut)
}

// found is what doctor must say of it.
func found(t *testing.T, s said, code, what, fix string) {
	t.Helper()
	text := strings.Join(strings.Fields(s.out), " ")
	if s.code != 3 || !strings.Contains(text, "✗ "+code) || !strings.Contains(text, what) || !strings.Contains(text, "fix: ") || !strings.Contains(text, fix) {
		t.Errorf("doctor does not find %s, %q, %q, or ends with %d:\n%s%s", code, what, fix, s.code, s.out, s.errOut)
	}
}

// TestBadInput gives the program each thing that can be wrong, at every command that meets it, on a real API server. Each
// says what is wrong, why, and how to go on, and leaves everything as it was.
func TestBadInput(t *testing.T) { //nolint:tparallel // the parts share one cluster
	t.Parallel()
	env := newDirectEnv(t, 2)
	env.register(t, 1, 2, nil)
	good, err := env.Cloud.Config("ccm-a")
	if err != nil {
		t.Fatal(err)
	}
	file := env.file(t, "good", string(good.Render()))
	with := func(change func(c *cloudstack.Config)) string {
		c := *good
		change(&c)
		return string(c.Render())
	}
	server := httptest.NewTLSServer(env.Cloud.Handler())
	t.Cleanup(server.Close)
	before := env.state(t)
	unchanged := func(t *testing.T) {
		t.Helper()
		if now := env.state(t); !slices.Equal(before, now) {
			t.Errorf("it was\n%s\nand is\n%s", strings.Join(before, "\n"), strings.Join(now, "\n"))
		}
	}
	everywhere := map[string][]string{
		"install": {"--cloud-config", file}, "upgrade": nil, "rollback": nil, "rotate-keys": nil, "uninstall": nil, "plan": nil, "migrate-rules": nil,
		"takeover": nil, "taint": nil, "cks": nil,
	}
	each := func(t *testing.T, code int, what, fix string, more ...string) {
		t.Helper()
		for command, args := range everywhere {
			t.Run(command, func(t *testing.T) {
				refused(t, env.csccm(t, nil, slices.Concat([]string{command, "--yes"}, args, more)...), code, what, fix)
			})
		}
		unchanged(t)
	}
	t.Run("unreachable cluster", func(t *testing.T) {
		each(t, 1, "Kubernetes API http://127.0.0.1:1: connection refused", "the API server runs", "--server", "http://127.0.0.1:1")
		found(t, env.csccm(t, nil, "doctor", "--server", "http://127.0.0.1:1"), "K8S-001", "connection refused", "the API server runs")
	})
	t.Run("no permission", func(t *testing.T) {
		each(t, 1, `User "nobody" cannot`, "cluster administrator", "--as", "nobody")
		s := env.csccm(t, nil, "doctor", "--as", "nobody", "--fail-on", "warning")
		if s.code != 3 || strings.Count(s.out, "fix: use a kubeconfig of a cluster administrator") < 3 {
			t.Errorf("doctor ended with %d:\n%s", s.code, s.out)
		}
		if s := env.csccm(t, nil, "status", "--as", "nobody"); strings.Contains(s.out, "not installed") || strings.Count(s.out, "could not be read") < 4 {
			t.Errorf("status says what it cannot know:\n%s", s.out)
		}
	})
	for name, c := range map[string]struct {
		config     string
		what, fix  string // of the commands that work with the credentials
		code       int
		check      string
		found      string
		installs   string // what install says, where it says it in its own words
		installFix string
	}{
		"broken cloud-config": {config: "[Global]\nsecret-key = canary\nflavour = vanilla\n", what: `unknown key "flavour"`, fix: "correct the", code: 2, check: "CS-001", found: "flavour"},
		"wrong URL": {
			config: with(func(c *cloudstack.Config) { c.APIURL = strings.TrimSuffix(env.Cloud.URL, "/client/api") + "/elsewhere" }),
			what:   "is api-url right?", fix: "/client/api", code: 1, check: "CS-001", found: "in place of the API",
		},
		"nothing listens there": {
			config: with(func(c *cloudstack.Config) { c.APIURL = "http://127.0.0.1:1/client/api" }),
			what:   "connection refused", fix: "api-url", code: 1, check: "CS-001", found: "connection refused",
		},
		"wrong certificate": {
			config: with(func(c *cloudstack.Config) { c.APIURL = server.URL + "/client/api" }),
			what:   "certificate is not trusted", fix: "--ca-file", code: 1, check: "CS-001", found: "certificate is not trusted",
		},
		"expired key": {
			config: with(func(c *cloudstack.Config) { c.SecretKey = "canary" }),
			what:   "401", fix: "keys", code: 1, check: "CS-002", found: "401", installFix: "both keys",
		},
		"unknown project": {
			config: with(func(c *cloudstack.Config) { c.ProjectID = "no-such-project" }),
			what:   "no-such-project", fix: "project", code: 2, check: "CS-004", found: "no-such-project",
		},
		"unknown zone": {
			config: with(func(c *cloudstack.Config) { c.Zone = "zone-9" }), check: "CS-004", found: "there are: zone-1",
			installs: `there is no zone "zone-9"`, installFix: "zone-1", code: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad := env.file(t, "bad", c.config)
			what, fix := c.what, c.fix
			if c.installs != "" {
				what = c.installs
			}
			if c.installFix != "" {
				fix = c.installFix
			}
			refused(t, env.csccm(t, nil, "install", "--yes", "--cloud-config", bad), c.code, what, fix)
			found(t, env.csccm(t, nil, "doctor", "--cloud-config", bad), c.check, c.found, "")
			if c.what != "" { // the zone matters to neither
				for _, command := range []string{"migrate-rules", "takeover"} {
					refused(t, env.csccm(t, nil, command, "--yes", "--cloud-config", bad), c.code, c.what, c.fix)
				}
			}
			unchanged(t)
			if s := env.csccm(t, nil, "support-bundle", "--cloud-config", bad, "--file", filepath.Join(env.dir, c.check+name)); s.code != 0 {
				t.Errorf("no bundle of a broken cluster: %s", s.errOut)
			}
		})
	}
	t.Run("disk full", func(t *testing.T) {
		for command, args := range map[string][]string{"install": {"--cloud-config", file}} {
			refused(t, env.csccm(t, nil, slices.Concat([]string{command, "--yes", "--journal", "/dev/full"}, args)...), 1, "no space left on device; nothing has been changed", "--journal")
		}
		refused(t, env.csccm(t, nil, "support-bundle", "--file", "/dev/null/bundle.tar.gz"), 1, "not a directory", "--file")
		refused(t, env.csccm(t, nil, "support-bundle", "--file", "/dev/full"), 2, "exists already", "--file")
		unchanged(t)
	})
	t.Run("a chart value that is wrong", func(t *testing.T) {
		for _, args := range [][]string{
			{"install", "--cloud-config", file, "--yes"}, {"install", "--cloud-config", file, "--dry-run"},
			{"install", "--cloud-config", file, "--dry-run=server"}, {"install", "--cloud-config", file, "--plan"}, {"template"}, {"images"},
		} {
			refused(t, env.csccm(t, nil, append(args, "--set", "replicaCount=many")...), 2, "chart values: replicaCount: ", "values.schema.json")
		}
		unchanged(t)
	})
	t.Run("nodes without VMs", func(t *testing.T) {
		// There are two VMs. Without the taint: a node that was there before the cloud provider.
		env.register(t, 3, 3, func(n *corev1.Node) { n.Spec.Taints = nil })
		before = env.state(t)
		found(t, env.csccm(t, nil, "doctor", "--cloud-config", file, "--only", "NODE"), "NODE-002", "Node w3: has no VM", "name the VM as the node")
		refused(t, env.csccm(t, nil, "install", "--yes", "--cloud-config", file), 3, "nothing was installed: NODE-002 failed", "name the VM as the node")
		refused(t, env.csccm(t, nil, "taint", "--yes", "--cloud-config", file), 3, "", "")
		unchanged(t)
		if err := env.Client.CoreV1().Nodes().Delete(t.Context(), "w3", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("an old provider still running", func(t *testing.T) {
		env.deploy(t, "apache/cloudstack-kubernetes-provider:v1.2.0")
		before = env.state(t)
		found(t, env.csccm(t, nil, "doctor", "--cloud-config", file, "--only", "CCM"), "CCM-003", "apache/cloudstack-kubernetes-provider", "csccm")
		// install takes its place, which TestTakeover shows.
		unchanged(t)
	})
	t.Run("40 columns", func(t *testing.T) {
		for _, args := range [][]string{{"doctor"}, {"status"}, {"doctor", "-o", "short"}, {"migrate-rules"}, {"plan"}} {
			s := env.csccm(t, []string{"COLUMNS=40"}, append(args, "--cloud-config", file)...)
			for line := range strings.Lines(s.out) {
				line = strings.TrimRight(line, "\n")
				if words := strings.Fields(strings.TrimLeft(line, " ✓✗!?→-:")); len([]rune(line)) > 40 && len(words) > 2 {
					t.Errorf("%v: a line of %d columns: %q", args, len([]rune(line)), line)
				}
			}
		}
	})
}

// deploy makes a Deployment as upstream's manifest does.
func (env *directEnv) deploy(t *testing.T, image string) {
	t.Helper()
	labels := map[string]string{"k8s-app": "cloud-controller-manager"}
	o := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager", Labels: labels}}
	o.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	o.Spec.Template.Labels = labels
	o.Spec.Template.Spec.Containers = []corev1.Container{{Name: "ccm", Image: image}}
	if _, err := env.Client.AppsV1().Deployments("kube-system").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

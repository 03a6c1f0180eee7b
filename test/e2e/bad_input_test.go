// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// state is what commands may change: what is in the cluster, by version, and who changed something in CloudStack.
func (e *env) state(t *testing.T) (out []string) {
	t.Helper()
	add := func(kind string, m *metav1.ObjectMeta) {
		out = append(out, fmt.Sprintf("%s %s/%s %s", kind, m.Namespace, m.Name, m.ResourceVersion))
	}
	core, all := e.Client.CoreV1(), metav1.ListOptions{}
	nodes, err := core.Nodes().List(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		add("Node", &nodes.Items[i].ObjectMeta)
	}
	secrets, err := core.Secrets("").List(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		add("Secret", &secrets.Items[i].ObjectMeta)
	}
	deployments, err := e.Client.AppsV1().Deployments("").List(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range deployments.Items {
		add("Deployment", &deployments.Items[i].ObjectMeta)
	}
	configMaps, err := core.ConfigMaps("kube-system").List(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range configMaps.Items {
		if strings.Contains(configMaps.Items[i].Name, "csccm") {
			add("ConfigMap", &configMaps.Items[i].ObjectMeta)
		}
	}
	for _, c := range e.cloud.Ledger().Calls() {
		if !strings.HasPrefix(c.Command, "list") && c.Command != "login" && c.Command != "logout" {
			out = append(out, "CloudStack "+c.Command)
		}
	}
	slices.Sort(out)
	return out
}

// unchanged compares the state with what it was.
func (e *env) unchanged(t *testing.T, before []string) {
	t.Helper()
	if now := e.state(t); !slices.Equal(before, now) {
		t.Errorf("it was\n%s\nand is\n%s", strings.Join(before, "\n"), strings.Join(now, "\n"))
	}
}

// refused wants a command to say, in its last lines, one of what is wrong and why, and one of how to go on.
func (s said) refused(t *testing.T, code int, what, fix string) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(s.all, "\n"), "\n")
	last := max(len(lines)-2, 0)
	if s.code != code || len(lines) < 2 || !strings.HasPrefix(lines[last], "error: ") || !strings.HasPrefix(lines[last+1], "  fix: ") ||
		!strings.Contains(lines[last], what) || !strings.Contains(lines[last+1], fix) || strings.Count(s.all, "error: ") != 1 {
		t.Errorf("csccm %s ended with %d; want %d, and once a line of what is wrong with %q, and one of how to go on with %q:\n%s",
			strings.Join(s.args, " "), s.code, code, what, fix, s.all)
	}
}

// TestBadInput gives the program what can be wrong on a real API server, at every command that meets it. Each says what is wrong,
// why, and how to go on, and leaves everything as it was. The script exit-codes has more.
func TestBadInput(t *testing.T) { //nolint:tparallel // the parts share one cluster
	t.Parallel()
	e := newDirectEnv(t, 2)
	e.register(t, 1, 2, nil)
	good := e.config(t, "ccm-a")
	file := e.file(t, "good", string(good.Render()))
	with := func(change func(c *cloudstack.Config)) string {
		c := *good
		change(&c)
		return string(c.Render())
	}
	server := httptest.NewTLSServer(e.cloud.Handler())
	t.Cleanup(server.Close)
	before := e.state(t)
	everywhere := map[string][]string{
		"install": {"--cloud-config", file}, "upgrade": nil, "rollback": nil, "rotate-keys": nil, "uninstall": nil, "plan": nil, "migrate-rules": nil,
		"takeover": nil, "taint": nil,
	}
	t.Run("no permission", func(t *testing.T) {
		for command, args := range everywhere {
			e.csccm(t, "", append([]string{command, "--yes", "--as", "nobody"}, args...)...).refused(t, 1, `User "nobody" cannot`, "cluster administrator")
		}
		e.unchanged(t, before)
		s := e.csccm(t, "", "doctor", "--as", "nobody", "--fail-on", "warning").want(t, 3)
		if strings.Count(s.out, "fix: use a kubeconfig of a cluster administrator") < 3 {
			t.Errorf("doctor says:\n%s", s.out)
		}
		if s := e.csccm(t, "", "status", "--as", "nobody"); strings.Contains(s.out, "not installed") || strings.Count(s.out, "could not be read") < 4 {
			t.Errorf("status says what it cannot know:\n%s", s.out)
		}
	})
	for name, c := range map[string]struct {
		config      string
		code        int
		what, fix   string // of all commands that work with the credentials; "" when these do not matter to them
		install     string // the same of install, where it says it in its own words
		installFix  string
		check, text string // of doctor
	}{
		"wrong URL": {
			config: with(func(c *cloudstack.Config) { c.APIURL = strings.TrimSuffix(e.cloud.URL, "/client/api") + "/elsewhere" }),
			code:   1, what: "is api-url right?", fix: "/client/api", check: "CS-001", text: "in place of the API",
		},
		"wrong certificate": {
			config: with(func(c *cloudstack.Config) { c.APIURL = server.URL + "/client/api" }),
			code:   1, what: "certificate is not trusted", fix: "--ca-file", check: "CS-001", text: "certificate is not trusted",
		},
		"expired key": {
			config: with(func(c *cloudstack.Config) { c.SecretKey = "canary" }),
			code:   1, what: "401", fix: "keys", installFix: "both keys", check: "CS-002", text: "401",
		},
		"unknown zone": {
			config: with(func(c *cloudstack.Config) { c.Zone = "zone-9" }),
			code:   2, install: `there is no zone "zone-9"`, installFix: "zone-1", check: "CS-004", text: "there are: zone-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad := e.file(t, "bad", c.config)
			run := func(command string, args ...string) said {
				return e.csccm(t, "", append([]string{command, "--cloud-config", bad}, args...)...)
			}
			run("install", "--yes").refused(t, c.code, cmp.Or(c.install, c.what), cmp.Or(c.installFix, c.fix))
			run("doctor").want(t, 3, "✗ "+c.check, c.text, "fix: ")
			if c.what != "" {
				for _, command := range []string{"migrate-rules", "takeover"} {
					run(command, "--yes").refused(t, c.code, c.what, c.fix)
				}
			}
			e.unchanged(t, before)
			run("support-bundle", "--file", filepath.Join(e.home, c.check+name)).want(t, 0)
		})
	}
	t.Run("disk full", func(t *testing.T) {
		e.csccm(t, "", "install", "--yes", "--journal", "/dev/full", "--cloud-config", file).
			refused(t, 1, "no space left on device; nothing has been changed", "--journal")
		e.csccm(t, "", "support-bundle", "--file", "/dev/null/bundle.tar.gz").refused(t, 1, "not a directory", "--file")
		e.csccm(t, "", "support-bundle", "--file", "/dev/full").refused(t, 2, "exists already", "--file")
		e.unchanged(t, before)
	})
	t.Run("nodes without VMs", func(t *testing.T) {
		// There are two VMs. Without the taint: a node that was there before the cloud provider.
		e.register(t, 3, 3, func(n *corev1.Node) { n.Spec.Taints = nil })
		before := e.state(t)
		e.csccm(t, "", "doctor", "--cloud-config", file, "--only", "NODE").want(t, 3, "✗ NODE-002", "Node w3: has no VM", "name the VM as the node")
		e.csccm(t, "", "install", "--yes", "--cloud-config", file).refused(t, 3, "nothing was installed: NODE-002 failed", "name the VM as the node")
		e.csccm(t, "", "taint", "--yes", "--cloud-config", file).refused(t, 3, "", "")
		e.unchanged(t, before)
		if err := e.Client.CoreV1().Nodes().Delete(t.Context(), "w3", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("40 columns", func(t *testing.T) {
		e.environ = []string{"COLUMNS=40"}
		for _, args := range [][]string{{"doctor"}, {"status"}, {"doctor", "-o", "short"}, {"migrate-rules"}, {"plan"}} {
			s := e.csccm(t, "", append(args, "--cloud-config", file)...)
			for line := range strings.Lines(s.out) {
				line = strings.TrimRight(line, "\n")
				if words := strings.Fields(strings.TrimLeft(line, " ✓✗!?→-:")); len([]rune(line)) > 40 && len(words) > 2 {
					t.Errorf("%v: a line of %d columns: %q", args, len([]rune(line)), line)
				}
			}
		}
	})
}

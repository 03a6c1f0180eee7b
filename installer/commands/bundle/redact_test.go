// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

func redacts(t *testing.T, keepNames bool) *redactor {
	t.Helper()
	r := newRedactor([]string{"canary-one", ""}, keepNames)
	r.name("node", "worker-1")
	r.name("node", "worker-1.example.org")
	r.name("service", "web")
	r.name("service", "1")
	r.versions["4.22.0.0"] = true
	r.ready()
	return r
}

func TestSecretsGo(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("Ab3-_xYz", 10)
	for _, keep := range []bool{true, false} {
		r := redacts(t, keep)
		for _, s := range []string{
			"it was canary-one", "apiKey=" + key + "&x=1", "secret-key = Zz9xYw8vUt", `"password":"hunter22!"`,
			"Authorization: Bearer abcdefghij",
			"sessionkey=abcdefghijkl", "just " + key, "eyJhbGciOiJSUzI1NiJ9eyJzdWIiOiIxMjM0NTY3ODkwIn0A",
			"-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----",
		} {
			out := r.text(s)
			require.Contains(t, out, removed, s)
			for _, part := range []string{"canary-one", key, "Zz9xYw8vUt", "hunter22", "abcdefghij", "eyJ", "MIIabc"} {
				require.NotContains(t, out, part)
			}
		}

		for _, s := range []string{"value: http://ccm:hunter22@10.0.0.1:9", "https_proxy=ccm:hunter22@proxy:3128"} {
			require.NotContains(t, r.text(s), "hunter22")
		}

		for _, s := range []string{
			"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			"2b2c4b9e-5ef0-4b5c-9d51-0e7a6a3b2f10",
			"cloudstack-cloud-controller-manager-5d9c7b8f6d-abcde", "node.cloudprovider.kubernetes.io/uninitialized",
			"CloudStack 4.22.0.0", "15:04:05",
			"https://github.com/csccm/csccm/blob/main/docs/checks.md#node-001", "127.0.0.1:8080", "webhook", "port 1",
		} {
			require.Equal(t, s, r.text(s))
		}
	}
}

func TestNamesAndAddresses(t *testing.T) {
	t.Parallel()
	r := redacts(t, false)
	out := r.text("node worker-1 (10.1.1.21, fd00::1) and worker-1.example.org serve default/web at " +
		"https://cloud.example.org/client/api")
	for _, part := range []string{"worker-1", "10.1.1.21", "fd00::1", "example.org", "/web "} {
		require.NotContains(t, out, part)
	}
	require.Regexp(t,
		`^node node-[0-9a-f]{8} \(ip-[0-9a-f]{8}, ip-[0-9a-f]{8}\) and node-[0-9a-f]{8} serve default/service-[0-9a-f]{8} at https://host-[0-9a-f]{8}/client/api$`, out)
	first, second := r.text("worker-1"), r.text("on worker-1")
	require.Equal(t, "on "+first, second, "the same in one bundle")
	require.NotEqual(t, r.text("worker-1"), redacts(t, false).text("worker-1"), "others in the next")
	require.Equal(t, "node worker-1 10.1.1.21", redacts(t, true).text("node worker-1 10.1.1.21"))
}

func TestFieldsStay(t *testing.T) {
	t.Parallel()
	r := redacts(t, false)
	v, err := r.value(map[string]any{
		"web":      "web",
		"kind":     "web",
		"evidence": map[string]string{"Node worker-1": "10.1.1.21"},
		"list":     []any{"web", 1, true, nil},
	})
	require.NoError(t, err)
	m := v.(map[string]any)
	require.Contains(t, m, "web", "names of fields are no names of Services")
	require.Equal(t, "web", m["kind"])
	require.NotEqual(t, "web", m["web"])
	require.NotContains(t, m["evidence"], "Node worker-1")
	require.NotEqual(t, "web", m["list"].([]any)[0])
}

// The names of deleted Services and Nodes in Events and logs are replaced by pseudonyms.
func TestSecurityBundleRedactsDeletedObjects(t *testing.T) {
	t.Parallel()
	event := func(of corev1.ObjectReference, message string) corev1.Event {
		return corev1.Event{
			InvolvedObject: of,
			Message:        message,
			Reason:         "R",
			Source:         corev1.EventSource{Component: "service-controller"},
		}
	}

	files, err := Files(check.Report{}, &check.Facts{
		At: time.Unix(0, 0),
		VMs: inventory.NewVMSnapshot(time.Time{}, inventory.Scope{},
			[]cloudstack.VirtualMachine{{ID: "1", Name: "payroll-db"}}),
		Events: []corev1.Event{
			event(corev1.ObjectReference{Kind: "Service", Namespace: "takeover-project", Name: "acquisition"},
				"released"),
			event(corev1.ObjectReference{Kind: "Node", Name: "gone-worker"}, `near is VM payroll-db`),
			event(corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"},
				`node "old-worker.example.org" has no VM; Service "merger/secret-plan" has it`),
		},
		Logs: []check.Log{{Pod: "ccm", Lines: []podlog.Line{
			{
				Level:   'I',
				Message: "Deleted",
				Values:  map[string]string{"service": "layoffs/portal", "nodes": "[lost-a lost-b]"},
			},
			{Level: 'E', Message: "error checking if node lost-c exists: node \"lost-c\": timed out"},
			{Level: 'W', Message: "x", Values: map[string]string{"err": `no VM for node "lost-d"`}},
		}}},
	}, false)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		for _, name := range []string{"takeover-project", "acquisition", "gone-worker", "payroll-db", "old-worker",
			"merger", "secret-plan", "layoffs", "portal", "lost-a", "lost-b", "lost-c", "lost-d"} {
			require.NotContains(t, string(f.Body), name, f.Name)
		}
	}
}

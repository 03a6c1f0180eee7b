// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/explain"
	"github.com/csccm/csccm/installer/engine/report"
)

func TestDoctorOnAFreshCluster(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	cloud, file := cloudConfig(t)
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1"},"status":{"nodeInfo":{"kubeletVersion":"v1.37.1","operatingSystem":"linux"}}}]`)
	a.set("/api/v1/nodes/demo-worker-1/proxy/flagz", `{"kind":"Flagz","flags":{"cloud-provider":"external"}}`)

	c := execute(t, "doctor", "--server", a.url, "--cloud-config", file, "-o", "json", "--skip", "K8S-003")
	require.Equal(t, 0, c.code, c.errOut+c.out)
	require.Empty(t, c.errOut)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(c.out))
	require.NoError(t, err)
	schemaDoc, err := jsonschema.UnmarshalJSON(bytes.NewReader(check.Schema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("s.json", schemaDoc))
	schema, err := compiler.Compile("s.json")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(doc))
	var r check.Report
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.Equal(t, check.PhasePreflight, r.Phase, "there is no release")
	outcomes := map[string]check.Outcome{}
	for _, x := range r.Checks {
		outcomes[x.Code] = x.Outcome
	}
	require.Equal(t, check.OK, outcomes["NODE-001"])
	require.Equal(t, check.OK, outcomes["NODE-002"])
	require.NotContains(t, outcomes, "K8S-003")
	require.NotContains(t, c.out, cloud.Config(t, "").SecretKey)

	// Without a terminal -v says on stderr how far it is; the result stays one document.
	c = execute(t, "doctor", "-v", "--server", a.url, "--cloud-config", file, "-o", "json", "--only", "K8S-002")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.errOut, "K8S-002 ok after ")
	require.True(t, json.Valid([]byte(c.out)), c.out)

	// The same cluster, other formats, the same codes.
	for _, format := range []string{"text", "short", "json", "yaml"} {
		c = execute(t, "doctor", "--server", a.url, "--cloud-config", file, "-o", format, "--phase", "installed", "--only", "CCM-001")
		require.Equal(t, 3, c.code, format)
		require.Contains(t, c.out, "CCM-001", format)
		require.NotContains(t, c.errOut, "error:", "the report has said it")
		c = execute(t, "doctor", "--server", a.url, "--cloud-config", file, "-o", format, "--only", "K8S-002")
		require.Equal(t, 0, c.code, format)
	}
}

func TestDoctorWithoutCredentials(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	c := execute(t, "doctor", "--server", a.url, "--only", "CS", "--color", "never")
	require.Equal(t, 3, c.code, c.out)
	require.Contains(t, c.out, "Secret kube-system/cloudstack-secret does not exist")
	require.Contains(t, c.errOut, "error: nothing could be judged: 0 unknown, 6 skipped; CS-001: ")
	c = execute(t, "doctor", "--server", a.url, "--only", "CS-001,K8S-005", "--color", "never")
	require.Equal(t, 3, c.code, c.out)
	require.Contains(t, c.errOut, "error: the controller is not installed in namespace kube-system, and without credentials 1 check was skipped\n  fix: run csccm install")
	c = execute(t, "doctor", "--server", a.url, "--only", "CS-001,K8S-005", "--phase", "preflight")
	require.Equal(t, 0, c.code, "what was asked for passed: "+c.out)
	c = execute(t, "doctor", "--server", a.url, "--only", "CS", "--phase", "installed")
	require.Equal(t, 3, c.code, "an installed controller needs them")

	broken := filepath.Join(t.TempDir(), "cloud-config")
	require.NoError(t, os.WriteFile(broken, []byte("[Global]\napi-urll = x\n"), 0o600))
	c = execute(t, "doctor", "--server", a.url, "--only", "CS-001", "--cloud-config", broken)
	require.Equal(t, 3, c.code)
	require.Contains(t, c.out, "api-urll")
}

func TestDoctorOnWarnings(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	_, file := cloudConfig(t)
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1"}}]`)
	base := []string{"doctor", "--server", a.url, "--cloud-config", file, "--phase", "installed", "--only", "NODE-003"}
	require.Equal(t, 0, execute(t, base...).code)
	require.Equal(t, 4, execute(t, append(base, "--fail-on", "warning")...).code)
}

// Every format says the same, and is what it claims to be.
func TestDoctorFormats(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	args := []string{"doctor", "--server", a.url, "--phase", "installed", "--only", "CCM-001,K8S-002,CS-003", "-o"}
	c := execute(t, append(args, "yaml")...)
	var r check.Report
	require.NoError(t, yaml.UnmarshalStrict([]byte(c.out), &r))
	require.Equal(t, 3, c.code)
	require.Len(t, r.Checks, 4, "CS-001 too, which says why CS-003 is skipped")
}

// TestDoctorExplains: without a cluster, a kubeconfig and a network.
func TestDoctorExplains(t *testing.T) {
	t.Parallel()
	nowhere := []string{"--server", "http://127.0.0.1:1", "--color", "never"}
	for name, want := range map[string]string{
		"NODE-008":                    "csccm doctor --only NODE-008 -v",
		"CloudStackCCMNoLeader":       `PromQL: absent(leader_election_master_status{name="cloud-controller-manager"} == 1)`,
		"porttaken":                   "kubectl get events -A --field-selector involvedObject.kind=Service,reason=PortTaken",
		"NodeWithoutVM":               "Event on a Node, Warning",
		"CloudStackError":             "Reason of a condition of a Service",
		"OrphanedInCloudStack":        "https://github.com/csccm/csccm/blob/main/docs/runbooks.md#orphanedincloudstack",
		"CloudStackCCMInventoryStale": "Alert, warning, after 15m",
	} {
		c := execute(t, append(nowhere, "doctor", "--explain", name)...)
		require.Equal(t, 0, c.code, name+c.errOut)
		require.Empty(t, c.errOut, name)
		require.Contains(t, c.out, want, name)
		require.Contains(t, c.out, "How to end it", name)
	}
	c := execute(t, append(nowhere, "doctor", "--explain", "InvalidAnnotation", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var topic explain.Topic
	require.NoError(t, json.Unmarshal([]byte(c.out), &topic))
	require.Equal(t, "InvalidAnnotation", topic.Name)
	require.Len(t, topic.Entries, 2, "on Services and on Nodes")
	require.NotContains(t, c.out, "](")

	c = execute(t, append(nowhere, "doctor", "--explain", "PortTakne")...)
	require.Equal(t, 2, c.code)
	require.Contains(t, c.errOut, "did you mean PortTaken?")

	c = execute(t, "__complete", "doctor", "--explain", "")
	for _, name := range []string{"CloudStackCCMDrift\talert", "PortTaken\tevent", "Waiting\tcondition", "LB-003\tcheck"} {
		require.Contains(t, c.out, name)
	}
}

// The real commands, on a cluster that does not get well: the last report, and exit code 124.
func TestDoctorWaits(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	for _, args := range [][]string{{"doctor", "-o", "short"}, {"status"}} {
		c := execute(t, append(args, "--server", a.url, "--interval", "1s", "--wait", "--timeout", "1s")...)
		require.Equal(t, report.ExitTimeout, c.code, c.errOut)
		require.NotEmpty(t, c.out)
		require.Contains(t, c.errOut, "(--timeout)")
	}
}

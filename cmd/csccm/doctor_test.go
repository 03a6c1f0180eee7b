// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/simulator"
)

// listKinds are the kinds of the lists that the commands read.
var listKinds = map[string]string{
	"nodes": "NodeList", "services": "ServiceList", "pods": "PodList", "secrets": "SecretList", "events": "EventList",
	"leases": "LeaseList", "persistentvolumes": "PersistentVolumeList", "replicasets": "ReplicaSetList", "deployments": "DeploymentList", "daemonsets": "DaemonSetList",
	"mutatingwebhookconfigurations": "MutatingWebhookConfigurationList", "validatingwebhookconfigurations": "ValidatingWebhookConfigurationList",
}

// fakeCluster is as much of an API server as doctor and migrate-rules need: lists and single objects
// by path, everything else is absent.
type fakeCluster struct {
	mu      sync.Mutex
	objects map[string]string // JSON by path; lists as "[...]"
	url     string
	written []string // requests that are no GET
}

// changes are the requests that would change something.
func (a *fakeCluster) changes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.written)
}

func newFakeCluster(t *testing.T) *fakeCluster {
	t.Helper()
	a := &fakeCluster{objects: map[string]string{"/version": `{"major":"1","minor":"37","gitVersion":"v1.37.1"}`}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	a.url = s.URL
	return a
}

func (a *fakeCluster) set(path, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[path] = body
}

func (a *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	body, found := a.objects[r.URL.Path]
	if r.Method != http.MethodGet {
		a.written = append(a.written, r.Method+" "+r.URL.Path)
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	kind, isList := listKinds[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
	switch {
	case isList:
		if !found {
			body = "[]"
		}
		version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path[:strings.Index(r.URL.Path, "v1")+2], "/apis/"), "/api/")
		_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{},"items":%s}`, kind, version, body)
	case found:
		_, _ = w.Write([]byte(body))
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not found","reason":"NotFound","code":404}`))
	}
}

// command is a csccm command line with what it printed.
type command struct {
	code        int
	out, errOut string
}

func execute(t *testing.T, args ...string) command {
	t.Helper()
	var out, errOut bytes.Buffer
	s := streams{in: strings.NewReader(""), out: &out, errOut: &errOut, getenv: func(string) string { return "" }}
	code := run(append([]string{"csccm"}, args...), s, func(int) { t.Error("ended at once") })
	return command{code, out.String(), errOut.String()}
}

// cloudConfig starts the example CloudStack and writes a cloud-config for its cluster's owner.
func cloudConfig(t *testing.T) (sim *simulator.Simulator, file, secretKey string) {
	t.Helper()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	t.Cleanup(sim.Close)
	s := httptest.NewServer(sim.Handler())
	t.Cleanup(s.Close)
	apiKey, secretKey, found := sim.Keys("k8s-owner")
	require.True(t, found)
	file = filepath.Join(t.TempDir(), "cloud-config")
	text := fmt.Sprintf("[Global]\napi-url = %s/client/api\napi-key = %s\nsecret-key = %s\n", s.URL, apiKey, secretKey)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return sim, file, secretKey
}

func TestDoctorOnAFreshCluster(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	_, file, secretKey := cloudConfig(t)
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
	require.NotContains(t, c.out, secretKey)

	// Without a terminal -v says on stderr how far it is; the result stays one document.
	c = execute(t, "doctor", "-v", "--server", a.url, "--cloud-config", file, "-o", "json", "--only", "K8S-002")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.errOut, "K8S-002 ok after ")
	require.True(t, json.Valid([]byte(c.out)), c.out)

	// The same cluster, other formats, the same codes.
	for _, format := range doctorFormats {
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
	require.Contains(t, c.errOut, "error: nothing could be judged: 0 unknown, 7 skipped; CS-001: ")
	a.set("/api/v1/namespaces/kube-system", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system"}}`)
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

func TestDoctorExitCodes(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	_, file, _ := cloudConfig(t)
	tests := []struct {
		name string
		code int
		says string
		args []string
	}{
		{"warnings are fine", 0, "", []string{"--server", a.url, "--cloud-config", file, "--only", "LB-002"}},
		{"unreachable", 3, "connection refused", []string{"--server", "http://127.0.0.1:1"}},
		{"unknown check", 2, "NOPE-001", []string{"--server", a.url, "--only", "NOPE-001"}},
		{"near a check", 2, "did you mean NODE-001", []string{"--server", a.url, "--only", "NODE001"}},
		{"near a group", 2, "did you mean NODE?", []string{"--server", a.url, "--skip", "nodes"}},
		{"junit has an end", 2, "not with --watch", []string{"--server", a.url, "--watch", "-o", "junit"}},
		{"interval", 2, "--interval 0s is too short", []string{"--server", a.url, "--watch", "--interval", "0"}},
		{"probe without image", 2, "--probe-image", []string{"--server", a.url, "--probe-pod", "--probe-image", ""}},
		{"unknown format", 2, "text, short, json, yaml, junit", []string{"--server", a.url, "-o", "xml"}},
		{"unknown phase", 2, "preflight", []string{"--server", a.url, "--phase", "later"}},
		{"unknown fail-on", 2, "error, warning", []string{"--server", a.url, "--fail-on", "anything"}},
		{"unknown flag", 2, "--nope", []string{"--nope"}},
		{"an argument", 2, "no arguments", []string{"everything"}},
		{"time-out", 124, "timed out", []string{"--server", a.url, "--timeout", "1ns"}},
		{"fail-on warning", 4, "", []string{"--server", a.url, "--cloud-config", file, "--only", "NODE-003", "--phase", "installed", "--fail-on", "warning"}},
	}
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1"}}]`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := execute(t, append([]string{"doctor"}, tt.args...)...)
			require.Equal(t, tt.code, c.code, c.out+c.errOut)
			require.Contains(t, c.out+c.errOut, tt.says)
		})
	}
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
	require.Len(t, r.Checks, 3)

	c = execute(t, append(args, "junit")...)
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Type string `xml:"type,attr"`
					Text string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal([]byte(c.out), &suites))
	require.Equal(t, 3, c.code)
	require.Equal(t, 3, suites.Tests)
	require.Equal(t, 1, suites.Failures)
	require.Equal(t, 1, suites.Skipped)
	require.Equal(t, "CCM-001", suites.Suites[2].Cases[0].Failure.Type)
	require.Contains(t, suites.Suites[2].Cases[0].Failure.Text, "fix: run `csccm install`")
}

// A watch goes on whatever the checks say, and ends with ^C.
func TestDoctorWatch(t *testing.T) {
	t.Parallel()
	for format, between := range map[string]string{"text": "\n\n", "yaml": "---\n", "json": "}\n{"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			g := newGlobals(streams{out: &out, errOut: &out, getenv: environment()})
			ctx, cancel := context.WithCancelCause(t.Context())
			rounds := 0
			err := g.watch(ctx, time.Nanosecond, format, func(_ context.Context, w io.Writer) error {
				if rounds++; rounds == 3 {
					cancel(errInterrupted)
				}
				_, err := fmt.Fprintf(w, "{%d\n}\n", rounds)
				require.NoError(t, err)
				return &report.ExitError{Code: 3}
			})
			require.Equal(t, 130, exitCode(err))
			require.Contains(t, out.String(), "{1")
			require.Contains(t, out.String(), "{2")
			require.NotContains(t, out.String(), "\x1b")
			require.Contains(t, out.String(), between)
		})
	}
	g := newGlobals(streams{out: &bytes.Buffer{}, getenv: environment()})
	broken := errors.New("no kubeconfig")
	require.ErrorIs(t, g.watch(t.Context(), time.Nanosecond, "text", func(context.Context, io.Writer) error { return broken }), broken)
}

func TestCompletionOfCodes(t *testing.T) {
	t.Parallel()
	c := execute(t, "__complete", "doctor", "--only", "NODE-00")
	require.Contains(t, c.out, "NODE-001\tKubelets run with --cloud-provider=external")
	c = execute(t, "__complete", "doctor", "--phase", "")
	require.Contains(t, c.out, "preflight")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/leftby"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	silenceLibraryLogs()
	cli.CompletionTimeout, versionTimeout = time.Minute, time.Minute
	os.Exit(m.Run())
}

// command is a csccm command line with what it printed.
type command struct {
	code        int
	out, errOut string
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for pair := range slices.Chunk(pairs, 2) {
			if pair[0] == name {
				return pair[1]
			}
		}
		return ""
	}
}

// execute runs csccm without a terminal.
func execute(t *testing.T, args ...string) command {
	t.Helper()
	return executeIn(t, environment(), args...)
}

func executeIn(t *testing.T, getenv func(string) string, args ...string) command {
	t.Helper()
	var out, errOut bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, Getenv: getenv}
	code := run(append([]string{"csccm"}, args...), s, func(int) { t.Error("ended at once") })
	return command{code, out.String(), errOut.String()}
}

// listKinds are the kinds of the lists that the commands read.
var listKinds = map[string]string{
	"nodes": "NodeList", "services": "ServiceList", "pods": "PodList", "secrets": "SecretList", "events": "EventList",
	"leases": "LeaseList", "persistentvolumes": "PersistentVolumeList", "replicasets": "ReplicaSetList", "deployments": "DeploymentList", "daemonsets": "DaemonSetList",
	"mutatingwebhookconfigurations": "MutatingWebhookConfigurationList", "validatingwebhookconfigurations": "ValidatingWebhookConfigurationList",
}

// fakeCluster is as much of an API server as the commands need: lists and single objects by path, everything else is absent.
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
	a := &fakeCluster{objects: map[string]string{
		"/version": `{"major":"1","minor":"37","gitVersion":"v1.37.1"}`, "/api/v1/namespaces/kube-system": kubeSystem,
	}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	a.url = s.URL
	return a
}

// kubeconfig writes a configuration with one context, test.
func (a *fakeCluster) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
`, a.url), 0o600))
	return path
}

func (a *fakeCluster) set(path, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[path] = body
}

func (a *fakeCluster) setJSON(t *testing.T, path string, v any) {
	t.Helper()
	body, err := json.Marshal(v)
	require.NoError(t, err)
	a.set(path, string(body))
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

// cloudConfig starts the example CloudStack and writes a cloud-config for its cluster's owner.
func cloudConfig(t *testing.T) (cloud *testenv.Cloud, file string) {
	t.Helper()
	cloud = testenv.NewCloud(t, nil)
	return cloud, cloud.File(t, testenv.Owner)
}

// leftCluster is a cluster as Apache's provider left it, and its CloudStack.
func leftCluster(t *testing.T) (a *fakeCluster, cloud *testenv.Cloud, file string) {
	t.Helper()
	cloud, s := testenv.Left(t, leftby.Apache)
	a = newFakeCluster(t)
	a.setJSON(t, "/api/v1/services", s.Kubernetes.Services)
	a.setJSON(t, "/api/v1/nodes", s.Kubernetes.Nodes)
	a.set("/apis/apps/v1/deployments", "["+apacheDeployment+"]")
	return a, cloud, cloud.File(t, leftby.Account)
}

// requireOnlyReads: nothing was changed in CloudStack.
func requireOnlyReads(t *testing.T, cloud *testenv.Cloud) {
	t.Helper()
	for _, call := range cloud.Ledger().Calls() {
		require.Regexp(t, "^(list|log)", call.Command)
	}
}

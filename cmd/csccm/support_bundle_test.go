// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/status"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// canaryCluster is a cluster with an installed controller, and with words that must not leave it in all
// the places where operators and programs put secrets.
func canaryCluster(t *testing.T) (args, keys []string) {
	t.Helper()
	a := newFakeCluster(t)
	cloud, file := cloudConfig(t)
	secretKey := cloud.Config(t, "").SecretKey
	apiKey := cloud.Config(t, "").APIKey
	now := time.Now().UTC()
	const ours = `"labels":{"app.kubernetes.io/name":"cloudstack-ccm","app.kubernetes.io/instance":"cloudstack-ccm"}`
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1","labels":{"topology.kubernetes.io/zone":"zone-1","team":"canary-label"},"annotations":{"x":"canary-annotation"}},
		"spec":{"providerID":"external-cloudstack://x","taints":[{"key":"k","value":"canary-taint","effect":"NoSchedule"}]},
		"status":{"nodeInfo":{"kubeletVersion":"v1.37.1","operatingSystem":"linux","machineID":"canary-machine"},"addresses":[{"type":"InternalIP","address":"10.1.1.21"}],
		"conditions":[{"type":"Ready","status":"True","message":"canary-condition"}]}}]`)
	a.set("/api/v1/nodes/demo-worker-1/proxy/flagz", `{"kind":"Flagz","flags":{"cloud-provider":"external","kubeconfig":"canary-flag"}}`)
	a.set("/api/v1/services", `[{"metadata":{"namespace":"shop","name":"checkout","uid":"01234567-89ab-cdef-0123-456789abcdef","annotations":{"example.org/token":"canary-service",
		"service.beta.kubernetes.io/cloudstack-load-balancer-hostname":"`+apiKey+`"}},"spec":{"type":"LoadBalancer","ports":[{"port":80,"nodePort":30080}]},
		"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.20"}]}}}]`)
	a.set("/api/v1/namespaces/kube-system/secrets", `[{"metadata":{"name":"sh.helm.release.v1.cloudstack-ccm.v1","labels":{"owner":"helm","name":"cloudstack-ccm","status":"deployed","version":"1"}},
		"type":"helm.sh/release.v1","data":{"release":"Y2FuYXJ5LWhlbG0="}}]`)
	a.set("/apis/apps/v1/deployments", `[{"metadata":{"namespace":"kube-system","name":"cloudstack-cloud-controller-manager",`+ours+`},"spec":{"replicas":1,"selector":{"matchLabels":{"app.kubernetes.io/name":"cloudstack-ccm"}},
		"template":{"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"X","value":"canary-env"}]}]}}},"status":{"readyReplicas":1}}]`)
	a.set("/api/v1/namespaces/kube-system/pods", `[{"metadata":{"namespace":"kube-system","name":"ccm-1",`+ours+`},"spec":{"containers":[{"name":"c","image":"i","args":["canary-arg"]}]},
		"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}]`)
	a.set("/api/v1/namespaces/kube-system/pods/ccm-1/log", fmt.Sprintf(
		"I%[1]s       1 x.go:1] \"Hello\" service=\"shop/checkout\" payload=\"canary-payload\"\nE%[1]s       1 y.go:2] \"Failed\" err=\"signature=canarysignature12 and %[2]s\"\npanic: canary-panic\n",
		now.Format("0102 15:04:05.000000"), secretKey))
	a.set("/api/v1/events", fmt.Sprintf(`[{"metadata":{"name":"e"},"type":"Warning","reason":"SyncLoadBalancerFailed","source":{"component":"service-controller"},"lastTimestamp":%q,
		"message":"password=canaryevent99 at 203.0.113.20","involvedObject":{"kind":"Service","namespace":"shop","name":"checkout"}},
		{"metadata":{"name":"f"},"type":"Warning","reason":"Other","source":{"component":"kubelet"},"message":"canary-foreign","involvedObject":{"kind":"Node","name":"demo-worker-1"}}]`, now.Format(time.RFC3339)))
	return []string{"--server", a.url, "--cloud-config", file}, []string{apiKey, secretKey}
}

func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path) // #nosec G304 -- a file of the test
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		body, err := io.ReadAll(r)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, h.Mode)
		require.True(t, strings.HasPrefix(h.Name, "csccm-support-"))
		files[filepath.Base(h.Name)] = string(body)
	}
}

func TestSupportBundle(t *testing.T) {
	t.Parallel()
	args, keys := canaryCluster(t)
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	c := execute(t, append([]string{"support-bundle", "--file", path, "-o", "json"}, args...)...)
	require.Equal(t, 0, c.code, c.errOut)
	var said struct {
		File  string   `json:"file"`
		Files []string `json:"files"`
	}
	require.NoError(t, json.Unmarshal([]byte(c.out), &said))
	require.Equal(t, path, said.File)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	files := unpack(t, path)
	require.Len(t, files, len(said.Files))
	all := strings.Join([]string{c.out, c.errOut, fmt.Sprint(files)}, "\n")
	for _, key := range keys {
		require.NotContains(t, all, key)
	}
	require.NotContains(t, all, "canary")
	require.NotContains(t, all, "panic:", "only the controller's own lines")
	for _, name := range []string{"demo-worker-1", "checkout", "203.0.113.20", "10.1.1.21", "shop/"} {
		require.NotContains(t, all, name, "names and addresses are pseudonyms")
	}
	require.Contains(t, files["log-1.txt"], `"Failed"`[1:7])
	require.Contains(t, files["log-1.txt"], "payload=...")
	for name, body := range files {
		if strings.HasSuffix(name, ".json") {
			require.True(t, json.Valid([]byte(body)), name)
		}
	}
	index := files["index.html"]
	require.NotContains(t, index, "<script")
	require.NotContains(t, index, "src=")
	for _, want := range []string{"<h1>csccm support bundle, ", "LB-001", "Content-Security-Policy", "SyncLoadBalancerFailed"} {
		require.Contains(t, index, want)
	}

	c = execute(t, append([]string{"support-bundle", "--file", path}, args...)...)
	require.Equal(t, 2, c.code, "no file is overwritten")
	require.Contains(t, c.errOut, "exists already")

	named := filepath.Join(t.TempDir(), "named.tar.gz")
	c = execute(t, append([]string{"support-bundle", "--keep-names", "--file", named}, args...)...)
	require.Equal(t, 0, c.code, c.errOut)
	files = unpack(t, named)
	require.Contains(t, files["snapshot.json"], "demo-worker-1")
	require.NotContains(t, fmt.Sprint(files), "canary")
	require.NotContains(t, fmt.Sprint(files), keys[1])

	c = execute(t, append([]string{"support-bundle", "--file", filepath.Join(t.TempDir(), "none", "x")}, args...)...)
	require.Equal(t, 1, c.code)
	c = execute(t, append([]string{"support-bundle", "--file", "-"}, args...)...)
	require.Equal(t, 0, c.code)
	require.True(t, strings.HasPrefix(c.out, "\x1f\x8b"), "gzip on stdout")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	args, keys := canaryCluster(t)
	c := execute(t, append([]string{"status"}, args...)...)
	require.Equal(t, 3, c.code, "as doctor")
	for _, want := range []string{"Cluster     v1.37.1", "1 of 1 Pods ready", "no leader", "demo-worker-1", "shop/checkout", "203.0.113.20", "2/1"[2:], "CCM-002"} {
		require.Contains(t, c.out, want)
	}
	require.Regexp(t, "csccm doctor .* says more", c.out)
	require.LessOrEqual(t, strings.Count(c.out, "\n"), 24, "one screen:\n%s", c.out)
	require.NotContains(t, c.out, "canary")

	var s status.Status
	c = execute(t, append([]string{"status", "-o", "json"}, args...)...)
	require.NoError(t, json.Unmarshal([]byte(c.out), &s))
	require.Equal(t, 1, s.Nodes.Total)
	require.Equal(t, 1, s.Services.WithAddress)
	require.NotContains(t, c.out, keys[1])
	c = execute(t, append([]string{"status", "-o", "yaml"}, args...)...)
	require.NoError(t, yaml.UnmarshalStrict([]byte(c.out), &s))

	c = execute(t, "status", "--server", "http://127.0.0.1:1")
	require.Equal(t, 3, c.code)
	require.Contains(t, c.out, "connection refused")
	c = execute(t, "status", "-o", "xml")
	require.Equal(t, 2, c.code)
	c = execute(t, "__complete", "status", "-o", "")
	require.Contains(t, c.out, "text\njson\nyaml\n")
}

// Neither account, domain nor user is named, wherever a text has them. Each is called the same throughout.
func TestSupportBundleNamesNobody(t *testing.T) {
	t.Parallel()
	w := simulator.ExampleWorld()
	w.Domains = append(w.Domains, simulator.Domain{Path: "ROOT/acmecorp"})
	for i := range w.Accounts {
		if a := &w.Accounts[i]; a.Name == "k8s" {
			a.Domain = "ROOT/acmecorp"
		}
	}
	file := testenv.NewCloud(t, w).File(t, "acmecorp/k8s-owner")
	args, _ := canaryCluster(t)
	bundle := func(more ...string) map[string]string {
		path := filepath.Join(t.TempDir(), "b.tar.gz")
		c := execute(t, append([]string{"support-bundle", "--file", path, args[0], args[1], "--cloud-config", file}, more...)...)
		require.Equal(t, 0, c.code, c.errOut)
		return unpack(t, path)
	}
	named := fmt.Sprint(bundle("--keep-names"))
	files := bundle()
	for _, name := range []string{"k8s-owner", "k8s of domain", "acmecorp"} {
		require.Contains(t, named, name, "the test would prove nothing")
		require.NotContains(t, fmt.Sprint(files), name)
	}
	require.Regexp(t, `"account": "account-[0-9a-f]{8} of domain ROOT/domain-[0-9a-f]{8}"|"account": "account-[0-9a-f]{8} of domain domain-[0-9a-f]{8}"`, files["report.json"])
	require.Regexp(t, `"user": "user-[0-9a-f]{8}, enabled"`, files["report.json"])
}

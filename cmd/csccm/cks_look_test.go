// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csccm/csccm/installer/commands/cks"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// cksCommand runs csccm cks with the keys of the clusters' owner.
func cksCommand(t *testing.T, cloud *testenv.Cloud, args ...string) command {
	t.Helper()
	dir := t.TempDir()
	c := executeIn(t, environment("HOME", dir), append(append([]string{"cks"}, args...), "--cloud-config", cloud.File(t, testenv.Owner), "--kubeconfig", filepath.Join(dir, "none"))...)
	require.NotContains(t, c.out+c.errOut, cloud.Config(t, "").SecretKey)
	return c
}

func decode[T any](t *testing.T, c command) *T {
	t.Helper()
	var out T
	require.NoError(t, json.Unmarshal([]byte(c.out), &out), c.out)
	return &out
}

func TestCKSLooks(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	c := cksCommand(t, cloud, "list")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.errOut, "there are no clusters; --project names")
	k := cloud.Cluster(t, "demo", nil)

	c = cksCommand(t, cloud, "list")
	require.Equal(t, 0, c.code, c.errOut)
	require.Regexp(t, `(?m)^demo +Running +v1.33.1 +1 +2 +zone-1 +demo-network +https://`, c.out)
	l := decode[cks.ClusterList](t, cksCommand(t, cloud, "list", "-o", "json"))
	require.Equal(t, 1, l.SchemaVersion)
	require.Equal(t, []string{k.ID, "Running"}, []string{l.Clusters[0].ID, l.Clusters[0].State})

	for _, name := range []string{"demo", k.ID} {
		c = cksCommand(t, cloud, "show", name)
		require.Equal(t, 0, c.code, c.errOut)
		require.Regexp(t, `(?m)^demo-control-\S+ +control +Running +1.33.1`, c.out)
		require.Contains(t, c.out, "KUBERNETES.CLUSTER.CREATE")
		require.Regexp(t, "Next: csccm cks kubeconfig .*--cloud-config .* demo", c.out)
	}
	info := decode[cks.ClusterInfo](t, cksCommand(t, cloud, "show", "demo", "-o", "json"))
	require.Equal(t, 1, info.SchemaVersion)
	require.Len(t, info.Nodes, 3)
	require.NotEmpty(t, info.Events)
	require.Empty(t, info.EventsUnread)

	cloud.Inject(simulator.Fault{Command: "listEvents", Kind: simulator.FaultErrorBefore, HTTPStatus: 432, CSErrorCode: 9999, Text: "The API [listEvents] does not exist or is not available"})
	c = cksCommand(t, cloud, "show", "demo")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "Events: not read, the role may not list events")

	c = cksCommand(t, cloud, "show", "nosuch")
	require.Equal(t, 2, c.code)
	require.Contains(t, c.errOut, `there is no cluster "nosuch"`)
	require.Contains(t, c.errOut, "fix: name one of these: demo")
	c = cksCommand(t, cloud, "list", "--project", "shop")
	require.Equal(t, 0, c.code, c.errOut)
	require.Empty(t, strings.Split(strings.TrimSpace(c.out), "\n")[1:], "the project has none")
	require.Equal(t, 2, cksCommand(t, cloud, "list", "--project", "nosuch").code)
	require.Equal(t, 2, cksCommand(t, cloud, "show").code)
	requireOnlyReads(t, cloud)
}

func TestCKSVersions(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	c := cksCommand(t, cloud, "versions")
	require.Equal(t, 0, c.code, c.errOut)
	require.Regexp(t, `(?s)1\.34\.0 +v1\.34\.0 +Enabled +Ready +all +x86_64.*1\.33\.4.*1\.33\.1`, c.out)
	l := decode[cks.VersionList](t, cksCommand(t, cloud, "versions", "--zone", "zone-2", "-o", "json"))
	require.Equal(t, 1, l.SchemaVersion)
	require.Len(t, l.Versions, 3)
	c = cksCommand(t, cloud, "versions", "--zone", "zone-3")
	require.Equal(t, 2, c.code)
	require.Contains(t, c.errOut, "name one of these with --zone: zone-1, zone-2")
	requireOnlyReads(t, cloud)
}

func TestCKSKubeconfig(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	cloud.Cluster(t, "demo", nil)
	c := cksCommand(t, cloud, "kubeconfig", "demo")
	require.Equal(t, 0, c.code, c.errOut)
	whole := c.out
	config, err := clientcmd.Load([]byte(whole))
	require.NoError(t, err)
	require.NotEmpty(t, config.Clusters)
	c = cksCommand(t, cloud, "kubeconfig", "demo", "-o", "json")
	require.True(t, json.Valid([]byte(c.out)), c.out)

	file := filepath.Join(t.TempDir(), "demo")
	c = cksCommand(t, cloud, "kubeconfig", "demo", "--output-file", file)
	require.Equal(t, 0, c.code, c.errOut)
	require.Empty(t, c.out, "the secret is in the file alone")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Chmod(file, 0o644))
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	c = cksCommand(t, cloud, "kubeconfig", "demo", "--output-file", file)
	require.Equal(t, 2, c.code, c.errOut)
	require.Contains(t, c.errOut, "exists")
	body, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine", string(body))
	c = cksCommand(t, cloud, "kubeconfig", "demo", "--output-file", file, "--yes")
	require.Equal(t, 0, c.code, c.errOut)
	body, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, whole, string(body))
	info, err = os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "a file that others could read is replaced")

	require.Equal(t, 2, cksCommand(t, cloud, "kubeconfig", "demo", "--merge", "--output-file", file).code)
	requireGetsOnly(t, cloud)
}

// requireGetsOnly is requireOnlyReads where a kubeconfig is read too.
func requireGetsOnly(t *testing.T, cloud *testenv.Cloud) {
	t.Helper()
	for _, call := range cloud.Ledger().Calls() {
		require.Regexp(t, "^(list|log|get)", call.Command)
	}
}

func TestCKSKubeconfigMerge(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	cloud.Cluster(t, "demo", nil)
	mine := newFakeCluster(t).kubeconfig(t)
	args := []string{"cks", "kubeconfig", "demo", "--merge", "--kubeconfig", mine, "--cloud-config", cloud.File(t, testenv.Owner)}
	for range 2 { // the second run finds the same
		c := execute(t, args...)
		require.Equal(t, 0, c.code, c.errOut)
		require.Empty(t, c.out)
	}
	config, err := clientcmd.LoadFromFile(mine)
	require.NoError(t, err)
	require.Equal(t, "test", config.CurrentContext, "the current context stays")
	require.Contains(t, config.Contexts, "test")
	require.Equal(t, []string{"demo", "demo"}, []string{config.Contexts["demo"].Cluster, config.Contexts["demo"].AuthInfo})
	require.Contains(t, config.Clusters["demo"].Server, ":6443")

	config.Clusters["demo"].Server = "https://elsewhere"
	require.NoError(t, clientcmd.WriteToFile(*config, mine))
	c := execute(t, args...)
	require.Equal(t, 2, c.code, c.errOut)
	require.Contains(t, c.errOut, "another cluster, user or context demo")
	c = execute(t, append(args, "--yes")...)
	require.Equal(t, 0, c.code, c.errOut)
}

// Credentials come from flags, the environment, or the cluster's Secret.
func TestCKSCredentials(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	keys := cloud.Config(t, "")
	none := filepath.Join(t.TempDir(), "none")
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("password\n"), 0o600))
	in := newFakeCluster(t)
	in.setJSON(t, "/api/v1/namespaces/kube-system/secrets/cloudstack-secret", map[string]any{
		"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"name": "cloudstack-secret", "namespace": "kube-system"},
		"data": map[string][]byte{"cloud-config": []byte("[Global]\napi-url = " + cloud.URL + "\napi-key = " + keys.APIKey + "\nsecret-key = " + keys.SecretKey + "\n")},
	})
	for name, tc := range map[string]struct {
		env  []string
		args []string
		code int
		says string
	}{
		"environment":           {[]string{"CLOUDSTACK_API_KEY", keys.APIKey, "CLOUDSTACK_SECRET_KEY", keys.SecretKey}, []string{"--api-url", cloud.URL}, 0, ""},
		"environment, no URL":   {[]string{"CLOUDSTACK_API_KEY", keys.APIKey, "CLOUDSTACK_SECRET_KEY", keys.SecretKey}, nil, 2, "--api-url"},
		"one key":               {[]string{"CLOUDSTACK_API_KEY", keys.APIKey}, []string{"--api-url", cloud.URL}, 2, "only one of the two keys"},
		"a user's login":        {nil, []string{"--api-url", cloud.URL, "--admin-user", testenv.Owner, "--admin-password-file", password}, 0, ""},
		"an administrator's":    {nil, []string{"--api-url", cloud.URL, "--admin-user", "admin", "--admin-password-file", password}, 0, ""},
		"the cluster's Secret":  {nil, []string{"--server", in.url}, 0, ""},
		"a cluster without one": {nil, []string{"--server", newFakeCluster(t).url}, 2, "does not exist, and --cloud-config is not given"},
		"none":                  {nil, nil, 2, "no credentials are given"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"cks", "list"}, tc.args...)
			if !slices.Contains(args, "--server") {
				args = append(args, "--kubeconfig", none)
			}
			c := executeIn(t, environment(tc.env...), args...)
			require.Equal(t, tc.code, c.code, c.errOut)
			require.Contains(t, c.errOut, tc.says)
			require.NotContains(t, c.out+c.errOut, keys.SecretKey)
		})
	}
}

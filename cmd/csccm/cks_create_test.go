// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/cks"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

func TestCKSCreate(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	args := []string{"create", "demo", "--zone", "zone-1", "--offering", "node", "--size", "2"}
	c := cksCommand(t, cloud, append(slices.Clone(args), "--dry-run")...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Regexp(t, `(?s)To do: create cluster demo\n  zone +zone-1\n  version +v1.34.0\n  control nodes +1\n  offering of control nodes +node\n  workers +2\n  offering of workers +node\n  network +a new one, demo-network`, c.out)
	c = cksCommand(t, cloud, args...)
	require.Equal(t, 2, c.code, c.errOut)
	require.Empty(t, writes(cloud))

	c = cksCommand(t, cloud, append(slices.Clone(args), "--yes", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	p := planOf(t, c)
	require.True(t, p.Done)
	require.Equal(t, "Running", p.State)
	require.NotEmpty(t, p.ID)
	require.Contains(t, c.errOut, "Cluster demo: Running, 3 of 3 VMs run")
	require.Contains(t, c.errOut, "event KUBERNETES.CLUSTER.CREATE")

	c = cksCommand(t, cloud, append(slices.Clone(args), "--yes")...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "Cluster demo: nothing to do, it runs, as it was asked for")
	c = cksCommand(t, cloud, "create", "demo", "--zone", "zone-1", "--offering", "big", "--size", "3", "--version", "1.33.1", "--yes")
	require.Equal(t, 2, c.code, c.errOut)
	require.Contains(t, c.errOut, "version v1.34.0, not v1.33.1, offering of control nodes node, not big, workers 2, not 3, offering of workers node, not big; nothing was changed")
	require.Equal(t, []string{"createKubernetesCluster"}, writes(cloud))

	for says, args := range map[string][]string{
		"name one of these with --zone: zone-1, zone-2":                   {"create", "x", "--offering", "node"},
		"name one of these with --offering: node (2 CPUs, 2048 MiB), big": {"create", "x", "--zone", "zone-1"},
		`there is no network "nosuch"`:                                    {"create", "x", "--zone", "zone-1", "--offering", "node", "--network", "nosuch"},
		`--with "cilium" is not known; there is csccm`:                    {"create", "x", "--with", "cilium"},
		`there is no version "1.2.3"`:                                     {"create", "x", "--zone", "zone-1", "--offering", "node", "--version", "1.2.3"},
		"csccm cks create needs one argument, the name":                   {"create"},
	} {
		c = cksCommand(t, cloud, args...)
		require.Equal(t, 2, c.code, c.errOut)
		require.Contains(t, c.errOut, says)
	}
}

// Everything that can be asked for arrives.
func TestCKSCreateWithEverything(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	c := cksCommand(t, cloud, "create", "demo", "--project", "shop", "--zone", cloud.Zone(t, "zone-1"), "--version", "v1.33.1", "--offering", "node", "--control-offering", "big",
		"--worker-offering", "node", "--control-nodes", "3", "--size", "2", "--root-disk", "20", "--csi", "--description", "a test", "--yes", "-o", "yaml")
	require.Equal(t, 0, c.code, c.errOut+c.out)
	calls := cloud.Ledger().Find("createKubernetesCluster", "")
	require.Len(t, calls, 1)
	l := decode[cks.ClusterList](t, cksCommand(t, cloud, "list", "--project", "shop", "-o", "json"))
	require.Len(t, l.Clusters, 1)
	k := l.Clusters[0]
	require.Equal(t, []any{3, 2, true, "big", "node", "v1.33.1"}, []any{k.ControlNodes, k.Size, k.CSI, k.ControlOfferingName, k.WorkerOfferingName, k.Version})
}

func TestCKSCreateFails(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	cloud.Inject(simulator.Fault{Command: "createKubernetesCluster", Kind: simulator.FaultRouterRefuses, Count: 1})
	args := []string{"create", "demo", "--zone", "zone-1", "--offering", "node", "--yes", "-o", "json"}
	c := cksCommand(t, cloud, args...)
	require.Equal(t, 1, c.code, c.errOut)
	p := planOf(t, c)
	require.Equal(t, []any{false, "Error"}, []any{p.Done, p.State})
	require.NotEmpty(t, p.Cause)
	require.NotEmpty(t, p.Events)
	require.Contains(t, c.errOut, "error: create cluster demo failed, the cluster is Error: ")
	require.Regexp(t, "csccm cks delete .*--cloud-config .* demo removes what is left", c.errOut)
	// The second run says so instead of trying again.
	c = cksCommand(t, cloud, args...)
	require.Equal(t, 1, c.code, c.errOut)
	require.Contains(t, c.errOut, "there is a cluster demo already, in state Error; nothing was changed")
	require.Equal(t, 1, cloud.Ledger().Count("createKubernetesCluster"))
	require.Equal(t, 0, cksCommand(t, cloud, "delete", "demo", "--yes").code)

	cloud.Inject(simulator.Fault{Command: "createKubernetesCluster", Kind: simulator.FaultErrorBefore, Count: 1, HTTPStatus: 530, CSErrorCode: 9999,
		Text: "Global setting endpoint.url has to be set to the Management Server's API end point"})
	c = cksCommand(t, cloud, args...)
	require.Equal(t, 1, c.code)
	require.Contains(t, c.errOut, "fix: have an administrator set CloudStack's setting endpoint.url")
}

// The call arrives, but its answer does not: the cluster is followed, and created once.
func TestCKSCreateAnswerLost(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	cloud.Inject(simulator.Fault{Command: "createKubernetesCluster", Kind: simulator.FaultLostAnswer, Count: 1})
	c := cksCommand(t, cloud, "create", "demo", "--zone", "zone-1", "--offering", "node", "--yes")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.errOut, "so it did")
	require.Equal(t, 1, cloud.Ledger().Count("createKubernetesCluster"))
}

// A network that was there before keeps what the cluster's Services have in it.
func TestCKSDeleteNamesWhatStays(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	ruleID, _ := cloud.Supplied(t)
	c := cksCommand(t, cloud, "delete", "demo", "--dry-run")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "it stays in network own-net")
	require.Contains(t, c.out, ruleID)
	c = cksCommand(t, cloud, "delete", "demo", "--remove-services", "--yes")
	require.Equal(t, 3, c.code, c.errOut)
	require.Contains(t, c.errOut, "the Services of cluster demo cannot be removed: the API server at ")
	c = cksCommand(t, cloud, "delete", "demo", "--yes")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, ruleID, "what stays is named")
	require.Contains(t, c.out, "Cluster demo: deleted")
}

// ^C ends the command, and not the operation; the next run follows it.
func TestCKSFollowerIsKilled(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	release := cloud.Inject(simulator.Fault{Command: "createKubernetesCluster", Kind: simulator.FaultJobNeverEnds, Count: 1})
	defer release()
	began := make(chan struct{}, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cloud.Handler().ServeHTTP(w, r)
		if cloud.Ledger().Count("queryAsyncJobResult") > 0 {
			select {
			case began <- struct{}{}:
			default:
			}
		}
	}))
	t.Cleanup(proxy.Close)
	body, err := os.ReadFile(cloud.File(t, testenv.Owner))
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "cloud-config")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(body), cloud.URL, proxy.URL+"/client/api")), 0o600))
	args := []string{"cks", "create", "demo", "--zone", "zone-1", "--offering", "node", "--cloud-config", file}
	cmd, stderr := process(t, dir, append(slices.Clone(args), "--yes")...)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-began:
	case err := <-ended:
		require.Fail(t, "it ended before it followed the cluster", "%v: %s", err, stderr)
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 130, codeOf(t, <-ended), stderr)
	require.Regexp(t, "CloudStack goes on with what it has begun, and csccm cks show --cloud-config .* demo --watch shows it", stderr.String())

	c := execute(t, append(slices.Clone(args), "--timeout", "1s")...) // --yes is not needed: nothing is changed
	require.Equal(t, 124, c.code, c.errOut)
	require.Contains(t, c.out, "Cluster demo: following it, CloudStack works on it already: it is Starting")
	require.Equal(t, 1, cloud.Ledger().Count("createKubernetesCluster"))
	c = execute(t, "cks", "delete", "demo", "--cloud-config", file, "--yes")
	require.Equal(t, 3, c.code, c.errOut)
	require.Contains(t, c.errOut, "another operation on it runs")
}

// The install of --with csccm works on the new cluster, by its kubeconfig alone: no other credentials reach it.
func TestCKSInstallInto(t *testing.T) {
	t.Parallel()
	kubeconfig, err := os.ReadFile(newFakeCluster(t).kubeconfig(t))
	require.NoError(t, err)
	var out, errOut strings.Builder
	g := cli.New(cli.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, Getenv: environment("CLOUDSTACK_API_KEY", "a", "CLOUDSTACK_SECRET_KEY", "b", "HOME", t.TempDir())})
	chart, err := helm.Embedded()
	require.NoError(t, err)
	err = installInto(t.Context(), g, string(kubeconfig), install.Options{Chart: chart, Values: map[string]any{}})
	require.ErrorContains(t, err, "Credentials for the controller: not given")
	require.Equal(t, 2, cli.ExitCode(err))
	require.Empty(t, out.String(), "the result of the command is the cluster")
}

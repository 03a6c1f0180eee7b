// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKubernetesISO(t *testing.T) {
	t.Parallel()
	w := readWorld(t, "kubernetes.yaml")
	w.KubernetesVersions = []KubernetesVersion{
		{Semantic: "1.31.2", ISOState: "Failed"},
		{Semantic: "1.31.3", ISOState: "Missing"},
	}
	h := startScript(t, "kubernetes", Options{World: w})
	h.play(`
		owner listKubernetesSupportedVersions => isostate=Failed /kubernetessupportedversion.1.isostate=- /kubernetessupportedversion.1.isoid=- \
			/kubernetessupportedversion.2.isostate=Ready > failed /kubernetessupportedversion.1.id=missing
		newCluster kubernetesversionid={failed} => 530/9999 ISO associated with version ID: {failed} is not in Ready state for \
				datacenter ID: {zone}
		+ kubernetesversionid={missing} => 530/9999 Invalid ISO associated with version ID: {missing}
		newCluster > k
		owner upgradeKubernetesCluster id={k} kubernetesversionid={failed} \
				=> job 530 ISO associated with version : v1.31.2 is not in Ready state for datacenter : z1
		+ kubernetesversionid={missing} => job 530 Invalid ISO associated with version : v1.31.3
	`)

	h.sim.server.Latency.Jobs = map[string]time.Duration{"registerIso": time.Minute}
	h.play(`
		root addKubernetesSupportedVersion semanticversion=1.32.0 mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso \
				=> isostate=Creating > new
		newCluster name=c2 kubernetesversionid={new} => 530/9999 is not in Ready state
		wait 1m
		owner listKubernetesSupportedVersions id={new} => isostate=Ready
		newCluster name=c2 kubernetesversionid={new}
	`)
}

// inside is a ClusterInside whose methods wait for a value in proceed.
type inside struct {
	proceed chan error
	mu      sync.Mutex
	calls   []string
	during  func(c *InsideCluster)
}

func (i *inside) called(ctx context.Context, c *InsideCluster, format string, v ...any) error {
	i.mu.Lock()
	i.calls = append(i.calls, fmt.Sprintf(format, v...))
	i.mu.Unlock()
	if i.during != nil {
		i.during(c)
	}
	select {
	case err := <-i.proceed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *inside) last() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.calls) == 0 {
		return ""
	}
	return i.calls[len(i.calls)-1]
}

func kinds(nodes []InsideNode) (out []string) {
	for _, n := range nodes {
		kind := "worker"
		if n.Control {
			kind = "control"
		}
		out = append(out, kind+" "+n.Address)
	}
	return out
}

func (i *inside) Start(ctx context.Context, c *InsideCluster) (string, error) {
	return "kubeconfig of " + c.Name, i.called(ctx, c, "start %s %s %v", c.Name, c.Version, kinds(c.Nodes))
}

func (i *inside) Join(ctx context.Context, c *InsideCluster, nodes []InsideNode) error {
	return i.called(ctx, c, "join %d of %d", len(nodes), len(c.Nodes))
}

func (i *inside) Leave(ctx context.Context, c *InsideCluster, node InsideNode) error {
	return i.called(ctx, c, "leave %s", node.Name)
}

func (i *inside) Upgrade(ctx context.Context, c *InsideCluster, node InsideNode, version string) error {
	return i.called(ctx, c, "upgrade %s to %s", kinds([]InsideNode{node}), version)
}

func (i *inside) Delete(ctx context.Context, c *InsideCluster) error {
	return i.called(ctx, c, "delete %s %d", c.Name, len(c.Nodes))
}

// startInside starts the world of Kubernetes clusters with a ClusterInside.
func startInside(t *testing.T) (*env, *inside) {
	t.Helper()
	in := &inside{proceed: make(chan error)}
	h := startScript(t, "kubernetes", Options{Inside: in})
	t.Cleanup(h.sim.Close)
	return h, in
}

// goesOn waits for the given call, makes it return err, and waits until the cluster is in the state.
func (i *inside) goesOn(h *env, call string, err error, state string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		h.sim.runDue()
		return i.last() == call
	}, time.Minute, time.Millisecond, "%s", call)
	i.proceed <- err
	require.Eventually(h.t, func() bool {
		h.clock.Step(time.Second)
		h.sim.runDue()
		h.sim.mu.RLock()
		defer h.sim.mu.RUnlock()
		clusters := h.sim.st.KubernetesClusters.Rows
		k := clusters[len(clusters)-1]
		return state == "gone" && k.Removed || k.State() == state
	}, time.Minute, time.Millisecond, state)
}

func TestClusterInside(t *testing.T) {
	t.Parallel()
	h, in := startInside(t)
	var seen *InsideCluster
	in.during = func(c *InsideCluster) { // the API answers while the methods run
		if seen == nil {
			seen = c
			require.Equal(h.t, "Starting",
				h.first(h.call("owner", "listKubernetesClusters", "id", c.ID), "kubernetescluster")["state"])
		}
	}

	h.play(`& newCluster > k
		wait 10m
		owner listKubernetesClusters id={k} => state=Starting virtualmachines#=2 virtualmachines.1.state=Running > ipaddress=ip`)
	in.goesOn(h, fmt.Sprintf("start c1 1.31.1 %v", kinds(seenNodes(h))), nil, "Running")
	require.Equal(t, "https://"+h.vars["ip"]+":6443", seen.Endpoint)
	key, secret, ok := h.sim.Keys("owner-kubeadmin")
	require.True(t, ok)
	require.Equal(t,
		"[Global]\napi-url = http://192.0.2.1:8080/client/api\napi-key = "+key+"\nsecret-key = "+secret+"\n",
		seen.Provider)
	require.True(t,
		slices.ContainsFunc(seen.Nodes,
			func(n InsideNode) bool { return n.Control && n.Version == "1.31.1" && n.Name != "" }))
	h.play(`owner getKubernetesClusterConfig id={k} => configdata="kubeconfig of c1"
		& owner scaleKubernetesCluster id={k} size=3
		wait 10s`)
	in.goesOn(h, "join 2 of 4", nil, "Running")
	h.play(`owner listKubernetesClusters id={k} => state=Running size=3 > virtualmachines.3.name=last virtualmachines.1.name=first
		& owner scaleKubernetesCluster id={k} size=2`)
	in.goesOn(h, "leave "+h.vars["last"], nil, "Running")
	h.play(`owner listKubernetesClusters id={k} => state=Running size=2
		root addKubernetesSupportedVersion semanticversion=1.32.0 mincpunumber=2 minmemory=2048 url=http://192.0.2.1/x.iso > next
		& owner upgradeKubernetesCluster id={k} kubernetesversionid={next}`)
	for i, n := range kinds(seenNodes(h)) {
		state := "Upgrading"
		if i == 2 {
			state = "Running"
		}
		in.goesOn(h, "upgrade ["+n+"] to 1.32.0", nil, state)
	}

	h.play(`owner stopKubernetesCluster id={k}
		& owner startKubernetesCluster id={k}
		wait 10s`)
	in.goesOn(h, fmt.Sprintf("start c1 1.32.0 %v", kinds(seenNodes(h))), nil, "Running")
	h.play(`& owner deleteKubernetesCluster id={k}
		wait 10s`)
	in.goesOn(h, "delete c1 0", nil, "gone")
}

// seenNodes returns the nodes of the first cluster as ClusterInside sees them.
func seenNodes(h *env) (out []InsideNode) {
	h.sim.mu.RLock()
	defer h.sim.mu.RUnlock()
	for _, n := range h.sim.st.KubernetesClusters.Rows[0].Nodes {
		out = append(out, InsideNode{Control: n.Control, Address: n.VM.NICs[0].IP})
	}
	return out
}

// TestClusterRestart: a restart does not change a cluster, and a later result of ClusterInside is ignored.
func TestClusterRestart(t *testing.T) {
	t.Parallel()
	h, in := startInside(t)
	h.play(`& newCluster > k jobid=job
		wait 1s
		owner listKubernetesClusters id={k} => virtualmachines.1.state=Starting`)
	h.sim.Restart(0)
	h.play(`owner queryAsyncJobResult jobid={job} => /jobstatus=2 /jobresult=-
		wait 1m
		owner listKubernetesClusters id={k} => state=Starting virtualmachines.0.state=Running virtualmachines.1.state=Stopped
		owner deleteKubernetesCluster id={k} => job 530 in state: Starting
		& newCluster name=c2 > two
		wait 10s`)

	require.Eventually(t, func() bool {
		h.sim.runDue()
		return in.last() != ""
	}, time.Minute, time.Millisecond)

	h.sim.Restart(0)
	in.proceed <- nil
	h.play(`owner listKubernetesClusters id={two} => state=Starting endpoint=""`)
}

// TestClusterInsideFails: an error inside the VMs ends the job as in CloudStack.
func TestClusterInsideFails(t *testing.T) {
	t.Parallel()
	const noAPI = "in usable state as unable to provision API endpoint for the cluster"
	for name, tc := range map[string]struct {
		err  error
		text string
	}{
		"no API": {errors.New("kubeadm failed"), noAPI},
		"no node": {fmt.Errorf("worker: %w", ErrNodesNotReady),
			"as it does not have desired number of nodes in ready state"},
		"no answer": {nil, noAPI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, in := startInside(t)
			h.play(`
				& newCluster > jobid=job
				wait 10s
				owner queryAsyncJobResult jobid={job} => /jobstatus=0`)

			if tc.err != nil {
				in.goesOn(h, fmt.Sprintf("start c1 1.31.1 %v", kinds(seenNodes(h))), tc.err, "Error")
			} else { // CloudStack's time-out
				h.clock.Step(time.Hour)
			}

			h.set("text", "Failed to setup Kubernetes cluster : c1 "+tc.text).play(`
				owner queryAsyncJobResult jobid={job} => /jobresult.errortext="{text}"`)
			if tc.err == nil { // an answer that comes too late changes nothing
				in.proceed <- nil
			}

			h.play(`owner listKubernetesClusters => state=Error virtualmachines#=2 > k
				owner getKubernetesClusterConfig id={k} => 530/9999 Config not found for Kubernetes cluster : c1`)
		})
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// clusterEnv is a cluster with process nodes.
type clusterEnv struct {
	env
	nodes *testenv.Cluster
	helm  *helm.Client
}

// defaultGrace is longer than a busy machine may delay the heartbeats of a node.
const defaultGrace = time.Minute

// newClusterEnv returns a cluster without nodes in a world. If the world is nil, it is the example.
func newClusterEnv(t *testing.T, world *simulator.World) *clusterEnv {
	t.Helper()
	return newClusterEnvOn(t, borrow(t, plane.Options{NodeGrace: defaultGrace}), world)
}

// newClusterEnvOn is like newClusterEnv on a given control plane.
func newClusterEnvOn(t *testing.T, p *plane.Plane, world *simulator.World) *clusterEnv {
	t.Helper()
	cloud, err := testenv.StartCloudStack(world)
	require.NoError(t, err)
	t.Cleanup(cloud.Stop)
	nodes, err := testenv.NewCluster(p, testenv.ClusterOptions{Controller: programs.Controller, Heartbeat: time.Second})
	require.NoError(t, err)
	return newClusterEnvOf(t, p, cloud, nodes)
}

// newClusterEnvOf is like newClusterEnv with given parts.
func newClusterEnvOf(t *testing.T, p *plane.Plane, cloud *testenv.CloudStack, nodes *testenv.Cluster) *clusterEnv {
	t.Helper()
	e := &clusterEnv{env: env{Plane: p, cloud: cloud, home: t.TempDir()}, nodes: nodes}
	e.Client = e.nodes.Client
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		defer e.nodes.StopNodes()
		if t.Failed() {
			e.explain(ctx, t)
		} else if e.cloud != nil {
			e.noSecrets(ctx, t)
		}
		lines, err := p.AuditLog()
		assert.NoError(t, errors.Join(p.Err(), err, audit.read(lines)))
	})

	flags, cache := cluster.NewFlags(), filepath.Join(e.home, "cache")
	flags.KubeConfig, flags.CacheDir = &e.Kubeconfig, &cache
	e.helm = helm.New(flags, metav1.NamespaceSystem, t.Logf)
	return e
}

var cp1, worker1, worker2 = testenv.ExampleNodes()[0], testenv.ExampleNodes()[1], testenv.ExampleNodes()[2]

// joined returns the options of a node that joined the cluster before its cloud provider was installed.
func joined(o processnode.Options) processnode.Options { o.Joined = true; return o }

// join adds nodes.
func (e *clusterEnv) join(t *testing.T, nodes ...processnode.Options) {
	t.Helper()
	for _, o := range nodes {
		_, err := e.nodes.Join(t.Context(), o)
		require.NoError(t, err)
	}
}

// Flags for process nodes: each Pod gets a loopback address instead of its node's network.
var (
	podNetwork = []string{"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)", "--set",
		"minReadySeconds=0"}
	processFlags = append([]string{"--set", "replicaCount=1"}, podNetwork...)
)

// installArgs returns a user's flags for the example world and process nodes.
func installArgs(e *clusterEnv, more ...string) []string {
	return slices.Concat([]string{
		"install", "--yes", "--api-url", e.cloud.URL, "--admin-user", "admin", "--admin-password-stdin", "--account",
		"k8s",
	}, podNetwork, more)
}

// install does the same as helm install with the chart of this checkout, with the owner's keys.
func (e *clusterEnv) install(t *testing.T, over map[string]any) {
	t.Helper()
	chart, err := helm.Embedded()
	require.NoError(t, err)
	values := map[string]any{"hostNetwork": false, "bindAddress": "$(POD_IP)", "replicaCount": 1, "minReadySeconds": 0}
	maps.Copy(values, over)
	r, err := e.helm.Apply(t.Context(), helm.ApplyRequest{Name: release, Chart: chart, Values: values})
	require.NoError(t, err)
	require.True(t, r.Deployed(), r.Status)
}

// runs waits until the system namespace has exactly one workload, not counting one that a takeover keeps. The workload
// must have the kind, and all its Pods must be ready. If nodes are given, the Pods must run on these.
func (e *clusterEnv) runs(t *testing.T, kind string, nodes ...string) {
	t.Helper()
	e.eventually(t, "a "+kind+" that is ready", func(ctx context.Context) {
		var states []string // one text for each workload: kind, observed, wanted, updated, ready, all
		deployments := must.Get(e.Client.AppsV1().Deployments(metav1.NamespaceSystem).List(ctx,
			metav1.ListOptions{})).Items
		for _, d := range deployments {
			if d.Annotations[keptAnnotation] == "" {
				states = append(states, fmt.Sprint("Deployment ", d.Status.ObservedGeneration >= d.Generation,
					*d.Spec.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.Replicas))
			}
		}

		sets := must.Get(e.Client.AppsV1().DaemonSets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})).Items
		for i := range sets {
			d := &sets[i].Status
			states = append(states, fmt.Sprint("DaemonSet ", d.ObservedGeneration >= sets[i].Generation,
				d.DesiredNumberScheduled, d.UpdatedNumberScheduled, d.NumberReady, d.CurrentNumberScheduled))
		}

		var on []string
		for _, p := range must.Get(e.pods(ctx)) {
			on = append(on, p.Spec.NodeName)
		}

		slices.Sort(on)
		n := len(on)
		ready := n > 0 && slices.Equal(states, []string{fmt.Sprint(kind, " ", true, n, n, n, n)})
		must.Be(ready && (len(nodes) == 0 || slices.Equal(on, nodes)), "the workloads are %q; their Pods are on %v",
			states, on)
	})
}

// pods returns the Pods in the system namespace that are not being deleted.
func (e *clusterEnv) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := e.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// controllerPods returns the names of the controller's Pods with their numbers of restarts.
func (e *clusterEnv) controllerPods(t *testing.T) (names []string) {
	t.Helper()
	pods, err := e.pods(t.Context())
	require.NoError(t, err)
	for _, p := range pods {
		names = append(names, fmt.Sprintf("%s/%d", p.Name, p.Status.ContainerStatuses[0].RestartCount))
	}
	slices.Sort(names)
	return names
}

// logs returns the Pods' logs on the nodes, by Pod.
func (e *clusterEnv) logs(ctx context.Context) map[string]string {
	all := map[string]string{}
	pods, _ := e.pods(ctx)
	for _, p := range pods {
		if path, ok := e.nodes.PodLog(metav1.NamespaceSystem, p.Name); ok {
			text, _ := os.ReadFile(path) // #nosec G304 -- a log of the test
			all[p.Name] = string(text)
		}
	}
	return all
}

// explain prints possible causes of a failed test.
func (e *clusterEnv) explain(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "nodes,services,pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
	} {
		out, err := e.kubectl(ctx, "", args...)
		t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
	for pod, log := range e.logs(ctx) {
		t.Logf("log of %s ends with:\n%s", pod, log[max(0, len(log)-4000):])
	}
}

// noSecrets checks that the keys of the controller and of the VMs' owner are not in csccm's output, the controller's
// logs, Events, the Helm release or files.
func (e *clusterEnv) noSecrets(ctx context.Context, t *testing.T) {
	t.Helper()
	keys := []string{"signature="}
	for _, user := range []string{owner, "kubeadmin"} {
		if c, err := e.cloud.Config(user); err == nil {
			keys = append(keys, c.APIKey, c.SecretKey)
		}
	}

	if s, err := e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName,
		metav1.GetOptions{}); err == nil {
		for _, m := range keyLine.FindAllSubmatch(s.Data[secretKey], -1) {
			keys = append(keys, string(m[1]))
		}
	}

	texts := map[string]string{"csccm's output": e.session.String()}
	for pod, log := range e.logs(ctx) {
		texts["the log of "+pod] = log
	}

	events, err := e.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for _, it := range events.Items {
		texts["Events"] += it.Message + "\n"
	}

	if r, err := e.helm.History(ctx, release); err == nil {
		texts["the Helm release"] = r[0].Manifest + fmt.Sprint(r[0].Values) + r[0].Notes
	}

	require.NoError(t, filepath.WalkDir(e.home, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var text []byte
			text, err = os.ReadFile(path) // #nosec G304 -- a file of the test
			texts["file "+path] = string(text)
		}
		return err
	}))

	for where, text := range texts {
		for _, key := range keys {
			if strings.Contains(text, key) {
				t.Errorf("%s: there is a key or a signature in it", where)
			}
		}
	}
}

var keyLine = regexp.MustCompile(`(?m)^\s*(?:api|secret)-key\s*=\s*"?([^"\s]+)`)

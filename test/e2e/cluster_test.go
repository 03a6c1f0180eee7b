// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// defaultGrace is longer than a busy machine holds up the heartbeats of a node.
const defaultGrace = time.Minute

// newClusterEnv returns a cluster without nodes in a world (nil: the example).
func newClusterEnv(t *testing.T, world *simulator.World) *clusterEnv {
	t.Helper()
	return newClusterEnvOn(t, borrow(t, plane.Options{NodeGrace: defaultGrace}), world, time.Second)
}

// newClusterEnvOn is newClusterEnv on a control plane, whose nodes have a period of heartbeats.
func newClusterEnvOn(t *testing.T, p *plane.Plane, world *simulator.World, heartbeat time.Duration) *clusterEnv {
	t.Helper()
	cloud, err := testenv.StartCloudStack(world)
	require.NoError(t, err)
	t.Cleanup(cloud.Stop)
	nodes, err := testenv.NewCluster(p, testenv.ClusterOptions{Controller: programs.Controller, Heartbeat: heartbeat})
	require.NoError(t, err)
	return newClusterEnvOf(t, p, cloud, nodes)
}

// newClusterEnvOf is newClusterEnv of its parts.
func newClusterEnvOf(t *testing.T, p *plane.Plane, cloud *testenv.CloudStack, nodes *testenv.Cluster) *clusterEnv {
	t.Helper()
	e := &clusterEnv{env: env{Plane: p, cloud: cloud, home: t.TempDir()}, nodes: nodes}
	e.Client = e.nodes.Client
	t.Cleanup(func() {
		if t.Failed() {
			e.explain(t)
		} else if e.cloud != nil {
			e.noSecrets(t)
		}
		lines, err := p.AuditLog()
		assert.NoError(t, errors.Join(p.Err(), err, audit.read(lines)))
		e.nodes.StopNodes()
	})
	flags, cache := cluster.NewFlags(), filepath.Join(e.home, "cache")
	flags.KubeConfig, flags.CacheDir = &e.Kubeconfig, &cache
	e.helm = helm.New(flags, metav1.NamespaceSystem, t.Logf)
	return e
}

var cp1, worker1, worker2 = testenv.ExampleNodes()[0], testenv.ExampleNodes()[1], testenv.ExampleNodes()[2]

// joined is a node that came into the cluster before its cloud provider.
func joined(o processnode.Options) processnode.Options { o.Joined = true; return o }

// join adds nodes.
func (e *clusterEnv) join(t *testing.T, nodes ...processnode.Options) {
	t.Helper()
	for _, o := range nodes {
		if _, err := e.nodes.Join(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// Flags that suit process nodes: each Pod has a loopback address instead of its node's network.
var (
	podNetwork   = []string{"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)"}
	processFlags = append([]string{"--set", "replicaCount=1"}, podNetwork...)
)

// installArgs are a user's flags for the example world and process nodes.
func installArgs(e *clusterEnv, more ...string) []string {
	return slices.Concat([]string{
		"install", "--yes", "--api-url", e.cloud.URL, "--admin-user", "admin", "--admin-password-stdin", "--account", "k8s",
	}, podNetwork, more)
}

// install does what helm install does with the chart of this checkout, with the owner's keys.
func (e *clusterEnv) install(t *testing.T, over map[string]any) {
	t.Helper()
	if r, err := e.helm.Apply(t.Context(), applyRequest(t, over)); err != nil || !r.Deployed() {
		t.Fatal(err, r)
	}
}

// applyRequest is the chart of this checkout for process nodes.
func applyRequest(t *testing.T, over map[string]any) helm.ApplyRequest {
	t.Helper()
	chart, err := helm.Embedded()
	require.NoError(t, err)
	values := map[string]any{"hostNetwork": false, "bindAddress": "$(POD_IP)", "replicaCount": 1}
	for k, x := range over {
		values[k] = x
	}
	return helm.ApplyRequest{Name: release, Chart: chart, Values: values}
}

// runs waits until the one workload in the system namespace, beside one that a takeover has kept, is of a kind, all its Pods are
// ready, and they are on these nodes if any are given.
func (e *clusterEnv) runs(t *testing.T, kind string, nodes ...string) {
	t.Helper()
	e.eventually(t, "a "+kind+" that is ready", func(ctx context.Context) error {
		deployments, err := e.Client.AppsV1().Deployments(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		sets, err := e.Client.AppsV1().DaemonSets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var states []string // of each workload: kind, observed, wanted, updated, ready, all
		for i := range deployments.Items {
			d := &deployments.Items[i]
			if d.Annotations[keptAnnotation] != "" {
				continue
			}
			states = append(states, fmt.Sprint("Deployment ", d.Status.ObservedGeneration >= d.Generation,
				*d.Spec.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.Replicas))
		}
		for i := range sets.Items {
			d := &sets.Items[i]
			states = append(states, fmt.Sprint("DaemonSet ", d.Status.ObservedGeneration >= d.Generation,
				d.Status.DesiredNumberScheduled, d.Status.UpdatedNumberScheduled, d.Status.NumberReady, d.Status.CurrentNumberScheduled))
		}
		pods, err := e.pods(ctx)
		if err != nil {
			return err
		}
		var on []string
		for i := range pods {
			on = append(on, pods[i].Spec.NodeName)
		}
		slices.Sort(on)
		n := len(on)
		if want := fmt.Sprint(kind, " ", true, n, n, n, n); n == 0 || len(states) != 1 || states[0] != want || len(nodes) > 0 && !slices.Equal(on, nodes) {
			return fmt.Errorf("the workloads are %q, want %q; their Pods are on %v", states, want, on)
		}
		return nil
	})
}

// pods are the Pods in the system namespace that are not on their way out.
func (e *clusterEnv) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := e.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// controllerPods are the names of these Pods with their restarts.
func (e *clusterEnv) controllerPods(t *testing.T) (names []string) {
	t.Helper()
	pods, err := e.pods(t.Context())
	require.NoError(t, err)
	for i := range pods {
		names = append(names, fmt.Sprintf("%s/%d", pods[i].Name, pods[i].Status.ContainerStatuses[0].RestartCount))
	}
	slices.Sort(names)
	return names
}

// logs are the logs by Pod that nodes have.
func (e *clusterEnv) logs(ctx context.Context) map[string]string {
	all := map[string]string{}
	pods, err := e.pods(ctx)
	for i := range pods {
		if path, ok := e.nodes.PodLog(metav1.NamespaceSystem, pods[i].Name); ok && err == nil {
			text, _ := os.ReadFile(path) // #nosec G304 -- a log of the test
			all[pods[i].Name] = string(text)
		}
	}
	return all
}

// explain prints what a failed test may have failed of.
func (e *clusterEnv) explain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{{"get", "nodes,services,pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
		out, err := e.kubectl(ctx, "", args...)
		t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
	pods, _ := e.pods(ctx)
	for i := range pods {
		if path, ok := e.nodes.PodLog(metav1.NamespaceSystem, pods[i].Name); ok {
			logTail(t, pods[i].Name, path)
		}
	}
}

// noSecrets looks for the keys of the controller and of the VMs' owner where they must not be: what csccm said, the controller's
// logs, Events, the release that Helm keeps, files.
func (e *clusterEnv) noSecrets(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	keys := []string{"signature="}
	for _, user := range []string{owner, "kubeadmin"} {
		if c, err := e.cloud.Config(user); err == nil {
			keys = append(keys, c.APIKey, c.SecretKey)
		}
	}
	if s, err := e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName, metav1.GetOptions{}); err == nil {
		for line := range strings.SplitSeq(string(s.Data[secretKey]), "\n") {
			name, value, _ := strings.Cut(line, "=")
			if name = strings.TrimSpace(name); name == "api-key" || name == "secret-key" {
				keys = append(keys, strings.Trim(strings.TrimSpace(value), `"`))
			}
		}
	}
	events, err := e.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	texts := map[string]string{"csccm's output": e.session.String()}
	for i := range events.Items {
		texts["Events"] += events.Items[i].Message + "\n"
	}
	for pod, log := range e.logs(ctx) {
		texts["the log of "+pod] = log
	}
	if r, err := e.helm.History(ctx, release); err == nil {
		texts["the Helm release"] = r[0].Manifest + fmt.Sprint(r[0].Values) + r[0].Notes
	}
	err = filepath.WalkDir(e.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path) // #nosec G304 -- a file of the test
		texts["file "+path] = string(text)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for where, text := range texts {
		for _, key := range keys {
			if key != "" && strings.Contains(text, key) {
				t.Errorf("%s: there is a key or a signature in it", where)
			}
		}
	}
}

// leadingPID finds the process of the Pod that leads, by its log.
func (e *clusterEnv) leadingPID(t *testing.T) int {
	t.Helper()
	for pod, log := range e.logs(t.Context()) {
		if !strings.Contains(log, "uccessfully acquired lease") {
			continue
		}
		for _, n := range e.nodes.Nodes() {
			if pid, ok := n.PodPID(metav1.NamespaceSystem, pod); ok {
				return pid
			}
		}
	}
	t.Fatalf("no Pod's log says that it leads; the lease is held by %q", e.holder(t.Context()))
	return 0
}

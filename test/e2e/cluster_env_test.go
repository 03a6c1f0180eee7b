// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

const (
	release    = "cloudstack-ccm"
	secretName = "cloudstack-secret" // #nosec G101 -- a name
	secretKey  = "cloud-config"
	owner      = "k8s-owner" // of the example world's VMs
	lease      = "cloud-controller-manager"
	taint      = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdown   = "node.cloudprovider.kubernetes.io/shutdown"
	limit      = 5 * time.Minute // a condition that comes costs nothing
)

const (
	commandLimit = 15 * time.Minute // of one run of csccm
	// defaultGrace is longer than a busy machine holds up the heartbeats of a node.
	defaultGrace = time.Minute
)

// clusterEnv is a cluster of one test with its CloudStack.
type clusterEnv struct {
	*testenv.Cluster
	cloud *testenv.CloudStack
	helm  *helm.Client
	home  string
}

// newClusterEnv starts a cluster without nodes in a world (nil: the example).
func newClusterEnv(t *testing.T, world *simulator.World) *clusterEnv {
	t.Helper()
	return newClusterEnvOf(t, world, time.Second, defaultGrace)
}

// newClusterEnvOf is newClusterEnv with another heartbeat, as many nodes would keep the machine busy, and another time after which a silent
// node is not ready.
func newClusterEnvOf(t *testing.T, world *simulator.World, heartbeat, grace time.Duration) *clusterEnv {
	t.Helper()
	return newClusterEnvOn(t, borrow(t, plane.Options{NodeGrace: grace}), world, heartbeat)
}

// newClusterEnvOn is newClusterEnv on a control plane.
func newClusterEnvOn(t *testing.T, p *plane.Plane, world *simulator.World, heartbeat time.Duration) *clusterEnv {
	t.Helper()
	env := &clusterEnv{home: t.TempDir()}
	var err error
	if env.cloud, err = testenv.StartCloudStack(world); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.cloud.Stop)
	env.Cluster, err = testenv.NewCluster(p, testenv.ClusterOptions{Controller: programs.Controller, Heartbeat: heartbeat})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			env.explain(t)
		}
		lines, err := p.AuditLog()
		if err := errors.Join(env.Err(), err, audit.read(lines)); err != nil {
			t.Error(err)
		}
		env.StopNodes()
	})
	flags := cluster.NewFlags()
	cache := filepath.Join(env.home, "cache")
	flags.KubeConfig, flags.CacheDir = &env.Kubeconfig, &cache
	if env.helm, err = helm.New(flags, metav1.NamespaceSystem, t.Logf); err != nil {
		t.Fatal(err)
	}
	return env
}

// join adds nodes of the example world by the last part of their address.
func (env *clusterEnv) join(t *testing.T, nodes ...processnode.Options) []*processnode.Node {
	t.Helper()
	var joined []*processnode.Node
	for _, o := range nodes {
		n, err := env.Join(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, n)
	}
	return joined
}

var (
	// The labels are kubeadm's for nodes of the control plane.
	cp1 = processnode.Options{Name: "demo-cp-1", Address: "10.1.1.11", Labels: map[string]string{
		"node-role.kubernetes.io/control-plane": "", corev1.LabelNodeExcludeBalancers: "",
	}}
	worker1 = processnode.Options{Name: "demo-worker-1", Address: "10.1.1.21"}
	worker2 = processnode.Options{Name: "demo-worker-2", Address: "10.1.1.22"}
)

// joined is a node that came into the cluster before its cloud provider.
func joined(o processnode.Options) processnode.Options { o.Joined = true; return o }

// config is the cloud-config of the VMs' owner.
func (env *clusterEnv) config(t *testing.T) *cloudstack.Config {
	t.Helper()
	c, err := env.cloud.Config(owner)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// secret writes the controller's Secret.
func (env *clusterEnv) secret(t *testing.T, cloudConfig string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{secretKey: cloudConfig}}
	secrets := env.Client.CoreV1().Secrets(metav1.NamespaceSystem)
	_, err := secrets.Create(t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// values suit process nodes: each Pod has a loopback address instead of its node's network.
func values(over map[string]any) map[string]any {
	v := map[string]any{"hostNetwork": false, "bindAddress": "$(POD_IP)", "replicaCount": 1}
	for k, x := range over {
		v[k] = x
	}
	return v
}

// install does what helm install does, and waits for the Deployment.
func (env *clusterEnv) install(t *testing.T, chart *helm.Chart, over map[string]any) {
	t.Helper()
	r, err := env.helm.Apply(t.Context(), helm.ApplyRequest{Name: release, Chart: chart, Values: values(over)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != "deployed" {
		t.Fatalf("release is %s", r.Status)
	}
	env.eventually(t, "the controller's Pods are ready", env.rolledOut)
}

func (env *clusterEnv) rolledOut(ctx context.Context) error {
	list, err := env.Client.AppsV1().Deployments(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("%d Deployments", len(list.Items))
	}
	d := &list.Items[0]
	if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != *d.Spec.Replicas || d.Status.ReadyReplicas != *d.Spec.Replicas || d.Status.Replicas != *d.Spec.Replicas {
		return fmt.Errorf("%d of %d replicas are ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
	}
	return nil
}

func embedded(t *testing.T) *helm.Chart {
	t.Helper()
	c, err := helm.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (env *clusterEnv) eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	if err := testenv.Wait(t.Context(), limit, what, try); err != nil {
		t.Fatal(err)
	}
}

// pods are the controller's Pods that are not on their way out.
func (env *clusterEnv) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := env.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// logs are the logs of all the controller's Pods that nodes know.
func (env *clusterEnv) logs(ctx context.Context) string {
	pods, err := env.pods(ctx)
	if err != nil {
		return ""
	}
	var all strings.Builder
	for i := range pods {
		if path, ok := env.PodLog(metav1.NamespaceSystem, pods[i].Name); ok {
			text, err := os.ReadFile(path) // #nosec G304 -- a log of the test
			if err == nil {
				all.Write(text)
			}
		}
	}
	return all.String()
}

// explain prints what a failed test may have failed of.
func (env *clusterEnv) explain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{{"get", "nodes,services,pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
		cmd := exec.CommandContext(ctx, env.Kubectl, args...)
		cmd.Env = []string{"KUBECONFIG=" + env.Kubeconfig, "HOME=" + env.home}
		out, err := cmd.CombinedOutput()
		t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
	pods, err := env.pods(ctx)
	if err != nil {
		t.Log(err)
		return
	}
	for i := range pods {
		if path, ok := env.PodLog(metav1.NamespaceSystem, pods[i].Name); ok {
			t.Logf("log of %s ends with:\n%s", pods[i].Name, child.Tail(path, 40))
		}
	}
}

// csccm runs the command line tool without a terminal and returns what it says.
func (env *clusterEnv) csccm(t *testing.T, stdin string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.CLI, args...)
	cmd.Env = []string{"KUBECONFIG=" + env.Kubeconfig, "HOME=" + env.home, "PATH=" + os.Getenv("PATH")}
	cmd.Dir = env.home
	cmd.Stdin = strings.NewReader(stdin)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// balanced makes a Service of type LoadBalancer.
func (env *clusterEnv) balanced(t *testing.T, name string, ports ...int32) {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts(ports)}}
	if _, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// remove deletes a Service and waits until the controller lets it go.
func (env *clusterEnv) remove(t *testing.T, name string) {
	t.Helper()
	services := env.Client.CoreV1().Services(metav1.NamespaceDefault)
	if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.eventually(t, "Service "+name+" to go", func(ctx context.Context) error {
		_, err := services.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("still there")
	})
}

func servicePorts(ports []int32) []corev1.ServicePort {
	var all []corev1.ServicePort
	for _, p := range ports {
		all = append(all, corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Port: p, TargetPort: intstr.FromInt32(8000 + p)})
	}
	return all
}

// address waits for a Service's address.
func (env *clusterEnv) address(t *testing.T, name string) string {
	t.Helper()
	var ip string
	env.eventually(t, "Service "+name+" to get its address", func(ctx context.Context) error {
		s, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("no address yet")
		}
		ip = s.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return ip
}

// rules are the load balancer rules at an address as port:member,member.
func (env *clusterEnv) rules(ctx context.Context, ip string) ([]string, error) {
	client, err := env.cloud.Client(owner)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	list, err := testenv.Rules(ctx, client, ip)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, r := range list {
		all = append(all, fmt.Sprintf("%d:%s", r.PublicPort, strings.Join(r.Members, ",")))
	}
	slices.Sort(all)
	return all, nil
}

// wantRules waits until the rules at an address are these.
func (env *clusterEnv) wantRules(t *testing.T, ip string, want ...string) {
	t.Helper()
	env.eventually(t, fmt.Sprintf("the rules at %s to be %v", ip, want), func(ctx context.Context) error {
		got, err := env.rules(ctx, ip)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

func (env *clusterEnv) node(ctx context.Context, name string) (*corev1.Node, error) {
	return env.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// initialized waits until the controller has initialised nodes.
func (env *clusterEnv) initialized(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		env.eventually(t, "node "+name+" to be initialised", func(ctx context.Context) error {
			n, err := env.node(ctx, name)
			if err != nil {
				return err
			}
			if hasTaint(n, taint) || n.Spec.ProviderID == "" {
				return fmt.Errorf("taints %v, provider ID %q", n.Spec.Taints, n.Spec.ProviderID)
			}
			return nil
		})
	}
}

// event waits for a Warning about an object and returns its text.
func (env *clusterEnv) event(t *testing.T, kind, name, reason string) string {
	t.Helper()
	var text string
	env.eventually(t, fmt.Sprintf("Event %s on %s %s", reason, kind, name), func(ctx context.Context) error {
		list, err := env.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var seen []string
		for i := range list.Items {
			if list.Items[i].Reason == reason {
				text = list.Items[i].Message
				return nil
			}
			seen = append(seen, list.Items[i].Reason)
		}
		return fmt.Errorf("only %v", seen)
	})
	return text
}

// applyRequest is the chart of this checkout for process nodes.
func applyRequest(t *testing.T) helm.ApplyRequest {
	t.Helper()
	return helm.ApplyRequest{Name: release, Chart: embedded(t), Values: values(nil)}
}

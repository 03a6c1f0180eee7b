// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

const (
	release       = "cloudstack-ccm"
	secretName    = "cloudstack-secret" // #nosec G101 -- a name
	secretKey     = "cloud-config"
	owner         = "k8s-owner" // owner of the example world's VMs
	adminPassword = "password"
	lease         = "cloud-controller-manager"
	taint         = "node.cloudprovider.kubernetes.io/uninitialized"
	annotations   = "service.beta.kubernetes.io/cloudstack-load-balancer-"

	limit        = 5 * time.Minute  // limit of one wait, which ends as soon as its condition holds
	commandLimit = 15 * time.Minute // limit of one run of csccm
)

// env is the environment of all tests: an API server, a simulated CloudStack, and csccm as a program.
type env struct {
	*plane.Plane
	Client  kubernetes.Interface
	cloud   *testenv.CloudStack
	home    string       // home and working directory of csccm
	environ []string     // environment of every csccm
	session bytes.Buffer // input and output of csccm
}

// output collects what a program writes, and can be read while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}
func (o *output) String() string { o.mu.Lock(); defer o.mu.Unlock(); return o.text.String() }

// said is the output of a command: all of it, and stdout separately, which is what a program would read.
type said struct {
	args     []string
	all, out string
	code     int
}

// want fails the test unless the command ended with a code and printed these texts. It ignores line breaks.
func (s said) want(t *testing.T, code int, texts ...string) said {
	t.Helper()
	words := strings.Join(strings.Fields(s.all), " ")
	for _, text := range texts {
		require.Contains(t, words, text, "csccm %v:\n%s", s.args, s.all)
	}
	require.Equal(t, code, s.code, "csccm %v:\n%s", s.args, s.all)
	return s
}

// command returns a csccm command in this environment. The command ends when the context does.
func (e *env) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, programs.CLI, args...)
	cmd.Env = append([]string{"KUBECONFIG=" + e.Kubeconfig, "HOME=" + e.home, "PATH=" + os.Getenv("PATH")},
		e.environ...)
	cmd.Dir = e.home
	return cmd
}

// csccm runs csccm without a terminal.
func (e *env) csccm(t *testing.T, stdin string, args ...string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := e.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var all, out output
	cmd.Stdout, cmd.Stderr = &all, &all // one pipe, so that the order is that of a terminal
	if slices.Contains(args, "-o") || args[0] == "template" {
		cmd.Stdout = &out
	}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return e.record(said{args, all.String() + out.String(), cmp.Or(out.String(), all.String()),
		cmd.ProcessState.ExitCode()})
}

func (e *env) record(s said) said {
	fmt.Fprintf(&e.session, "$ csccm %s\n%s[exit code %d]\n\n", strings.Join(s.args, " "), s.all, s.code)
	return s
}

// file writes a file for a command.
func (e *env) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(e.home, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// eventually retries try, which fails by package must, until it succeeds.
func (*env) eventually(t *testing.T, what string, try func(context.Context)) {
	t.Helper()
	require.NoError(t, testenv.Wait(t.Context(), limit, what, func(ctx context.Context) error { try(ctx); return nil }))
}

// config returns the cloud-config of a user of the world.
func (e *env) config(t *testing.T, user string) *cloudstack.Config {
	t.Helper()
	c, err := e.cloud.Config(user)
	require.NoError(t, err)
	return c
}

// api returns a client of CloudStack with a user's keys.
func (e *env) api(t *testing.T, user string) *cloudstack.Client {
	t.Helper()
	client, err := e.cloud.Client(user)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// admin runs a command of CloudStack as its operator.
func (e *env) admin(t *testing.T, command string, params map[string]string) map[string]any {
	t.Helper()
	answer, err := e.cloud.Admin(t.Context(), command, params)
	require.NoError(t, err)
	return answer
}

// secret writes the controller's Secret.
func (e *env) secret(t *testing.T, cloudConfig string) {
	t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName},
		StringData: map[string]string{secretKey: cloudConfig},
	}
	secrets := e.Client.CoreV1().Secrets(metav1.NamespaceSystem)
	_, err := secrets.Create(t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	}
	require.NoError(t, err)
}

func servicePorts(ports ...int32) []corev1.ServicePort {
	var all []corev1.ServicePort
	for _, p := range ports {
		all = append(all,
			corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Port: p, TargetPort: intstr.FromInt32(8000 + p)})
	}
	return all
}

// service creates a Service of type LoadBalancer.
func (e *env) service(t *testing.T, name string, ports ...int32) {
	t.Helper()
	e.serviceIn(t, metav1.NamespaceDefault, name, nil, ports...)
}

func (e *env) serviceIn(t *testing.T, namespace, name string, annotated map[string]string, ports ...int32) {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotated},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts(ports...)},
	}
	_, err := e.Client.CoreV1().Services(namespace).Create(t.Context(), s, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (e *env) deleteService(t *testing.T, name string) {
	t.Helper()
	require.NoError(t,
		e.Client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// gone waits until a Service no longer exists.
func (e *env) gone(t *testing.T, name string) {
	t.Helper()
	e.eventually(t, "Service "+name+" to go", func(ctx context.Context) {
		_, err := e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		must.Be(apierrors.IsNotFound(err), "it is still there: %v", err)
	})
}

// address waits for a Service's address.
func (e *env) address(t *testing.T, name string) (ip string) {
	t.Helper()
	e.eventually(t, "Service "+name+" to get its address", func(ctx context.Context) {
		s := must.Get(e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{}))
		must.Be(len(s.Status.LoadBalancer.Ingress) > 0, "no address yet")
		ip = s.Status.LoadBalancer.Ingress[0].IP
	})
	return ip
}

// rulesAt returns the owner's load balancer rules at addresses, by id.
func (e *env) rulesAt(t *testing.T, ips ...string) map[string]testenv.Rule {
	t.Helper()
	rules, err := testenv.RulesByID(t.Context(), e.api(t, owner), ips...)
	require.NoError(t, err)
	return rules
}

// wantRules waits until the rules at an address are exactly these, as port:member,member.
func (e *env) wantRules(t *testing.T, ip string, want ...string) {
	t.Helper()
	client := e.api(t, owner)
	e.eventually(t, fmt.Sprintf("the rules at %s to be %v", ip, want), func(ctx context.Context) {
		all := membersOf(must.Get(testenv.Rules(ctx, client, ip)))
		must.Be(slices.Equal(all, want), "they are %v", all)
	})
}

// membersOf describes rules as port:member,member.
func membersOf(rules []testenv.Rule) (all []string) {
	for _, r := range rules {
		all = append(all, fmt.Sprintf("%d:%s", r.PublicPort, strings.Join(r.Members, ",")))
	}
	slices.Sort(all)
	return all
}

// node reads a Node.
func (e *env) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := e.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return n
}

// notReady sets a Node's Ready condition to Unknown, as Kubernetes does when a kubelet sends no heartbeats.
func (e *env) notReady(t *testing.T, name string) {
	t.Helper()
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`)
	nodes, none := e.Client.CoreV1().Nodes(), metav1.PatchOptions{}
	_, err := nodes.Patch(t.Context(), name, types.StrategicMergePatchType, patch, none, "status")
	require.NoError(t, err)
}

// nodeGone waits until a Node is deleted.
func (e *env) nodeGone(t *testing.T, name string) {
	t.Helper()
	e.eventually(t, "the Node "+name+" to go", func(ctx context.Context) {
		_, err := e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		must.Be(apierrors.IsNotFound(err), "it is still there: %v", err)
	})
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// initialised waits until the controller has initialised n nodes.
func (e *env) initialised(t *testing.T, n int) {
	t.Helper()
	e.eventually(t, fmt.Sprintf("%d nodes to be initialised", n), func(ctx context.Context) {
		list := must.Get(e.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"}))
		list.Items = slices.DeleteFunc(list.Items,
			func(n corev1.Node) bool { return hasTaint(&n, taint) || n.Spec.ProviderID == "" })
		must.Be(len(list.Items) >= n, "%d are", len(list.Items))
	})
}

// holder returns the holder of the lease, "" if nobody holds it.
func (e *env) holder(ctx context.Context) string {
	l, err := e.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// newLeader waits until another replica holds the lease.
func (e *env) newLeader(t *testing.T, old string) {
	t.Helper()
	e.eventually(t, "another leader", func(ctx context.Context) {
		now := e.holder(ctx)
		must.Be(now != old && now != "", "the lease is held by %q", now)
	})
}

// kubectl runs kubectl of the control plane's release.
func (e *env) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Kubectl, args...)
	cmd.Env = []string{"KUBECONFIG=" + e.Kubeconfig, "HOME=" + e.home}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

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
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

const (
	release       = "cloudstack-ccm"
	secretName    = "cloudstack-secret" // #nosec G101 -- a name
	secretKey     = "cloud-config"
	owner         = "k8s-owner" // of the example world's VMs
	adminPassword = "password"
	lease         = "cloud-controller-manager"
	taint         = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdown      = "node.cloudprovider.kubernetes.io/shutdown"
	annotations   = "service.beta.kubernetes.io/cloudstack-load-balancer-"

	limit        = 5 * time.Minute  // of a wait; a condition that comes costs nothing
	commandLimit = 15 * time.Minute // of one run of csccm
)

// env is what all tests use: an API server, a simulated CloudStack, and csccm as a program.
type env struct {
	*plane.Plane
	Client  kubernetes.Interface
	cloud   *testenv.CloudStack
	home    string       // of csccm, and its working directory
	environ []string     // of every csccm
	session bytes.Buffer // what csccm was asked and said
}

// output collects what a program writes, also while it runs.
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

// said is what a command said: all of it, and what is on stdout when it runs with -o.
type said struct {
	args     []string
	all, out string
	code     int
}

// want ends the test unless the command ended with a code and said these texts. Line breaks do not count.
func (s said) want(t *testing.T, code int, texts ...string) said {
	t.Helper()
	words := strings.Join(strings.Fields(s.all), " ")
	for _, text := range texts {
		if !strings.Contains(words, text) {
			t.Fatalf("csccm %s does not say %q:\n%s", strings.Join(s.args, " "), text, s.all)
		}
	}
	if s.code != code {
		t.Fatalf("csccm %s ended with %d, want %d:\n%s", strings.Join(s.args, " "), s.code, code, s.all)
	}
	return s
}

// command is csccm for this environment; it ends with the context.
func (e *env) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, programs.CLI, args...)
	cmd.Env = append([]string{"KUBECONFIG=" + e.Kubeconfig, "HOME=" + e.home, "PATH=" + os.Getenv("PATH")}, e.environ...)
	cmd.Dir = e.home
	return cmd
}

// csccm runs the command line tool without a terminal.
func (e *env) csccm(t *testing.T, stdin string, args ...string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := e.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var all, out output
	cmd.Stdout, cmd.Stderr = &all, &all // one pipe, so that the order is that of a terminal
	if slices.Contains(args, "-o") {
		cmd.Stdout = &out
	}
	started := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	s := said{args, all.String() + out.String(), cmp.Or(out.String(), all.String()), cmd.ProcessState.ExitCode()}
	e.record(s, started)
	return s
}

func (e *env) record(s said, started time.Time) {
	fmt.Fprintf(&e.session, "$ csccm %s\n%s[exit code %d after %s]\n\n", strings.Join(s.args, " "), s.all, s.code, time.Since(started).Round(100*time.Millisecond))
}

// file writes a file that commands read.
func (e *env) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(e.home, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// eventually waits until try succeeds and returns how long that took.
func (*env) eventually(t *testing.T, what string, try func(context.Context) error) time.Duration {
	t.Helper()
	begun := time.Now()
	require.NoError(t, testenv.Wait(t.Context(), limit, what, try))
	return time.Since(begun)
}

// config is the cloud-config of a user of the world.
func (e *env) config(t *testing.T, user string) *cloudstack.Config {
	t.Helper()
	c, err := e.cloud.Config(user)
	require.NoError(t, err)
	return c
}

// api is a client of CloudStack.
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
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{secretKey: cloudConfig}}
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
		all = append(all, corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Port: p, TargetPort: intstr.FromInt32(8000 + p)})
	}
	return all
}

// service makes a Service of type LoadBalancer.
func (e *env) service(t *testing.T, name string, ports ...int32) { e.annotated(t, name, nil, ports...) }

func (e *env) annotated(t *testing.T, name string, has map[string]string, ports ...int32) {
	t.Helper()
	e.serviceIn(t, metav1.NamespaceDefault, name, has, ports...)
}

func (e *env) serviceIn(t *testing.T, namespace, name string, has map[string]string, ports ...int32) {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: has},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts(ports...)},
	}
	if _, err := e.Client.CoreV1().Services(namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// remove deletes a Service and waits until its finalizers are gone.
func (e *env) remove(t *testing.T, name string) {
	t.Helper()
	services := e.Client.CoreV1().Services(metav1.NamespaceDefault)
	require.NoError(t, services.Delete(t.Context(), name, metav1.DeleteOptions{}))
	e.eventually(t, "Service "+name+" to go", func(ctx context.Context) error {
		_, err := services.Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
}

// gone is nil for the error of an object that does not exist.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(err, errors.New("it is still there"))
}

// address waits for a Service's address.
func (e *env) address(t *testing.T, name string) (ip string) {
	t.Helper()
	e.eventually(t, "Service "+name+" to get its address", func(ctx context.Context) error {
		s, err := e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(s.Status.LoadBalancer.Ingress) == 0 {
			return errors.Join(err, errors.New("no address yet"))
		}
		ip = s.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return ip
}

// rulesAt are the owner's load balancer rules at addresses by id.
func (e *env) rulesAt(t *testing.T, ips ...string) map[string]testenv.Rule {
	t.Helper()
	rules, err := testenv.RulesByID(t.Context(), e.api(t, owner), ips...)
	require.NoError(t, err)
	return rules
}

// wantRules waits until the rules at an address are these, as port:member,member.
func (e *env) wantRules(t *testing.T, ip string, want ...string) {
	t.Helper()
	client := e.api(t, owner)
	e.eventually(t, fmt.Sprintf("the rules at %s to be %v", ip, want), func(ctx context.Context) error {
		list, err := testenv.Rules(ctx, client, ip)
		if err != nil {
			return err
		}
		var all []string
		for _, r := range list {
			all = append(all, fmt.Sprintf("%d:%s", r.PublicPort, strings.Join(r.Members, ",")))
		}
		slices.Sort(all)
		if !slices.Equal(all, want) {
			return fmt.Errorf("they are %v", all)
		}
		return nil
	})
}

// node reads a Node.
func (e *env) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := e.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return n
}

// notReady sets a Node's Ready condition to Unknown, as Kubernetes does when a kubelet is silent.
func (e *env) notReady(t *testing.T, name string) {
	t.Helper()
	e.setReady(t, name, corev1.ConditionUnknown)
}

func (e *env) setReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	if _, err := e.Client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// tainted waits until a Node has a taint.
func (e *env) tainted(t *testing.T, name, key string) time.Duration {
	t.Helper()
	return e.eventually(t, "the taint "+key+" of Node "+name, func(context.Context) error {
		if n := e.node(t, name); !hasTaint(n, key) {
			return fmt.Errorf("taints %v", n.Spec.Taints)
		}
		return nil
	})
}

// nodeGone waits until a Node is deleted.
func (e *env) nodeGone(t *testing.T, name string) time.Duration {
	t.Helper()
	return e.eventually(t, "the Node "+name+" to go", func(ctx context.Context) error {
		_, err := e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// initialised waits until the controller has initialised n nodes.
func (e *env) initialised(t *testing.T, n int) time.Duration {
	t.Helper()
	begun := time.Now()
	err := testenv.Wait(t.Context(), limit+time.Duration(n)*100*time.Millisecond, fmt.Sprintf("%d nodes to be initialised", n), func(ctx context.Context) error {
		list, err := e.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		var waiting []string
		for i := range list.Items {
			if node := &list.Items[i]; hasTaint(node, taint) || node.Spec.ProviderID == "" {
				waiting = append(waiting, node.Name)
			}
		}
		if done := len(list.Items) - len(waiting); done < n {
			return fmt.Errorf("%d of %d are, waiting are %v", done, n, waiting)
		}
		return nil
	})
	require.NoError(t, err)
	return time.Since(begun)
}

// holder is who holds the lease; "" when nobody does.
func (e *env) holder(ctx context.Context) string {
	l, err := e.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// newLeader waits until somebody else holds the lease.
func (e *env) newLeader(t *testing.T, old string) time.Duration {
	t.Helper()
	return e.eventually(t, "another leader", func(ctx context.Context) error {
		if now := e.holder(ctx); now == old || now == "" {
			return fmt.Errorf("the lease is held by %q", now)
		}
		return nil
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

// logTail prints the end of a log.
func logTail(t *testing.T, name, path string) {
	t.Helper()
	t.Logf("log of %s ends with:\n%s", name, child.Tail(path, 40))
}

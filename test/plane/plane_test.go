// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// binary returns the path of the newest control plane's binary and builds it when it does not exist.
func binary(t *testing.T) string {
	t.Helper()
	if _, there, err := Cached(t.Context(), Newest); err != nil {
		t.Fatal(err)
	} else if !there && testing.Short() {
		t.Skip("with -short: the control plane's binary does not exist, and a build takes minutes")
	}
	path, err := Ensure(t.Context(), Newest, func(p Progress) {
		if p.Elapsed.Round(time.Second)%(30*time.Second) == 0 {
			t.Log(p)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlane(t *testing.T) {
	t.Parallel()
	for _, minor := range Minors() {
		t.Run(string(minor), func(t *testing.T) {
			t.Parallel()
			var path string
			if minor == Newest {
				path = binary(t)
			} else {
				built, there, err := Cached(t.Context(), minor)
				if err != nil {
					t.Fatal(err)
				}
				if path = built; !there {
					t.Skipf("the control plane of Kubernetes %s is not built: run make planes", minor)
				}
			}
			testPlane(t, minor, path)
		})
	}
}

func testPlane(t *testing.T, minor Minor, path string) {
	t.Helper()
	ctx := t.Context()
	p, err := Start(ctx, Options{Minor: minor, Binary: path, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	config, err := p.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)

	t.Run("reports its release", func(t *testing.T) {
		info, err := client.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if info.GitVersion != minor.Release() || info.Major+"."+info.Minor != string(minor) {
			t.Errorf("the server reports %s (%s.%s), want %s", info.GitVersion, info.Major, info.Minor, minor.Release())
		}
	})
	t.Run("controllers work", func(t *testing.T) {
		// The controller manager creates the default ServiceAccount of every namespace.
		eventually(t, func() error {
			_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		})
	})
	t.Run("reaches nodes by their own address", func(t *testing.T) { testRoute(ctx, t, p, client) })
	t.Run("refuses the creation of another node", func(t *testing.T) {
		config, err := p.ClientConfig("system:node:n1", "system:nodes")
		if err != nil {
			t.Fatal(err)
		}
		_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "is not allowed to modify node \"n2\"") {
			t.Errorf("err = %v, want NodeRestriction's refusal", err)
		}
	})
	t.Run("kubectl", func(t *testing.T) {
		cmd := exec.CommandContext(ctx, p.Kubectl, "get", "namespaces", "-o", "name")
		cmd.Env = []string{"KUBECONFIG=" + p.Kubeconfig, "HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "namespace/kube-system") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("contains kubelet and kube-proxy", func(t *testing.T) {
		for _, program := range []string{"kubelet", "kube-proxy"} {
			out, err := exec.CommandContext(ctx, path, program, "--version").CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "Kubernetes "+minor.Release() {
				t.Errorf("%s --version: %v\n%s", program, err, out)
			}
		}
	})
	t.Run("audit log holds no contents", func(t *testing.T) {
		_, err := client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "audited"}, StringData: map[string]string{"k": "canary-value"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			b, err := os.ReadFile(filepath.Join(p.Dir, "audit.log"))
			if err != nil {
				return err
			}
			if strings.Contains(string(b), "canary-value") {
				t.Error("the audit log holds a Secret's value")
			}
			if !strings.Contains(string(b), `"name":"audited"`) {
				return fmt.Errorf("the audit log does not hold the write of the Secret")
			}
			return nil
		})
	})
	t.Run("stop removes everything", func(t *testing.T) {
		p.Stop()
		if _, err := os.Stat(p.Dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", p.Dir, err)
		}
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", p.Host, p.Port)); err == nil {
			_ = c.Close()
			t.Error("the API server still listens")
		}
	})
}

// testRoute makes the API server proxy to a kubelet that has the address of a VM and
// listens only on loopback.
func testRoute(ctx context.Context, t *testing.T, p *Plane, client kubernetes.Interface) {
	t.Helper()
	const address = "10.1.1.99"
	cert, err := p.ServingCertificate("system:node:routed", nil, address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s asked %s", r.TLS.PeerCertificates[0].Subject.CommonName, r.URL.Path)
	})}
	server.TLSConfig = tlsConfig(cert)
	go func() { _ = server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "routed"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}}}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	get := func() (string, error) {
		b, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name("routed").SubResource("proxy").Suffix("flagz").DoRaw(ctx)
		return string(b), err
	}
	if body, err := get(); err == nil {
		t.Fatalf("before the route exists the answer is %q", body)
	}
	remove := p.Route(address+":10250", l.Addr().String())
	body, err := get()
	if err != nil || body != p.KubeletClient()+" asked /flagz" {
		t.Errorf("answer %q, %v", body, err)
	}
	remove()
}

func TestWholeLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{"": nil, "a": nil, "a\n": {"a\n"}, "a\nb\nc": {"a\n", "b\n"}} {
		if got := wholeLines(text); !slices.Equal(got, want) {
			t.Errorf("lines of %q are %q, want %q", text, got, want)
		}
	}
}

// A control plane that a pool lends again holds nothing of the test before, not even an admission policy or the audit log.
func TestPool(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), &Pool{Binary: binary(t)}
	p, err := pool.Take(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := p.baseline.client
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	denied := &corev1.ConfigMap{ObjectMeta: meta("denied")}
	create := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta("shop")}, metav1.CreateOptions{})
	create(err)
	_, err = client.CoreV1().ConfigMaps("shop").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Finalizers: []string{"csccm.io/test"}}}, metav1.CreateOptions{})
	create(err)
	_, err = client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	}, metav1.CreateOptions{})
	create(err)
	_, err = client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta("deny"), Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.name != 'denied'"}},
		},
	}, metav1.CreateOptions{})
	create(err)
	_, err = client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta("deny"), Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "deny", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	create(err)
	eventually(t, func() error {
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, denied, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the policy is not applied")
		}
		return nil
	})
	if err := pool.Return(ctx, p); err != nil {
		t.Fatal(err)
	}

	again, err := pool.Take(ctx, Options{APIOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if again != p || len(again.children) != apiComponents {
		t.Errorf("the second control plane has %d components, and is the first one: %t", len(again.children), again == p)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, denied, metav1.CreateOptions{}); err != nil {
		t.Errorf("a policy of the test before applies: %v", err)
	}
	if list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 4 {
		t.Errorf("there are %d namespaces: %v", len(list.Items), err)
	}
	lines, err := again.AuditLog()
	if err != nil || len(lines) == 0 || strings.Contains(strings.Join(lines, ""), "shop") {
		t.Errorf("the audit log has %d lines, or names an object of the test before: %v", len(lines), err)
	}
	// What was there before the tests must stay as it was.
	if _, err := client.CoreV1().Namespaces().Patch(ctx, "default", types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pool.Return(ctx, again); err == nil || !strings.Contains(err.Error(), "namespaces /default has changed") {
		t.Errorf("err = %v, want the changed namespace", err)
	}
	if err := pool.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStartReportsFailure(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	_, err := Start(t.Context(), Options{Binary: binary(t), Dir: parent, APIOnly: true, APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver ended") || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("err = %v, want the component and the end of its log", err)
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCountPackages(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	other := countPackages(strings.NewReader("go: downloading k8s.io/api v0.37.1\nk8s.io/api/core/v1\nfmt\n# k8s.io/x\n./a.go:1:2: undefined: y\n"), &n)
	if n.Load() != 2 || other != "# k8s.io/x\n./a.go:1:2: undefined: y" {
		t.Errorf("%d packages, rest %q", n.Load(), other)
	}
}

func TestProgressString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    Progress
		want string
	}{
		{Progress{Elapsed: 3 * time.Second}, "fetching Go modules (3s)"},
		{Progress{Elapsed: 61 * time.Second, Done: 10, Total: 20}, "10 of 20 packages (1m1s)"},
		{Progress{Elapsed: time.Second, Done: 20, Total: 20}, "20 of 20 packages, linking (1s)"},
		{Progress{Elapsed: time.Second, Waiting: true}, "another process builds it, waiting (1s)"},
	} {
		if got := c.p.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

func TestLockIsExclusive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, func() { t.Error("the first holder waits") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, path, cancel); err == nil {
		t.Error("a second holder got the lock")
	}
	unlock()
	again, err := lock(t.Context(), path, func() {})
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestEgressTarget(t *testing.T) {
	t.Parallel()
	e := &egress{routes: map[string]string{}}
	remove := e.route("10.1.1.21:10250", "127.0.0.1:4711")
	for _, c := range []struct{ address, want, err string }{
		{"10.1.1.21:10250", "127.0.0.1:4711", ""},
		{"127.0.0.1:9443", "127.0.0.1:9443", ""},
		{"10.1.1.22:10250", "", "no node listens at 10.1.1.22:10250"},
		{"example.com:443", "", "no node listens at example.com:443"},
	} {
		got, err := e.target(c.address)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %q, %v", c.address, got, err)
		}
	}
	// A restarted node has a new listener: remove of the old route must not delete the new one.
	e.route("10.1.1.21:10250", "127.0.0.1:4712")
	remove()
	if got, err := e.target("10.1.1.21:10250"); got != "127.0.0.1:4712" || err != nil {
		t.Errorf("after remove of the old route: %q, %v", got, err)
	}
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func tlsConfig(cert tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}
}

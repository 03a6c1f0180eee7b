// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// kubeconfig writes a kubeconfig with the contexts one (token secret-one) and two, and returns flags for it.
func kubeconfig(t *testing.T, server string, ca []byte) *genericclioptions.ConfigFlags {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	cfg.AuthInfos["alice"] = &clientcmdapi.AuthInfo{Token: "secret-one"}
	cfg.AuthInfos["bob"] = &clientcmdapi.AuthInfo{Token: "secret-two"}
	cfg.Contexts["one"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "alice", Namespace: "elsewhere"}
	cfg.Contexts["two"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "bob"}
	cfg.CurrentContext = "one"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*cfg, path))
	f := NewFlags()
	f.KubeConfig = &path
	return f
}

func TestNew(t *testing.T) {
	t.Parallel()
	f := kubeconfig(t, "https://192.0.2.1:6443", nil)
	f.Context, f.Namespace, f.Impersonate = ptr.To("two"), ptr.To("infra"), ptr.To("carol")
	c, err := New(f)
	require.NoError(t, err)
	require.Equal(t, []string{"two", "carol", "infra", "carol", "secret-two"},
		[]string{c.Context, c.User, c.Namespace, c.REST.Impersonate.UserName, c.REST.BearerToken})

	c, err = New(kubeconfig(t, "https://192.0.2.1:6443", nil))
	require.NoError(t, err) // the namespace of the context is ignored
	require.Equal(t, []string{"one", "alice", "https://192.0.2.1:6443", "kube-system"},
		[]string{c.Context, c.User, c.Server, c.Namespace})
	require.InDelta(t, qps, c.REST.QPS, 0)
	require.Equal(t, burst, c.REST.Burst)
	require.True(t, strings.HasPrefix(c.REST.UserAgent, "csccm/"))

	// Helm uses the same flags, so it must get the same connection.
	viaHelm, err := c.Flags.ToRESTConfig()
	require.NoError(t, err)
	of := func(c *rest.Config) []string { return []string{c.Host, c.BearerToken, c.UserAgent} }
	require.Equal(t, of(c.REST), of(viaHelm))
}

func remedyOf(t *testing.T, err error) string {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, e.Error(), "\n")
	require.NotEmpty(t, e.Remedy())
	require.NotContains(t, e.Error()+e.Remedy(), "secret-one", "no token in an error")
	return e.Remedy()
}

func TestNewErrors(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	broken, empty := filepath.Join(t.TempDir(), "broken"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(broken, []byte("apiVersion: [\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	one := ptr.Deref(kubeconfig(t, "https://192.0.2.1:6443", nil).KubeConfig, "")
	for _, tc := range []struct{ file, context, server, err, fix string }{
		{filepath.Join(t.TempDir(), "none"), "", "", "none", "--kubeconfig"},
		{one, "three", "", `context "three" does not exist`, "--context: one, two"},
		{broken, "", "", "kubeconfig", "--kubeconfig"},
		{empty, "", "", "empty does not exist, or has no cluster", "set KUBECONFIG"},
		{empty, "", "https://192.0.2.1:6443", "", ""},
	} {
		f := NewFlags()
		f.KubeConfig, f.Context, f.APIServer = &tc.file, &tc.context, &tc.server
		c, err := New(f)
		if tc.err == "" {
			require.NoError(t, err)
			require.Equal(t, tc.server, c.Server, "--server alone is enough")
			continue
		}

		require.ErrorContains(t, err, tc.err)
		require.Contains(t, remedyOf(t, err), tc.fix)
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasPrefix(body, "[") { // the body is that of /readyz
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}

	status := func(code, reason, message string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + message + `","reason":"` + reason +
			`","code":` + code + `}`
	}

	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	version := answer(200, `{"major":"1","minor":"37","gitVersion":"v1.37.1"}`)
	ready := func(ready http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/version" {
				version(w, r)
				return
			}
			ready(w, r)
		}
	}

	for name, tt := range map[string]struct {
		handler  http.HandlerFunc
		err, fix string
	}{
		"fine": {version, "", ""},
		"ready is secret": {ready(answer(403, status("403", "Forbidden", "user alice cannot get path /readyz"))), "",
			""},
		"not quite ready": {ready(answer(500, "[+]etcd ok\n[-]shutdown failed: reason withheld")), "", ""},
		"without storage": {ready(answer(500, "[+]ping ok\n[-]etcd failed: reason withheld")),
			"does not reach its storage", "etcd"},
		"hangs afterwards": {ready(hangs), "no answer in time", "--timeout"},
		"starts":           {answer(503, "starting"), "(503)", "wait until the API server is ready"},
		"slow body": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"major":`))
			_ = http.NewResponseController(w).Flush()
			hangs(w, r)
		}, "no answer in time", "--timeout"},
		"hangs in TLS": {hangs, "no answer in time", "--timeout"},
		"unauthorised": {answer(401, status("401", "Unauthorized", "Unauthorized")), "401", "log in again"},
		"forbidden": {answer(403, status("403", "Forbidden", "user alice cannot get path /version")), "403",
			"administrator"},
		"unknown authority": {answer(200, `{}`), "unknown authority", "certificate-authority-data"},
		"HTML": {answer(200, "<html>Log in</html>"), "is not that of a Kubernetes API", "a proxy or a " +
			"login page"},
		"another API": {answer(404, `{"errorcode":404}`), "is not that of a Kubernetes API", "server URL"},
		"hangs":       {hangs, "no answer in time", "--timeout"},
		"nobody":      {hangs, "connection refused", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewTLSServer(tt.handler)
			t.Cleanup(s.Close)
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
			limit := time.Minute
			switch name {
			case "unknown authority":
				ca = nil
			case "hangs", "hangs afterwards", "slow body", "hangs in TLS":
				limit = 50 * time.Millisecond
			case "nobody":
				s.Close()
			}

			url := s.URL
			if name == "hangs in TLS" {
				silent, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				t.Cleanup(func() { _ = silent.Close() })
				url = "https://" + silent.Addr().String()
			}

			c, err := New(kubeconfig(t, url, ca))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			v, err := c.Ping(ctx)
			if tt.err == "" {
				require.NoError(t, err)
				require.Equal(t, "v1.37.1", v.GitVersion)
				return
			}

			require.ErrorContains(t, err, tt.err)
			require.Contains(t, remedyOf(t, err), tt.fix)
		})
	}
}

// --request-timeout replaces csccm's own limits, even if it is longer; "0" means no limit.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))

	t.Cleanup(func() { close(over); s.Close() })
	for given, want := range map[string]time.Duration{
		"":     requestLimit,
		"50ms": 50 * time.Millisecond,
		"40s":  40 * time.Second,
		"0":    0,
	} {
		t.Run("--request-timeout="+given, func(t *testing.T) {
			t.Parallel()
			f := kubeconfig(t, s.URL, nil)
			*f.Timeout = given
			c, err := New(f)
			require.NoError(t, err)
			require.Equal(t, want, c.REST.Timeout)
			ctx, cancel := Within(t.Context(), f, pingLimit)
			defer cancel()
			_, bounded := ctx.Deadline()
			require.Equal(t, given == "", bounded, "csccm's own limit is not beside the one that is given")
			if given == "50ms" {
				_, err = c.Ping(t.Context())
				require.ErrorContains(t, err, "no answer in time")
				require.Contains(t, remedyOf(t, err), "--request-timeout")
			}
		})
	}
}

// client-go's rate limiter rejects a request at once if its deadline would be exceeded.
func TestPingWithoutTimeForACall(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	f := kubeconfig(t, s.URL, nil)
	f.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.QPS, c.Burst = 0.001, 1
		return c
	}
	c, err := New(f)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _ = c.Ping(ctx) // uses the only token of the rate limiter
	_, err = c.Ping(ctx)
	require.ErrorContains(t, err, "no answer in time")
	require.Contains(t, remedyOf(t, err), "--timeout")
}

func TestDetect(t *testing.T) {
	t.Parallel()
	node := func(name, version, image string, annotations ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
		n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OSImage = version, image
		for _, a := range annotations {
			n.Annotations[a] = "x"
		}
		return n
	}

	plain, control := node("a", "v1.37.1", "Ubuntu 24.04"), node("prod-control-19a2b3c4d5e", "v1.33.1", "Debian")
	for name, tt := range map[string]struct {
		nodes           []corev1.Node
		kubeadm, secret bool
		want            Distribution
	}{
		"nothing known": {[]corev1.Node{plain}, false, false, Unknown},
		"no nodes":      {nil, false, false, Unknown},
		"kubeadm":       {[]corev1.Node{plain}, true, false, Kubeadm},
		"k3s by version": {[]corev1.Node{plain, node("b", "v1.36.1+k3s1", "Alpine")}, false, false,
			K3s},
		"k3s by annotation": {[]corev1.Node{node("b", "v1.36.1", "Alpine", "k3s.io/node-args")}, false,
			false, K3s},
		"RKE2": {[]corev1.Node{node("b", "v1.36.1+rke2r1", "SLES")}, false, false, RKE2},
		"k0s":  {[]corev1.Node{node("b", "v1.36.1+k0s", "Debian")}, false, false, K0s},
		"Talos": {[]corev1.Node{node("b", "v1.36.1", "Talos (v1.12)")}, false, false,
			Talos},
		"Cluster API over kubeadm": {[]corev1.Node{node("b", "v1.36.1", "Ubuntu", "cluster.x-k8s.io/machine")},
			true, false, ClusterAPI},
		"CKS": {[]corev1.Node{control,
			node("prod-node-19a2b3c4d5f", "v1.33.1", "Debian")}, true, true, CKS},
		"CKS with a VM that somebody added":                 {[]corev1.Node{control, plain}, true, true, CKS},
		"kubeadm with a provider for CloudStack is not CKS": {[]corev1.Node{plain}, true, true, Kubeadm},
		"kubeadm with names like those of CKS": {[]corev1.Node{node("prod-control-1", "v1.33.1", "Debian"),
			node("prod-node-1", "v1.33.1", "Debian")}, true, true, Kubeadm},
	} {
		got, by := Detect(tt.nodes, tt.kubeadm, tt.secret)
		require.Equal(t, tt.want, got, name)
		require.NotEmpty(t, by, name)
	}
}

func TestDistributionReadsTheCluster(t *testing.T) {
	t.Parallel()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "kube-system", Name: name} }
	c := &Cluster{Kube: fake.NewClientset(&corev1.ConfigMap{ObjectMeta: meta("kubeadm-config")},
		&corev1.Secret{ObjectMeta: meta("cloudstack-secret")})}
	d, _, err := c.Distribution(t.Context(), []corev1.Node{{ObjectMeta: meta("prod-control-19a2b3c4d5f")}})
	require.NoError(t, err)
	require.Equal(t, CKS, d)
}

func TestExplainForbidden(t *testing.T) {
	t.Parallel()
	c := &Cluster{}
	err := c.Explain(apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "",
		errors.New("alice may not list nodes")))
	require.True(t, apierrors.IsForbidden(err), "the cause stays")
	require.Equal(t, err, c.Explain(err), "explained once")
}

// A Pod whose init container fails is not starting normally: a service mesh may have added the container.
func TestPodProblemOfAnInitContainer(t *testing.T) {
	t.Parallel()
	waiting := func(reason string) []corev1.ContainerStatus {
		state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
		return []corev1.ContainerStatus{{State: state}}
	}
	p := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: waiting("PodInitializing")}}
	require.Empty(t, PodProblem(p))
	p.Status.InitContainerStatuses = waiting("CrashLoopBackOff")
	require.Equal(t, "CrashLoopBackOff", PodProblem(p))
}

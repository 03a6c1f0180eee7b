// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// kubelet137 serves the real /flagz of Kubernetes 1.37, with the given --cloud-provider.
func kubelet137(cloudProvider string) http.Handler {
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	fs.String("cloud-provider", cloudProvider, "")
	fs.String("node-ip", "10.1.1.21", "")
	mux := http.NewServeMux()
	flagz.Install(mux, "kubelet", flagz.NamedFlagSetsReader{FlagSets: cliflag.NamedFlagSets{FlagSets: map[string]*pflag.FlagSet{"generic": fs}}})
	return mux
}

func notAcceptable(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotAcceptable)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"only the following media types are accepted","reason":"NotAcceptable","code":406}`))
}

// kubelet135 serves v1alpha1, as Kubernetes 1.35 with the feature gate.
func kubelet135(cloudProvider string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.Header.Get("Accept"), "v=v1alpha1"):
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{
				"kind": "Flagz", "apiVersion": "config.k8s.io/v1alpha1", "metadata": map[string]any{"name": "kubelet"},
				"flags": map[string]string{"cloud-provider": cloudProvider, "v": "2"},
			})
		default:
			notAcceptable(w)
		}
	})
}

// apiServer serves an API server's node proxy for kubelets by node name.
func apiServer(t *testing.T, kubelets map[string]http.Handler) *rest.Config {
	t.Helper()
	status := func(w http.ResponseWriter, code int, reason, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Code: int32(code), Reason: metav1.StatusReason(reason), Message: message,
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/{node}/proxy/flagz", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			status(w, 401, "Unauthorized", "Unauthorized")
			return
		}
		name := r.PathValue("node")
		switch name {
		case "no-right":
			status(w, 403, "Forbidden", `nodes "no-right" is forbidden: User "alice" cannot get resource "nodes/proxy" in API group "" at the cluster scope`)
			return
		case "no-address":
			status(w, 500, "InternalError", "no preferred addresses found; known addresses: []")
			return
		case "down":
			status(w, 503, "ServiceUnavailable", "error trying to reach service: dial tcp 10.1.1.99:10250: connect: connection refused")
			return
		case "hangs":
			<-r.Context().Done()
			return
		}
		k, ok := kubelets[name]
		if !ok {
			status(w, 404, "NotFound", fmt.Sprintf("nodes %q not found", name))
			return
		}
		r.URL = &url.URL{Path: "/flagz"}
		k.ServeHTTP(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, BearerToken: "token"}
}

func newNode(name string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.21"}, {Type: corev1.NodeHostName, Address: name}}
	return n
}

func TestVerifyReadsFlags(t *testing.T) {
	t.Parallel()
	kubelets := map[string]http.Handler{
		"v137-external": kubelet137("external"), "v137-none": kubelet137(""), "v135": kubelet135("external"), "v135-none": kubelet135(""),
		"v131": http.NotFoundHandler(), "text-only": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { notAcceptable(w) }),
		"refuses": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Forbidden (user=kube-apiserver-kubelet-client, verb=get, resource=nodes, subresource(s)=[proxy])", http.StatusForbidden)
		}),
		"nonsense": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }),
	}
	type test struct {
		node    string
		want    Verdict
		failure failure
		reason  string
	}
	tests := []test{
		{"v137-external", External, failure{}, "/flagz: --cloud-provider=external"},
		{"v137-none", NotExternal, failure{}, `/flagz: --cloud-provider=""`},
		{"v135", External, failure{}, "/flagz: "},
		{"v135-none", NotExternal, failure{}, "/flagz: "},
		{"v131", Unknown, gateOff, "does not serve it"},
		{"text-only", Unknown, gateOff, "does not serve it"},
		{"no-right", Unknown, forbidden, "nodes/proxy"},
		{"refuses", Unknown, kubeletAuth, "refuses the API server"},
		{"no-address", Unknown, noAddress, "no address yet"},
		{"down", Unknown, unreachable, "connection refused"},
		{"gone", Unknown, unreadable, "not found"},
		{"nonsense", Unknown, unreadable, "not a Flagz object"},
	}
	var nodes []corev1.Node
	for _, tt := range tests {
		nodes = append(nodes, newNode(tt.node))
	}
	cfg := apiServer(t, kubelets)
	verdicts := Verify(t.Context(), cluster.NewForTest(fake.NewClientset(), cfg), nodes, nil)
	require.Len(t, verdicts, len(tests))
	for i, tt := range tests {
		v := verdicts[i]
		require.Equal(t, tt.node, v.Node)
		require.Equal(t, tt.want, v.Verdict, "%s: %+v", tt.node, v)
		require.True(t, strings.HasPrefix(v.Evidence[0].Detail, tt.failure.what), tt.node)
		require.Contains(t, v.Reason(), tt.reason, tt.node)
		require.Equal(t, map[Verdict]string{Unknown: tt.failure.fix, NotExternal: remedies[cluster.Unknown]}[tt.want], v.Remedy, tt.node)
	}
}

func TestAskFails(t *testing.T) {
	t.Parallel()
	p := newProber(cluster.NewForTest(fake.NewClientset(), apiServer(t, nil)))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.Equal(t, timedOut.at(sourceFlagz, ""), p.ask(ctx, "hangs"))

	cfg := apiServer(t, nil)
	cfg.BearerToken = "old"
	require.Equal(t, forbidden.fix, newProber(cluster.NewForTest(fake.NewClientset(), cfg)).ask(t.Context(), "n").fix)

	p = newProber(cluster.NewForTest(fake.NewClientset(), &rest.Config{Host: "http://127.0.0.1:1"}))
	a := p.ask(t.Context(), "n")
	require.Equal(t, Unknown, a.Says)
	require.Contains(t, a.Detail, "refused")
	require.NotContains(t, a.Detail, "proxy/flagz")
}

// addressesBy returns the managedFields of a node whose addresses were written by managers, one after the other.
func addressesBy(managers ...string) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for i, m := range managers {
		at := metav1.NewTime(time.Unix(int64(i), 0))
		out = append(out, metav1.ManagedFieldsEntry{Manager: m, Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:addresses":{}}}`)})
	}
	return out
}

func TestJudgeLadder(t *testing.T) {
	t.Parallel()
	off := gateOff.at(sourceFlagz, "")
	with := func(changes ...func(n *corev1.Node)) *corev1.Node {
		n := newNode("n")
		for _, change := range changes {
			change(&n)
		}
		return &n
	}
	plain := with()
	told := func(n *corev1.Node) { n.Annotations["alpha.kubernetes.io/provided-node-ip"] = "10.1.1.21" }
	hostname := func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n"}}
	}
	writtenBy := func(managers ...string) func(n *corev1.Node) {
		return func(n *corev1.Node) { n.ManagedFields = addressesBy(managers...) }
	}
	tainted := func(effect corev1.TaintEffect) func(n *corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: effect}}
		}
	}
	startedWith := func(key string, argv ...string) func(n *corev1.Node) {
		return func(n *corev1.Node) {
			raw, err := json.Marshal(argv)
			require.NoError(t, err)
			n.Annotations[key] = string(raw)
		}
	}
	args := func(key string, argv ...string) *corev1.Node { return with(startedWith(key, argv...)) }
	tests := []struct {
		name  string
		facts Facts
		want  Verdict
		by    string
	}{
		{"no evidence", Facts{Node: plain, Flagz: off}, Unknown, ""},
		{"flags win over the Node object", Facts{Node: with(told), Flagz: fromFlags(sourceFlagz, map[string]string{"cloud-provider": ""})}, NotExternal, "/flagz"},
		{"flags without the flag", Facts{Node: plain, Flagz: fromFlags(sourceFlagz, map[string]string{"v": "2"})}, Unknown, ""},
		{"another provider", Facts{Node: plain, Flagz: fromFlags(sourceFlagz, map[string]string{"cloud-provider": "cloudstack"})}, NotExternal, `"cloudstack"`},
		{"provided-node-ip", Facts{Node: with(told), Flagz: off}, External, "provided-node-ip"},
		{"kubelet's taint", Facts{Node: with(tainted(corev1.TaintEffectNoSchedule)), Flagz: off}, External, "taint"},
		{"a taint set by csccm proves nothing", Facts{Node: with(tainted(corev1.TaintEffectPreferNoSchedule)), Flagz: off}, Unknown, ""},
		{"host name only", Facts{Node: with(hostname), Flagz: off}, External, "addresses"},
		{"no addresses at all", Facts{Node: with(func(n *corev1.Node) { n.Status.Addresses = nil }), Flagz: off}, Unknown, ""},
		{"provider ID proves nothing", Facts{
			Node: with(func(n *corev1.Node) { n.Spec.ProviderID = "external-cloudstack://2b2c4b9e-5ef0-4b5c-9d51-0e7a6a3b2f10" }), Flagz: off,
		}, Unknown, ""},
		{"k3s with its own controller", Facts{Node: args("k3s.io/node-args", "server", "--disable", "traefik"), Flagz: off}, External, "built-in"},
		{"k3s without, and no flag", Facts{Node: args("k3s.io/node-args", "server", "--disable-cloud-controller"), Flagz: off}, NotExternal, "--disable-cloud-controller"},
		{"k3s without, with the flag", Facts{Node: args("k3s.io/node-args", "server", "--disable-cloud-controller", "--kubelet-arg", "cloud-provider=external"), Flagz: off}, External, "--kubelet-arg"},
		{"k3s with a false value", Facts{Node: args("k3s.io/node-args", "server", "--disable-cloud-controller", "false"), Flagz: off}, External, "built-in"},
		{"k3s agent of such a server", Facts{Node: args("k3s.io/node-args", "agent"), Flagz: off, CloudControllerDisabled: true}, NotExternal, "--disable-cloud-controller"},
		{"RKE2 with the flag", Facts{Node: args("rke2.io/node-args", "agent", "--kubelet-arg=cloud-provider=external"), Flagz: off, CloudControllerDisabled: true}, External, "rke2.io/node-args"},
		{"RKE2 with another value", Facts{Node: args("rke2.io/node-args", "agent", "--kubelet-arg=cloud-provider=aws"), Flagz: off}, NotExternal, "aws"},
		{"RKE2 with its own option", Facts{Node: args("rke2.io/node-args", "agent", "--cloud-provider-name", "external"), Flagz: off, CloudControllerDisabled: true}, External, "--cloud-provider-name=external"},
		{"RKE2 with another provider's name", Facts{Node: args("rke2.io/node-args", "agent", "--cloud-provider-name=harvester"), Flagz: off}, Unknown, ""},
		{"managedFields: the kubelet writes the addresses", Facts{Node: with(writtenBy("kubelet")), Flagz: off}, NotExternal, "managedFields"},
		{"managedFields: the program k3s contains the kubelet", Facts{Node: with(writtenBy("cloudstack-ccm", "k3s")), Flagz: off}, NotExternal, "managedFields"},
		{"managedFields: k3s with its own controller", Facts{Node: with(writtenBy("k3s"), told), Flagz: off}, External, "provided-node-ip"},
		{"managedFields: k3s's --kubelet-arg wins", Facts{
			Node: with(writtenBy("k3s"), startedWith("k3s.io/node-args", "agent", "--kubelet-arg", "cloud-provider=external")), Flagz: off,
		}, External, "--kubelet-arg"},
		{"managedFields: RKE2's kubelet has its own name", Facts{Node: with(writtenBy("rke2", "kubelet")), Flagz: off}, NotExternal, "managedFields"},
		{"managedFields: RKE2's own controller", Facts{Node: with(writtenBy("kubelet", "cloud-controller-manager")), Flagz: off}, Unknown, ""},
		{"managedFields: with --node-ip an external kubelet writes them too", Facts{Node: with(writtenBy("kubelet"), told), Flagz: off}, External, "provided-node-ip"},
		{"managedFields: a controller writes them", Facts{Node: with(writtenBy("kubelet", "cloudstack-ccm")), Flagz: off}, Unknown, ""},
		{"managedFields: a registered host name", Facts{Node: with(writtenBy("kubelet"), hostname), Flagz: off}, External, "host name only"},
		{"annotation that is not JSON", Facts{Node: with(func(n *corev1.Node) { n.Annotations["k3s.io/node-args"] = "server" }), Flagz: off}, Unknown, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := Judge(tt.facts)
			require.Equal(t, tt.want, v.Verdict, "%+v", v.Evidence)
			if tt.by != "" {
				require.Contains(t, v.Reason(), tt.by)
			}
		})
	}
}

func TestRunsCloudController(t *testing.T) {
	t.Parallel()
	of := func(argv ...string) bool {
		raw, err := json.Marshal(argv)
		require.NoError(t, err)
		n := newNode("n")
		n.Annotations["rke2.io/node-args"] = string(raw)
		return RunsCloudController(&n)
	}
	require.True(t, of("server"))
	require.False(t, of("agent"))
	require.False(t, of("server", "--disable-cloud-controller=true"))
	require.False(t, of("server", "--cloud-provider-name", "external"))
	n := newNode("n")
	require.False(t, RunsCloudController(&n))
}

// silence is a transport that never answers, as behind a firewall that drops packets.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Kubelets behind a firewall: even a thousand of them take no longer than the limit, and the verdicts are based on the
// Node objects.
func TestSilentKubeletsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := make([]corev1.Node, 1000)
		for i := range nodes {
			nodes[i] = newNode(fmt.Sprintf("n%d", i))
		}
		nodes[999].Annotations["alpha.kubernetes.io/provided-node-ip"] = "10.1.1.21"
		begun := time.Now()
		p := &prober{client: &http.Client{Transport: silence{}}, base: &url.URL{Scheme: "http", Host: "api"}}
		verdicts := verify(t.Context(), p, cluster.Kubeadm, nodes)
		require.Equal(t, allKubelets, time.Since(begun))
		require.Equal(t, timedOut.fix, verdicts[0].Remedy)
		require.Equal(t, timedOut.fix, verdicts[998].Remedy)
		require.Equal(t, External, verdicts[999].Verdict)
	})
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
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

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

// kubelet137 serves the real /flagz of Kubernetes 1.37, with the given --cloud-provider.
func kubelet137(cloudProvider string) http.Handler {
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	fs.String("cloud-provider", cloudProvider, "")
	fs.String("node-ip", "10.1.1.21", "")
	mux := http.NewServeMux()
	flagz.Install(mux, "kubelet",
		flagz.NamedFlagSetsReader{FlagSets: cliflag.NamedFlagSets{FlagSets: map[string]*pflag.FlagSet{"generic": fs}}})
	return mux
}

// status serves an API server's refusal.
func status(code int, reason metav1.StatusReason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		kind := metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		_ = json.NewEncoder(w).Encode(
			metav1.Status{TypeMeta: kind, Status: "Failure", Code: int32(code), Reason: reason, Message: message},
		)
	}
}

var notAcceptable = status(
	http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only the following media types are accepted",
)

// kubelet135 serves v1alpha1, as Kubernetes 1.35 with the feature gate.
func kubelet135(cloudProvider string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "v=v1alpha1") {
			notAcceptable(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(
			w,
			`{"kind":"Flagz","apiVersion":"config.k8s.io/v1alpha1","metadata":{"name":"kubelet"},"flags":{"cloud-provider":%q,"v":"2"}}`, cloudProvider,
		)
	}
}

// apiServer serves an API server's node proxy for kubelets by node name.
func apiServer(t *testing.T, kubelets map[string]http.Handler) *rest.Config {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes/{node}/proxy/flagz", func(w http.ResponseWriter, r *http.Request) {
		k, ok := kubelets[r.PathValue("node")]
		switch {
		case r.Header.Get("Authorization") != "Bearer token":
			k = status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		case !ok:
			k = status(http.StatusNotFound, metav1.StatusReasonNotFound,
				fmt.Sprintf("nodes %q not found", r.PathValue("node")))
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
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.1.1.21"},
		{Type: corev1.NodeHostName, Address: name},
	}
	return n
}

func TestVerifyReadsFlags(t *testing.T) {
	t.Parallel()
	kubelets := map[string]http.Handler{
		"v137-external": kubelet137("external"),
		"v137-none":     kubelet137(""),
		"v135":          kubelet135("external"),
		"v135-none":     kubelet135(""),
		"v131":          http.NotFoundHandler(), "text-only": notAcceptable,
		"no-right": status(http.StatusForbidden, metav1.StatusReasonForbidden,
			`nodes "no-right" is forbidden: User "alice" cannot get resource "nodes/proxy" in API group "" at the cluster scope`),
		"no-address": status(
			http.StatusInternalServerError, metav1.StatusReasonInternalError,
			"no preferred addresses found; known addresses: []",
		),
		"down": status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			"error trying to reach service: dial tcp 10.1.1.99:10250: connect: connection refused"),
		"refuses": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w,
				"Forbidden (user=kube-apiserver-kubelet-client, verb=get, resource=nodes, subresource(s)=[proxy])",
				http.StatusForbidden)
		}),
		"nonsense": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }),
	}

	tests := []struct {
		node    string
		want    Verdict
		failure failure
		reason  string
	}{
		{"v137-external", External, failure{}, "/flagz: --cloud-provider=external"},
		{"v137-none", NotExternal, failure{}, `/flagz: --cloud-provider=""`},
		{"v135", External, failure{}, "/flagz: "},
		{"v135-none", NotExternal, failure{}, "/flagz: "},
		{"v131", Unknown, flagzDisabled, "does not serve it"},
		{"text-only", Unknown, flagzDisabled, "does not serve it"},
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
	verdicts := Verify(t.Context(), fakecluster.New(fake.NewClientset(), cfg), nodes, nil)
	require.Len(t, verdicts, len(tests))
	for i, tt := range tests {
		v := verdicts[i]
		require.Equal(t, tt.node, v.Node)
		require.Equal(t, tt.want, v.Verdict, "%s: %+v", tt.node, v)
		require.True(t, strings.HasPrefix(v.Evidence[0].Detail, tt.failure.what), tt.node)
		require.Contains(t, v.Reason(), tt.reason, tt.node)
		require.Equal(t, map[Verdict]string{Unknown: tt.failure.fix, NotExternal: remedies[cluster.Unknown]}[tt.want],
			v.Remedy, tt.node)
	}
}

func TestAskFails(t *testing.T) {
	t.Parallel()
	hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p := newProber(fakecluster.New(fake.NewClientset(), apiServer(t, map[string]http.Handler{"hangs": hangs})))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.Equal(t, timedOut.at(sourceFlagz, ""), p.ask(ctx, "hangs"))

	cfg := apiServer(t, nil)
	cfg.BearerToken = "old"
	require.Equal(t, forbidden.fix, newProber(fakecluster.New(fake.NewClientset(), cfg)).ask(t.Context(), "n").fix)

	p = newProber(fakecluster.New(fake.NewClientset(), &rest.Config{Host: "http://127.0.0.1:1"}))
	a := p.ask(t.Context(), "n")
	require.Equal(t, Unknown, a.Says)
	require.Contains(t, a.Detail, "refused")
	require.NotContains(t, a.Detail, "proxy/flagz")
}

// ladderCase is the evidence about a kubelet.
type ladderCase struct {
	Annotations map[string]string     `json:"annotations"`
	Addresses   *[]corev1.NodeAddress `json:"addresses"`
	ProviderID  string                `json:"providerID"`
	Writers     []string              `json:"writers"`
	Tainted     bool                  `json:"tainted"`
	Flags       map[string]string     `json:"flags"`
	Disabled    bool                  `json:"disabled"`
	Want        Verdict               `json:"want"`
	By          string                `json:"by"`
}

func TestJudgeLadder(t *testing.T) {
	cases.Run(t, "testdata/ladder.yaml", func(t *testing.T, _ string, c ladderCase) {
		t.Helper()
		n := newNode("n")
		n.Annotations, n.Spec.ProviderID = c.Annotations, c.ProviderID
		n.Status.Addresses = *cmp.Or(c.Addresses, &n.Status.Addresses)
		for i, m := range c.Writers {
			n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{
				Manager:  m,
				Time:     &metav1.Time{Time: time.Unix(int64(i), 0)},
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:addresses":{}}}`),
			})
		}
		if c.Tainted {
			n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true"}}
		}

		f := Facts{Node: &n, Flagz: flagzDisabled.at(sourceFlagz, ""), CloudControllerDisabled: c.Disabled}
		if c.Flags != nil {
			f.Flagz = fromFlags(sourceFlagz, c.Flags)
		}
		v := Judge(f)
		require.Equal(t, c.Want, v.Verdict, "%+v", v.Evidence)
		require.Contains(t, v.Reason(), c.By)
	})
}

func TestRunsCloudController(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		`["server"]`: true, `["agent"]`: false, `["server","--disable-cloud-controller=true"]`: false,
		`["server","--cloud-provider-name","external"]`: false, "": false,
	} {
		n := newNode("n")
		n.Annotations["rke2.io/node-args"] = args
		require.Equal(t, want, RunsCloudController(&n), args)
	}
}

// silence is a transport without answers, as behind a firewall that drops packets.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Even a thousand kubelets behind a firewall take no longer than the limit, and the verdicts are based on the Node
// objects.
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

var update = flag.Bool("update", false, "write the remedies into docs/distributions.md")

// The documentation page of each distribution contains the remedy that csccm doctor prints.
func TestRemediesOfTheDocs(t *testing.T) {
	t.Parallel()
	var parts []pages.Part
	for _, d := range []cluster.Distribution{
		cluster.Kubeadm, cluster.K3s, cluster.RKE2, cluster.K0s, cluster.Talos, cluster.CKS, cluster.ClusterAPI,
		cluster.Unknown,
	} {
		parts = append(parts, pages.Part{Name: "remedy: " + string(d), Want: "> " + remedies[d]})
	}
	stale, err := pages.Refresh(filepath.Join("..", "..", "..", "docs", "distributions.md"), parts, *update)
	require.NoError(t, err)
	require.Empty(t, stale, "go test ./installer/kube/kubelet -run Docs -update")
}

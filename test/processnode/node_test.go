// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
)

const guestImage = "registry.example/csccm/guest"

// env is the environment that all tests of this package share: the control plane and the guest program.
var env struct {
	skip   string
	plane  *plane.Plane
	client kubernetes.Interface
	guest  string
}

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if _, there, err := plane.Cached(ctx, plane.Newest); err == nil && !there && slices.Contains(os.Args, "-test.short=true") {
		env.skip = "with -short: the control plane's binary does not exist, and a build takes minutes"
		return m.Run()
	}
	err := must.Catch(func() {
		env.plane = must.Get(plane.Start(ctx, plane.Options{NodeGrace: 6 * time.Second}))
		env.client = kubernetes.NewForConfigOrDie(must.Get(env.plane.AdminConfig()))
		env.guest = filepath.Join(env.plane.Dir, "guest")
		must.Get(program.Go(ctx, ".", "build", "-trimpath", "-buildvcs=false", "-o", env.guest, "./testdata/guest"))
	})
	if env.plane != nil {
		defer env.plane.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := env.plane.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// startNode starts a node for one test.
func startNode(t *testing.T, o Options) *Node {
	t.Helper()
	if env.skip != "" {
		t.Skip(env.skip)
	}
	o.ControlPlane, o.Heartbeat = env.plane, time.Second
	o.Images = map[string]string{guestImage: env.guest}
	n, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		n.Stop()
		if _, err := os.Stat(n.dir); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", n.dir, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := env.client.CoreV1().Nodes().Delete(ctx, o.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return n
}

func TestRegistersAsAnExternalKubelet(t *testing.T) {
	t.Parallel()
	startNode(t, Options{Name: "fresh", Address: "10.1.2.1"})
	node := getNode(t, "fresh")
	if !slices.ContainsFunc(node.Spec.Taints, func(x corev1.Taint) bool {
		return x.Key == uninitializedTaint && x.Value == "true" && x.Effect == corev1.TaintEffectNoSchedule
	}) {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	if got := node.Annotations[providedIP]; got != "10.1.2.1" {
		t.Errorf("%s = %q", providedIP, got)
	}
	want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.2.1"}, {Type: corev1.NodeHostName, Address: "fresh"}}
	if !slices.Equal(node.Status.Addresses, want) || node.Spec.ProviderID != "" {
		t.Errorf("addresses %v, provider ID %q", node.Status.Addresses, node.Spec.ProviderID)
	}
	// The node lifecycle controller sees that the node is ready.
	eventually(t, "the not-ready taint is removed", func() bool {
		return !hasTaint(getNode(t, "fresh"), corev1.TaintNodeNotReady)
	})
}

func TestJoinedKubelet(t *testing.T) {
	t.Parallel()
	startNode(t, Options{Name: "joined", Address: "10.1.2.2", Joined: true, ProviderID: "external-cloudstack://x"})
	node := getNode(t, "joined")
	if hasTaint(node, uninitializedTaint) || node.Annotations[providedIP] == "" || node.Spec.ProviderID != "external-cloudstack://x" {
		t.Errorf("taints %v, annotations %v, provider ID %q", node.Spec.Taints, node.Annotations, node.Spec.ProviderID)
	}
}

func TestNotExternalKubelet(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{Name: "plain-kubelet", Address: "10.1.2.3", NotExternal: true})
	if node := getNode(t, "plain-kubelet"); hasTaint(node, uninitializedTaint) || n.flags()["cloud-provider"] != "" {
		t.Errorf("taints %v, flags %v", node.Spec.Taints, n.flags())
	}
	// Addresses of a cloud provider do not stay: the kubelet writes its own.
	foreign := []byte(`{"status":{"addresses":[{"type":"InternalIP","address":"10.9.9.9"}]}}`)
	if _, err := n.client.CoreV1().Nodes().Patch(t.Context(), "plain-kubelet", types.StrategicMergePatchType, foreign, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, n.patchStatus(t.Context(), getNode(t, "plain-kubelet")))
	if got := getNode(t, "plain-kubelet").Status.Addresses; !slices.Equal(got, n.addresses()) {
		t.Errorf("addresses %v, want %v", got, n.addresses())
	}
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(x corev1.Taint) bool { return x.Key == key })
}

func TestStoppedNodeBecomesNotReady(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{Name: "doomed", Address: "10.1.2.4"})
	eventually(t, "node is ready", func() bool { return isReady(getNode(t, "doomed")) })
	n.Stop()
	eventually(t, "node is not ready", func() bool { return !isReady(getNode(t, "doomed")) })
	// A restarted node does not register again: it gets no taint.
	removeTaints(t, "doomed")
	startNode(t, Options{Name: "doomed", Address: "10.1.2.4"})
	eventually(t, "node is ready again", func() bool { return isReady(getNode(t, "doomed")) })
	if hasTaint(getNode(t, "doomed"), uninitializedTaint) {
		t.Error("a restarted kubelet tainted its node")
	}
}

func TestKubeletAPI(t *testing.T) {
	t.Parallel()
	startNode(t, Options{Name: "asked", Address: "10.1.2.5"})
	startNode(t, Options{Name: "old", Address: "10.1.2.6", NoFlagz: true})
	get := func(node, path, accept string) (string, int) {
		b, err := env.client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(path).SetHeader("Accept", accept).DoRaw(t.Context())
		if err == nil {
			return string(b), http.StatusOK
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			t.Fatal(err)
		}
		return string(b), int(status.Status().Code)
	}
	for _, c := range []struct {
		node, path, accept string
		code               int
		want               string
	}{
		{"asked", "healthz", "*/*", 200, "ok"},
		{"asked", "flagz", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", 200, `"apiVersion":"config.k8s.io/v1beta1","flags":{"bootstrap-kubeconfig":"","cloud-provider":"external"`},
		{"asked", "flagz", "application/json;as=Flagz;v=v1alpha1;g=config.k8s.io", 200, `"apiVersion":"config.k8s.io/v1alpha1"`},
		{"asked", "flagz", "application/json", 406, ""},
		{"asked", "flagz", "text/plain", 200, "kubelet flagz\nWarning:"},
		{"asked", "exec/a/b/c", "*/*", 404, ""},
		{"old", "flagz", "text/plain", 404, ""},
		{"old", "healthz", "*/*", 200, "ok"},
	} {
		body, code := get(c.node, c.path, c.accept)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s/%s (%s): %d %q, want %d with %q", c.node, c.path, c.accept, code, body, c.code, c.want)
		}
	}
}

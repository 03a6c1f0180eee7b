// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	ocireg "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// serve serves a registry and a web site on loopback and returns their address.
func serve(t *testing.T, site string) (host string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/v2/", ocireg.New(ocireg.Logger(log.New(io.Discard, "", 0)), ocireg.WithReferrersSupport(true)))
	mux.Handle("/", http.FileServer(http.Dir(site)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// pull downloads an image for an architecture, as a node would, and returns the path of the program in it.
func pull(t *testing.T, reference, arch string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), name)
	require.NoError(t, must.Catch(func() {
		image := must.Get(crane.Pull(reference, crane.Insecure,
			crane.WithPlatform(&v1.Platform{OS: "linux", Architecture: arch})))
		layers := mutate.Extract(image)
		defer func() { _ = layers.Close() }()
		files := tar.NewReader(layers)
		for header := must.Get(files.Next()); header.Typeflag != tar.TypeReg || path.Base(header.Name) != name; {
			header = must.Get(files.Next())
		}
		// #nosec G302 G304 -- a program of the test
		out := must.Get(os.OpenFile(program, os.O_WRONLY|os.O_CREATE, 0o755))
		must.Get(io.Copy(out, files)) // #nosec G110 -- an image of this test
		must.OK(out.Close())
	}), reference)
	return program
}

// env is a test environment: a cluster with two nodes and the controller's Secret, and a simulated CloudStack.
type env struct {
	*testenv.Cluster
	t   *testing.T
	cli string
}

func newEnv(t *testing.T, images map[string]string) *env {
	t.Helper()
	e := &env{t: t}
	require.NoError(t, must.Catch(func() {
		programs := must.Get(testenv.Build(t.Context(), t.Output()))
		e.cli = programs.CLI
		cloud := must.Get(testenv.StartCloudStack(nil))
		t.Cleanup(cloud.Stop)
		e.Cluster = must.Get(testenv.StartCluster(t.Context(), testenv.ClusterOptions{
			Plane:      plane.Options{Programs: must.Get(plane.Ensure(t.Context(), plane.Newest, os.Stderr))},
			Controller: programs.Controller, Images: images, Heartbeat: time.Second,
		}))
		t.Cleanup(e.Stop)
		for _, o := range testenv.ExampleNodes()[:2] {
			must.Get(e.Join(t.Context(), o))
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "cloudstack-secret"},
			StringData: map[string]string{"cloud-config": string(must.Get(cloud.Config("k8s-owner")).Render())},
		}
		must.Get(e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), secret, metav1.CreateOptions{}))
	}))

	return e
}

func (e *env) eventually(what string, try func(context.Context)) {
	e.t.Helper()
	require.NoError(e.t, must.Catch(func() { testenv.Await(e.t.Context(), 10*time.Minute, what, try) }))
}

// runs waits until the controller has exactly one Pod, which is ready and has an image.
func (e *env) runs(image string) {
	e.t.Helper()
	e.eventually("the controller of image "+image, func(ctx context.Context) {
		pods := e.Client.CoreV1().Pods(metav1.NamespaceSystem)
		list := must.Get(pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})).Items
		must.Be(len(list) == 1 && list[0].Spec.Containers[0].Image == image, "the Pods are %v", list)
		must.Be(len(list[0].Status.ContainerStatuses) == 1 && list[0].Status.ContainerStatuses[0].Ready, "%v",
			list[0].Status)
	})
}

// initialized waits until the controller has initialised nodes.
func (e *env) initialized(nodes ...string) {
	e.t.Helper()
	for _, node := range nodes {
		e.eventually("node "+node+" to be initialised", func(ctx context.Context) {
			id := must.Get(e.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})).Spec.ProviderID
			must.Be(strings.HasPrefix(id, "external-cloudstack://"), "provider ID %q", id)
		})
	}
}

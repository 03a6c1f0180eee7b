// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	imagename "github.com/google/go-containerregistry/pkg/name"
	ocireg "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

const limit = 10 * time.Minute

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
	ref, err := imagename.ParseReference(reference, imagename.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
	if err != nil {
		t.Fatal(err)
	}
	layers := mutate.Extract(image)
	defer func() { _ = layers.Close() }()
	for files := tar.NewReader(layers); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatalf("the image %s does not contain %s: %v", reference, name, err)
		}
		if header.Typeflag != tar.TypeReg || path.Base(header.Name) != name {
			continue
		}
		program = filepath.Join(t.TempDir(), name)
		out, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE, 0o755) // #nosec G302 G304 -- a program of the test
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(out, files) // #nosec G110 -- an image of this test
		if err := errors.Join(err, out.Close()); err != nil {
			t.Fatal(err)
		}
		return program
	}
}

// env is a test environment: a cluster with two nodes and the controller's Secret, and a simulated CloudStack.
type env struct {
	*testenv.Cluster
	cloud *testenv.CloudStack
	cli   string
}

func newEnv(t *testing.T, images map[string]string) *env {
	t.Helper()
	e := &env{}
	programs, err := testenv.Build(t.Context(), testenv.BuildOptions{Dir: os.Getenv("CSCCM_BIN_DIR"), LDFlags: os.Getenv("CSCCM_LDFLAGS")})
	if err != nil {
		t.Fatal(err)
	}
	e.cli = programs.CLI
	if e.cloud, err = testenv.StartCloudStack(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.cloud.Stop)
	e.Cluster, err = testenv.StartCluster(t.Context(), testenv.ClusterOptions{
		Plane: plane.Options{Progress: program.Print(os.Stderr)}, Controller: programs.Controller, Images: images, Heartbeat: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	for _, o := range testenv.ExampleNodes()[:2] {
		if _, err := e.Join(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	config, err := e.cloud.Config("k8s-owner")
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloudstack-secret"},
		StringData: map[string]string{"cloud-config": string(config.Render())},
	}
	if _, err := e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *env) eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	if err := testenv.Wait(t.Context(), limit, what, try); err != nil {
		t.Fatal(err)
	}
}

// runs waits until the controller has exactly one Pod, which is ready and has an image.
func (e *env) runs(t *testing.T, image string) {
	t.Helper()
	e.eventually(t, "the controller of image "+image, func(ctx context.Context) error {
		list, err := e.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
		if err != nil {
			return err
		}
		var seen []string
		for i := range list.Items {
			p := &list.Items[i]
			ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			seen = append(seen, fmt.Sprintf("%s ready=%t", p.Spec.Containers[0].Image, ready))
		}
		if want := []string{image + " ready=true"}; !slices.Equal(seen, want) {
			return fmt.Errorf("the Pods are %v, want %v", seen, want)
		}
		return nil
	})
}

// initialized waits until the controller has initialised nodes.
func (e *env) initialized(t *testing.T, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		e.eventually(t, "node "+node+" to be initialised", func(ctx context.Context) error {
			n, err := e.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err == nil && !strings.HasPrefix(n.Spec.ProviderID, "external-cloudstack://") {
				err = fmt.Errorf("provider ID %q", n.Spec.ProviderID)
			}
			return err
		})
	}
}

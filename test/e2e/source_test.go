// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/test/plane"
)

// TestInstallFromRepositories installs the packaged chart from a chart repository
// over HTTP, then from an OCI registry, both real servers on loopback, and each time
// the controller starts and works.
func TestInstallFromRepositories(t *testing.T) {
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1)
	env.secret(t, string(env.config(t).Render()))
	repository, oci := publish(t)

	for i, ref := range []string{repository, oci} {
		chart, err := helm.LoadContext(t.Context(), ref, "", false)
		if err != nil {
			t.Fatal(err)
		}
		if got := chart.Version(); got != "0.0.1" {
			t.Errorf("%s has version %s", ref, got)
		}
		env.install(t, chart, nil)
		if i == 0 {
			env.initialized(t, cp1.Name)
			if err := env.helm.Uninstall(t.Context(), release); err != nil {
				t.Fatal(err)
			}
			env.eventually(t, "the Pods to go", func(ctx context.Context) error {
				pods, err := env.pods(ctx)
				if err == nil && len(pods) > 0 {
					err = fmt.Errorf("%d Pods", len(pods))
				}
				return err
			})
		}
	}
	env.join(t, worker1)
	env.initialized(t, worker1.Name)
}

// publish packages the chart with the release program and serves it twice.
func publish(t *testing.T) (repository, oci string) {
	t.Helper()
	module, err := plane.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(module)
	dir := t.TempDir()
	program := filepath.Join(t.TempDir(), "release")
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off") // what is compiled for the product serves here too
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	run("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./release")
	run(program, "chart", "--version", "v0.0.1", "--output", dir)
	run(program, "index", "--dir", dir, "--version", "v0.0.1")

	files := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(files.Close)
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	base := "oci://" + strings.TrimPrefix(images.URL, "http://") + "/csccm/charts"
	run(program, "push-chart", filepath.Join(dir, "cloudstack-ccm-0.0.1.tgz"), base, "--plain-http")
	return files.URL, base + "/cloudstack-ccm"
}

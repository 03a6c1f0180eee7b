// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command apischemas writes JSON schemas of the Kubernetes kinds that the chart uses, one file for each supported minor
// version, from the OpenAPI documents in the Go module of Kubernetes. From other Go modules it writes the
// CustomResourceDefinitions of
//
//   - the Prometheus operator, which the chart uses,
//   - Cluster API and Rancher's Helm controller, which docs/clusters uses,
//   - Argo CD, Flux, Gateway API and Envoy Gateway, which docs/examples uses.
//
// It needs the Go module proxy, so "make generate" does not run it. Run it when support for a version is added or
// dropped:
//
//	go run ./charts/internal/apischemas charts/testdata/apischemas v1.33.13 v1.34.4 v1.35.4 v1.36.3 v1.37.1 \
//	  prometheus-operator@v0.85.0 cluster-api@v1.14.2 helm-controller@v0.17.9 \
//	  argo-cd@v3.5.7 flux-source@v1.9.6 flux-helm@v1.6.5 gateway-api@v1.6.3 envoy-gateway@v1.9.1
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "apischemas:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("want a directory and versions of Kubernetes, for example: apischemas DIR v1.37.1")
	}

	for _, version := range args[1:] {
		if name, of, ok := strings.Cut(version, "@"); ok {
			s, known := sources[name]
			if !known {
				return fmt.Errorf("no module is called %s here", name)
			}

			if err := s.write(ctx, args[0], of); err != nil {
				return err
			}

			continue
		}

		source, err := download(ctx, "k8s.io/kubernetes@"+version)
		if err != nil {
			return err
		}

		schemas, err := read(os.DirFS(filepath.Join(source, "api", "openapi-spec", "v3")))
		if err != nil {
			return fmt.Errorf("%s: %w", version, err)
		}

		out, err := json.Marshal(schemas.reduced(version))
		if err != nil {
			return err
		}

		minor := version[:strings.LastIndex(version, ".")]
		file := filepath.Join(args[0], minor+".json")
		if err := os.WriteFile(file, append(out, '\n'), 0o644); err != nil { //nolint:gosec // test data
			return err
		}
	}

	return nil
}

// download downloads a module (path@version) to the module cache and returns its directory there.
func download(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", name) //nolint:gosec // the caller names it
	cmd.Dir = os.TempDir()                                                  // outside any module
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", name, err, bytes.TrimSpace(out))
	}

	var module struct{ Dir string }
	return module.Dir, errors.Join(json.Unmarshal(out, &module))
}

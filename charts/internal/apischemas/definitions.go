// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// source is a Go module with CustomResourceDefinitions. All sources have the Apache License 2.0.
type source struct {
	module, file string   // file is the name of the output file
	definitions  []string // files of the module
	// reduced removes the status, versions that are not served and, unless rules is set, CEL rules.
	reduced bool
	rules   bool // keep CEL rules, for use with an API server, which evaluates them
	// types is the folder of the Go types from which controller-gen generates the definitions, for modules that do not
	// contain the definitions.
	types string
}

// generator generates CustomResourceDefinitions from Go types. Flux uses it for its releases too.
const generator = "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.1"

// sources are the modules whose kinds the chart, docs/clusters and docs/examples use, by a short name.
var sources = map[string]source{
	"prometheus-operator": {
		module: "github.com/prometheus-operator/prometheus-operator",
		file:   "prometheus-operator.yaml",
		definitions: []string{
			"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
			"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		},
	},
	"cluster-api": {module: "sigs.k8s.io/cluster-api", file: "cluster-api.yaml", definitions: []string{
		"bootstrap/kubeadm/config/crd/bases/bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates.yaml",
		"controlplane/kubeadm/config/crd/bases/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
		"core/config/crd/bases/addons.cluster.x-k8s.io_clusterresourcesets.yaml",
	}, reduced: true},
	"helm-controller": {
		module: "github.com/k3s-io/helm-controller",
		file:   "helm-controller.yaml",
		definitions: []string{
			"pkg/crds/yaml/generated/helm.cattle.io_helmcharts.yaml",
		},
		reduced: true,
	},
	"argo-cd": {module: "github.com/argoproj/argo-cd/v3", file: "argo-cd.yaml", definitions: []string{
		"manifests/crds/application-crd.yaml",
	}, reduced: true, rules: true},
	"flux-source": {module: "github.com/fluxcd/source-controller", file: "flux-source.yaml", definitions: []string{
		"config/crd/bases/source.toolkit.fluxcd.io_ocirepositories.yaml",
	}, reduced: true, rules: true},
	"gateway-api": {module: "sigs.k8s.io/gateway-api", file: "gateway-api.yaml", definitions: []string{
		"config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml",
		"config/crd/standard/gateway.networking.k8s.io_gateways.yaml",
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
	}, reduced: true, rules: true},
	"envoy-gateway": {module: "github.com/envoyproxy/gateway", file: "envoy-gateway.yaml", definitions: []string{
		"charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_clienttrafficpolicies.yaml",
		"charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_envoyproxies.yaml",
	}, reduced: true, rules: true},
	"flux-helm": {
		module:  "github.com/fluxcd/helm-controller/api",
		file:    "flux-helm.yaml",
		types:   "v2",
		reduced: true,
		rules:   true,
	},
}

// write writes the CustomResourceDefinitions of a version to a file in dir.
func (s source) write(ctx context.Context, dir, version string) error {
	folder, err := download(ctx, s.module+"@"+version)
	if err != nil {
		return err
	}

	definitions, err := s.read(ctx, folder)
	if err != nil {
		return err
	}

	var out bytes.Buffer

	less := "without descriptions"
	if s.reduced {
		less += " and status"
	}

	fmt.Fprintf(&out, "# Written by charts/internal/apischemas from %s %s, %s.\n", s.module, version, less)
	if s.reduced {
		out.WriteString("# Licence: Apache License 2.0.\n")
	}

	for _, raw := range definitions {
		definition, err := s.less(raw)
		if err != nil {
			return err
		}

		fmt.Fprintf(&out, "---\n%s", definition)
	}

	return os.WriteFile(filepath.Join(dir, s.file), out.Bytes(), 0o644) //nolint:gosec // test data
}

// read returns the CustomResourceDefinitions of a module in folder.
func (s source) read(ctx context.Context, folder string) (all [][]byte, err error) {
	files := make([]string, 0, len(s.definitions))
	for _, name := range s.definitions {
		files = append(files, filepath.Join(folder, filepath.FromSlash(name)))
	}

	if s.types != "" {
		generated, err := os.MkdirTemp("", "apischemas-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(generated) }()

		//nolint:gosec // constants
		cmd := exec.CommandContext(ctx, "go", "run", generator, "crd", "paths=./"+s.types,
			"output:crd:dir="+generated)
		cmd.Dir = folder // its go.mod resolves the imports of the types
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("generate the definitions of %s: %w: %s", s.module, err, bytes.TrimSpace(out))
		}

		if files, err = filepath.Glob(filepath.Join(generated, "*.yaml")); err != nil {
			return nil, err
		}
	}

	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}

	return all, nil
}

// less removes the descriptions from a CustomResourceDefinition, because they are more than half of the file and do not
// affect validation. For a reduced source it removes more.
func (s source) less(raw []byte) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		return nil, err
	}

	strip(object)
	if s.reduced {
		withoutStatus(object)
		if !s.rules {
			withoutRules(object)
		}
	}

	return yaml.Marshal(object)
}

// strip removes all descriptions below a value.
func strip(value any) {
	switch v := value.(type) {
	case map[string]any:
		// A property named "description" is a schema, not a string.
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		for _, below := range v {
			strip(below)
		}
	case []any:
		for _, below := range v {
			strip(below)
		}
	}
}

// withoutStatus removes what manifests do not use: versions that are not served, the status and printer columns.
func withoutStatus(definition map[string]any) {
	spec, _ := definition["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	versions = slices.DeleteFunc(versions,
		func(v any) bool { version, _ := v.(map[string]any); return version["served"] == false })
	spec["versions"] = versions

	for _, v := range versions {
		version, _ := v.(map[string]any)
		delete(version, "additionalPrinterColumns")
		schema, _ := version["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		properties, _ := root["properties"].(map[string]any)
		delete(properties, "status")
	}
}

// withoutRules removes CEL rules, which a JSON schema cannot express.
func withoutRules(value any) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "x-kubernetes-validations")
		for _, below := range v {
			withoutRules(below)
		}
	case []any:
		for _, below := range v {
			withoutRules(below)
		}
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// source is a Go module with CustomResourceDefinitions, all of them under the Apache License 2.0.
type source struct {
	module, file string   // file is the name of what is written
	definitions  []string // files of the module
	reduced      bool     // without status, rules in CEL, and versions that are not served
}

// sources are what the chart and the pages of docs/clusters use, by the short name of their module.
var sources = map[string]source{
	"prometheus-operator": {"github.com/prometheus-operator/prometheus-operator", "prometheus-operator.yaml", []string{
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
	}, false},
	"cluster-api": {"sigs.k8s.io/cluster-api", "cluster-api.yaml", []string{
		"bootstrap/kubeadm/config/crd/bases/bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates.yaml",
		"controlplane/kubeadm/config/crd/bases/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
		"core/config/crd/bases/addons.cluster.x-k8s.io_clusterresourcesets.yaml",
	}, true},
	"helm-controller": {"github.com/k3s-io/helm-controller", "helm-controller.yaml", []string{
		"pkg/crds/yaml/generated/helm.cattle.io_helmcharts.yaml",
	}, true},
}

// write writes the CustomResourceDefinitions of a version to a file in dir.
func (s source) write(ctx context.Context, dir, version string) error {
	folder, err := download(ctx, s.module+"@"+version)
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
	for _, name := range s.definitions {
		raw, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		definition, err := withoutDescriptions(raw, s.reduced)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&out, "---\n%s", definition)
	}
	return os.WriteFile(filepath.Join(dir, s.file), out.Bytes(), 0o644) //nolint:gosec // test data
}

// withoutDescriptions removes the descriptions from a CustomResourceDefinition: they are more than half of the file
// and do not affect validation.
func withoutDescriptions(raw []byte, reduced bool) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	strip(object)
	if reduced {
		withoutStatus(object)
	}
	return yaml.Marshal(object)
}

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

// withoutStatus removes what nobody writes or the test cannot evaluate: versions that are not served, the status, columns,
// and rules in CEL.
func withoutStatus(definition map[string]any) {
	spec, _ := definition["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	versions = slices.DeleteFunc(versions, func(v any) bool { version, _ := v.(map[string]any); return version["served"] == false })
	spec["versions"] = versions
	for _, v := range versions {
		version, _ := v.(map[string]any)
		delete(version, "additionalPrinterColumns")
		schema, _ := version["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		properties, _ := root["properties"].(map[string]any)
		delete(properties, "status")
		withoutRules(root)
	}
}

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

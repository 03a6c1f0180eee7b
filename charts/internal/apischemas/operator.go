// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const operatorModule = "github.com/prometheus-operator/prometheus-operator"

// definitions are the operator's kinds that the chart uses, as in the names of their CRD files.
var definitions = []string{"podmonitors", "prometheusrules", "servicemonitors"}

// writeDefinitions writes the CustomResourceDefinitions of the operator's kinds to file.
func writeDefinitions(ctx context.Context, file, version string) error {
	source, err := download(ctx, operatorModule+"@"+version)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Written by charts/internal/apischemas from %s %s, without descriptions.\n", operatorModule, version)
	for _, name := range definitions {
		raw, err := os.ReadFile(filepath.Join(source, "example", "prometheus-operator-crd", "monitoring.coreos.com_"+name+".yaml"))
		if err != nil {
			return err
		}
		definition, err := withoutDescriptions(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&out, "---\n%s", definition)
	}
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:gosec // test data
}

// withoutDescriptions removes the descriptions from a CustomResourceDefinition: they are more than half of the file
// and do not affect validation.
func withoutDescriptions(raw []byte) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	strip(object)
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

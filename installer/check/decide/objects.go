// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// clusterKinds are the kinds of a chart that are in no namespace.
var clusterKinds = []string{"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityClass", "Namespace"}

// NamespaceOf returns the namespace of an object of a release; "" for a cluster-wide kind.
func NamespaceOf(o *unstructured.Unstructured, release string) string {
	switch {
	case slices.Contains(clusterKinds, o.GetKind()):
		return ""
	case o.GetNamespace() != "":
		return o.GetNamespace()
	}
	return release
}

// ObjectOf names an object of a release in a finding.
func ObjectOf(o *unstructured.Unstructured, namespace, format string, args ...any) Object {
	return Object{Kind: o.GetKind(), Namespace: NamespaceOf(o, namespace), Name: o.GetName(), Message: fmt.Sprintf(format, args...)}
}

// separator is the line between two documents of a manifest.
var separator = regexp.MustCompile(`(?m)^---\s*$`)

// ParseManifest returns the objects of a rendered chart.
func ParseManifest(manifest string) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	for _, doc := range separator.Split(manifest, -1) {
		var m map[string]any
		if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
			return nil, fmt.Errorf("rendered chart: %w", err)
		}
		if o := (unstructured.Unstructured{Object: m}); len(m) > 0 && o.GetKind() != "" {
			out = append(out, o)
		}
	}
	return out, nil
}

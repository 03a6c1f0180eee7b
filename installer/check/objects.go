// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// helmManager is the field manager that Helm writes as.
const helmManager = "helm"

var errNoConnection = errors.New("no connection for objects of any kind")

// objects reads objects of any kind, those of a chart's manifest, by namespace and name.
type objects struct {
	client    dynamic.Interface
	explain   func(error) error
	namespace string // of objects that name none
}

func (e *Env) objects() (*objects, error) {
	if e.Cluster.REST == nil {
		return nil, errNoConnection
	}
	client, err := dynamic.NewForConfig(e.Cluster.REST)
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	return &objects{client, e.Cluster.Explain, e.Namespace}, nil
}

func (r *objects) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	// A chart holds kinds whose plurals follow the rule.
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if ns := namespaceOf(o, r.namespace); ns != "" {
		return r.client.Resource(resource).Namespace(ns)
	}
	return r.client.Resource(resource)
}

// get reads the object as it is in the cluster; nil when it is not there.
func (r *objects) get(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := r.of(o).Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // absence is an answer
	case err != nil:
		return nil, &unreadError{o.GetKind() + " " + o.GetName(), r.explain(err)}
	}
	return live, nil
}

// dryRun asks the API server what the object would become if it were applied, admission and all.
// Nothing is changed.
func (r *objects) dryRun(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	force := true
	return r.of(o).Patch(ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: helmManager, Force: &force,
	})
}

// clusterKinds are the kinds of a chart that are in no namespace.
var clusterKinds = []string{"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityClass", "Namespace"}

func namespaceOf(o *unstructured.Unstructured, release string) string {
	switch {
	case slices.Contains(clusterKinds, o.GetKind()):
		return ""
	case o.GetNamespace() != "":
		return o.GetNamespace()
	}
	return release
}

// object names o in a finding.
func objectOf(o *unstructured.Unstructured, namespace, format string, args ...any) Object {
	return Object{Kind: o.GetKind(), Namespace: namespaceOf(o, namespace), Name: o.GetName(), Message: fmt.Sprintf(format, args...)}
}

// separator is the line between two documents of a manifest.
var separator = regexp.MustCompile(`(?m)^---\s*$`)

func parseManifest(manifest string) ([]unstructured.Unstructured, error) {
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

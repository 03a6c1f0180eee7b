// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/csccm/csccm/installer/check/decide"
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
	if ns := decide.NamespaceOf(o, r.namespace); ns != "" {
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
		return nil, decide.Unreadable(o.GetKind()+" "+o.GetName(), r.explain(err))
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

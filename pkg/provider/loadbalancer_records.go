// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/pkg/annotation"
)

// recordStore keeps records in the annotations of one Service.
type recordStore struct {
	kube            kubernetes.Interface
	namespace, name string
	uid             types.UID
}

// Load reads the Service from the API server. It fails when the Service is gone,
// going, or another one of the same name: nothing may be acquired for it then.
func (s *recordStore) Load(ctx context.Context) (annotation.Records, error) {
	svc, err := s.kube.CoreV1().Services(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case err != nil:
		return annotation.Records{}, err
	case svc.UID != s.uid:
		return annotation.Records{}, fmt.Errorf("service %s/%s is not the one it was", s.namespace, s.name)
	case svc.DeletionTimestamp != nil:
		return annotation.Records{}, fmt.Errorf("service %s/%s is being deleted", s.namespace, s.name)
	}
	return annotation.ParseRecords(svc.Annotations)
}

// Save patches the annotations. The UID in the patch makes the API server
// refuse it for another Service of the same name.
func (s *recordStore) Save(ctx context.Context, r annotation.Records) error {
	annotations := map[string]any{}
	for name, value := range r.Values() {
		if annotations[name] = value; value == "" {
			annotations[name] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.uid, "annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = s.kube.CoreV1().Services(s.namespace).Patch(ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) && r.Empty() {
		return nil // gone, and nothing to remember
	}
	return err
}

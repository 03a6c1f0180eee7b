// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// ChangeConfigMap has change edit a ConfigMap of csccm's, and starts over where somebody else was faster. One that does
// not exist is created, one that change leaves empty is deleted. An error of change ends it.
func ChangeConfigMap(ctx context.Context, kube kubernetes.Interface, namespace, name string, change func(c *corev1.ConfigMap) error) error {
	const owner = "csccm"
	maps := kube.CoreV1().ConfigMaps(namespace)
	raced := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultRetry, raced, func() error {
		c, err := maps.Get(ctx, name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		switch {
		case missing:
			c = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name,
				Labels: map[string]string{"app.kubernetes.io/managed-by": owner, "app.kubernetes.io/part-of": owner},
			}}
		case err != nil:
			return err
		default:
			c = c.DeepCopy()
		}
		if c.Data == nil {
			c.Data = map[string]string{}
		}
		was := c.DeepCopy()
		if err := change(c); err != nil {
			return err
		}
		switch empty := len(c.Data)+len(c.BinaryData) == 0; {
		case empty && missing:
			return nil
		case empty:
			return maps.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &c.ResourceVersion}})
		case equality.Semantic.DeepEqual(was, c):
			return nil
		case missing:
			_, err = maps.Create(ctx, c, metav1.CreateOptions{FieldManager: owner})
		default:
			_, err = maps.Update(ctx, c, metav1.UpdateOptions{FieldManager: owner})
		}
		return err
	})
}

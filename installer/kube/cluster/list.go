// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// List returns all objects of a kind, as list lists them. Where *failed is an error already, List asks nothing and returns
// an empty list: several lists need only one check.
func List[L any](ctx context.Context, failed *error, list func(context.Context, metav1.ListOptions) (*L, error)) *L {
	return ListOf(ctx, failed, metav1.ListOptions{}, list)
}

// ListOf is List with options.
func ListOf[L any](ctx context.Context, failed *error, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) (*L, error)) *L {
	if *failed == nil {
		var out *L
		if out, *failed = list(ctx, o); *failed == nil {
			return out
		}
	}
	return new(L)
}

// AtOnce bounds the calls of one Each.
const AtOnce = 8

// Each calls do for the elements, several at a time, and returns the results in the same order. The first error ends it.
func Each[T, R any](ctx context.Context, in []T, do func(context.Context, *T) (R, error)) ([]R, error) {
	out := make([]R, len(in))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(AtOnce)
	for i := range in {
		group.Go(func() (err error) {
			out[i], err = do(gctx, &in[i])
			return err
		})
	}
	return out, group.Wait()
}

// NodeNames returns the names of all Nodes.
func NodeNames(ctx context.Context, kube kubernetes.Interface) (names []string, err error) {
	for _, n := range List(ctx, &err, kube.CoreV1().Nodes().List).Items {
		names = append(names, n.Name)
	}
	return names, err
}

// NamespaceNames returns the names of all namespaces.
func NamespaceNames(ctx context.Context, kube kubernetes.Interface) (names []string, err error) {
	for _, n := range List(ctx, &err, kube.CoreV1().Namespaces().List).Items {
		names = append(names, n.Name)
	}
	return names, err
}

// ReleaseNames returns the names of the Helm releases in a namespace.
func ReleaseNames(ctx context.Context, kube kubernetes.Interface, namespace string) (names []string, err error) {
	for _, s := range ListOf(ctx, &err, metav1.ListOptions{LabelSelector: "owner=helm"}, kube.CoreV1().Secrets(namespace).List).Items {
		names = append(names, s.Labels["name"])
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// PodLog returns the last lines of the log of a Pod's first container; of the one before, if that one has failed.
func (c *Cluster) PodLog(ctx context.Context, pod *corev1.Pod, lines int64) (string, error) {
	previous := len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running == nil &&
		pod.Status.ContainerStatuses[0].RestartCount > 0
	o := &corev1.PodLogOptions{TailLines: &lines, Previous: previous}
	if len(pod.Spec.Containers) > 0 {
		o.Container = pod.Spec.Containers[0].Name
	}
	raw, err := c.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log of Pod %s: %w", pod.Name, err)
	}
	return string(raw), nil
}

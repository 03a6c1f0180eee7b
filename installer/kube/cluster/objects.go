// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
)

// List returns all objects of a kind, using list. If *failed is already an error, List sends no request and returns an
// empty list, so that a caller of several lists checks the error once.
func List[L any](ctx context.Context, failed *error, list func(context.Context, metav1.ListOptions) (*L, error)) *L {
	return ListOf(ctx, failed, metav1.ListOptions{}, list)
}

// ListOf is List with options.
func ListOf[L any](
	ctx context.Context, failed *error, o metav1.ListOptions,
	list func(context.Context, metav1.ListOptions) (*L, error),
) *L {
	if *failed == nil {
		var out *L
		if out, *failed = list(ctx, o); *failed == nil {
			return out
		}
	}
	return new(L)
}

// Nodes returns all Nodes; see List.
func Nodes(ctx context.Context, failed *error, kube kubernetes.Interface) []corev1.Node {
	return List(ctx, failed, kube.CoreV1().Nodes().List).Items
}

// Services returns the Services of all namespaces; see List.
func Services(ctx context.Context, failed *error, kube kubernetes.Interface) []corev1.Service {
	return List(ctx, failed, kube.CoreV1().Services(metav1.NamespaceAll).List).Items
}

// UID returns the UID of namespace kube-system, which identifies a cluster.
func UID(ctx context.Context, kube kubernetes.Interface) (string, error) {
	ns, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the UID of namespace %s, the cluster's id in CloudStack: %w",
			metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}

// AtOnce bounds the calls of one Each.
const AtOnce = 8

// Each calls do for the elements, several at a time, and returns the results in the same order. It stops at the first
// error.
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
	for _, n := range Nodes(ctx, &err, kube) {
		names = append(names, n.Name)
	}
	return names, err
}

// NamespaceNames returns the names of all namespaces.
func NamespaceNames(ctx context.Context, kube kubernetes.Interface) ([]string, error) {
	labels, err := NamespaceLabels(ctx, kube)
	return slices.Collect(maps.Keys(labels)), err
}

// PodLog returns the last lines of the log of a Pod's first container. If the container has failed and does not run,
// PodLog returns the log of its previous run.
func (c *Cluster) PodLog(ctx context.Context, pod *corev1.Pod, lines int64) (string, error) {
	o := &corev1.PodLogOptions{TailLines: &lines, Container: pod.Spec.Containers[0].Name}
	if c := pod.Status.ContainerStatuses; len(c) > 0 {
		o.Previous = c[0].State.Running == nil && c[0].RestartCount > 0
	}
	raw, err := c.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log of Pod %s: %w", pod.Name, err)
	}
	return string(raw), nil
}

// IDs returns the cluster's ids in CloudStack's tags: first the current one, then former ones. The current one is
// chosen as the controller does, by the flags in words, its arguments, and by the cloud-config. The UID of kube-system
// is read only if neither names the cluster.
func IDs(ctx context.Context, kube kubernetes.Interface, config *cloudstack.Config, words []string) ([]string, error) {
	flag, _ := Argument(words, "cluster-id")
	name, _ := Argument(words, "cluster-name")
	id := provider.ClusterID(flag, config.ClusterID, name, "")
	var err error
	if id == "" {
		id, err = UID(ctx, kube)
	}
	return append([]string{id}, config.FormerClusterIDs...), err
}

// NamespaceLabels returns the labels of all namespaces, by name.
func NamespaceLabels(ctx context.Context, kube kubernetes.Interface) (map[string]map[string]string, error) {
	var err error
	out := map[string]map[string]string{}
	for _, n := range List(ctx, &err, kube.CoreV1().Namespaces().List).Items {
		out[n.Name] = n.Labels
	}
	return out, err
}

// Raced reports whether somebody else wrote an object first.
func Raced(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// ChangeConfigMap calls change to edit a ConfigMap of csccm, and tries again after a conflict. It creates a ConfigMap
// that does not exist and deletes one that change leaves empty. It stops at an error of change.
func ChangeConfigMap(
	ctx context.Context, kube kubernetes.Interface, namespace, name string, change func(c *corev1.ConfigMap) error,
) error {
	const owner = "csccm"
	configMaps := kube.CoreV1().ConfigMaps(namespace)
	return retry.OnError(retry.DefaultRetry, Raced, func() error {
		c, err := configMaps.Get(ctx, name, metav1.GetOptions{})
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
			return configMaps.Delete(ctx, name,
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &c.ResourceVersion}})
		case equality.Semantic.DeepEqual(was, c):
			return nil
		case missing:
			_, err = configMaps.Create(ctx, c, metav1.CreateOptions{FieldManager: owner})
		default:
			_, err = configMaps.Update(ctx, c, metav1.UpdateOptions{FieldManager: owner})
		}

		return err
	})
}

// LastWritten returns the field manager that last wrote a field of an object, and the time by the API server's clock;
// zero values if they are not known. An atomic list has one manager.
func LastWritten(o *metav1.ObjectMeta, field string) (manager string, last time.Time) {
	for _, m := range o.ManagedFields {
		if m.FieldsV1 == nil || !strings.Contains(m.FieldsV1.GetRawString(), `"f:`+field+`"`) {
			continue
		}
		if at := ptr.Deref(m.Time, metav1.Time{}).Time; manager == "" || at.After(last) {
			manager, last = m.Manager, at
		}
	}
	return manager, last
}

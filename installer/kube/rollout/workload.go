// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// Workload is a Deployment, DaemonSet or StatefulSet with its progress.
type Workload struct {
	Kind, Namespace, Name string

	born      time.Time
	observed  bool // the status is that of the current generation
	wanted    int
	updated   int
	available int
	old       int      // Pods of older templates that still exist
	problems  []string // why it has no Pods
	// Pods of the current template have the label with the value newest; if newest is empty, all Pods count.
	label, newest string

	selector *metav1.LabelSelector // of the Pods
}

func (o *Workload) has(p *corev1.Pod) bool { return o.newest == "" || p.Labels[o.label] == o.newest }

func ofDeployment(d *appsv1.Deployment, sets []appsv1.ReplicaSet) *Workload {
	const revision = "deployment.kubernetes.io/revision"
	o := &Workload{
		Kind: "Deployment", Namespace: d.Namespace, Name: d.Name, born: d.CreationTimestamp.Time, observed: d.Status.ObservedGeneration >= d.Generation,
		wanted: 1, updated: int(d.Status.UpdatedReplicas), available: int(d.Status.AvailableReplicas),
		old: int(d.Status.Replicas - d.Status.UpdatedReplicas), label: appsv1.DefaultDeploymentUniqueLabelKey,
		selector: d.Spec.Selector,
	}
	if d.Spec.Replicas != nil {
		o.wanted = int(*d.Spec.Replicas)
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			o.problems = append(o.problems, fmt.Sprintf("no Pod can be created: %s", c.Message))
		}
	}
	for i := range sets {
		if r := sets[i].Annotations[revision]; r != "" && r == d.Annotations[revision] {
			o.newest = sets[i].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		}
	}
	return o
}

// ofDaemonSet identifies current Pods by the generation of the template: reading ControllerRevisions would need an
// additional permission.
func ofDaemonSet(d *appsv1.DaemonSet) *Workload {
	o := &Workload{
		Kind: "DaemonSet", Namespace: d.Namespace, Name: d.Name, born: d.CreationTimestamp.Time, observed: d.Status.ObservedGeneration >= d.Generation,
		wanted: int(d.Status.DesiredNumberScheduled), updated: int(d.Status.UpdatedNumberScheduled), available: int(d.Status.NumberAvailable),
		label: extensionsv1beta1.DaemonSetTemplateGenerationKey, newest: d.Annotations[appsv1.DeprecatedTemplateGeneration],
		selector: d.Spec.Selector,
	}
	if o.observed && o.wanted == 0 {
		o.problems = []string{"no node is one that it may run on: see nodeSelector and affinity in the chart's values (without them: nodes of the control plane), and tolerations"}
	}
	return o
}

func ofStatefulSet(s *appsv1.StatefulSet) *Workload {
	o := &Workload{
		Kind: "StatefulSet", Namespace: s.Namespace, Name: s.Name, born: s.CreationTimestamp.Time, observed: s.Status.ObservedGeneration >= s.Generation,
		wanted: 1, updated: int(s.Status.UpdatedReplicas), available: int(s.Status.AvailableReplicas),
		old: int(s.Status.Replicas - s.Status.UpdatedReplicas), label: appsv1.StatefulSetRevisionLabel, newest: s.Status.UpdateRevision,
		selector: s.Spec.Selector,
	}
	if s.Spec.Replicas != nil {
		o.wanted = int(*s.Spec.Replicas)
	}
	return o
}

// find returns the release's Deployment or DaemonSet; the younger one while an upgrade replaces one by the other.
func (w *Waiter) find(ctx context.Context) (*Workload, error) {
	all, err := w.list(ctx)
	if err != nil {
		return nil, w.Cluster.Explain(err)
	}
	if len(all) == 0 {
		if w.Of != nil {
			return nil, fmt.Errorf("%s is gone", w.who())
		}
		return nil, &report.Error{
			What: "release " + w.Release, Err: ErrNoWorkload, Code: report.ExitUsage,
			Fix: "check --chart: it must be a chart of cloudstack-ccm",
		}
	}
	found := all[0]
	for _, o := range all[1:] {
		if o.born.After(found.born) {
			found = o
		}
	}
	return found, nil
}

// list returns the workload Of, if it exists, or those of the release.
func (w *Waiter) list(ctx context.Context) (all []*Workload, err error) {
	apps, ns := w.Cluster.Kube.AppsV1(), w.namespace()
	kind := func(k string) bool { return w.Of == nil && k != "StatefulSet" || w.Of != nil && w.Of.Kind == k }
	is := func(m *metav1.ObjectMeta) bool {
		return m.DeletionTimestamp == nil && (w.Of == nil || w.Of.Name == m.Name)
	}
	if kind("Deployment") {
		deployments := cluster.ListOf(ctx, &err, w.options(), apps.Deployments(ns).List)
		for i := range deployments.Items {
			d := &deployments.Items[i]
			if !is(&d.ObjectMeta) {
				continue
			}
			sets := cluster.ListOf(ctx, &err, w.podsOf(d.Spec.Selector), apps.ReplicaSets(ns).List)
			all = append(all, ofDeployment(d, sets.Items))
		}
	}
	if kind("DaemonSet") {
		daemonSets := cluster.ListOf(ctx, &err, w.options(), apps.DaemonSets(ns).List)
		for i := range daemonSets.Items {
			if d := &daemonSets.Items[i]; is(&d.ObjectMeta) {
				all = append(all, ofDaemonSet(d))
			}
		}
	}
	if kind("StatefulSet") {
		statefulSets := cluster.ListOf(ctx, &err, w.options(), apps.StatefulSets(ns).List)
		for i := range statefulSets.Items {
			if s := &statefulSets.Items[i]; is(&s.ObjectMeta) {
				all = append(all, ofStatefulSet(s))
			}
		}
	}
	return all, err
}

// Restart restarts the Pods as kubectl rollout restart does.
func (w *Waiter) Restart(ctx context.Context, o *Workload) error {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"kubectl.kubernetes.io/restartedAt": w.Clock.Now().UTC().Format(time.RFC3339)},
	}}}})
	if err != nil {
		return err
	}
	if err := Patch(ctx, w.Cluster.Kube, o.Kind, o.Namespace, o.Name, body); err != nil {
		return w.Cluster.Explain(err)
	}
	return nil
}

// Replace restarts the Pods, and waits until the new ones are ready.
func (w *Waiter) Replace(ctx context.Context) error {
	o, _, err := w.Read(ctx)
	if err == nil {
		err = w.Restart(ctx, o)
	}
	if err == nil {
		err = w.Wait(ctx)
	}
	return err
}

// Patch changes a Deployment, DaemonSet or StatefulSet by a merge patch.
func Patch(ctx context.Context, kube kubernetes.Interface, kind, namespace, name string, body []byte) (err error) {
	apps, merge, options := kube.AppsV1(), types.MergePatchType, metav1.PatchOptions{FieldManager: "csccm"}
	switch kind {
	case "DaemonSet":
		_, err = apps.DaemonSets(namespace).Patch(ctx, name, merge, body, options)
	case "StatefulSet":
		_, err = apps.StatefulSets(namespace).Patch(ctx, name, merge, body, options)
	default:
		_, err = apps.Deployments(namespace).Patch(ctx, name, merge, body, options)
	}
	return err
}

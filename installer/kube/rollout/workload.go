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

	"github.com/csccm/csccm/installer/engine/report"
)

// Workload is the controller's Deployment or DaemonSet with its progress.
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
}

func (o *Workload) has(p *corev1.Pod) bool { return o.newest == "" || p.Labels[o.label] == o.newest }

func ofDeployment(d *appsv1.Deployment, sets []appsv1.ReplicaSet) *Workload {
	const revision = "deployment.kubernetes.io/revision"
	o := &Workload{
		Kind: "Deployment", Namespace: d.Namespace, Name: d.Name, born: d.CreationTimestamp.Time, observed: d.Status.ObservedGeneration >= d.Generation,
		wanted: 1, updated: int(d.Status.UpdatedReplicas), available: int(d.Status.AvailableReplicas),
		old: int(d.Status.Replicas - d.Status.UpdatedReplicas), label: appsv1.DefaultDeploymentUniqueLabelKey,
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
	}
	if o.observed && o.wanted == 0 {
		o.problems = []string{"no node is one that it may run on: see nodeSelector and affinity in the chart's values (without them: nodes of the control plane), and tolerations"}
	}
	return o
}

// find returns the release's Deployment or DaemonSet; the younger one while an upgrade replaces one by the other.
func (w *Waiter) find(ctx context.Context) (*Workload, error) {
	apps, ns := w.Cluster.Kube.AppsV1(), w.Cluster.Namespace
	deployments, err := apps.Deployments(ns).List(ctx, w.selector())
	if err != nil {
		return nil, w.Cluster.Explain(err)
	}
	daemonSets, err := apps.DaemonSets(ns).List(ctx, w.selector())
	if err != nil {
		return nil, w.Cluster.Explain(err)
	}
	var all []*Workload
	if len(deployments.Items) > 0 {
		sets, err := apps.ReplicaSets(ns).List(ctx, w.selector())
		if err != nil {
			return nil, w.Cluster.Explain(err)
		}
		for i := range deployments.Items {
			if d := &deployments.Items[i]; d.DeletionTimestamp == nil {
				all = append(all, ofDeployment(d, sets.Items))
			}
		}
	}
	for i := range daemonSets.Items {
		if d := &daemonSets.Items[i]; d.DeletionTimestamp == nil {
			all = append(all, ofDaemonSet(d))
		}
	}
	if len(all) == 0 {
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

// Restart restarts the Pods as kubectl rollout restart does.
func (w *Waiter) Restart(ctx context.Context, o *Workload) error {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"kubectl.kubernetes.io/restartedAt": w.Clock.Now().UTC().Format(time.RFC3339)},
	}}}})
	if err != nil {
		return err
	}
	apps, options := w.Cluster.Kube.AppsV1(), metav1.PatchOptions{FieldManager: "csccm"}
	if o.Kind == "DaemonSet" {
		_, err = apps.DaemonSets(o.Namespace).Patch(ctx, o.Name, types.StrategicMergePatchType, body, options)
	} else {
		_, err = apps.Deployments(o.Namespace).Patch(ctx, o.Name, types.StrategicMergePatchType, body, options)
	}
	if err != nil {
		return w.Cluster.Explain(err)
	}
	return nil
}

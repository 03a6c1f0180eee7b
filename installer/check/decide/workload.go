// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/kube/family"
)

// Workload is a Deployment or DaemonSet of any namespace.
type Workload struct {
	Kind        string   `json:"kind"`
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Images      []string `json:"images"`
	Wanted      int32    `json:"wanted"` // Pods
	Ready       int32    `json:"ready"`
	Ours        bool     `json:"ours"` // of the release
	labels      map[string]string
	selector    map[string]string
	words       []string // commands and arguments
	replaceable bool     // csccm takeover can take its place
}

// RegisteredAs returns the name under which the controller keeps the cluster's entry in CloudStack's UI; "" if it keeps none.
func (w *Workload) RegisteredAs() string {
	for _, word := range w.words {
		if name, ok := strings.CutPrefix(word, "--register-cluster="); ok {
			return name
		}
	}
	return ""
}

func (w *Workload) object() Object { return Object{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name} }

// DeploymentOf converts a Deployment.
func DeploymentOf(d *appsv1.Deployment) Workload {
	w := Workload{
		Kind: "Deployment", Namespace: d.Namespace, Name: d.Name, labels: d.Labels,
		Wanted: 1, Ready: d.Status.ReadyReplicas,
	}
	if d.Spec.Replicas != nil {
		w.Wanted = *d.Spec.Replicas
	}
	w.fill(&d.Spec.Template, d.Spec.Selector)
	return w
}

// DaemonSetOf converts a DaemonSet.
func DaemonSetOf(d *appsv1.DaemonSet) Workload {
	w := Workload{
		Kind: "DaemonSet", Namespace: d.Namespace, Name: d.Name, labels: d.Labels,
		Wanted: d.Status.DesiredNumberScheduled, Ready: d.Status.NumberReady,
	}
	w.fill(&d.Spec.Template, d.Spec.Selector)
	return w
}

func (w *Workload) fill(t *corev1.PodTemplateSpec, selector *metav1.LabelSelector) {
	if selector != nil {
		w.selector = selector.MatchLabels
	}
	w.words = tenants.Words(&t.Spec)
	w.replaceable = family.Replaces(&t.Spec, w.Name)
	for i := range t.Spec.Containers {
		w.Images = append(w.Images, t.Spec.Containers[i].Image)
	}
}

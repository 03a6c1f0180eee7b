// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/takeover/family"
	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Workload is a Deployment or DaemonSet of any namespace.
type Workload struct {
	Kind, Namespace, Name string
	labels, annotations   map[string]string
	selector              map[string]string
	Images                []string
	words                 []string // commands and arguments
	Wanted, Ready         int32
	replaceable           bool // csccm takeover can take its place
}

func (w *Workload) object() Object { return Object{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name} }

// DeploymentOf converts a Deployment.
func DeploymentOf(d *appsv1.Deployment) Workload {
	w := Workload{
		Kind: "Deployment", Namespace: d.Namespace, Name: d.Name, labels: d.Labels, annotations: d.Annotations,
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
		Kind: "DaemonSet", Namespace: d.Namespace, Name: d.Name, labels: d.Labels, annotations: d.Annotations,
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

// Balancers are all public load balancer rules that the API keys can see, with their members.
type Balancers struct {
	All     []cloudstack.LoadBalancerRule // whatever their names
	Rules   []cloudstack.LoadBalancerRule
	Members map[string][]cloudstack.LoadBalancerMember // by rule id
}

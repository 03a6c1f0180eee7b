// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

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
	secret      string   // the first that is mounted
	replaceable bool     // csccm takeover can take its place
}

// DeploymentOf converts a Deployment.
func DeploymentOf(d *appsv1.Deployment) Workload {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	return workload("Deployment", &d.ObjectMeta, &d.Spec.Template.Spec, d.Spec.Selector, wanted, d.Status.ReadyReplicas)
}

// DaemonSetOf converts a DaemonSet.
func DaemonSetOf(d *appsv1.DaemonSet) Workload {
	return workload("DaemonSet", &d.ObjectMeta, &d.Spec.Template.Spec, d.Spec.Selector, d.Status.DesiredNumberScheduled, d.Status.NumberReady)
}

func workload(kind string, m *metav1.ObjectMeta, pod *corev1.PodSpec, selector *metav1.LabelSelector, wanted, ready int32) Workload {
	w := Workload{
		Kind: kind, Namespace: m.Namespace, Name: m.Name, Images: imagesOf(pod), Wanted: wanted, Ready: ready,
		labels: m.Labels, words: tenants.Words(pod), replaceable: family.Replaces(pod, m.Name),
	}
	if selector != nil {
		w.selector = selector.MatchLabels
	}
	for i := range pod.Volumes {
		if s := pod.Volumes[i].Secret; s != nil && w.secret == "" {
			w.secret = s.SecretName
		}
	}
	return w
}

func imagesOf(pod *corev1.PodSpec) []string {
	var out []string
	for i := range pod.Containers {
		out = append(out, pod.Containers[i].Image)
	}
	return out
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

func (w *Workload) object(format string, args ...any) Object {
	return Object{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Message: fmt.Sprintf(format, args...)}
}

// foreignImages are parts of the images of cloud controller managers whose names do not say so.
var foreignImages = []string{"cloud-controller-manager", "cloudstack-kubernetes-provider", "leaseweb-ccm"}

// isController reports whether a name or an image is that of a cloud controller manager.
func isController(name string, images []string) bool {
	return strings.Contains(name, "cloud-controller-manager") || slices.ContainsFunc(images, func(image string) bool {
		return slices.ContainsFunc(foreignImages, func(part string) bool { return strings.Contains(image, part) })
	})
}

// Sort keeps the workloads that matter: the release's, cloud controller managers outside the release that want Pods, and the
// Deployments of the CSI driver.
func (f *Facts) Sort(workloads []Workload) {
	for _, w := range workloads {
		w.Ours = w.Namespace == f.Namespace && w.labels["app.kubernetes.io/name"] == "cloudstack-ccm" && w.labels["app.kubernetes.io/instance"] == f.Release
		if w.Ours || w.Wanted > 0 && isController(w.Name, w.Images) {
			f.Controllers = append(f.Controllers, w)
		}
		if w.ofDriver() {
			f.CSI = append(f.CSI, w)
		}
	}
	slices.SortStableFunc(f.Controllers, func(a, b Workload) int {
		switch {
		case a.Ours == b.Ours:
			return 0
		case a.Ours:
			return -1
		}
		return 1
	})
}

// Ours are the release's workloads.
func (f *Facts) Ours() []Workload {
	return slices.DeleteFunc(slices.Clone(f.Controllers), func(w Workload) bool { return !w.Ours })
}

// Others are the cloud controller managers that are not to be there.
func (f *Facts) Others() []Workload {
	return slices.DeleteFunc(slices.Clone(f.Controllers), func(w Workload) bool {
		return w.Ours || slices.ContainsFunc(f.Replaces, func(o Object) bool { return o.Kind == w.Kind && o.Namespace == w.Namespace && o.Name == w.Name })
	})
}

// Words returns the command and arguments of the release's controller.
func (f *Facts) Words() []string {
	for i := range f.Controllers {
		if f.Controllers[i].Ours {
			return f.Controllers[i].words
		}
	}
	return nil
}

// OwnPods returns the Pods of the release's workloads.
func (f *Facts) OwnPods(pods []corev1.Pod) []corev1.Pod {
	var out []corev1.Pod
	for _, w := range f.Ours() {
		selector := apilabels.SelectorFromSet(w.selector)
		for i := range pods {
			p := &pods[i]
			if len(w.selector) > 0 && p.Namespace == w.Namespace && selector.Matches(apilabels.Set(p.Labels)) && p.DeletionTimestamp == nil {
				out = append(out, *p)
			}
		}
	}
	return out
}

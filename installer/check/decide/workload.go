// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/kube/cluster"
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
	selector    *metav1.LabelSelector
	words       []string        // commands and arguments
	volumes     []corev1.Volume // of the Pods
	replaceable bool            // csccm takeover can take its place
}

// WorkloadOf converts what was read.
func WorkloadOf(w *cluster.Workload) Workload {
	return Workload{
		Kind: w.Kind, Namespace: w.Meta.Namespace, Name: w.Meta.Name, Images: imagesOf(w.Pod), Wanted: w.Wanted, Ready: w.Ready, labels: w.Meta.Labels,
		selector: w.Selector, words: tenants.Words(w.Pod), volumes: w.Pod.Volumes, replaceable: family.Replaces(w.Pod, w.Meta.Name),
	}
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
	name, _ := cluster.Argument(w.words, "register-cluster")
	return name
}

// controllerName matches the names and images of cloud controller managers.
var controllerName = regexp.MustCompile("cloud-controller-manager|cloudstack-kubernetes-provider|leaseweb-ccm")

// isController reports whether a name or an image is that of a cloud controller manager.
func isController(name string, images []string) bool {
	return slices.ContainsFunc(append(slices.Clone(images), name), controllerName.MatchString)
}

// Sort keeps the workloads that matter: the release's, cloud controller managers outside the release that want Pods, and the
// Deployments of the CSI driver.
func (f *Facts) Sort(workloads []Workload) {
	for _, w := range workloads {
		w.Ours = w.Namespace == f.Namespace && cluster.InRelease(w.labels, f.Release)
		if w.Ours || w.Wanted > 0 && isController(w.Name, w.Images) {
			f.Controllers = append(f.Controllers, w)
		}
		if w.ofDriver() {
			f.CSI = append(f.CSI, w)
		}
	}
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
	for _, w := range f.Ours() {
		return w.words
	}
	return nil
}

// OwnPods returns the Pods of the release's workloads.
func (f *Facts) OwnPods(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || !slices.ContainsFunc(f.Ours(), func(w Workload) bool {
			selector, err := metav1.LabelSelectorAsSelector(w.selector) // of nil: nothing
			return err == nil && p.Namespace == w.Namespace && selector.Matches(apilabels.Set(p.Labels))
		})
	})
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
	selector    map[string]string
	words       []string // commands and arguments
	secret      string   // the first that is mounted
	replaceable bool     // csccm takeover can take its place
}

// WorkloadOf converts what was read.
func WorkloadOf(w *cluster.Workload) Workload {
	out := Workload{
		Kind: w.Kind, Namespace: w.Meta.Namespace, Name: w.Meta.Name, Images: imagesOf(w.Pod), Wanted: w.Wanted, Ready: w.Ready,
		labels: w.Meta.Labels, words: tenants.Words(w.Pod), replaceable: family.Replaces(w.Pod, w.Meta.Name),
	}
	if w.Selector != nil {
		out.selector = w.Selector.MatchLabels
	}
	for i := range w.Pod.Volumes {
		if s := w.Pod.Volumes[i].Secret; s != nil && out.secret == "" {
			out.secret = s.SecretName
		}
	}
	return out
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
	name, _ := family.Argument(w.words, "register-cluster")
	return name
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

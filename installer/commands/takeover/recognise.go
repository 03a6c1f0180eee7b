// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
)

// workload is what Deployments and DaemonSets have in common.
type workload struct {
	meta     *metav1.ObjectMeta
	kind     string
	wanted   int32
	ready    int32
	selector *metav1.LabelSelector
	pod      *corev1.PodSpec
}

func ofDeployment(d *appsv1.Deployment) workload {
	return workload{&d.ObjectMeta, "Deployment", ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas, d.Spec.Selector, &d.Spec.Template.Spec}
}

func ofDaemonSet(d *appsv1.DaemonSet) workload {
	w := workload{&d.ObjectMeta, "DaemonSet", d.Status.DesiredNumberScheduled, d.Status.NumberReady, d.Spec.Selector, &d.Spec.Template.Spec}
	if _, stopped := d.Spec.Template.Spec.NodeSelector[stoppedSelector]; stopped {
		w.wanted = 0
	}
	return w
}

// workloads reads those of a namespace.
func workloads(ctx context.Context, kube kubernetes.Interface, namespace string) ([]workload, error) {
	var err error
	deployments := cluster.List(ctx, &err, kube.AppsV1().Deployments(namespace).List).Items
	sets := cluster.List(ctx, &err, kube.AppsV1().DaemonSets(namespace).List).Items
	var all []workload
	for i := range deployments {
		all = append(all, ofDeployment(&deployments[i]))
	}
	for i := range sets {
		all = append(all, ofDaemonSet(&sets[i]))
	}
	return all, err
}

const (
	chartName      = "cloudstack-ccm"
	helmReleaseKey = "meta.helm.sh/release-name"
)

// before is how many Pods a workload wanted that a takeover has stopped; 0 for others.
func (w *workload) before() int32 {
	if _, stopped := w.pod.NodeSelector[stoppedSelector]; stopped {
		return 1 // on its nodes
	}
	n, err := strconv.ParseInt(w.meta.Annotations[replicasAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func (w *workload) ours() bool { return w.meta.Labels["app.kubernetes.io/name"] == chartName }

// recognise reports whether a workload runs a cloud controller manager that is not csccm's.
func recognise(w *workload) (Predecessor, bool) {
	if w.ours() || len(w.pod.Containers) == 0 {
		return Predecessor{}, false
	}
	whose, container := family.OfPod(w.pod, w.meta.Name)
	if container == nil {
		return Predecessor{}, false
	}
	p := Predecessor{
		Family: whose, Kind: w.kind, Namespace: w.meta.Namespace, Name: w.meta.Name, Image: container.Image, Wanted: w.wanted,
		HelmRelease: w.meta.Annotations[helmReleaseKey], ServiceAccount: w.pod.ServiceAccountName, Lease: leaseOf(family.Arguments(container)),
		Kept: w.wanted == 0 && w.meta.Annotations[keptAnnotation] != "", Before: w.before(),
		starting: w.meta.Annotations[startingAnnotation] != "",
		ready:    w.ready, configs: cloudConfigs(w, container),
	}
	if w.selector != nil {
		p.selector = w.selector.MatchLabels
	}
	return p, true
}

// leaseOf is the lease by which a cloud controller manager elects its leader: it does unless told not to.
func leaseOf(args []string) *LeaseName {
	if v, found := family.Argument(args, "leader-elect"); found {
		if elects, err := strconv.ParseBool(v); err == nil && !elects {
			return nil
		}
	}
	l := DefaultLease
	if v, found := family.Argument(args, "leader-elect-resource-name"); found {
		l.Name = v
	}
	if v, found := family.Argument(args, "leader-elect-resource-namespace"); found {
		l.Namespace = v
	}
	return &l
}

// LeaseOf is the lease that the controller of a rendered chart will use.
func LeaseOf(manifest string) LeaseName {
	for document := range strings.SplitSeq(manifest, "\n---") {
		// What is read of it a Deployment and a DaemonSet have alike.
		var d appsv1.Deployment
		if yaml.Unmarshal([]byte(document), &d) != nil || d.Kind != "Deployment" && d.Kind != "DaemonSet" {
			continue
		}
		w := ofDeployment(&d)
		if !w.ours() || len(w.pod.Containers) == 0 {
			continue
		}
		if l := leaseOf(family.Arguments(&w.pod.Containers[0])); l != nil {
			return *l
		}
	}
	return DefaultLease
}

// inTree finds kube-controller-managers that still run a provider of their own.
func inTree(pods []corev1.Pod) []Predecessor {
	var out []Predecessor
	for i := range pods {
		p := &pods[i]
		for j := range p.Spec.Containers {
			c := &p.Spec.Containers[j]
			if c.Name != "kube-controller-manager" && p.Labels["component"] != "kube-controller-manager" {
				continue
			}
			if v, found := family.Argument(family.Arguments(c), "cloud-provider"); found && v != "" && v != "external" {
				out = append(out, Predecessor{Family: InTree, Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Image: c.Image, Wanted: 1})
			}
		}
	}
	return out
}

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
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
)

// workload is one that may be a controller.
type workload struct{ cluster.Workload }

// workloads reads those of a namespace.
func workloads(ctx context.Context, kube kubernetes.Interface, namespace string) ([]workload, error) {
	list, err := cluster.Workloads(ctx, kube, namespace, metav1.ListOptions{})
	all := make([]workload, len(list))
	for i := range list {
		all[i] = workload{list[i]}
		if all[i].stopped() {
			all[i].Wanted = 0
		}
	}
	return all, err
}

const helmReleaseKey = "meta.helm.sh/release-name"

// stopped reports whether a takeover keeps the Pods of a DaemonSet off every node.
func (w *workload) stopped() bool {
	_, stopped := w.Pod.NodeSelector[stoppedSelector]
	return stopped && w.Kind == "DaemonSet"
}

// before is how many Pods a workload wanted that a takeover has stopped; 0 for others.
func (w *workload) before() int32 {
	if w.stopped() {
		return 1 // on its nodes
	}
	n, err := strconv.ParseInt(w.Meta.Annotations[replicasAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func (w *workload) ours() bool { return w.Meta.Labels[cluster.NameLabel] == cluster.ChartName }

// recognise reports whether a workload runs a cloud controller manager that is not csccm's.
func recognise(w *workload) (Predecessor, bool) {
	if w.ours() || len(w.Pod.Containers) == 0 {
		return Predecessor{}, false
	}
	whose, container := family.OfPod(w.Pod, w.Meta.Name)
	if container == nil {
		return Predecessor{}, false
	}
	p := Predecessor{
		Family: whose, Kind: w.Kind, Namespace: w.Meta.Namespace, Name: w.Meta.Name, Image: container.Image, Wanted: w.Wanted,
		HelmRelease: w.Meta.Annotations[helmReleaseKey], ServiceAccount: w.Pod.ServiceAccountName, Lease: leaseOf(family.Arguments(container)),
		Kept: w.Wanted == 0 && w.Meta.Annotations[keptAnnotation] != "", Before: w.before(),
		starting: w.Meta.Annotations[startingAnnotation] != "",
		ready:    w.Ready, configs: cloudConfigs(w, container),
	}
	if w.Selector != nil {
		p.selector = w.Selector.MatchLabels
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
		w := workload{cluster.DeploymentOf(&d)}
		if !w.ours() || len(w.Pod.Containers) == 0 {
			continue
		}
		if l := leaseOf(family.Arguments(&w.Pod.Containers[0])); l != nil {
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

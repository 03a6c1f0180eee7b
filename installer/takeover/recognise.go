// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
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
	w := workload{&d.ObjectMeta, "Deployment", 1, d.Status.ReadyReplicas, d.Spec.Selector, &d.Spec.Template.Spec}
	if d.Spec.Replicas != nil {
		w.wanted = *d.Spec.Replicas
	}
	return w
}

func ofDaemonSet(d *appsv1.DaemonSet) workload {
	w := workload{&d.ObjectMeta, "DaemonSet", d.Status.DesiredNumberScheduled, d.Status.NumberReady, d.Spec.Selector, &d.Spec.Template.Spec}
	if _, stopped := d.Spec.Template.Spec.NodeSelector[stoppedSelector]; stopped {
		w.wanted = 0
	}
	return w
}

const (
	chartName         = "cloudstack-ccm"
	helmReleaseKey    = "meta.helm.sh/release-name"
	controllerManager = "cloud-controller-manager"
)

func (w *workload) ours() bool { return w.meta.Labels["app.kubernetes.io/name"] == chartName }

// recognise tells whether a workload runs a cloud controller manager that is not csccm's.
func recognise(w *workload) (Predecessor, bool) {
	if w.ours() || len(w.pod.Containers) == 0 {
		return Predecessor{}, false
	}
	family, container := familyOfPod(w.pod, w.meta.Name)
	if container == nil {
		return Predecessor{}, false
	}
	p := Predecessor{
		Family: family, Kind: w.kind, Namespace: w.meta.Namespace, Name: w.meta.Name, Image: container.Image, Wanted: w.wanted,
		HelmRelease: w.meta.Annotations[helmReleaseKey], ServiceAccount: w.pod.ServiceAccountName, Lease: leaseOf(arguments(container)),
		Kept:  w.wanted == 0 && w.meta.Annotations[keptAnnotation] != "",
		ready: w.ready, configs: cloudConfigs(w, container),
	}
	if w.selector != nil {
		p.selector = w.selector.MatchLabels
	}
	return p, true
}

// Replaces reports whether a takeover can take the place of the workload with these Pods.
func Replaces(pod *corev1.PodSpec, workload string) bool {
	family, _ := familyOfPod(pod, workload)
	return family == Apache || family == Leaseweb
}

// familyOfPod returns the container that runs a cloud controller manager, and whose it is.
func familyOfPod(pod *corev1.PodSpec, workload string) (Family, *corev1.Container) {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if f := familyOf(c, workload); f != "" {
			return f, c
		}
	}
	return "", nil
}

// familyOf judges by the arguments, which images that were mirrored or built by hand keep, then by the image.
func familyOf(c *corev1.Container, name string) Family {
	provider, _ := argument(arguments(c), "cloud-provider")
	switch {
	case strings.Contains(c.Image, "leaseweb"), provider == "cloudstack":
		return Leaseweb
	case strings.Contains(c.Image, "cloudstack-kubernetes-provider"), provider == "external-cloudstack":
		return Apache
	case strings.Contains(c.Image, controllerManager), strings.Contains(name, controllerManager) && provider != "":
		return Other
	case strings.Contains(name, controllerManager) && strings.Contains(c.Name, controllerManager):
		return Other
	}
	return ""
}

func arguments(c *corev1.Container) []string { return slices.Concat(c.Command, c.Args) }

// argument finds a flag in either of its forms.
func argument(args []string, name string) (value string, found bool) {
	for i, a := range args {
		a, isFlag := strings.CutPrefix(a, "-")
		if !isFlag {
			continue
		}
		key, value, joined := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		switch {
		case key != name:
		case joined:
			return strings.Trim(value, `"`), true
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			return args[i+1], true
		default:
			return "true", true
		}
	}
	return "", false
}

// leaseOf is the lease by which a cloud controller manager elects its leader: it does unless told not to.
func leaseOf(args []string) *LeaseName {
	if v, found := argument(args, "leader-elect"); found && v == "false" {
		return nil
	}
	l := DefaultLease
	if v, found := argument(args, "leader-elect-resource-name"); found {
		l.Name = v
	}
	if v, found := argument(args, "leader-elect-resource-namespace"); found {
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
		if l := leaseOf(arguments(&w.pod.Containers[0])); l != nil {
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
			if v, found := argument(arguments(c), "cloud-provider"); found && v != "" && v != "external" {
				out = append(out, Predecessor{Family: InTree, Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Image: c.Image, Wanted: 1})
			}
		}
	}
	return out
}

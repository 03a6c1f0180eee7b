// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/node"
)

// manyRestarts is how often a container may have restarted before a check mentions it.
const manyRestarts = 3

func podsReady(f *Facts) Finding {
	var wanted, ready int32
	var down []Object
	var images []string
	for _, w := range f.Ours() {
		wanted, ready = wanted+w.Wanted, ready+w.Ready
		images = append(images, w.Images...)
		if w.Ready < w.Wanted || w.Wanted == 0 {
			down = append(down, objectf(w.Kind, w.Namespace, w.Name, "%d of %d Pods ready", w.Ready, w.Wanted))
		}
	}
	down = append(down, about("Pod", f.Pods, notReady)...)
	odd := about("Pod", f.Pods, func(p *corev1.Pod) string {
		for _, image := range imagesOf(&p.Spec) {
			if !slices.Contains(images, image) {
				return fmt.Sprintf("runs image %s, wanted is %s", image, strings.Join(images, ", "))
			}
		}
		if i := slices.IndexFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount >= manyRestarts }); i >= 0 {
			return fmt.Sprintf("restarted %d times", p.Status.ContainerStatuses[i].RestartCount)
		}
		return ""
	})
	out := Problemf("%d of %s ready", ready, english.Plural(int(wanted), "Pod", "")).About(down...)
	switch {
	case len(f.Ours()) == 0:
		return Problemf("release %s has no Deployment or DaemonSet in namespace %s", f.Release, f.Namespace).Fix("`csccm install`")
	case len(down)+len(odd) == 0:
		return Passf("%s", english.Plural(int(ready), "Pod", ""))
	case len(down) == 0:
		return Warnf("%s restarting, or with another image than wanted", english.Plural(len(odd), "Pod", "")).About(odd...)
	case ready > 0:
		out.Outcome = Warning // another Pod works
	case wanted == 0:
		return out.Fix("restore what the release says: `csccm upgrade`")
	}
	return out
}

// notReady says why a Pod is not ready; "" when it is.
func notReady(p *corev1.Pod) string {
	if cluster.PodReady(p) {
		return ""
	}
	return cmp.Or(cluster.PodWaits(p), strings.Trim(p.Status.Reason+": "+p.Status.Message, ": "), "not ready, phase "+string(p.Status.Phase))
}

// leaseGrace is how much older than its duration a lease may be before its holder counts as dead.
const leaseGrace = 15 * time.Second

func leader(f *Facts) Finding {
	var fresh, stale []Object
	var holds *coordinationv1.Lease
	for i := range f.Leases {
		l := &f.Leases[i]
		if !IsElection(l) {
			continue
		}
		age := f.At.Sub(l.Spec.RenewTime.Time)
		o := objectf("Lease", l.Namespace, l.Name, "held by %s, renewed %s ago", *l.Spec.HolderIdentity, age.Round(time.Second))
		if age > leaseGrace+time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second {
			stale = append(stale, o)
		} else {
			fresh, holds = append(fresh, o), l
		}
	}
	switch {
	case len(fresh) == 0 && len(stale) == 0:
		return Problemf("nobody holds a lease")
	case len(fresh) == 0:
		return Problemf("nobody has renewed the lease").About(stale...).Fix("if the controller's Pods look well, restart them: `%s`; the log says more: `%s`", restart, showLog)
	case len(fresh) > 1:
		return Problemf("%d cloud controller managers lead at once", len(fresh)).About(fresh...)
	case len(f.Others()) > 0 && !heldByPod(*holds.Spec.HolderIdentity, f.Pods):
		return Problemf("the leader is no Pod of this release").About(fresh...)
	case holds.Spec.AcquireTime != nil && len(f.Pods) > 0 && !slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool {
		return !holds.Spec.AcquireTime.Add(leaseGrace).Before(p.CreationTimestamp.Time) // clocks may differ a little
	}):
		return Problemf("nobody leads: the lease was acquired before any Pod of this release was created, and its holder is gone").
			About(fresh...).Fix("wait until the lease has expired: then a Pod of this release leads")
	}
	return Passf("%s", fresh[0].Message).With("lease", fresh[0].String())
}

// IsElection reports whether a lease is held and belongs to a cloud controller manager.
func IsElection(l *coordinationv1.Lease) bool {
	return strings.Contains(l.Name, "cloud-controller-manager") && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" && l.Spec.RenewTime != nil
}

// heldByPod reports whether a lease's holder, HOSTNAME_UUID, is one of the Pods: a Pod's host name is its
// name, or its node's with hostNetwork.
func heldByPod(holder string, pods []corev1.Pod) bool {
	host, _, _ := strings.Cut(holder, "_")
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return host == p.Name || host == p.Spec.NodeName })
}

// loose reports whether a Pod is one of a cloud controller manager that no Deployment or DaemonSet makes: a static Pod of
// the control plane, most of all. What has ended, such as the chart's self-test, acts no more.
func loose(p *corev1.Pod) bool {
	owned := slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ReplicaSet" || o.Kind == "DaemonSet" })
	ended := p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	ours := slices.Contains([]string{"cloudstack-ccm", "cloudstack-ccm-self-test"}, p.Labels["app.kubernetes.io/name"])
	return !owned && !ended && !ours && isController(p.Name, imagesOf(&p.Spec))
}

// otherControllers names csccm takeover only where the providers are those that it can replace.
func otherControllers(f *Facts) Finding {
	var found []Object
	replaceable := true
	for _, w := range f.Others() {
		found = append(found, objectf(w.Kind, w.Namespace, w.Name, "%s, image %s", english.Plural(int(w.Wanted), "Pod", ""), strings.Join(w.Images, ", ")))
		replaceable = replaceable && w.replaceable
	}
	others := len(found)
	found = append(found, about("Pod", f.SystemPods, func(p *corev1.Pod) string {
		if loose(p) {
			return "a static Pod, which no Deployment makes; its file is in /etc/kubernetes/manifests of its node"
		}
		return ""
	})...)
	found = append(found, about("Node", f.Nodes, func(n *corev1.Node) string {
		if kubelet.RunsCloudController(n) {
			return "its k3s or RKE2 server runs the built-in cloud controller"
		}
		return ""
	})...)
	if len(found) == 0 {
		return Passf("none")
	}
	out := Problemf("another cloud controller manager is there").About(found...)
	if replaceable && others == len(found) {
		return out.Fix("`csccm takeover` stops the other provider for CloudStack and keeps all that it made")
	}
	return out
}

func answers(f *Facts) Finding {
	if len(f.Answers) == 0 {
		return Skipf("the release has no Pod")
	}
	var sick, silent []Object
	for _, a := range f.Answers {
		switch {
		case a.Sick != "":
			sick = append(sick, objectf("Pod", a.Pod.Namespace, a.Pod.Name, "%s", a.Sick))
		case a.Err != nil && notReady(a.Pod) != "": // a firewall, or a role without pods/proxy, hides the Pod from us, not from its kubelet
			silent = append(silent, objectf("Pod", a.Pod.Namespace, a.Pod.Name, "%v", a.Err))
		}
	}
	if len(sick) == 0 && len(silent) > 0 {
		return Unknownf("%s could not be asked", english.Plural(len(silent), "Pod", "")).About(silent...)
	}
	return Passf("%s", english.Plural(len(f.Answers), "Pod", "")).Unless(sick, "Pod", "%s not healthy").About(silent...)
}

func placement(f *Facts) Finding {
	control := slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool { return node.ControlPlane(&n) })
	misplaced := about("Pod", f.Pods, func(p *corev1.Pod) string {
		i := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName })
		if !control || i < 0 || node.ControlPlane(&f.Nodes[i]) {
			return ""
		}
		return "runs on node " + p.Spec.NodeName + ", which is no control plane node"
	})
	return Passf("%s", english.Plural(len(f.Pods), "Pod", "")).
		Unless(misplaced, "Pod", "%s with the keys on workers, whose kubelets may read them")
}

func madeByCKS(f *Facts) Finding {
	var without []Object
	for _, v := range f.Kubelets {
		if v.Verdict == kubelet.NotExternal {
			without = append(without, objectf("Node", "", v.Node, "its kubelet is not external; CKS adds nodes so"))
		}
	}
	named := slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool { return strings.Contains(p.Name, "cloud-controller-manager") })
	switch {
	case f.Distribution != cluster.CKS:
		return Passf("distribution: %s (%s)", f.Distribution, f.DistributionBy)
	case named && len(without) == 0:
		return Passf("made by CKS; its provider stays away, and all kubelets are external")
	case named && node.Adopts(f.Pods):
		return Passf("made by CKS; its provider stays away, and the controller initialises the nodes that CKS adds")
	}
	out := Problemf("the cluster was made by CKS (%s)", f.DistributionBy)
	if !named {
		out.Message += ", which installs its own provider again as long as no Pod is named cloud-controller-manager"
	}
	return out.About(without...)
}

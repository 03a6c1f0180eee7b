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
	ours := f.Ours()
	if len(ours) == 0 {
		return Problemf("release %s has no Deployment or DaemonSet in namespace %s", f.Release, f.Namespace).Fix("`csccm install`")
	}
	for _, w := range ours {
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
		for j := range p.Status.ContainerStatuses {
			if n := p.Status.ContainerStatuses[j].RestartCount; n >= manyRestarts {
				return fmt.Sprintf("restarted %d times", n)
			}
		}
		return ""
	})
	out := Problemf("%d of %s ready", ready, english.Plural(int(wanted), "Pod", "")).About(down...)
	switch {
	case len(down)+len(odd) == 0:
		return Passf("%s", english.Plural(int(ready), "Pod", ""))
	case len(down) == 0:
		return Warnf("%s restarting, or with another image than wanted", english.Plural(len(odd), "Pod", "")).About(odd...)
	case ready > 0:
		out.Outcome = Warning // another Pod works
	case wanted == 0 && f.Deployed() != nil:
		return out.Fix("restore what the release says: `csccm upgrade`")
	case wanted == 0:
		return out.Fix("`kubectl -n %s scale deployment %s --replicas=1`, and correct what made it", ours[0].Namespace, ours[0].Name)
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
		return Problemf("nobody has renewed the lease").About(stale...).Fix("if the controller's Pods look well, restart them: `%s`; the log says more: `%s`", Restart, ShowLog)
	case len(fresh) > 1:
		return Problemf("%d cloud controller managers lead at once", len(fresh)).About(fresh...)
	case len(f.Others()) > 0 && !heldByPod(*holds.Spec.HolderIdentity, f.Pods):
		return Problemf("the leader is no Pod of this release").About(fresh...)
	case predatesPods(holds.Spec.AcquireTime, f.Pods):
		return Problemf("nobody leads: the lease was acquired before any Pod of this release was created, and its holder is gone").
			About(fresh...).Fix("wait until the lease has expired: then a Pod of this release leads")
	}
	return Passf("%s", fresh[0].Message).With("lease", fresh[0].String())
}

// predatesPods reports whether a lease was acquired before the first of the Pods was created, so that none of them
// did. The clocks of nodes and of the API server may differ a little.
func predatesPods(acquired *metav1.MicroTime, pods []corev1.Pod) bool {
	return acquired != nil && len(pods) > 0 && !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return !acquired.Add(leaseGrace).Before(p.CreationTimestamp.Time)
	})
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

// otherControllers names csccm takeover only for the providers that it can replace.
func otherControllers(f *Facts) Finding {
	out := Problemf("another cloud controller manager is there")
	var remedies []string
	found := func(o Object, remedy string) {
		out = out.About(o)
		if !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	for _, w := range f.Others() {
		fix := "`csccm takeover` stops the other provider for CloudStack and keeps all that it made"
		if !w.replaceable {
			fix = fmt.Sprintf("csccm takeover does not know %s %s/%s; if it is not needed: `kubectl -n %[2]s delete %[4]s %[3]s`",
				w.Kind, w.Namespace, w.Name, strings.ToLower(w.Kind))
		}
		found(objectf(w.Kind, w.Namespace, w.Name, "%s, image %s", english.Plural(int(w.Wanted), "Pod", ""), strings.Join(w.Images, ", ")), fix)
	}
	for i := range f.SystemPods {
		if p := &f.SystemPods[i]; loose(p) {
			found(objectf("Pod", p.Namespace, p.Name, "a static Pod, which no Deployment makes"),
				"remove the static Pod's file from /etc/kubernetes/manifests of its node")
		}
	}
	for i := range f.Nodes {
		if kubelet.RunsCloudController(&f.Nodes[i]) {
			found(objectf("Node", "", f.Nodes[i].Name, "its k3s or RKE2 server runs the built-in cloud controller"),
				"start k3s and RKE2 with disable-cloud-controller: true")
		}
	}
	if len(out.Objects) == 0 {
		return Passf("none")
	}
	return out.Fix("%s", strings.Join(remedies, "; "))
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
		case a.Err != nil && !probed(a.Pod): // a firewall, or a role without pods/proxy, hides the Pod from us, not from its kubelet
			silent = append(silent, objectf("Pod", a.Pod.Namespace, a.Pod.Name, "%v", a.Err))
		}
	}
	if len(sick) == 0 && len(silent) > 0 {
		return Unknownf("%s could not be asked", english.Plural(len(silent), "Pod", "")).About(silent...)
	}
	return Passf("%s", english.Plural(len(f.Answers), "Pod", "")).Unless(sick, "Pod", "%s not healthy").About(silent...)
}

// probed reports whether the kubelet asks a Pod's /healthz and finds it well.
func probed(p *corev1.Pod) bool {
	return notReady(p) == "" && slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return c.ReadinessProbe != nil && c.ReadinessProbe.HTTPGet != nil && strings.HasSuffix(c.ReadinessProbe.HTTPGet.Path, "healthz")
	})
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
	without := slices.DeleteFunc(slices.Clone(f.Kubelets), func(v kubelet.NodeVerdict) bool { return v.Verdict != kubelet.NotExternal })
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
	for _, v := range without {
		out = out.About(objectf("Node", "", v.Node, "its kubelet is not external; CKS adds nodes so"))
	}
	return out
}

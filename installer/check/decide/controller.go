// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// foreignImages are parts of the images of cloud controller managers whose names do not say so.
var foreignImages = []string{"cloud-controller-manager", "cloudstack-kubernetes-provider", "leaseweb-ccm"}

// Controllers are the release's workloads, and the cloud controller managers outside the release that want Pods.
type Controllers struct {
	Release, Namespace string
	Ours, Others       []Workload
}

// ControllersOf finds the controllers among workloads.
func ControllersOf(release, namespace string, workloads []Workload) Controllers {
	c := Controllers{Release: release, Namespace: namespace}
	for _, w := range workloads {
		w.Ours = w.Namespace == namespace && w.labels["app.kubernetes.io/name"] == "cloudstack-ccm" && w.labels["app.kubernetes.io/instance"] == release
		switch {
		case w.Ours:
			c.Ours = append(c.Ours, w)
		case w.Wanted > 0 && isController(w.Name, w.Images):
			c.Others = append(c.Others, w)
		}
	}
	return c
}

// Words returns the command and arguments of the release's controller.
func (c Controllers) Words() []string {
	if len(c.Ours) == 0 {
		return nil
	}
	return c.Ours[0].words
}

// isController reports whether a name or an image is that of a cloud controller manager.
func isController(name string, images []string) bool {
	return strings.Contains(name, "cloud-controller-manager") || slices.ContainsFunc(images, func(image string) bool {
		return slices.ContainsFunc(foreignImages, func(part string) bool { return strings.Contains(image, part) })
	})
}

// Pods returns the Pods of the release's workloads.
func (c Controllers) Pods(pods []corev1.Pod) []corev1.Pod {
	var out []corev1.Pod
	for i := range c.Ours {
		w := &c.Ours[i]
		selector := labels.SelectorFromSet(w.selector)
		for j := range pods {
			p := &pods[j]
			if len(w.selector) > 0 && p.Namespace == w.Namespace && selector.Matches(labels.Set(p.Labels)) && p.DeletionTimestamp == nil {
				out = append(out, *p)
			}
		}
	}
	return out
}

// manyRestarts is how often a container may have restarted before a check mentions it.
const manyRestarts = 3

// Pods decides CCM-001, by the Pods of the release.
func Pods(c Controllers, pods []corev1.Pod, helm bool) Finding {
	var wanted, ready int32
	var objects []Object
	var images []string
	for i := range c.Ours {
		w := &c.Ours[i]
		wanted, ready = wanted+w.Wanted, ready+w.Ready
		images = append(images, w.Images...)
		if w.Ready < w.Wanted || w.Wanted == 0 {
			o := w.object()
			o.Message = fmt.Sprintf("%d of %d Pods ready", w.Ready, w.Wanted)
			objects = append(objects, o)
		}
	}
	if len(c.Ours) == 0 {
		return Problemf("release %s has no Deployment or DaemonSet in namespace %s", c.Release, c.Namespace).Fix("`csccm install`")
	}
	var restarts []Object
	for _, p := range pods {
		o := Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}
		if why := notReady(&p); why != "" {
			o.Message = why
			objects = append(objects, o)
		} else if why := otherImage(&p, images); why != "" {
			o.Message = why
			restarts = append(restarts, o)
		} else if n := restartsOf(&p); n >= manyRestarts {
			o.Message = fmt.Sprintf("restarted %d times", n)
			restarts = append(restarts, o)
		}
	}
	switch {
	case len(objects) > 0:
		f := Problemf("%d of %s ready", ready, plural.Count(int(wanted), "Pod")).About(objects...)
		switch {
		case ready > 0:
			f.Outcome = Warning // another Pod works
		case wanted == 0 && helm:
			f = f.Fix("restore what the release says: `csccm upgrade`")
		case wanted == 0:
			f = f.Fix("`kubectl -n %s scale deployment %s --replicas=1`, and correct what made it", c.Ours[0].Namespace, c.Ours[0].Name)
		}
		return f
	case len(restarts) > 0:
		return Warnf("%s restarting, or with another image than wanted", plural.Count(len(restarts), "Pod")).About(restarts...)
	}
	return Passf("%s", plural.Count(int(ready), "Pod"))
}

// otherImage says that a Pod runs something else than its Deployment wants; "" when it does not.
func otherImage(p *corev1.Pod, wanted []string) string {
	for i := range p.Spec.Containers {
		image := p.Spec.Containers[i].Image
		if !slices.Contains(wanted, image) {
			return fmt.Sprintf("runs image %s, wanted is %s", image, strings.Join(wanted, ", "))
		}
		_, digest, pinned := strings.Cut(image, "@")
		for j := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[j]
			if pinned && s.Name == p.Spec.Containers[i].Name && s.ImageID != "" && !strings.Contains(s.ImageID, digest) {
				return fmt.Sprintf("runs %s, wanted is digest %s", s.ImageID, digest)
			}
		}
	}
	return ""
}

// notReady says why a Pod is not ready; "" when it is.
func notReady(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return ""
		}
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "not scheduled: " + c.Message
		}
	}
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		switch {
		case s.State.Waiting != nil:
			return strings.TrimSuffix(fmt.Sprintf("%s: %s", s.State.Waiting.Reason, s.State.Waiting.Message), ": ")
		case s.State.Terminated != nil:
			return fmt.Sprintf("ended with exit code %d (%s)", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
		}
	}
	if p.Status.Message != "" {
		return strings.TrimPrefix(p.Status.Reason+": "+p.Status.Message, ": ")
	}
	return "not ready, phase " + string(p.Status.Phase)
}

func restartsOf(p *corev1.Pod) int {
	n := 0
	for i := range p.Status.ContainerStatuses {
		n += int(p.Status.ContainerStatuses[i].RestartCount)
	}
	return n
}

// Placement decides CCM-006.
func Placement(pods []corev1.Pod, nodes []corev1.Node) Finding {
	workers := map[string]bool{}
	for i := range nodes {
		if !node.ControlPlane(&nodes[i]) {
			workers[nodes[i].Name] = true
		}
	}
	if len(workers) == len(nodes) {
		return Passf("no node has the label of a control plane node")
	}
	var objects []Object
	for i := range pods {
		if p := &pods[i]; workers[p.Spec.NodeName] {
			objects = append(objects, Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Message: "runs on node " + p.Spec.NodeName + ", which is no control plane node"})
		}
	}
	return Passf("%s", plural.Count(len(pods), "Pod")).Unless(objects, "Pod", "%s with the keys on workers, whose kubelets may read them")
}

// LeaderFacts is what CCM-002 is decided by.
type LeaderFacts struct {
	Leases []coordinationv1.Lease
	Pods   []corev1.Pod // of the release
	Others []Workload
	Now    time.Time
}

// leaseGrace is how much older than its duration a lease may be before its holder counts as dead.
const leaseGrace = 15 * time.Second

// Leader decides CCM-002.
func Leader(f LeaderFacts) Finding {
	var fresh, stale []Object
	holder := ""
	var acquired *metav1.MicroTime
	for i := range f.Leases {
		l := &f.Leases[i]
		if !IsElection(l) {
			continue
		}
		limit := leaseGrace
		if l.Spec.LeaseDurationSeconds != nil {
			limit += time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		}
		age := f.Now.Sub(l.Spec.RenewTime.Time)
		o := Object{Kind: "Lease", Namespace: l.Namespace, Name: l.Name}
		o.Message = fmt.Sprintf("held by %s, renewed %s ago", *l.Spec.HolderIdentity, age.Round(time.Second))
		if age > limit {
			stale = append(stale, o)
			continue
		}
		fresh = append(fresh, o)
		holder, acquired = *l.Spec.HolderIdentity, l.Spec.AcquireTime
	}
	switch {
	case len(fresh) == 0 && len(stale) == 0:
		return Problemf("nobody holds a lease").Fix("look at the controller's log, which does not get as far as the election: `%s`", ShowLog)
	case len(fresh) == 0:
		return Problemf("nobody has renewed the lease").About(stale...).Fix("if the controller's Pods look well, restart them: `%s`; the log says more: `%s`", Restart, ShowLog)
	case len(fresh) > 1:
		return Problemf("%d cloud controller managers lead at once", len(fresh)).About(fresh...)
	case len(f.Others) > 0 && !holds(holder, f.Pods):
		return Problemf("the leader is no Pod of this release").About(fresh...)
	case predatesPods(acquired, f.Pods):
		return Problemf("nobody leads: the lease was acquired before any Pod of this release was created, and its holder is gone").
			About(fresh...).Fix("wait until the lease has expired: then a Pod of this release leads")
	}
	return Passf("%s", fresh[0].Message).With("lease", fresh[0].String())
}

// predatesPods reports whether a lease was acquired before the first of the Pods was created, so that none of them
// did. The clocks of nodes and of the API server may differ a little.
func predatesPods(acquired *metav1.MicroTime, pods []corev1.Pod) bool {
	if acquired == nil || len(pods) == 0 {
		return false
	}
	return !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return !acquired.Add(leaseGrace).Before(p.CreationTimestamp.Time)
	})
}

// IsElection reports whether a lease is held and belongs to a cloud controller manager.
func IsElection(l *coordinationv1.Lease) bool {
	return strings.Contains(l.Name, "cloud-controller-manager") && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" && l.Spec.RenewTime != nil
}

// holds reports whether a lease's holder, HOSTNAME_UUID, is one of the Pods: a Pod's host name is its
// name, or its node's with hostNetwork.
func holds(holder string, pods []corev1.Pod) bool {
	host := holder
	if i := strings.LastIndexByte(holder, '_'); i > 0 {
		host = holder[:i]
	}
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return host == p.Name || host == p.Spec.NodeName })
}

// LoosePods are Pods of cloud controller managers that no Deployment or DaemonSet makes: static Pods of
// the control plane, most of all. What has ended, such as the chart's self-test, acts no more.
func LoosePods(pods []corev1.Pod) []corev1.Pod {
	var out []corev1.Pod
	for i := range pods {
		p := &pods[i]
		owned := slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ReplicaSet" || o.Kind == "DaemonSet" })
		var images []string
		for j := range p.Spec.Containers {
			images = append(images, p.Spec.Containers[j].Image)
		}
		ended := p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		ours := slices.Contains([]string{"cloudstack-ccm", "cloudstack-ccm-self-test"}, p.Labels["app.kubernetes.io/name"])
		if !owned && !ended && !ours && isController(p.Name, images) {
			out = append(out, *p)
		}
	}
	return out
}

// Others decides CCM-003.
func Others(others []Workload, pods []corev1.Pod, nodes []corev1.Node) Finding {
	var objects []Object
	for i := range pods {
		objects = append(objects, Object{Kind: "Pod", Namespace: pods[i].Namespace, Name: pods[i].Name, Message: "no Deployment makes it: a static Pod is a file in /etc/kubernetes/manifests of its node"})
	}
	for i := range others {
		o := others[i].object()
		o.Message = fmt.Sprintf("%s, image %s", plural.Count(int(others[i].Wanted), "Pod"), strings.Join(others[i].Images, ", "))
		objects = append(objects, o)
	}
	for i := range nodes {
		if kubelet.RunsCloudController(&nodes[i]) {
			objects = append(objects, NodeObject(&nodes[i], "its k3s or RKE2 server runs the built-in cloud controller"))
		}
	}
	if len(objects) > 0 {
		return Problemf("another cloud controller manager is there").About(objects...).Fix("%s", remedyForOthers(others, len(pods) > 0, slices.ContainsFunc(nodes, func(n corev1.Node) bool {
			return kubelet.RunsCloudController(&n)
		})))
	}
	return Passf("none")
}

// remedyForOthers names csccm takeover only for the providers that it can replace.
func remedyForOthers(others []Workload, static, builtIn bool) string {
	var parts []string
	if slices.ContainsFunc(others, func(w Workload) bool { return w.replaceable }) {
		parts = append(parts, "`csccm takeover` stops the other provider for CloudStack and keeps all that it made")
	}
	for i := range others {
		if w := &others[i]; !w.replaceable {
			parts = append(parts, fmt.Sprintf("csccm takeover does not know %s %s/%s; if it is not needed: `kubectl -n %[2]s delete %[4]s %[3]s`",
				w.Kind, w.Namespace, w.Name, strings.ToLower(w.Kind)))
		}
	}
	if static {
		parts = append(parts, "remove the static Pod's file from /etc/kubernetes/manifests of its node")
	}
	if builtIn {
		parts = append(parts, "start k3s and RKE2 with disable-cloud-controller: true")
	}
	return strings.Join(parts, "; ")
}

// CKS decides CKS-001.
func CKS(d Distribution, pods []corev1.Pod, kubelets []kubelet.NodeVerdict) Finding {
	if d.Name != cluster.CKS {
		return Passf("distribution: %s (%s)", d.Name, d.By).With("distribution", string(d.Name))
	}
	named := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return strings.Contains(p.Name, "cloud-controller-manager") })
	var without []Object
	for _, v := range kubelets {
		if v.Verdict == kubelet.NotExternal {
			without = append(without, Object{Kind: "Node", Name: v.Node, Message: "its kubelet is not external; CKS adds nodes so"})
		}
	}
	f := Problemf("the cluster was made by CKS (%s)", d.By)
	switch {
	case !named && len(pods) > 0:
		f.Message += ": no Pod of the controller is named cloud-controller-manager, so CKS will install its own provider again"
	case !named:
		f.Message += ": it installs its own provider again as long as no Pod is named cloud-controller-manager"
	case len(without) == 0:
		return Passf("made by CKS; its provider stays away, and all kubelets are external").With("distribution", string(d.Name))
	case node.Adopts(pods):
		return Passf("made by CKS; its provider stays away, and the controller initialises the nodes that CKS adds").With("distribution", string(d.Name))
	}
	return f.About(without...).With("distribution", string(d.Name))
}

// Distribution says how the cluster was made, and by what we know it.
type Distribution struct {
	Name cluster.Distribution
	By   string
}

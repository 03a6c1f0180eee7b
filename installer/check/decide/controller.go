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

func controllerChecks() []Check {
	return []Check{
		{
			Code: "CCM-001", Title: "Pods ready", Severity: SeverityError, Phase: Installed, Needs: needAPI, Reads: []Source{Controllers, Pods}, Tries: []Source{Releases}, Judge: podsReady,
			What:   "All Pods of the controller are ready, do not restart, and run the image that their Deployment names, by digest where it gives one.",
			Why:    "Without a ready Pod no node is initialised and no Service gets an address.",
			Remedy: "`" + ShowPods + "` and `" + ShowLog + "` say why",
		},
		{
			Code: "CCM-002", Title: "One leader", Severity: SeverityError, Phase: Installed, Needs: needAPI, Reads: []Source{Leases, Controllers, Pods}, Judge: leader,
			What:   "The lease of the cloud controller manager is fresh and held by a Pod of this release, and there is no second fresh lease.",
			Why:    "With a stale lease no controller works; with two fresh leases two providers change the same nodes and rules.",
			Remedy: "look at the controller's log: `" + ShowLog + "`; where another provider holds a lease, take its place with csccm takeover",
		},
		{
			Code: "CCM-003", Title: "No other cloud controller manager", Severity: SeverityError, Needs: needAPI, Reads: []Source{Controllers, SystemPods, Nodes}, Judge: otherControllers,
			What:   "There is no Deployment, DaemonSet or static Pod of another cloud controller manager, and k3s and RKE2 run without their own.",
			Why:    "Two providers undo each other's work: rules appear twice, addresses are released, nodes get foreign provider IDs.",
			Remedy: "csccm takeover takes the place of Apache's and Leaseweb's providers: it stops them and keeps all that they made; delete another one that is not needed; start k3s and RKE2 with disable-cloud-controller: true",
		},
		{
			Code: "CCM-004", Title: "Health and metrics answer", Severity: SeverityWarning, Phase: Installed, Needs: []string{"K8S-001", "CCM-001"}, Reads: []Source{Answers}, Judge: answers,
			What:   "/healthz and /metrics of every Pod answer through the API server; if the API server cannot reach a Pod, the kubelet's probe counts.",
			Why:    "Kubelets restart a Pod whose /healthz fails, and alerts need /metrics.",
			Remedy: "look at the controller's log: `" + ShowLog + "`; where only the API server cannot reach the Pod, open port 10258 of the nodes to the control plane",
		},
		{
			Code: "CCM-005", Title: "No open errors", Severity: SeverityWarning, Phase: Installed, Needs: needAPI, Reads: []Source{Events}, Tries: []Source{Services, Nodes, VMs}, Judge: openErrors,
			What:   "There is no unresolved warning of the cloud controllers about an existing Node or Service: a later Event, the condition csccm.io/LoadBalancerReady or a healthy Node resolves one. Events count for an hour.",
			Why:    "Events say what the controller could not do, and why.",
			Remedy: "follow the message; kubectl describe shows all Events of an object, `" + ShowLog + "` the controller's log",
		},
		{
			Code: "CCM-006", Title: "Keys on control plane nodes only", Severity: SeverityWarning, Phase: Installed, Needs: needAPI, Reads: []Source{Pods, Nodes}, Judge: placement,
			What:   "The controller's Pods run on control plane nodes, if the cluster has any.",
			Why:    "The kubelet of a Pod's node may read the Pod's Secrets: on a worker, CloudStack's keys.",
			Remedy: "`csccm upgrade --set controlPlaneOnly=true --set affinity=null --set nodeSelector=null`",
		},
		{
			Code: "CKS-001", Title: "CloudStack Kubernetes Service", Severity: SeverityWarning, Needs: needAPI, Reads: []Source{Distribution, Pods}, Tries: []Source{Kubelets}, Judge: madeByCKS,
			What:   "The cluster was not made by CKS; or the name of a controller's Pod contains cloud-controller-manager, and all kubelets run with --cloud-provider=external or the chart value adoptNodes is set.",
			Why:    "CKS installs its own provider again on start and upgrade unless a Pod has such a name, and the nodes that it adds run without --cloud-provider=external.",
			Remedy: "keep the chart's Pod names, keep the Secret cloudstack-secret, and have the controller initialise the nodes that CKS adds: `csccm upgrade --set adoptNodes=true`",
		},
	}
}

// manyRestarts is how often a container may have restarted before a check mentions it.
const manyRestarts = 3

func podsReady(f *Facts) Finding {
	var wanted, ready int32
	var objects []Object
	var images []string
	ours := f.Ours()
	if len(ours) == 0 {
		return Problemf("release %s has no Deployment or DaemonSet in namespace %s", f.Release, f.Namespace).Fix("`csccm install`")
	}
	for i := range ours {
		w := &ours[i]
		wanted, ready = wanted+w.Wanted, ready+w.Ready
		images = append(images, w.Images...)
		if w.Ready < w.Wanted || w.Wanted == 0 {
			objects = append(objects, objectf(w.Kind, w.Namespace, w.Name, "%d of %d Pods ready", w.Ready, w.Wanted))
		}
	}
	objects = append(objects, about("Pod", f.Pods, notReady)...)
	odd := about("Pod", f.Pods, func(p *corev1.Pod) string {
		restarts := 0
		for j := range p.Status.ContainerStatuses {
			restarts += int(p.Status.ContainerStatuses[j].RestartCount)
		}
		why := otherImage(p, images)
		if why == "" && restarts >= manyRestarts {
			why = fmt.Sprintf("restarted %d times", restarts)
		}
		return why
	})
	switch {
	case len(objects) == 0 && len(odd) > 0:
		return Warnf("%s restarting, or with another image than wanted", english.Plural(len(odd), "Pod", "")).About(odd...)
	case len(objects) == 0:
		return Passf("%s", english.Plural(int(ready), "Pod", ""))
	}
	out := Problemf("%d of %s ready", ready, english.Plural(int(wanted), "Pod", "")).About(objects...)
	switch {
	case ready > 0:
		out.Outcome = Warning // another Pod works
	case wanted == 0 && f.Deployed() != nil:
		out = out.Fix("restore what the release says: `csccm upgrade`")
	case wanted == 0:
		out = out.Fix("`kubectl -n %s scale deployment %s --replicas=1`, and correct what made it", ours[0].Namespace, ours[0].Name)
	}
	return out
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
	if cluster.PodReady(p) {
		return ""
	}
	for i := range p.Status.ContainerStatuses {
		if end := p.Status.ContainerStatuses[i].State.Terminated; end != nil {
			return fmt.Sprintf("ended with exit code %d (%s)", end.ExitCode, end.Reason)
		}
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
		return Problemf("nobody holds a lease").Fix("look at the controller's log, which does not get as far as the election: `%s`", ShowLog)
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
	var objects []Object
	var remedies []string
	fix := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(remedies, text) {
			remedies = append(remedies, text)
		}
	}
	for _, w := range f.Others() {
		objects = append(objects, objectf(w.Kind, w.Namespace, w.Name, "%s, image %s", english.Plural(int(w.Wanted), "Pod", ""), strings.Join(w.Images, ", ")))
		if w.replaceable {
			fix("`csccm takeover` stops the other provider for CloudStack and keeps all that it made")
		} else {
			fix("csccm takeover does not know %s %s/%s; if it is not needed: `kubectl -n %[2]s delete %[4]s %[3]s`", w.Kind, w.Namespace, w.Name, strings.ToLower(w.Kind))
		}
	}
	for i := range f.SystemPods {
		if p := &f.SystemPods[i]; loose(p) {
			objects = append(objects, objectf("Pod", p.Namespace, p.Name, "no Deployment makes it: a static Pod is a file in /etc/kubernetes/manifests of its node"))
			fix("remove the static Pod's file from /etc/kubernetes/manifests of its node")
		}
	}
	for i := range f.Nodes {
		if kubelet.RunsCloudController(&f.Nodes[i]) {
			objects = append(objects, objectf("Node", "", f.Nodes[i].Name, "its k3s or RKE2 server runs the built-in cloud controller"))
			fix("start k3s and RKE2 with disable-cloud-controller: true")
		}
	}
	if len(objects) > 0 {
		return Problemf("another cloud controller manager is there").About(objects...).Fix("%s", strings.Join(remedies, "; "))
	}
	return Passf("none")
}

func answers(f *Facts) Finding {
	if len(f.Answers) == 0 {
		return Skipf("the release has no Pod")
	}
	var sick, silent []Object
	var how []string
	for i := range f.Answers {
		switch a := &f.Answers[i]; {
		case a.Sick != "":
			sick = append(sick, objectf("Pod", a.Pod.Namespace, a.Pod.Name, "%s", a.Sick))
		case a.Err == nil:
			how = append(how, "asked through the API server")
		case probed(a.Pod):
			// A firewall between control plane and node, or a role without pods/proxy, hides the Pod from
			// us, not from its kubelet.
			how = append(how, "by the kubelet's probe")
		default:
			silent = append(silent, objectf("Pod", a.Pod.Namespace, a.Pod.Name, "%v", a.Err))
		}
	}
	slices.Sort(how)
	switch {
	case len(sick) > 0:
		return Problemf("%s not healthy", english.Plural(len(sick), "Pod", "")).About(append(sick, silent...)...)
	case len(silent) > 0:
		return Unknownf("%s could not be asked", english.Plural(len(silent), "Pod", "")).About(silent...)
	}
	return Passf("%s, %s", english.Plural(len(f.Answers), "Pod", ""), strings.Join(slices.Compact(how), " and "))
}

// probed reports whether the kubelet asks a Pod's /healthz and finds it well.
func probed(p *corev1.Pod) bool {
	return notReady(p) == "" && slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return c.ReadinessProbe != nil && c.ReadinessProbe.HTTPGet != nil && strings.HasSuffix(c.ReadinessProbe.HTTPGet.Path, "healthz")
	})
}

func placement(f *Facts) Finding {
	workers := map[string]bool{}
	for i := range f.Nodes {
		if !node.ControlPlane(&f.Nodes[i]) {
			workers[f.Nodes[i].Name] = true
		}
	}
	if len(workers) == len(f.Nodes) {
		return Passf("no node has the label of a control plane node")
	}
	misplaced := about("Pod", f.Pods, func(p *corev1.Pod) string {
		if workers[p.Spec.NodeName] {
			return "runs on node " + p.Spec.NodeName + ", which is no control plane node"
		}
		return ""
	})
	return Passf("%s", english.Plural(len(f.Pods), "Pod", "")).Unless(misplaced, "Pod", "%s with the keys on workers, whose kubelets may read them")
}

func madeByCKS(f *Facts) Finding {
	out := Problemf("the cluster was made by CKS (%s)", f.DistributionBy)
	var without []Object
	for _, v := range f.Kubelets {
		if v.Verdict == kubelet.NotExternal {
			without = append(without, Object{Kind: "Node", Name: v.Node, Message: "its kubelet is not external; CKS adds nodes so"})
		}
	}
	named := slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool { return strings.Contains(p.Name, "cloud-controller-manager") })
	switch {
	case f.Distribution != cluster.CKS:
		out, without = Passf("distribution: %s (%s)", f.Distribution, f.DistributionBy), nil
	case !named && len(f.Pods) > 0:
		out.Message += ": no Pod of the controller is named cloud-controller-manager, so CKS will install its own provider again"
	case !named:
		out.Message += ": it installs its own provider again as long as no Pod is named cloud-controller-manager"
	case len(without) == 0:
		out = Passf("made by CKS; its provider stays away, and all kubelets are external")
	case node.Adopts(f.Pods):
		out, without = Passf("made by CKS; its provider stays away, and the controller initialises the nodes that CKS adds"), nil
	}
	return out.About(without...).With("distribution", string(f.Distribution))
}

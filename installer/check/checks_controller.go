// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/plural"
)

const catController = "Controller"

func controllerChecks() []Check {
	return []Check{
		{
			Code: "CCM-001", Category: catController, Title: "Pods ready", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "All Pods of the controller are ready, do not restart, and run the image that their Deployment names, by digest where it gives one.",
			Why:    "Without a ready Pod no node is initialised and no Service gets an address.",
			Remedy: showPods + " and " + showLog + " say why",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.workloads, e.facts.pods, func(workloads []workload, pods []corev1.Pod) Finding {
					return decidePods(e.Release, e.Namespace, workloads, pods)
				})
			},
		},
		{
			Code: "CCM-002", Category: catController, Title: "One leader", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "The lease of the cloud controller manager is fresh and held by a Pod of this release, and no second such lease is.",
			Why:    "A stale lease means that nobody works; two fresh leases mean that two providers work on the same nodes and rules.",
			Remedy: "look at the controller's log (" + showLog + "); where another provider holds a lease, take its place with `csccm takeover`",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e.facts.leases, e.facts.workloads, e.facts.pods, func(leases []coordinationv1.Lease, workloads []workload, pods []corev1.Pod) Finding {
					return decideLeader(leaderFacts{
						leases: leases, pods: ownPods(e.Release, e.Namespace, workloads, pods),
						others: e.others(workloads), now: e.Clock.Now(),
					})
				})
			},
		},
		{
			Code: "CCM-003", Category: catController, Title: "No other cloud controller manager", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001"},
			What:   "No Deployment, DaemonSet or static Pod of another cloud controller manager is there, and k3s and RKE2 run without their own.",
			Why:    "Two providers undo each other's work: rules appear twice, addresses are released, nodes get foreign provider IDs.",
			Remedy: "run `csccm takeover` for Apache's and Leaseweb's providers: it stops them and keeps all that they made; delete another one that is not needed; start k3s and RKE2 with disable-cloud-controller: true",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e.facts.workloads, e.facts.systemPods, e.facts.nodes, func(workloads []workload, pods []corev1.Pod, nodes []corev1.Node) Finding {
					return decideOthers(e.others(workloads), loosePods(pods), nodes)
				})
			},
		},
		{
			Code: "CCM-004", Category: catController, Title: "Health and metrics answer", Severity: SeverityWarning, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001", "CCM-001"},
			What:   "/healthz of every Pod says ok and /metrics is served, asked through the API server; where it does not get there, the kubelet's probe counts.",
			Why:    "Kubelets restart a Pod by /healthz, and alerts rest on /metrics.",
			Remedy: "look at the controller's log (" + showLog + "); where only the API server cannot reach the Pod, open port 10258 of the nodes to the control plane",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.answers, decideAnswers)
			},
		},
		{
			Code: "CCM-005", Category: catController, Title: "No open errors", Severity: SeverityWarning, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "No warning of the cloud controllers about a Node or Service that exists is without a later success (an Event, or the condition csccm.io/LoadBalancerReady), and no error is in the controller's log three times within the last ten minutes.",
			Why:    "Events and log say what the controller could not do, and why.",
			Remedy: "follow the message; kubectl describe shows all Events of an object, " + showLog + " the whole log",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.events, func(events []corev1.Event) Finding {
					services, servicesErr := e.facts.services.get(ctx)
					nodes, nodesErr := e.facts.nodes.get(ctx)
					logs, err := e.facts.logs.get(ctx)
					events, logs = unsolved(events, logs, services)
					f := decideErrors(events, logs, livingOf(services, servicesErr, nodes, nodesErr), e.Clock.Now())
					if err != nil {
						f = f.With("log", err.Error())
					}
					return f
				})
			},
		},
		{
			Code: "CKS-001", Category: catController, Title: "CloudStack Kubernetes Service", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001"},
			What:   "The cluster was not made by CKS, or a Pod of the controller is named cloud-controller-manager and all kubelets run with --cloud-provider=external.",
			Why:    "CKS installs its own provider again on start and upgrade unless a Pod is named cloud-controller-manager, and nodes that it adds run without --cloud-provider=external.",
			Remedy: "keep the chart's Pod names, keep the Secret cloudstack-secret, and set the kubelet flag on nodes that CKS adds (NODE-001)",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.distribution, e.facts.ownPods, func(d distribution, pods []corev1.Pod) Finding {
					var kubelets []kubelet.NodeVerdict // only explains
					if d.name == cluster.CKS {
						kubelets, _ = e.facts.kubelets.get(ctx)
					}
					return decideCKS(d, pods, kubelets)
				})
			},
		},
	}
}

// isOurs tells whether a workload is the release's.
func (w *workload) isOurs(release, namespace string) bool {
	return w.namespace == namespace && w.labels["app.kubernetes.io/name"] == "cloudstack-ccm" && w.labels["app.kubernetes.io/instance"] == release
}

// foreignImages are parts of the images of cloud controller managers whose names do not say so.
var foreignImages = []string{"cloud-controller-manager", "cloudstack-kubernetes-provider", "leaseweb-ccm"}

// others are the cloud controller managers that are not to be there.
func (e *Env) others(workloads []workload) []workload {
	return slices.DeleteFunc(otherControllers(e.Release, e.Namespace, workloads), func(w workload) bool {
		return slices.ContainsFunc(e.Replaces, func(o Object) bool { return o.Kind == w.kind && o.Namespace == w.namespace && o.Name == w.name })
	})
}

// otherControllers are cloud controller managers that are not the release's and want Pods.
func otherControllers(release, namespace string, workloads []workload) []workload {
	var out []workload
	for i := range workloads {
		w := &workloads[i]
		if w.isOurs(release, namespace) || w.wanted == 0 {
			continue
		}
		if isController(w.name, w.images) {
			out = append(out, *w)
		}
	}
	return out
}

// isController tells a cloud controller manager by its name or its images.
func isController(name string, images []string) bool {
	return strings.Contains(name, "cloud-controller-manager") || slices.ContainsFunc(images, func(image string) bool {
		return slices.ContainsFunc(foreignImages, func(part string) bool { return strings.Contains(image, part) })
	})
}

// ownPods are the Pods of the release's workloads.
func ownPods(release, namespace string, workloads []workload, pods []corev1.Pod) []corev1.Pod {
	var out []corev1.Pod
	for i := range workloads {
		w := &workloads[i]
		if !w.isOurs(release, namespace) || len(w.selector) == 0 {
			continue
		}
		for j := range pods {
			p := &pods[j]
			if p.Namespace == w.namespace && selects(w.selector, p.Labels) && p.DeletionTimestamp == nil {
				out = append(out, *p)
			}
		}
	}
	return out
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// manyRestarts is how often a container may have restarted before it is worth a word.
const manyRestarts = 3

func decidePods(release, namespace string, workloads []workload, pods []corev1.Pod) Finding {
	var wanted, ready int32
	var objects []Object
	var images []string
	found := false
	for i := range workloads {
		w := &workloads[i]
		if !w.isOurs(release, namespace) {
			continue
		}
		found = true
		wanted, ready = wanted+w.wanted, ready+w.ready
		images = append(images, w.images...)
		if w.ready < w.wanted || w.wanted == 0 {
			o := w.object()
			o.Message = fmt.Sprintf("%d of %d Pods ready", w.ready, w.wanted)
			objects = append(objects, o)
		}
	}
	if !found {
		return problemf("release %s has no Deployment or DaemonSet in namespace %s", release, namespace).Fix("run `csccm install`")
	}
	var restarts []Object
	for _, p := range ownPods(release, namespace, workloads, pods) {
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
		f := problemf("%d of %s ready", ready, plural.Count(int(wanted), "Pod")).About(objects...)
		if ready > 0 {
			f.Outcome = Warning // another Pod works
		}
		return f
	case len(restarts) > 0:
		return warnf("%s restarting, or with another image than wanted", plural.Count(len(restarts), "Pod")).About(restarts...)
	}
	return passf("%s", plural.Count(int(ready), "Pod"))
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

type leaderFacts struct {
	leases []coordinationv1.Lease
	pods   []corev1.Pod // of the release
	others []workload
	now    time.Time
}

// leaseGrace is how much older than its duration a lease may be before its holder counts as dead.
const leaseGrace = 15 * time.Second

func decideLeader(f leaderFacts) Finding {
	var fresh, stale []Object
	holder := ""
	var acquired *metav1.MicroTime
	for i := range f.leases {
		l := &f.leases[i]
		if !isElection(l) {
			continue
		}
		limit := leaseGrace
		if l.Spec.LeaseDurationSeconds != nil {
			limit += time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		}
		age := f.now.Sub(l.Spec.RenewTime.Time)
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
		return problemf("nobody holds a lease").Fix("look at the controller's log: it does not get as far as the election: %s", showLog)
	case len(fresh) == 0:
		return problemf("nobody has renewed the lease").About(stale...)
	case len(fresh) > 1:
		return problemf("%d cloud controller managers lead at once", len(fresh)).About(fresh...)
	case len(f.others) > 0 && !holds(holder, f.pods):
		return problemf("the leader is no Pod of this release").About(fresh...)
	case predatesPods(acquired, f.pods):
		return problemf("nobody leads: the lease was acquired before any Pod of this release was created, and its holder is gone").
			About(fresh...).Fix("wait until the lease has expired: then a Pod of this release leads")
	}
	return passf("%s", fresh[0].Message).With("lease", fresh[0].String())
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

// isElection tells a cloud controller manager's lease that somebody holds.
func isElection(l *coordinationv1.Lease) bool {
	return strings.Contains(l.Name, "cloud-controller-manager") && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" && l.Spec.RenewTime != nil
}

// holds tells whether a lease's holder, HOSTNAME_UUID, is one of the Pods: a Pod's host name is its
// name, or its node's with hostNetwork.
func holds(holder string, pods []corev1.Pod) bool {
	host := holder
	if i := strings.LastIndexByte(holder, '_'); i > 0 {
		host = holder[:i]
	}
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return host == p.Name || host == p.Spec.NodeName })
}

// loosePods are Pods of cloud controller managers that no Deployment or DaemonSet makes: static Pods of
// the control plane, most of all. What has ended, such as the chart's self-test, acts no more.
func loosePods(pods []corev1.Pod) []corev1.Pod {
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

func decideOthers(others []workload, pods []corev1.Pod, nodes []corev1.Node) Finding {
	var objects []Object
	for i := range pods {
		objects = append(objects, Object{Kind: "Pod", Namespace: pods[i].Namespace, Name: pods[i].Name, Message: "no Deployment makes it: a static Pod is a file in /etc/kubernetes/manifests of its node"})
	}
	for i := range others {
		o := others[i].object()
		o.Message = fmt.Sprintf("%s, image %s", plural.Count(int(others[i].wanted), "Pod"), strings.Join(others[i].images, ", "))
		objects = append(objects, o)
	}
	for i := range nodes {
		if kubelet.RunsCloudController(&nodes[i]) {
			objects = append(objects, nodeObject(&nodes[i], "its k3s or RKE2 server runs the built-in cloud controller"))
		}
	}
	if len(objects) > 0 {
		return problemf("another cloud controller manager is there").About(objects...).Fix("%s", remedyForOthers(others, len(pods) > 0, slices.ContainsFunc(nodes, func(n corev1.Node) bool {
			return kubelet.RunsCloudController(&n)
		})))
	}
	return passf("none")
}

// remedyForOthers names csccm takeover only for the providers that it can replace.
func remedyForOthers(others []workload, static, builtIn bool) string {
	var parts []string
	if slices.ContainsFunc(others, func(w workload) bool { return w.replaceable }) {
		parts = append(parts, "run `csccm takeover`, which stops the other provider for CloudStack and keeps all that it made")
	}
	for i := range others {
		if w := &others[i]; !w.replaceable {
			parts = append(parts, fmt.Sprintf("csccm takeover does not know %s %s/%s; if it is not needed: kubectl -n %[2]s delete %[4]s %[3]s",
				w.kind, w.namespace, w.name, strings.ToLower(w.kind)))
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/service"
)

// manyRestarts is the number of restarts from which a check mentions them.
const manyRestarts = 3

var ccm001 = Check{
	Code:  "CCM-001",
	Title: "Pods ready",
	Phase: PhaseInstalled,
	Reads: Sources{Controllers, Pods},
	Tries: Sources{Releases},
	Judge: podsReady,
	What: `All Pods of the controller are ready, have not restarted three times and again within the last hour, and
		run the image that their Deployment names.`,
	Why: `Without a ready Pod no node is initialised and no Service gets an address.`,
	Remedy: "`kubectl -n NAMESPACE describe pods -l app.kubernetes.io/instance=RELEASE` and `kubectl -n " +
		"NAMESPACE logs -l app.kubernetes.io/instance=RELEASE --tail=-1` say why",
}

func podsReady(f *Facts) Finding {
	var wanted, ready int32
	var down Objects
	var images []string
	refused := false // the API server refuses to create Pods
	for _, w := range f.Ours() {
		wanted, ready = wanted+w.Wanted, ready+w.Ready
		images = append(images, w.Images...)
		if w.Ready < w.Wanted || w.Wanted == 0 {
			refused = refused || w.Problem != ""
			down = append(down, objectf(w.Kind, w.Namespace, w.Name, "%d of %d Pods ready%s", w.Ready, w.Wanted,
				when(w.Problem != "", "; %s", OneLine(w.Problem))))
		}
	}

	down = append(down, about("Pod", f.Pods, notReady)...)
	odd := about("Pod", f.Pods, func(p *corev1.Pod) string {
		for _, image := range imagesOf(&p.Spec) {
			if !slices.Contains(images, image) {
				return fmt.Sprintf("runs image %s, wanted is %s", image, listed(images))
			}
		}
		c := Find(p.Status.ContainerStatuses, func(c *corev1.ContainerStatus) bool {
			run := c.State.Running
			return c.RestartCount >= manyRestarts && (run == nil || f.ago(run.StartedAt.Time) < eventWindow)
		})
		if c != nil {
			return fmt.Sprintf("restarted %d times, the last time less than an hour ago", c.RestartCount)
		}
		return ""
	})

	out := Problemf("%d of %s ready", ready, count(int(wanted), "Pod")).About(down...)
	switch {
	case len(f.Ours()) == 0:
		return Problemf("release %s has no Deployment or DaemonSet in namespace %s", f.Release, f.Namespace).
			Fix("`csccm install`")
	case len(down)+len(odd) == 0:
		return Passf("%s", count(int(ready), "Pod"))
	case len(down) == 0:
		return Warnf("%s restarting, or with another image than wanted", count(len(odd), "Pod")).About(odd...)
	case ready > 0:
		out.Outcome = Warning // another Pod works
	case wanted == 0:
		return out.Fix("restore the objects of the release: `csccm upgrade`")
	}

	if refused {
		out = out.Fix("remove the cause; `csccm upgrade` restores objects of the release that are missing. Kubernetes "+
			"tries again after minutes, and at once after `%s`", restart)
	}

	return out
}

// notReady returns why a Pod is not ready; "" if it is.
func notReady(p *corev1.Pod) string {
	if cluster.PodReady(p) {
		return ""
	}
	return cmp.Or(cluster.PodProblem(p), "not ready, phase "+string(p.Status.Phase))
}

// leaseGrace is how long after the expiry of a lease its holder counts as dead.
const leaseGrace = 15 * time.Second

var ccm002 = Check{
	Code:  "CCM-002",
	Title: "One leader",
	Phase: PhaseInstalled,
	Reads: Sources{Leases, Controllers, Pods},
	Judge: leader,
	What: `The lease of the cloud controller manager is fresh and held by a Pod of this release, and there is no
		second fresh lease.`,
	Why: `With a stale lease no controller works; with two fresh leases two providers change the same nodes and
		rules.`,
	Remedy: "look at the controller's log: `kubectl -n NAMESPACE logs -l app.kubernetes.io/instance=RELEASE " +
		"--tail=-1`; if another provider holds a lease, replace it with csccm takeover",
}

func leader(f *Facts) Finding {
	var fresh, stale Objects
	var leading *coordinationv1.Lease
	for _, l := range f.Leases {
		if !IsElection(&l) {
			continue
		}

		o := objectf("Lease", l.Namespace, l.Name, "held by %s, renewed %s ago",
			*l.Spec.HolderIdentity, f.ago(l.Spec.RenewTime.Time))
		if Stale(&l, f.At) {
			stale = append(stale, o)
		} else {
			fresh, leading = append(fresh, o), &l
		}
	}

	switch {
	case len(fresh) == 0 && len(stale) == 0:
		return Problemf("nobody holds a lease")
	case len(fresh) == 0:
		return Problemf("nobody has renewed the lease").
			About(stale...).
			Fix("if the controller's Pods are ready, restart them: `%s`; the log says more: `%s`", restart, showLog)
	case len(fresh) > 1:
		return Problemf("%d cloud controller managers lead at once", len(fresh)).About(fresh...)
	case len(f.Others()) > 0 && !heldByPod(*leading.Spec.HolderIdentity, f.Pods):
		return Problemf("the leader is not a Pod of this release").About(fresh...)
	case leading.Spec.AcquireTime != nil && len(f.Pods) > 0 && !slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool {
		return !leading.Spec.AcquireTime.Add(leaseGrace).Before(p.CreationTimestamp.Time) // clocks may differ a little
	}):
		return Problemf("nobody leads: the lease was acquired before any Pod of this release was created, and its " +
			"holder no longer exists").
			About(fresh...).Fix("wait until the lease has expired: then a Pod of this release leads")
	}

	return Passf("%s", fresh[0].Message).With("lease", fresh[0].String())
}

// Stale reports whether a lease expired so long ago that its holder counts as dead.
func Stale(l *coordinationv1.Lease, at time.Time) bool {
	return at.Sub(l.Spec.RenewTime.Time) > leaseGrace+
		time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second
}

// IsElection reports whether a lease is held and belongs to a cloud controller manager.
func IsElection(l *coordinationv1.Lease) bool {
	return strings.Contains(l.Name, "cloud-controller-manager") &&
		l.Spec.HolderIdentity != nil &&
		*l.Spec.HolderIdentity != "" &&
		l.Spec.RenewTime != nil
}

// Leader returns the most recently renewed lease of a cloud controller manager; nil if there is none.
func Leader(leases []coordinationv1.Lease) (newest *coordinationv1.Lease) {
	for _, l := range leases {
		if IsElection(&l) && (newest == nil || newest.Spec.RenewTime.Before(l.Spec.RenewTime)) {
			newest = &l
		}
	}
	return newest
}

// heldByPod reports whether a lease's holder, HOSTNAME_UUID, is one of the Pods: a Pod's host name is its
// name, or its node's with hostNetwork.
func heldByPod(holder string, pods []corev1.Pod) bool {
	host, _, _ := strings.Cut(holder, "_")
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return host == p.Name || host == p.Spec.NodeName })
}

var ccm003 = Check{
	Code:  "CCM-003",
	Title: "No other cloud controller manager",
	Reads: Sources{Controllers, SystemPods, Nodes},
	Tries: Sources{Services, Leases},
	Judge: otherControllers,
	What: `There is no Deployment, DaemonSet or static Pod of another cloud controller manager, nobody else renews
		the lease of one, and k3s and RKE2 run without their own. No other release of the chart runs the same
		controllers. No other program (ServiceLB of k3s, MetalLB, kube-vip, Cilium) gives addresses to the Services
		that the controller serves. They are known by arguments, leases, and who writes the status of Services, not by
		their names. A status alone is a warning: it shows who has written it, not that the program still runs.`,
	Why: `Two providers undo each other's work: rules appear twice, addresses are released, nodes get foreign
		provider IDs, and the address that a Service shows changes to and fro.`,
	Remedy: `csccm takeover replaces Apache's and Leaseweb's providers: it stops them and keeps everything
		that they created; delete another one that is not needed; start k3s and RKE2 with disable-cloud-controller: true`,
}

func otherControllers(f *Facts) Finding {
	var found Objects
	var fixes []string
	outcome, what := Warning, "another program gives Services without a class addresses"
	for _, r := range f.rivals() {
		if slices.Contains(f.Replaces, Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}) {
			continue
		}
		if r.Family != family.Balancer {
			what = "another cloud controller manager is there"
		}

		// The status of a Service shows which program wrote it, not whether that program still runs.
		if r.Kind != "Service" {
			outcome = "" // "" means the severity of the check
		}
		found = append(found, objectf(r.Kind, r.Namespace, r.Name, "%s", r.What))
		if !slices.Contains(fixes, r.Fix) {
			fixes = append(fixes, r.Fix)
		}
	}

	if len(found) == 0 {
		return Passf("none")
	}

	return Problemf("%s", what).as(outcome).About(found...).Fix("%s", strings.Join(fixes, "; "))
}

// rivals returns the rivals of the release's controller, or of that of the chart that is about to be applied.
func (f *Facts) rivals() []family.Rival {
	e := family.Evidence{
		At:        f.At,
		Release:   f.Release,
		Namespace: f.Namespace,
		Words:     f.started(),
		Workloads: f.Workloads,
		Pods:      f.SystemPods,
		Nodes:     f.Nodes,
		Services:  f.Services,
		Leases:    f.Leases,
	}
	return e.Rivals()
}

// started returns the arguments of the release's controller, or of that of the chart that is about to be applied.
func (f *Facts) started() []string {
	if f.Manifest != "" {
		return family.ArgumentsOfChart(f.Manifest)
	}
	return f.Words()
}

// Classes returns the load balancer classes that the controller serves, or is about to serve.
func (f *Facts) Classes() service.Classes { return family.ClassesOf(f.started()) }

var ccm004 = Check{
	Code:     "CCM-004",
	Title:    "Health and metrics answer",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Needs:    []string{"CCM-001"},
	Reads:    Sources{Answers},
	Judge:    answers,
	What: `/healthz and /metrics of every Pod answer through the API server; if the API server cannot reach a Pod,
		the kubelet's probe counts.`,
	Why: `Kubelets restart a Pod whose /healthz fails, and alerts need /metrics.`,
	Remedy: "look at the controller's log: `kubectl -n NAMESPACE logs -l app.kubernetes.io/instance=RELEASE " +
		"--tail=-1`; where only the API server cannot reach the Pod, open port 10258 of the nodes to the control " +
		"plane",
}

func answers(f *Facts) Finding {
	if len(f.Answers) == 0 {
		return Skipf("the release has no Pod")
	}

	var sick, silent Objects
	for _, a := range f.Answers {
		switch {
		case a.Sick != "":
			sick.aboutf("Pod", a.Pod, "%s", a.Sick)
		// If the Pod is ready, its kubelet reaches it, and only csccm does not: because of a firewall, or of a role
		// without pods/proxy.
		case a.Err != nil && notReady(a.Pod) != "":
			silent.aboutf("Pod", a.Pod, "%v", a.Err)
		}
	}

	if len(sick) == 0 && len(silent) > 0 {
		return Unknownf("%s could not be asked", count(len(silent), "Pod")).About(silent...)
	}
	return Passf("%s", count(len(f.Answers), "Pod")).Unless(sick, "Pod", "%s not healthy").About(silent...)
}

var ccm007 = Check{
	Code:  "CCM-007",
	Title: "Controller's view is current",
	Phase: PhaseInstalled,
	Needs: []string{"CCM-001"},
	Reads: Sources{Answers},
	Tries: Sources{Project, APIs, Services},
	Judge: states,
	What: `What each Pod works with, as it shows at /configz, is current: the cloud-config of the Secret, the
		project, and what the role allows, by which a Service with the condition csccm.io/LoadBalancerUntagged is
		judged, too. A command that the role refused is not called again for ten minutes; a changed Secret takes up to
		two minutes. Both are warnings.`,
	Why: `A controller that works with an old zone or project, or believes that it may not write tags, does the
		wrong thing although all other checks pass.`,
	Remedy: "restart the controller: `kubectl -n NAMESPACE rollout restart deployment,daemonset -l " +
		"app.kubernetes.io/instance=RELEASE`",
}

// states compares the state of the Pods with the facts.
func states(f *Facts) Finding {
	var stale, unsure Objects
	shown := 0
	for _, a := range f.Answers {
		pod, s := a.Pod, a.State
		if s == nil {
			continue
		}

		shown++
		if len(s.Waits) > 0 {
			stale.aboutf("Pod", pod, "works with the old %s of the cloud-config, which it reads when it starts",
				listed(s.Waits))
		}

		if f.Err(Project) == nil && s.Project != f.ProjectID && s.Project != f.Config.ProjectID {
			stale.aboutf("Pod", pod, "works in the project with id %s, and that of the cloud-config has id %s",
				s.Project, f.ProjectID)
		}

		if names := f.unlike(s.Config); len(names) > 0 {
			unsure.aboutf("Pod", pod,
				"read the cloud-config %s ago, and the Secret has another %s; a kubelet brings a changed Secret "+
					"within two minutes",
				f.ago(s.Loaded), listed(names))
		}

		for _, command := range slices.Sorted(maps.Keys(s.Refused)) {
			if at := s.Refused[command]; f.APIs.Has(command) && f.ago(at) < cloudstack.RefusalAge {
				unsure.aboutf("Pod", pod,
					"was refused %s %s ago, but the role of the keys allows it now%s",
					command, f.ago(at), f.until(at.Add(cloudstack.RefusalAge)))
			}
		}
	}

	if f.APIs.Has("createTags") {
		unsure = append(unsure, about("Service", f.Services, func(s *corev1.Service) string {
			return when(apimeta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionUntagged),
				"is not tagged in CloudStack, which the role of the keys allows")
		})...)
	}

	switch {
	case shown+len(unsure) == 0:
		return Skipf("no Pod shows it: an older release, or --authorization-always-allow-paths without /configz")
	case len(stale) == 0 && len(unsure) > 0:
		return Warnf("the controller's view may be out of date").About(unsure...)
	}

	return Passf("%s", count(shown, "Pod")).Unless(append(stale, unsure...), "difference",
		"%s between what the controller works with and the current state")
}

// unlike returns the keys whose values in the Secret differ from those with these digests.
func (f *Facts) unlike(digests map[string]string) (names []string) {
	if f.Secret == nil {
		return nil
	}
	want := f.Secret.Digests()
	all := maps.Clone(want)
	maps.Copy(all, digests)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if want[name] != digests[name] {
			names = append(names, name)
		}
	}
	return names
}

// ago returns how long ago something happened.
func (f *Facts) ago(t time.Time) time.Duration { return f.At.Sub(t).Round(time.Second) }

var ccm006 = Check{
	Code:     "CCM-006",
	Title:    "Keys on control plane nodes only",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Reads:    Sources{Pods, Nodes},
	Judge:    placement,
	What:     `The controller's Pods run on control plane nodes, if the cluster has any.`,
	Why:      `The kubelet of a Pod's node may read the Pod's Secrets: on a worker, CloudStack's keys.`,
	Remedy:   "`csccm upgrade --set controlPlaneOnly=true --set affinity=null --set nodeSelector=null`",
}

func placement(f *Facts) Finding {
	control := Find(f.Nodes, node.ControlPlane) != nil
	misplaced := about("Pod", f.Pods, func(p *corev1.Pod) string {
		n := Find(f.Nodes, func(n *corev1.Node) bool { return n.Name == p.Spec.NodeName })
		return when(control && n != nil && !node.ControlPlane(n),
			"runs on node %s, which is not a control plane node", p.Spec.NodeName)
	})
	return Passf("%s", count(len(f.Pods), "Pod")).
		Unless(misplaced, "Pod", "%s with the keys on workers, whose kubelets may read them")
}

var cks001 = Check{
	Code:     "CKS-001",
	Title:    "CloudStack Kubernetes Service",
	Severity: SeverityWarning,
	Reads:    Sources{Distribution, Pods},
	Tries:    Sources{Kubelets},
	Judge:    createdByCKS,
	What: `The cluster was not created by CKS; or the name of a controller's Pod contains cloud-controller-manager, and
		all kubelets run with --cloud-provider=external or the chart value adoptNodes is set.`,
	Why: `CKS installs its own provider again on start and upgrade unless a Pod has such a name, and the nodes that
		it adds run without --cloud-provider=external.`,
	Remedy: "keep the chart's Pod names, keep the Secret cloudstack-secret, and have the controller " +
		"initialise the nodes that CKS adds: `csccm upgrade --set adoptNodes=true`",
}

func createdByCKS(f *Facts) Finding {
	var without Objects
	for _, v := range f.Kubelets {
		if v.Verdict == kubelet.NotExternal {
			without.addf("Node", v.Node, "its kubelet runs without --cloud-provider=external, as those of nodes "+
				"that CKS adds do")
		}
	}

	named := slices.ContainsFunc(f.Pods,
		func(p corev1.Pod) bool { return strings.Contains(p.Name, "cloud-controller-manager") })
	switch {
	case f.Distribution != cluster.CKS:
		return Passf("distribution: %s (%s)", f.Distribution, f.DistributionBy)
	case named && len(without) == 0:
		return Passf("created by CKS; its provider stays away, and all kubelets are external")
	case named && node.Adopts(f.Pods):
		return Passf("created by CKS; its provider stays away, and the controller initialises the nodes that CKS adds")
	}

	out := Problemf("the cluster was created by CKS (%s)", f.DistributionBy)
	if !named {
		out.Message += ", which installs its own provider again as long as no Pod is named cloud-controller-manager"
	}

	return out.About(without...)
}

// Workload is a Deployment or DaemonSet of any namespace.
type Workload struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Images    []string `json:"images"`
	Wanted    int32    `json:"wanted"` // number of Pods
	Ready     int32    `json:"ready"`
	Problem   string   `json:"problem,omitempty"` // why it has no Pods
	Ours      bool     `json:"ours"`              // belongs to the release
	labels    map[string]string
	selector  *metav1.LabelSelector
	words     []string        // commands and arguments of all containers
	volumes   []corev1.Volume // volumes of the Pods
	family    family.Family
}

// WorkloadOf converts a workload of package cluster.
func WorkloadOf(w *cluster.Workload) Workload {
	var words []string
	for _, c := range w.Pod.Containers {
		words = append(words, cluster.Arguments(&c)...)
	}
	whose, _ := family.OfPod(w.Pod, w.Meta)

	return Workload{
		Kind:      w.Kind,
		Namespace: w.Meta.Namespace,
		Name:      w.Meta.Name,
		Images:    imagesOf(w.Pod),
		Wanted:    w.Wanted,
		Ready:     w.Ready,
		Problem:   w.Problem,
		labels:    w.Meta.Labels,
		selector:  w.Selector,
		words:     words,
		volumes:   w.Pod.Volumes,
		family:    whose,
	}
}

func imagesOf(pod *corev1.PodSpec) []string {
	var out []string
	for _, c := range pod.Containers {
		out = append(out, c.Image)
	}
	return out
}

// RegisteredAs returns the name under which the controller keeps the cluster's entry in CloudStack's UI; "" if it keeps
// none.
func (w *Workload) RegisteredAs() string {
	name, _ := cluster.Argument(w.words, "register-cluster")
	return name
}

// Sort stores the workloads that matter: those of the release, other cloud controller managers with Pods, and
// Deployments of the CSI driver.
func (f *Facts) Sort(workloads []Workload) {
	for _, w := range workloads {
		w.Ours = w.Namespace == f.Namespace && cluster.InRelease(w.labels, f.Release)
		if w.Ours || w.Wanted > 0 && w.family != "" && w.family != family.Balancer {
			f.Controllers = append(f.Controllers, w)
		}
		if w.ofDriver() {
			f.CSI = append(f.CSI, w)
		}
	}
}

// Ours returns the release's workloads.
func (f *Facts) Ours() []Workload {
	return without(f.Controllers, func(w Workload) bool { return !w.Ours })
}

// Others returns the cloud controller managers that should not be in the cluster.
func (f *Facts) Others() []Workload {
	return without(f.Controllers, func(w Workload) bool {
		return w.Ours || slices.Contains(f.Replaces, Object{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name})
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
	return without(pods, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || !slices.ContainsFunc(f.Ours(), func(w Workload) bool {
			selector, err := metav1.LabelSelectorAsSelector(w.selector) // a nil selector matches nothing
			return err == nil && p.Namespace == w.Namespace && selector.Matches(apilabels.Set(p.Labels))
		})
	})
}

// eventWindow is how long Events count.
const eventWindow = time.Hour

// cloudComponents are the components that report Events of cloud controllers.
var cloudComponents = []string{
	"service-controller", "cloud-node-controller", "cloud-node-lifecycle-controller", "cloud-controller-manager",
	"cloudstack-cloud-controller-manager",
}

// successes are the reasons of Events which show that the problem of an earlier warning is solved.
var successes = []string{
	"EnsuredLoadBalancer", "UpdatedLoadBalancer", "DeletedLoadBalancer", "Synced",
	string(node.ReasonInService), string(node.ReasonAdopted),
}

var ccm005 = Check{
	Code:     "CCM-005",
	Title:    "No open errors",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Reads:    Sources{Events},
	Tries:    Sources{Services, Nodes, VMs, Plans, Logs},
	Judge:    openErrors,
	What: `There is no unresolved warning of the cloud controllers about an existing Node or Service: a later Event,
		the condition csccm.io/LoadBalancerReady, a plan without it or a healthy Node resolves one. Events
		count for an hour.`,
	Why: `Events say what the controller could not do, and why.`,
	Remedy: "follow the message; kubectl describe shows all Events of an object, `kubectl -n NAMESPACE logs " +
		"-l app.kubernetes.io/instance=RELEASE --tail=-1` the controller's log",
}

func openErrors(f *Facts) Finding {
	last := map[Object]*corev1.Event{} // last Event by object; of two at the same time the success
	for _, e := range f.Events {
		if f.open(&e) || slices.Contains(successes, e.Reason) {
			o := objectf(e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name, "")
			if was := last[o]; was == nil ||
				cmp.Or(EventTime(&e).Compare(EventTime(was)), cmp.Compare(was.Type, e.Type)) > 0 {
				last[o] = &e
			}
		}
	}

	var objects Objects
	next := NextTries(f.Logs)
	for o, e := range last {
		if !slices.Contains(successes, e.Reason) {
			o.Message = fmt.Sprintf("%s %s ago: %s%s", e.Reason, f.ago(EventTime(e)), OneLine(e.Message),
				f.until(next[o.Namespace+"/"+o.Name]))
			objects = append(objects, o)
		}
	}

	slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.String(), b.String()) })
	return Passf("none in the last hour").Unless(objects, "object", "%s with an open warning")
}

// open reports whether an Event is a warning of a cloud controller that counts, and that nothing has resolved.
func (f *Facts) open(e *corev1.Event) bool {
	return e.Type == corev1.EventTypeWarning &&
		f.ago(EventTime(e)) <= eventWindow &&
		FromCloud(e) &&
		!f.over(e)
}

// Warned reports whether there is an open warning about a Service.
func (f *Facts) Warned(s *corev1.Service) bool {
	return slices.ContainsFunc(f.Events, func(e corev1.Event) bool {
		o := &e.InvolvedObject
		return o.Namespace == s.Namespace && o.Name == s.Name && f.open(&e) // a Node has no namespace
	})
}

// over reports whether a warning is resolved without a later Event, as for repaired drift: its object was deleted, or
// is healthy now.
func (f *Facts) over(e *corev1.Event) bool {
	o := &e.InvolvedObject
	if o.Kind == "Service" && f.Err(Services) == nil {
		s := Find(f.Services, func(s *corev1.Service) bool {
			return s.Namespace == o.Namespace && s.Name == o.Name && (o.UID == "" || s.UID == o.UID)
		})
		if s == nil {
			return true
		}

		// Ignore the Event: if the controller would still give the warning, the plan of the Service contains it.
		p := f.Planned[key(s)]
		silent := p != nil && p.Error == "" && p.Refusal == nil && len(p.Actions) == 0 &&
			!slices.ContainsFunc(p.Notices, func(n plan.Notice) bool { return string(n.Reason) == e.Reason })
		return Settled(s) && (silent || !EventTime(e).After(service.Ready(s).LastTransitionTime.Time))
	}

	if o.Kind == "Node" && f.Err(Nodes) == nil {
		n := Find(f.Nodes, func(n *corev1.Node) bool { return n.Name == o.Name })
		if n == nil {
			return true
		}

		vm, hasVM := f.VM(n)
		_, invalid := new(node.AddressRules).Of(n, &vm)
		ignored := e.Reason == string(plan.ReasonInvalidAnnotation) && invalid != nil
		return hasVM && node.Ready(n) && initialised(n) && !ignored
	}

	return false
}

// FromCloud reports whether a cloud controller reported an Event.
func FromCloud(e *corev1.Event) bool {
	return slices.Contains(cloudComponents, e.Source.Component) ||
		slices.Contains(cloudComponents, e.ReportingController)
}

// EventTime returns when an Event was last seen.
func EventTime(e *corev1.Event) time.Time {
	times := []time.Time{e.CreationTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// OneLine returns a text in one line, with single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

var cks002 = Check{
	Code:  "CKS-002",
	Title: "VMs and nodes of the CKS cluster",
	Reads: Sources{Nodes, CKS},
	Judge: ofCKS("all VMs of the cluster run, and their nodes are Ready", "", ckscheck.Running),
	What: `The cluster is Running in CloudStack, and each of its VMs is Running and a Ready Node. Only for clusters
		that CKS created.`,
	Why: `CKS upgrades node after node, and scaling up waits until all nodes are Ready: one broken node makes either
		fail half-way, and the cluster enters state Alert.`,
	Remedy: `start the VMs that are stopped, and repair the nodes that are not Ready`,
}

var cks003 = Check{
	Code:  "CKS-003",
	Title: "Certificates of the CKS cluster",
	Reads: Sources{Nodes, CKS},
	Judge: ofCKS("the API server's certificate is valid for more than 30 days", ckscheck.SubjectCertificate,
		ckscheck.Certificates),
	What: `The API server's certificate at the cluster's endpoint is valid for 30 more days by CloudStack's clock,
		and for the address in its kubeconfig. An expired certificate is an error, one that expires soon a warning.`,
	Why: `kubeadm's certificates expire after a year, and CloudStack does not renew them (apache/cloudstack#9418).
		Then kubectl, kubelets and all operations of CKS fail. Some releases leave the public address out of the
		certificate (apache/cloudstack#11579).`,
	Remedy: `run sudo kubeadm certs renew all on each control node and restart it, or upgrade the cluster while they
		are valid`,
}

var cks004 = Check{
	Code:     "CKS-004",
	Title:    "CKS can scale and upgrade the cluster",
	Severity: SeverityWarning,
	Reads:    Sources{Nodes, CKS},
	Judge: ofCKS("nothing known is in the way of scaling and upgrading the cluster", ckscheck.SubjectFirewall,
		ckscheck.Changeable),
	What: `Every firewall rule on the cluster's address has ports, CKS's own rule for SSH exists, and the cluster
		has one offering for all nodes.`,
	Why: `CloudStack replaces its firewall rules when it scales a cluster and stops with a NullPointerException at a
		rule without ports, such as one for ICMP (apache/cloudstack#11758). It refuses to upgrade a cluster that was
		created with offerings for kinds of nodes only (apache/cloudstack#14148).`,
	Remedy: `delete firewall rules without ports before the change, and give the cluster one offering`,
}

// ofCKS returns a judge function that combines the findings of a rule of ckscheck. subject is a fact that the rule
// needs and that may not have been read.
func ofCKS(well string, subject ckscheck.Subject, rule func(*ckscheck.Facts) []ckscheck.Finding) func(*Facts) Finding {
	return func(f *Facts) Finding {
		if f.CKS == nil {
			return Skipf("%s", f.NotCKS)
		}

		out := Warnf("")
		var remedies []string
		for _, found := range rule(f.CKS) {
			if found.Severity == ckscheck.NotChecked {
				continue
			}

			if found.Severity == ckscheck.Error {
				out.Outcome = ""
			}

			if found.Reference != "" {
				found.What += " (" + found.Reference + ")"
			}

			out = out.About(objectf("KubernetesCluster", "", f.CKS.Cluster.Name, "%s: %s", found.Object, found.What))
			if !slices.Contains(remedies, found.Remedy) {
				remedies = append(remedies, found.Remedy)
			}
		}

		why, unread := f.CKS.Unread[subject]
		switch {
		case len(out.Objects) > 0:
			out.Message = count(len(out.Objects), "problem") + " of cluster " + f.CKS.Cluster.Name
			return out.Fix("%s", strings.Join(remedies, "; "))
		case unread:
			return Unknownf("not checked: %s: %s", subject, why)
		}

		return Passf("%s", well)
	}
}

var cks005 = Check{
	Code:     "CKS-005",
	Title:    "Addresses beside the CKS cluster",
	Severity: SeverityWarning,
	Reads:    Sources{CKS, Addresses, AllRules, Services, ClusterIDs},
	Judge:    cksLeftovers,
	What: `Every address that the controller acquired in the cluster's network still has its Service. The check also
		names what deleting the cluster would leave behind.`,
	Why: `In a network that CKS did not create, deleting the cluster leaves addresses and rules of Services behind,
		which count against the account's limit.`,
	Remedy: `release the addresses in CloudStack when nobody needs them; before the cluster is deleted: csccm cks
		delete --remove-services`,
}

// cksLeftovers uses only tags to identify addresses, because other clusters can be in the same network.
func cksLeftovers(f *Facts) Finding {
	if f.CKS == nil {
		return Skipf("%s", f.NotCKS)
	}

	k := *f.CKS
	k.Balancers, k.Services = f.AllRules, f.Services
	k.Addresses = without(f.Addresses, func(a cloudstack.PublicIP) bool {
		return a.AssociatedNetworkID != k.Cluster.NetworkID
	})

	living := 0
	var stale Objects
	for _, l := range ckscheck.Leftovers(&k) {
		switch {
		case l.Living:
			living++
		case l.Allocated && slices.Contains(f.ClusterIDs, l.Address.Tags[plan.TagCluster]):
			stale.addf("PublicIpAddress", l.Address.Address,
				"acquired for %s, which no longer exists; id %s", l.Address.Tags[plan.TagService], l.Address.ID)
		}
	}

	out := Passf("deleting the cluster would leave nothing behind")
	if living > 0 {
		out = Passf("deleting the cluster would leave %s of its Services behind: `csccm cks delete "+
			"--remove-services` takes them too",
			count(living, "address"))
	}

	return out.Unless(stale, "address", "%s of deleted Services would stay in the network")
}

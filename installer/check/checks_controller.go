// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/inventory"
)

const catController = "Controller"

func controllerChecks() []Check {
	return []Check{
		{
			Code: "CCM-001", Category: catController, Title: "Pods ready", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "All Pods of the controller are ready, do not restart, and run the image that their Deployment names, by digest where it gives one.",
			Why:    "Without a ready Pod no node is initialised and no Service gets an address.",
			Remedy: "`" + decide.ShowPods + "` and `" + decide.ShowLog + "` say why",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e, controllersFact, ownPodsFact, func(c decide.Controllers, pods []corev1.Pod) Finding {
					records, _ := releasesFact.get(ctx, e) // only choose the remedy
					return decide.Pods(c, pods, deployed(records) >= 0)
				})
			},
		},
		{
			Code: "CCM-002", Category: catController, Title: "One leader", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "The lease of the cloud controller manager is fresh and held by a Pod of this release, and there is no second fresh lease.",
			Why:    "With a stale lease no controller works; with two fresh leases two providers change the same nodes and rules.",
			Remedy: "look at the controller's log: `" + decide.ShowLog + "`; where another provider holds a lease, take its place with csccm takeover",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e, leasesFact, controllersFact, ownPodsFact, func(leases []coordinationv1.Lease, c decide.Controllers, pods []corev1.Pod) Finding {
					return decide.Leader(decide.LeaderFacts{Leases: leases, Pods: pods, Others: e.others(c), Now: e.Clock.Now()})
				})
			},
		},
		{
			Code: "CCM-003", Category: catController, Title: "No other cloud controller manager", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001"},
			What:   "There is no Deployment, DaemonSet or static Pod of another cloud controller manager, and k3s and RKE2 run without their own.",
			Why:    "Two providers undo each other's work: rules appear twice, addresses are released, nodes get foreign provider IDs.",
			Remedy: "csccm takeover takes the place of Apache's and Leaseweb's providers: it stops them and keeps all that they made; delete another one that is not needed; start k3s and RKE2 with disable-cloud-controller: true",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e, controllersFact, systemPodsFact, nodesFact, func(c decide.Controllers, pods []corev1.Pod, nodes []corev1.Node) Finding {
					return decide.Others(e.others(c), decide.LoosePods(pods), nodes)
				})
			},
		},
		{
			Code: "CCM-004", Category: catController, Title: "Health and metrics answer", Severity: SeverityWarning, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001", "CCM-001"},
			What:   "/healthz and /metrics of every Pod answer through the API server; if the API server cannot reach a Pod, the kubelet's probe counts.",
			Why:    "Kubelets restart a Pod whose /healthz fails, and alerts need /metrics.",
			Remedy: "look at the controller's log: `" + decide.ShowLog + "`; where only the API server cannot reach the Pod, open port 10258 of the nodes to the control plane",
			Run:    by(answersFact, decide.Answers),
		},
		{
			Code: "CCM-005", Category: catController, Title: "No open errors", Severity: SeverityWarning, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "There is no unresolved warning of the cloud controllers about an existing Node or Service: a later Event, the condition csccm.io/LoadBalancerReady or a healthy Node resolves one. No error was in the controller's log three times within ten minutes and again within the last three. Events count for an hour.",
			Why:    "Events and the log say what the controller could not do, and why.",
			Remedy: "follow the message; kubectl describe shows all Events of an object, `" + decide.ShowLog + "` the whole log",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e, eventsFact, func(events []corev1.Event) Finding {
					services, servicesErr := servicesFact.get(ctx, e)
					nodes, nodesErr := nodesFact.get(ctx, e)
					logs, err := logsFact.get(ctx, e)
					events, logs = decide.Unsolved(events, logs, services)
					var vms *inventory.VMSnapshot
					if e.CloudStack != nil {
						vms, _ = vmsFact.get(ctx, e) // without them Events alone close Events
					}
					f := decide.Errors(events, logs, decide.LivingOf(services, servicesErr, nodes, nodesErr, vms), e.Clock.Now())
					if err != nil {
						f = f.With("log", err.Error())
					}
					return f
				})
			},
		},
		{
			Code: "CCM-006", Category: catController, Title: "Keys on control plane nodes only", Severity: SeverityWarning, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "The controller's Pods run on control plane nodes, if the cluster has any.",
			Why:    "The kubelet of a Pod's node may read the Pod's Secrets: on a worker, CloudStack's keys.",
			Remedy: "`csccm upgrade --set controlPlaneOnly=true --set affinity=null --set nodeSelector=null`",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e, ownPodsFact, nodesFact, decide.Placement)
			},
		},
		{
			Code: "CKS-001", Category: catController, Title: "CloudStack Kubernetes Service", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001"},
			What:   "The cluster was not made by CKS; or the name of a controller's Pod contains cloud-controller-manager, and all kubelets run with --cloud-provider=external or the chart value adoptNodes is set.",
			Why:    "CKS installs its own provider again on start and upgrade unless a Pod has such a name, and the nodes that it adds run without --cloud-provider=external.",
			Remedy: "keep the chart's Pod names, keep the Secret cloudstack-secret, and have the controller initialise the nodes that CKS adds: `csccm upgrade --set adoptNodes=true`",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e, distributionFact, ownPodsFact, func(d decide.Distribution, pods []corev1.Pod) Finding {
					var kubelets []kubelet.NodeVerdict // only explains
					if d.Name == cluster.CKS {
						kubelets, _ = kubeletsFact.get(ctx, e)
					}
					return decide.CKS(d, pods, kubelets)
				})
			},
		},
	}
}

// others are the cloud controller managers that are not to be there.
func (e *Env) others(c decide.Controllers) []decide.Workload {
	return slices.DeleteFunc(slices.Clone(c.Others), func(w decide.Workload) bool {
		return slices.ContainsFunc(e.Replaces, func(o Object) bool { return o.Kind == w.Kind && o.Namespace == w.Namespace && o.Name == w.Name })
	})
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/decide"
)

const catCluster = "Kubernetes"

func both() []Phase { return []Phase{PhasePreflight, PhaseInstalled} }

func clusterChecks() []Check {
	return []Check{
		{
			Code: "K8S-001", Category: catCluster, Title: "API server reachable", Severity: SeverityFatal, Phases: both(),
			What:   "The API server of the chosen context answers.",
			Why:    "No other check works without it.",
			Remedy: "check --kubeconfig and --context, and that the API server runs",
			Run: func(ctx context.Context, e *Env) Finding {
				v, err := versionFact.get(ctx, e)
				return decide.Reachable(e.Cluster, v, decide.Cause(err))
			},
		},
		{
			Code: "K8S-002", Category: catCluster, Title: "Kubernetes version supported", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001"},
			What:   fmt.Sprintf("The API server is version 1.%d or newer; 1.%d to 1.%d are tested.", decide.MinMinor, decide.OldestTested, decide.NewestTested),
			Why:    "Older clusters lack features that the controller and its chart need.",
			Remedy: fmt.Sprintf("upgrade the cluster to Kubernetes 1.%d or newer", decide.MinMinor),
			Run:    by(versionFact, decide.Version),
		},
		{
			Code: "K8S-003", Category: catCluster, Title: "Permissions of the caller", Severity: SeverityError, Phases: []Phase{PhasePreflight}, Needs: []string{"K8S-001"},
			What:   "The user of the kubeconfig has all rights that an installation needs, and the API server accepts each object of the chart in a dry run.",
			Why:    "An installation that fails half-way leaves objects behind.",
			Remedy: "use a kubeconfig of a cluster administrator, or have the named rights granted",
			Run:    runPermissions,
		},
		{
			Code: "K8S-004", Category: catCluster, Title: "Clocks agree", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001"},
			What:   "This machine, the Ready nodes (by their heartbeats) and CloudStack have the same time.",
			Why:    "Signed CloudStack calls and leader election leases expire: clocks that differ break both.",
			Remedy: "run a time service (chrony, systemd-timesyncd) on this machine and on the named nodes",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e, nodesFact, func(nodes []corev1.Node) Finding {
					// Without the leases the slower node status says it.
					leases, _ := heartbeatsFact.get(ctx, e)
					return decide.Clocks(nodes, leases, e.Clock.Now(), e.cloudClock(ctx))
				})
			},
		},
		{
			Code: "K8S-005", Category: catCluster, Title: "Pod security of the namespace", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001"},
			What:   "The namespace's Pod Security Admission level allows hostNetwork, where the chart's values ask for it.",
			Why:    "The controller uses the host's network by default, because it starts before a node has one of its own; the levels baseline and restricted refuse that.",
			Remedy: "`kubectl label --overwrite namespace " + decide.WordNamespace + " pod-security.kubernetes.io/enforce=privileged`, or install into kube-system; where nodes have a network before the controller runs, set the chart value hostNetwork to false",
			Run: func(ctx context.Context, e *Env) Finding {
				n, err := namespaceFact.get(ctx, e)
				return decide.PodSecurity(e.Namespace, n, e.hostNetwork(ctx), err)
			},
		},
		{
			Code: "K8S-006", Category: catCluster, Title: "Nodes run Linux and fit the API server", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001"},
			What:   "Every kubelet is at most three minor versions older than the API server and not newer, and runs on Linux.",
			Why:    "Kubernetes supports no other versions, and the controller's image is for Linux.",
			Remedy: "upgrade or replace the named nodes",
			Run:    by2(versionFact, nodesFact, decide.KubeletVersions),
		},
	}
}

// cloudClock is how far CloudStack's clock is ahead; nil where no answer told.
func (e *Env) cloudClock(ctx context.Context) *time.Duration {
	api, known := e.CloudStack.(interface{ ClockOffset() (time.Duration, bool) })
	if !known {
		return nil
	}
	_, _ = capabilitiesFact.get(ctx, e) // even a refusal has a date
	if d, known := api.ClockOffset(); known {
		return &d
	}
	return nil
}

// ---- helpers of all checks

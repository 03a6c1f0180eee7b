// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kversion "k8s.io/apimachinery/pkg/version"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/plural"
)

const catCluster = "Kubernetes"

// Versions of Kubernetes, all 1.x: below minMinor the controller's libraries are not supported,
// outside oldestTested to newestTested nobody has tried.
const (
	minMinor     = 33 // the chart's kubeVersion
	oldestTested = 35
	newestTested = 37
)

func both() []Phase { return []Phase{PhasePreflight, PhaseInstalled} }

func clusterChecks() []Check {
	return []Check{
		{
			Code: "K8S-001", Category: catCluster, Title: "API server reachable", Severity: SeverityFatal, Phases: both(),
			What:   "The API server of the chosen context answers.",
			Why:    "Nothing else can be judged without it.",
			Remedy: "check --kubeconfig and --context, and that the API server runs",
			Run: func(ctx context.Context, e *Env) Finding {
				v, err := e.facts.version.get(ctx)
				return decideReachable(e.Cluster, v, cause(err))
			},
		},
		{
			Code: "K8S-002", Category: catCluster, Title: "Kubernetes version supported", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001"},
			What:   fmt.Sprintf("The API server is version 1.%d or newer; 1.%d to 1.%d are tested.", minMinor, oldestTested, newestTested),
			Why:    "Older clusters lack what the controller and its chart rely on.",
			Remedy: fmt.Sprintf("upgrade the cluster to Kubernetes 1.%d or newer", minMinor),
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.version, decideVersion)
			},
		},
		{
			Code: "K8S-003", Category: catCluster, Title: "Permissions of the caller", Severity: SeverityError, Phases: []Phase{PhasePreflight}, Needs: []string{"K8S-001"},
			What:   "The user of the kubeconfig may do everything that an installation does, and the API server would take each object of the chart from them (server-side dry run).",
			Why:    "An installation that fails half-way for lack of a right leaves something behind.",
			Remedy: "use a kubeconfig of a cluster administrator, or have the named rights granted",
			Run:    runPermissions,
		},
		{
			Code: "K8S-004", Category: catCluster, Title: "Clocks agree", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001"},
			What:   "The heartbeats of Ready nodes are neither in the future nor old, by the clock of this machine, and CloudStack's clock shows the same time.",
			Why:    "Signed CloudStack calls expire and leader election leases are judged by time: clocks that differ break both.",
			Remedy: "run a time service (chrony, systemd-timesyncd) on this machine and on the named nodes",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.nodes, func(nodes []corev1.Node) Finding {
					// Without the leases the slower node status says it.
					leases, _ := e.facts.heartbeats.get(ctx)
					return decideClocks(nodes, leases, e.Clock.Now(), e.cloudClock(ctx))
				})
			},
		},
		{
			Code: "K8S-005", Category: catCluster, Title: "Pod security of the namespace", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001"},
			What:   "The namespace's Pod Security Admission level allows hostNetwork.",
			Why:    "The controller uses the host's network, because it starts before a node has one of its own; the levels baseline and restricted refuse that.",
			Remedy: "label the namespace pod-security.kubernetes.io/enforce=privileged, or install into kube-system",
			Run: func(ctx context.Context, e *Env) Finding {
				n, err := e.facts.namespace.get(ctx)
				return decidePodSecurity(e.Namespace, n, err)
			},
		},
		{
			Code: "K8S-006", Category: catCluster, Title: "Nodes run Linux and fit the API server", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001"},
			What:   "Every kubelet is at most three minor versions older than the API server and not newer, and runs on Linux.",
			Why:    "Kubernetes supports no other combination, and the controller's image is for Linux.",
			Remedy: "upgrade or replace the named nodes",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.version, e.facts.nodes, decideKubeletVersions)
			},
		},
	}
}

func decideReachable(c *cluster.Cluster, v *kversion.Info, err error) Finding {
	if err != nil {
		f := problemf("%v", err)
		if e, ok := errors.AsType[*cluster.Error](err); ok {
			f = f.Fix("%s", e.Fix)
		}
		return f
	}
	f := passf("%s at %s", v.GitVersion, c.Server).With("version", v.GitVersion).With("context", c.Context).With("server", c.Server)
	if c.User != "" {
		f = f.With("user", c.User)
	}
	return f
}

// minorOf reads "1.37.1+k3s1" as 37; major versions other than 1 are far away either way.
func minorOf(version string) (int, bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 || parts[0] != "1" {
		return 0, false
	}
	digits := strings.TrimRight(parts[1], "+")
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

func decideVersion(v *kversion.Info) Finding {
	minor, known := minorOf(v.GitVersion)
	switch {
	case !known:
		return unknownf("version %q is not understood", v.GitVersion)
	case minor < minMinor:
		return problemf("%s is too old", v.GitVersion)
	case minor < oldestTested:
		return warnf("%s is older than the tested 1.%d to 1.%d", v.GitVersion, oldestTested, newestTested).Fix("upgrade to a tested version when you can")
	case minor > newestTested:
		return warnf("%s is newer than the tested 1.%d to 1.%d", v.GitVersion, oldestTested, newestTested).Fix("look for a newer release of csccm")
	}
	return passf("%s", v.GitVersion)
}

const (
	// futureSkew is how far ahead a heartbeat may be; leaseSkew and statusSkew how old, given that
	// kubelets renew leases every 10 s and the status at least every 5 minutes.
	futureSkew = 15 * time.Second
	leaseSkew  = 2 * time.Minute
	statusSkew = 7 * time.Minute
)

// cloudSkew is how far CloudStack's clock may be off; signed calls stand at least five minutes.
const cloudSkew = 2 * time.Minute

// cloudClock is how far CloudStack's clock is ahead; nil where no answer told.
func (e *Env) cloudClock(ctx context.Context) *time.Duration {
	api, known := e.CloudStack.(interface{ ClockOffset() (time.Duration, bool) })
	if !known {
		return nil
	}
	_, _ = e.facts.capabilities.get(ctx) // even a refusal has a date
	if d, known := api.ClockOffset(); known {
		return &d
	}
	return nil
}

func decideClocks(nodes []corev1.Node, leases []coordinationv1.Lease, now time.Time, cloud *time.Duration) Finding {
	f := decideHeartbeats(nodes, leases, now)
	if cloud == nil {
		return f
	}
	f = f.With("CloudStack", fmt.Sprintf("%s ahead", cloud.Round(time.Second)))
	if cloud.Abs() <= cloudSkew {
		return f
	}
	direction := "ahead of"
	if *cloud < 0 {
		direction = "behind"
	}
	o := Object{Kind: "CloudStack", Name: "API", Message: fmt.Sprintf("its clock is %s %s this machine's", cloud.Abs().Round(time.Second), direction)}
	if f.Outcome == OK || f.Outcome == Skipped {
		f.Outcome, f.Message = "", "CloudStack's clock differs from this machine's"
	}
	return f.About(o)
}

func decideHeartbeats(nodes []corev1.Node, leases []coordinationv1.Lease, now time.Time) Finding {
	renewed := make(map[string]time.Time, len(leases))
	for i := range leases {
		if t := leases[i].Spec.RenewTime; t != nil {
			renewed[leases[i].Name] = t.Time
		}
	}
	var objects []Object
	judged := 0
	for i := range nodes {
		n := &nodes[i]
		ready := condition(n, corev1.NodeReady)
		if ready == nil || ready.Status != corev1.ConditionTrue {
			continue
		}
		at, limit := ready.LastHeartbeatTime.Time, statusSkew
		if t, ok := renewed[n.Name]; ok && t.After(at) {
			at, limit = t, leaseSkew
		}
		if at.IsZero() {
			continue
		}
		judged++
		switch age := now.Sub(at); {
		case age < -futureSkew:
			objects = append(objects, nodeObject(n, "its last heartbeat is %s in the future", (-age).Round(time.Second)))
		case age > limit:
			objects = append(objects, nodeObject(n, "is Ready, but its last heartbeat is %s old", age.Round(time.Second)))
		}
	}
	switch {
	case len(objects) > 0 && len(objects) == judged:
		return problemf("the clock of this machine differs from that of all nodes").About(objects...)
	case len(objects) > 0:
		return problemf("%s: heartbeats do not fit this machine's clock", plural.Count(len(objects), "node")).About(objects...)
	case judged == 0:
		return skipf("no Ready node to compare with")
	}
	return passf("heartbeats of %s fit", plural.Count(judged, "node"))
}

func decidePodSecurity(name string, n *corev1.Namespace, err error) Finding {
	const label = "pod-security.kubernetes.io/enforce"
	if apierrors.IsNotFound(err) {
		return passf("namespace %s is not there yet", name)
	}
	if err != nil {
		return unread(err)
	}
	level := n.Labels[label]
	f := passf("namespace %s allows hostNetwork", name)
	if level == "baseline" || level == "restricted" {
		f = problemf("namespace %s enforces %q, which refuses hostNetwork", name, level).About(Object{Kind: "Namespace", Name: name})
	}
	return f.With(label, level)
}

// oldestKubelet is how many minor versions a kubelet may be behind its API server.
const oldestKubelet = 3

func decideKubeletVersions(v *kversion.Info, nodes []corev1.Node) Finding {
	server, known := minorOf(v.GitVersion)
	var objects []Object
	for i := range nodes {
		n, info := &nodes[i], nodes[i].Status.NodeInfo
		if info.OperatingSystem != "" && info.OperatingSystem != "linux" {
			objects = append(objects, nodeObject(n, "runs %s", info.OperatingSystem))
		}
		minor, ok := minorOf(info.KubeletVersion)
		switch {
		case !known || !ok:
		case minor > server:
			objects = append(objects, nodeObject(n, "kubelet %s is newer than the API server's %s", info.KubeletVersion, v.GitVersion))
		case minor < server-oldestKubelet:
			objects = append(objects, nodeObject(n, "kubelet %s is more than %d minor versions older than the API server's %s", info.KubeletVersion, oldestKubelet, v.GitVersion))
		}
	}
	if len(objects) > 0 {
		return problemf("%s", plural.Count(len(objects), "finding")).About(objects...)
	}
	if len(nodes) == 0 {
		return skipf("the cluster has no nodes")
	}
	return passf("%s", plural.Count(len(nodes), "node"))
}

// ---- helpers of all checks

func condition(n *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &n.Status.Conditions[i]
}

func isReady(n *corev1.Node) bool {
	c := condition(n, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func nodeObject(n *corev1.Node, format string, args ...any) Object {
	return Object{Kind: "Node", Name: n.Name, Message: fmt.Sprintf(format, args...)}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
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
	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/version"
)

// Versions of Kubernetes, all 1.x: below minMinor the controller's libraries are not supported,
// outside oldestTested to newestTested nobody has tried.
const (
	MinMinor     = 33 // the chart's kubeVersion
	OldestTested = 34
	NewestTested = 37
)

// Reachable decides K8S-001.
func Reachable(c *cluster.Cluster, v *kversion.Info, err error) Finding {
	if err != nil {
		f := Problemf("%v", err)
		if e, ok := errors.AsType[*cluster.Error](err); ok {
			f = f.Fix("%s", e.Fix)
		}
		return f
	}
	f := Passf("%s at %s", v.GitVersion, c.Server).With("version", v.GitVersion).With("context", c.Context).With("server", c.Server)
	if c.User != "" {
		f = f.With("user", c.User)
	}
	return f
}

// MinorOf reads "1.37.1+k3s1" as 37; major versions other than 1 are far away either way.
func MinorOf(version string) (int, bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 || parts[0] != "1" {
		return 0, false
	}
	digits := strings.TrimRight(parts[1], "+")
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// Version decides K8S-002.
func Version(v *kversion.Info) Finding {
	minor, known := MinorOf(v.GitVersion)
	switch {
	case !known:
		return Unknownf("version %q is not understood", v.GitVersion)
	case minor < MinMinor:
		return Problemf("%s is too old", v.GitVersion)
	case minor < OldestTested:
		return Warnf("%s is older than the tested 1.%d to 1.%d", v.GitVersion, OldestTested, NewestTested).Fix("upgrade to a tested version when you can")
	case minor > NewestTested:
		return Warnf("%s is newer than the tested 1.%d to 1.%d", v.GitVersion, OldestTested, NewestTested).Fix("look for a newer release of csccm")
	}
	return Passf("%s", v.GitVersion)
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

// Clocks decides K8S-004.
func Clocks(nodes []corev1.Node, leases []coordinationv1.Lease, now time.Time, cloud *time.Duration) Finding {
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
			objects = append(objects, NodeObject(n, "its last heartbeat is %s in the future", (-age).Round(time.Second)))
		case age > limit:
			objects = append(objects, NodeObject(n, "is Ready, but its last heartbeat is %s old", age.Round(time.Second)))
		}
	}
	switch {
	case len(objects) > 0 && len(objects) == judged:
		return Problemf("the clock of this machine differs from that of all nodes").About(objects...)
	case len(objects) > 0:
		return Problemf("%s: heartbeats do not fit this machine's clock", plural.Count(len(objects), "node")).About(objects...)
	case judged == 0:
		return Skipf("no Ready node to compare with")
	}
	return Passf("heartbeats of %s fit", plural.Count(judged, "node"))
}

// PodSecurity decides K8S-005 for Pods that use the host's network or not.
func PodSecurity(name string, n *corev1.Namespace, hostNetwork bool, err error) Finding {
	const label = "pod-security.kubernetes.io/enforce"
	if apierrors.IsNotFound(err) {
		return Passf("namespace %s is not there yet", name)
	}
	if err != nil {
		return Unread(err)
	}
	level := n.Labels[label]
	f := Passf("namespace %s allows hostNetwork", name)
	switch enforced := level == "baseline" || level == "restricted"; {
	case enforced && !hostNetwork:
		f = Passf("namespace %s enforces %q; the Pods do not use hostNetwork", name, level)
	case enforced:
		f = Problemf("namespace %s enforces %q, which refuses hostNetwork", name, level).About(Object{Kind: "Namespace", Name: name})
	}
	return f.With(label, level)
}

// oldestKubelet is how many minor versions a kubelet may be behind its API server.
const oldestKubelet = 3

// KubeletVersions decides K8S-006.
func KubeletVersions(v *kversion.Info, nodes []corev1.Node) Finding {
	server, known := MinorOf(v.GitVersion)
	var objects []Object
	for i := range nodes {
		n, info := &nodes[i], nodes[i].Status.NodeInfo
		if info.OperatingSystem != "" && info.OperatingSystem != "linux" {
			objects = append(objects, NodeObject(n, "runs %s", info.OperatingSystem))
		}
		minor, ok := MinorOf(info.KubeletVersion)
		switch {
		case !known || !ok:
		case minor > server:
			objects = append(objects, NodeObject(n, "kubelet %s is newer than the API server's %s", info.KubeletVersion, v.GitVersion))
		case minor < server-oldestKubelet:
			objects = append(objects, NodeObject(n, "kubelet %s is more than %d minor versions older than the API server's %s", info.KubeletVersion, oldestKubelet, v.GitVersion))
		}
	}
	if len(objects) > 0 {
		return Problemf("%s", plural.Count(len(objects), "finding")).About(objects...)
	}
	if len(nodes) == 0 {
		return Skipf("the cluster has no nodes")
	}
	return Passf("%s", plural.Count(len(nodes), "node"))
}

func condition(n *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &n.Status.Conditions[i]
}

// NodeObject names a Node in a finding.
func NodeObject(n *corev1.Node, format string, args ...any) Object {
	return Object{Kind: "Node", Name: n.Name, Message: fmt.Sprintf(format, args...)}
}

// Permissions decides K8S-003.
func Permissions(needed, optional, denied []rights.Request, refused []Object) Finding {
	var missing, lost []string
	for _, r := range denied {
		if slices.Contains(needed, r) {
			missing = append(missing, r.String())
		} else {
			lost = append(lost, r.String())
		}
	}
	slices.Sort(missing)
	slices.Sort(lost)
	switch {
	case len(missing) > 0:
		return Problemf("the caller may not: %s", strings.Join(missing, ", ")).About(refused...)
	case len(refused) > 0:
		return Problemf("the API server would refuse %s of the chart", plural.Count(len(refused), "object")).About(refused...)
	case len(lost) > 0:
		return Warnf("the caller may not: %s", strings.Join(lost, ", ")).
			Fix("none needed: csccm does without, but finds out less; the table of its rights: " + version.Pages + "docs/security.md")
	}
	return Passf("all %d rights of an installation", len(needed)+len(optional))
}

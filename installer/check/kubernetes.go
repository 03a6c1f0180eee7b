// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/util/version"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/version"
)

// Minor versions of Kubernetes 1: the controller's libraries do not support versions below MinMinor; other versions
// outside OldestTested to NewestTested are not tested.
const (
	MinMinor     = 33 // the chart's kubeVersion
	OldestTested = 34
	NewestTested = 37
)

var k8s001 = Check{
	Code:     "K8S-001",
	Title:    "API server reachable",
	Severity: SeverityFatal,
	Tries:    Sources{Version},
	Judge:    reachable,
	What:     `The API server of the chosen context answers within 8 seconds, and reaches its storage.`,
	Why:      `No other check works without it.`,
	Remedy:   `check --kubeconfig and --context, and that the API server runs`,
}

func reachable(f *Facts) Finding {
	if err := f.Err(Version); err != nil {
		return broken(err)
	}
	return Passf("%s at %s", f.Version, f.Server).
		With("version", f.Version).
		With("context", f.Context).
		With("server", f.Server).
		With("user", f.User)
}

// MinorOf returns the minor version, such as 37 for "1.37.1+k3s1"; false if the major version is not 1.
func MinorOf(text string) (int, bool) {
	v, err := apiversion.ParseGeneric(text)
	if err != nil || v.Major() != 1 {
		return 0, false
	}
	return int(v.Minor()), true
}

var k8s002 = Check{
	Code:   "K8S-002",
	Title:  "Kubernetes version supported",
	Reads:  Sources{Version},
	Judge:  serverVersion,
	What:   `The API server is version 1.33 or newer; 1.34 to 1.37 are tested.`,
	Why:    `Older clusters lack features that the controller and its chart need.`,
	Remedy: `upgrade the cluster to Kubernetes 1.33 or newer`,
}

func serverVersion(f *Facts) Finding {
	tested := fmt.Sprintf("the tested 1.%d to 1.%d", OldestTested, NewestTested)
	switch minor, known := MinorOf(f.Version); {
	case !known:
		return Unknownf("version %q is not understood", f.Version)
	case minor < MinMinor:
		return Problemf("%s is too old", f.Version)
	case minor < OldestTested:
		return Warnf("%s is older than %s", f.Version, tested).Fix("upgrade to a tested version when you can")
	case minor > NewestTested:
		return Warnf("%s is newer than %s", f.Version, tested).Fix("look for a newer release of csccm")
	}
	return Passf("%s", f.Version)
}

var k8s003 = Check{
	Code:  "K8S-003",
	Title: "Permissions of the caller",
	Phase: PhasePreflight,
	Reads: Sources{Rights, Drift},
	Judge: permissions,
	What: `The user of the kubeconfig has all rights that an installation needs, and the API server accepts each
		object of the chart in a dry run.`,
	Why:    `An installation that fails half-way leaves objects behind.`,
	Remedy: `use a kubeconfig of a cluster administrator, or have an administrator grant the named rights`,
}

func permissions(f *Facts) Finding {
	denied := map[bool][]string{} // requests, by whether they are needed
	for _, r := range f.Denied {
		needed := slices.Contains(f.Needed, r)
		denied[needed] = append(denied[needed], r.String())
	}

	missing, lost := slices.Sorted(slices.Values(denied[true])), slices.Sorted(slices.Values(denied[false]))
	var refused Objects
	for _, c := range f.Drift {
		if c.Problem != "" {
			refused = append(refused, objectf(c.Kind, c.Namespace, c.Name, "%s", OneLine(c.Problem)))
		}
	}

	out := Passf("all %d rights of an installation", len(f.Needed)+len(f.Wanted))
	switch {
	case len(missing) > 0:
		return Problemf("the caller may not: %s", listed(missing)).About(refused...)
	case len(lost) > 0:
		out = Warnf("the caller may not: %s", listed(lost)).
			Fix("none needed: csccm works without these rights, but can check less; the table of its rights: " +
				version.Pages +
				"docs/security.md")
	}

	return out.Unless(refused, "object", "the API server would refuse %s of the chart")
}

const (
	// futureSkew is how far ahead a heartbeat may be; leaseSkew and statusSkew how old, given that
	// kubelets renew leases every 10 s and the status at least every 5 minutes.
	futureSkew = 15 * time.Second
	leaseSkew  = 2 * time.Minute
	statusSkew = 7 * time.Minute
	// cloudSkew is the largest accepted difference of CloudStack's clock: CloudStack accepts a signature for at least
	// five minutes.
	cloudSkew = 2 * time.Minute
)

var k8s004 = Check{
	Code:     "K8S-004",
	Title:    "Clocks agree",
	Severity: SeverityWarning,
	Reads:    Sources{Nodes},
	Tries:    Sources{Heartbeats, Capabilities},
	Judge:    clocks,
	What: `The API server (by the date of its answers), this machine, the Ready nodes (by their heartbeats) and
		CloudStack have the same time. Ages of leases are judged by the API server's clock.`,
	Why:    `Signed CloudStack calls and leader election leases expire: clocks that differ break both.`,
	Remedy: `run a time service (chrony, systemd-timesyncd) on this machine and on the named nodes`,
}

func clocks(f *Facts) Finding {
	renewed := map[string]time.Time{}
	for _, l := range f.Heartbeats {
		renewed[l.Name] = ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
	}

	judged := 0
	off := about("Node", f.Nodes, func(n *corev1.Node) string {
		_, c := nodeutil.GetNodeCondition(&n.Status, corev1.NodeReady)
		if c == nil || c.Status != corev1.ConditionTrue || c.LastHeartbeatTime.IsZero() {
			return ""
		}
		judged++
		at, limit := c.LastHeartbeatTime.Time, statusSkew
		if t := renewed[n.Name]; t.After(at) {
			at, limit = t, leaseSkew
		}
		switch age := f.ago(at); {
		case age < -futureSkew:
			return fmt.Sprintf("its last heartbeat is %s in the future", -age)
		case age > limit:
			return fmt.Sprintf("is Ready, but its last heartbeat is %s old", age)
		}
		return ""
	})

	nodes := len(off)
	if ahead := f.MachineAhead; ahead.Abs() > futureSkew {
		off.addf("Machine", "this one", "its clock and the API server's differ by %s", ahead.Abs().Round(time.Second))
	}

	if ahead := f.ClockAhead; ahead != nil && ahead.Abs() > cloudSkew {
		off.addf("CloudStack", "API", "its clock and this machine's differ by %s", ahead.Abs().Round(time.Second))
	}

	switch {
	case nodes > 0 && nodes == judged:
		return Problemf("the API server's clock differs from that of all nodes").About(off...)
	case judged == 0 && len(off) == 0:
		return Skipf("no Ready node to compare with")
	}

	return Passf("heartbeats of %s agree", count(judged, "node")).
		Unless(off, "clock", "%s differ from the API server's")
}

var k8s005 = Check{
	Code:  "K8S-005",
	Title: "Pod security of the namespace",
	Needs: []string{"K8S-001"},
	Tries: Sources{Namespace, Releases},
	Judge: podSecurity,
	What:  `The namespace's Pod Security Admission level allows hostNetwork, where the chart's values ask for it.`,
	Why: `The controller uses the host's network by default, because it starts before a node has one of its own; the
		levels baseline and restricted refuse that.`,
	Remedy: "`kubectl label --overwrite namespace NAMESPACE pod-security.kubernetes.io/enforce=privileged`, " +
		"or install into kube-system; where nodes have a network before the controller runs, set the chart value " +
		"hostNetwork to false",
}

func podSecurity(f *Facts) Finding {
	if err := f.Err(Namespace); apierrors.IsNotFound(err) {
		return Passf("namespace %s does not exist yet", f.Namespace)
	} else if err != nil {
		return Unread(Cause(err))
	}

	// The chart that is about to be applied, or the deployed one. If neither is known, the chart's default holds.
	manifest := f.Manifest
	if r := f.Deployed(); manifest == "" && r != nil {
		manifest = r.Manifest
	}
	hostNetwork := manifest == "" || strings.Contains(manifest, "hostNetwork: true")

	level := f.NamespaceOf.Labels["pod-security.kubernetes.io/enforce"]
	if (level == "baseline" || level == "restricted") && hostNetwork {
		return Problemf("namespace %s enforces %q, which refuses hostNetwork", f.Namespace, level)
	}
	return Passf("namespace %s allows what the Pods need", f.Namespace)
}

var k8s006 = Check{
	Code:     "K8S-006",
	Title:    "Kubelets fit the API server",
	Severity: SeverityWarning,
	Reads:    Sources{Version, Nodes},
	Judge:    eachNode("%s", unsupportedKubelet),
	What: `Every kubelet is at most three minor versions older than the API server and not newer. A node runs Linux;
		others may run Windows.`,
	Why:    `Kubernetes supports no other versions, and the controller's image is for Linux.`,
	Remedy: `upgrade the kubelets of the named nodes, or join a node with Linux where there is none`,
}

func unsupportedKubelet(f *Facts, n *corev1.Node) string {
	info := n.Status.NodeInfo
	server, known := MinorOf(f.Version)
	minor, ok := MinorOf(info.KubeletVersion)
	switch {
	case !slices.ContainsFunc(f.Nodes,
		func(n corev1.Node) bool { return n.Status.NodeInfo.OperatingSystem != "windows" }):
		return "runs Windows, like all other nodes: the controller's image is for Linux"
	case known && ok && (minor > server || minor < server-3):
		return fmt.Sprintf("kubelet %s is newer than the API server's %s, or more than 3 minor versions older",
			info.KubeletVersion, f.Version)
	}
	return ""
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/version"
)

// Versions of Kubernetes, all 1.x: below minMinor the controller's libraries are not supported,
// outside oldestTested to newestTested nobody has tried.
const (
	MinMinor     = 33 // the chart's kubeVersion
	OldestTested = 34
	NewestTested = 37
)

func clusterChecks() []Check {
	return []Check{
		{
			Code: "K8S-001", Title: "API server reachable", Severity: SeverityFatal, Tries: []Source{Version}, Judge: reachable,
			What:   "The API server of the chosen context answers.",
			Why:    "No other check works without it.",
			Remedy: "check --kubeconfig and --context, and that the API server runs",
		},
		{
			Code: "K8S-002", Title: "Kubernetes version supported", Severity: SeverityError, Needs: needAPI, Reads: []Source{Version}, Judge: serverVersion,
			What:   fmt.Sprintf("The API server is version 1.%d or newer; 1.%d to 1.%d are tested.", MinMinor, OldestTested, NewestTested),
			Why:    "Older clusters lack features that the controller and its chart need.",
			Remedy: fmt.Sprintf("upgrade the cluster to Kubernetes 1.%d or newer", MinMinor),
		},
		{
			Code: "K8S-003", Title: "Permissions of the caller", Severity: SeverityError, Phase: Preflight, Needs: needAPI, Reads: []Source{Rights, Drift}, Judge: permissions,
			What:   "The user of the kubeconfig has all rights that an installation needs, and the API server accepts each object of the chart in a dry run.",
			Why:    "An installation that fails half-way leaves objects behind.",
			Remedy: "use a kubeconfig of a cluster administrator, or have the named rights granted",
		},
		{
			// Without the leases the slower node status says it.
			Code: "K8S-004", Title: "Clocks agree", Severity: SeverityWarning, Needs: needAPI, Reads: []Source{Nodes}, Tries: []Source{Heartbeats, Clock}, Judge: clocks,
			What:   "This machine, the Ready nodes (by their heartbeats) and CloudStack have the same time.",
			Why:    "Signed CloudStack calls and leader election leases expire: clocks that differ break both.",
			Remedy: "run a time service (chrony, systemd-timesyncd) on this machine and on the named nodes",
		},
		{
			Code: "K8S-005", Title: "Pod security of the namespace", Severity: SeverityError, Needs: needAPI, Tries: []Source{Namespace, Releases}, Judge: podSecurity,
			What:   "The namespace's Pod Security Admission level allows hostNetwork, where the chart's values ask for it.",
			Why:    "The controller uses the host's network by default, because it starts before a node has one of its own; the levels baseline and restricted refuse that.",
			Remedy: "`kubectl label --overwrite namespace " + WordNamespace + " pod-security.kubernetes.io/enforce=privileged`, or install into kube-system; where nodes have a network before the controller runs, set the chart value hostNetwork to false",
		},
		{
			Code: "K8S-006", Title: "Nodes run Linux and fit the API server", Severity: SeverityWarning, Needs: needAPI, Reads: []Source{Version, Nodes}, Judge: kubeletVersions,
			What:   "Every kubelet is at most three minor versions older than the API server and not newer, and runs on Linux.",
			Why:    "Kubernetes supports no other versions, and the controller's image is for Linux.",
			Remedy: "upgrade or replace the named nodes",
		},
	}
}

func reachable(f *Facts) Finding {
	if err := f.Err(Version); err != nil {
		return broken(err)
	}
	out := Passf("%s at %s", f.Version, f.Server).With("version", f.Version).With("context", f.Context).With("server", f.Server)
	if f.User != "" {
		out = out.With("user", f.User)
	}
	return out
}

// MinorOf reads "1.37.1+k3s1" as 37; major versions other than 1 are far away either way.
func MinorOf(text string) (int, bool) {
	v, err := apiversion.ParseGeneric(text)
	if err != nil || v.Major() != 1 {
		return 0, false
	}
	return int(v.Minor()), true
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

func permissions(f *Facts) Finding {
	var missing, lost []string
	for _, r := range f.Denied {
		if slices.Contains(f.Needed, r) {
			missing = append(missing, r.String())
		} else {
			lost = append(lost, r.String())
		}
	}
	slices.Sort(missing)
	slices.Sort(lost)
	var refused []Object
	for _, c := range f.Drift {
		if c.Problem != "" {
			refused = append(refused, Object{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Message: OneLine(c.Problem)})
		}
	}
	switch {
	case len(missing) > 0:
		return Problemf("the caller may not: %s", strings.Join(missing, ", ")).About(refused...)
	case len(refused) > 0:
		return Problemf("the API server would refuse %s of the chart", english.Plural(len(refused), "object", "")).About(refused...)
	case len(lost) > 0:
		return Warnf("the caller may not: %s", strings.Join(lost, ", ")).
			Fix("none needed: csccm does without, but finds out less; the table of its rights: " + version.Pages + "docs/security.md")
	}
	return Passf("all %d rights of an installation", len(f.Needed)+len(f.Wanted))
}

const (
	// futureSkew is how far ahead a heartbeat may be; leaseSkew and statusSkew how old, given that
	// kubelets renew leases every 10 s and the status at least every 5 minutes.
	futureSkew = 15 * time.Second
	leaseSkew  = 2 * time.Minute
	statusSkew = 7 * time.Minute
	// cloudSkew is how far CloudStack's clock may be off; signed calls stand at least five minutes.
	cloudSkew = 2 * time.Minute
)

func clocks(f *Facts) Finding {
	out := heartbeats(f)
	if f.ClockAhead == nil {
		return out
	}
	ahead := f.ClockAhead.Round(time.Second)
	out = out.With("CloudStack", fmt.Sprintf("%s ahead", ahead))
	if f.ClockAhead.Abs() <= cloudSkew {
		return out
	}
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	if out.Outcome == OK || out.Outcome == Skipped {
		out.Outcome, out.Message = "", "CloudStack's clock differs from this machine's"
	}
	return out.About(Object{Kind: "CloudStack", Name: "API", Message: fmt.Sprintf("its clock is %s %s this machine's", ahead.Abs(), direction)})
}

func heartbeats(f *Facts) Finding {
	renewed := make(map[string]time.Time, len(f.Heartbeats))
	for i := range f.Heartbeats {
		if t := f.Heartbeats[i].Spec.RenewTime; t != nil {
			renewed[f.Heartbeats[i].Name] = t.Time
		}
	}
	judged := 0
	objects := f.nodeObjects(func(n *corev1.Node) string {
		i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		if !node.Ready(n) || i < 0 {
			return ""
		}
		at, limit := n.Status.Conditions[i].LastHeartbeatTime.Time, statusSkew
		if t, ok := renewed[n.Name]; ok && t.After(at) {
			at, limit = t, leaseSkew
		}
		if at.IsZero() {
			return ""
		}
		judged++
		switch age := f.At.Sub(at); {
		case age < -futureSkew:
			return fmt.Sprintf("its last heartbeat is %s in the future", (-age).Round(time.Second))
		case age > limit:
			return fmt.Sprintf("is Ready, but its last heartbeat is %s old", age.Round(time.Second))
		}
		return ""
	})
	switch {
	case judged == 0:
		return Skipf("no Ready node to compare with")
	case len(objects) == judged:
		return Problemf("the clock of this machine differs from that of all nodes").About(objects...)
	}
	return Passf("heartbeats of %s fit", english.Plural(judged, "node", "")).Unless(objects, "node", "%s: heartbeats do not fit this machine's clock")
}

func podSecurity(f *Facts) Finding {
	const label = "pod-security.kubernetes.io/enforce"
	if err := f.Err(Namespace); apierrors.IsNotFound(err) {
		return Passf("namespace %s is not there yet", f.Namespace)
	} else if err != nil {
		return Unread(Cause(err))
	}
	level := f.NamespaceOf.Labels[label]
	out := Passf("namespace %s allows hostNetwork", f.Namespace)
	switch enforced := level == "baseline" || level == "restricted"; {
	case enforced && !f.hostNetwork():
		out = Passf("namespace %s enforces %q; the Pods do not use hostNetwork", f.Namespace, level)
	case enforced:
		out = Problemf("namespace %s enforces %q, which refuses hostNetwork", f.Namespace, level).About(Object{Kind: "Namespace", Name: f.Namespace})
	}
	return out.With(label, level)
}

// hostNetwork reports whether Pods of the manifest that is about to be applied, or of the deployed release, use the host's
// network. It is true where neither is known, as by the chart's default.
func (f *Facts) hostNetwork() bool {
	manifest := f.Manifest
	if r := f.Deployed(); manifest == "" && r != nil {
		manifest = r.Manifest
	}
	objects, err := diff.Parse(manifest)
	workloads := 0
	for i := range objects {
		if kind := objects[i].GetKind(); kind != "Deployment" && kind != "DaemonSet" {
			continue
		}
		workloads++
		if uses, _, err := unstructured.NestedBool(objects[i].Object, "spec", "template", "spec", "hostNetwork"); uses || err != nil {
			return true
		}
	}
	return workloads == 0 || err != nil
}

// oldestKubelet is how many minor versions a kubelet may be behind its API server.
const oldestKubelet = 3

func kubeletVersions(f *Facts) Finding {
	if len(f.Nodes) == 0 {
		return noNodes()
	}
	server, known := MinorOf(f.Version)
	objects := f.nodeObjects(func(n *corev1.Node) string {
		info := n.Status.NodeInfo
		if info.OperatingSystem != "" && info.OperatingSystem != "linux" {
			return "runs " + info.OperatingSystem
		}
		minor, ok := MinorOf(info.KubeletVersion)
		switch {
		case !known || !ok:
		case minor > server:
			return fmt.Sprintf("kubelet %s is newer than the API server's %s", info.KubeletVersion, f.Version)
		case minor < server-oldestKubelet:
			return fmt.Sprintf("kubelet %s is more than %d minor versions older than the API server's %s", info.KubeletVersion, oldestKubelet, f.Version)
		}
		return ""
	})
	return Passf("%s", english.Plural(len(f.Nodes), "node", "")).Unless(objects, "finding", "%s")
}

func noNodes() Finding { return Skipf("the cluster has no nodes") }

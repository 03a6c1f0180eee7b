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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiversion "k8s.io/apimachinery/pkg/util/version"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/pkg/version"
)

// Versions of Kubernetes, all 1.x: below minMinor the controller's libraries are not supported,
// outside oldestTested to newestTested nobody has tried.
const (
	MinMinor     = 33 // the chart's kubeVersion
	OldestTested = 34
	NewestTested = 37
)

func reachable(f *Facts) Finding {
	if err := f.Err(Version); err != nil {
		return broken(err)
	}
	return Passf("%s at %s", f.Version, f.Server).With("version", f.Version).With("context", f.Context).With("server", f.Server).With("user", f.User)
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
			refused = append(refused, objectf(c.Kind, c.Namespace, c.Name, "%s", OneLine(c.Problem)))
		}
	}
	out := Passf("all %d rights of an installation", len(f.Needed)+len(f.Wanted))
	switch {
	case len(missing) > 0:
		return Problemf("the caller may not: %s", strings.Join(missing, ", ")).About(refused...)
	case len(lost) > 0:
		out = Warnf("the caller may not: %s", strings.Join(lost, ", ")).
			Fix("none needed: csccm does without, but finds out less; the table of its rights: " + version.Pages + "docs/security.md")
	}
	return out.Unless(refused, "object", "the API server would refuse %s of the chart")
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
	renewed := map[string]time.Time{}
	for i := range f.Heartbeats {
		renewed[f.Heartbeats[i].Name] = ptr.Deref(f.Heartbeats[i].Spec.RenewTime, metav1.MicroTime{}).Time
	}
	judged := 0
	off := f.nodeObjects(func(n *corev1.Node) string {
		_, c := nodeutil.GetNodeCondition(&n.Status, corev1.NodeReady)
		if c == nil || c.Status != corev1.ConditionTrue || c.LastHeartbeatTime.IsZero() {
			return ""
		}
		judged++
		at, limit := c.LastHeartbeatTime.Time, statusSkew
		if t := renewed[n.Name]; t.After(at) {
			at, limit = t, leaseSkew
		}
		switch age := f.At.Sub(at); {
		case age < -futureSkew:
			return fmt.Sprintf("its last heartbeat is %s in the future", (-age).Round(time.Second))
		case age > limit:
			return fmt.Sprintf("is Ready, but its last heartbeat is %s old", age.Round(time.Second))
		}
		return ""
	})
	nodes := len(off)
	if ahead := f.ClockAhead; ahead != nil && ahead.Abs() > cloudSkew {
		off = append(off, objectf("CloudStack", "", "API", "its clock and this machine's differ by %s", ahead.Abs().Round(time.Second)))
	}
	switch {
	case nodes > 0 && nodes == judged:
		return Problemf("the clock of this machine differs from that of all nodes").About(off...)
	case judged == 0 && len(off) == 0:
		return Skipf("no Ready node to compare with")
	}
	return Passf("heartbeats of %s fit", english.Plural(judged, "node", "")).Unless(off, "clock", "%s not as this machine's")
}

func podSecurity(f *Facts) Finding {
	const label = "pod-security.kubernetes.io/enforce"
	if err := f.Err(Namespace); apierrors.IsNotFound(err) {
		return Passf("namespace %s is not there yet", f.Namespace)
	} else if err != nil {
		return Unread(Cause(err))
	}
	switch level := f.NamespaceOf.Labels[label]; {
	case level != "baseline" && level != "restricted":
		return Passf("namespace %s allows hostNetwork", f.Namespace)
	case f.hostNetwork():
		return Problemf("namespace %s enforces %q, which refuses hostNetwork", f.Namespace, level)
	default:
		return Passf("namespace %s enforces %q; the Pods do not use hostNetwork", f.Namespace, level)
	}
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

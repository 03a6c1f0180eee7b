// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kversion "k8s.io/apimachinery/pkg/version"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rights"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// expect is what a decision must say. An outcome of "" is the check's own severity.
type expect struct {
	outcome Outcome
	message string   // part of the message
	objects []string // "Kind name: part of the message"
}

func (e expect) verify(t *testing.T, f Finding) {
	t.Helper()
	require.Equal(t, e.outcome, f.Outcome, "%+v", f)
	require.Contains(t, f.Message, e.message)
	require.NotContains(t, f.Message, "%!", "a format that does not fit")
	require.Len(t, f.Objects, len(e.objects), "%+v", f.Objects)
	for i, want := range e.objects {
		name, part, _ := strings.Cut(want, ": ")
		require.Equal(t, name, f.Objects[i].String())
		require.Contains(t, f.Objects[i].Message, part)
		require.NotContains(t, f.Objects[i].Message, "%!")
	}
}

// nodeWith makes a Ready node with a heartbeat now.
func nodeWith(name string, change ...func(n *corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Labels: map[string]string{}, Annotations: map[string]string{}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(now)}}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem = "v1.37.1", "linux"
	for _, c := range change {
		c(&n)
	}
	return n
}

func notReadyNode(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func TestDecideReachable(t *testing.T) {
	t.Parallel()
	c := &cluster.Cluster{Server: "https://192.0.2.1:6443", Context: "prod", User: "alice"}
	f := Reachable(c, &kversion.Info{GitVersion: "v1.37.1"}, nil)
	expect{OK, "v1.37.1 at https://192.0.2.1:6443", nil}.verify(t, f)
	require.Equal(t, map[string]string{"version": "v1.37.1", "context": "prod", "server": "https://192.0.2.1:6443", "user": "alice"}, f.Evidence)
	f = Reachable(c, nil, &cluster.Error{What: "connection refused", Fix: "start it"})
	expect{"", "connection refused", nil}.verify(t, f)
	require.Equal(t, "start it", f.Remedy)
}

func TestDecideVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]expect{
		"v1.37.1": {OK, "", nil}, "v1.34.0": {OK, "", nil}, "v1.33.9+k3s1": {Warning, "older than the tested", nil},
		"v1.32.0": {"", "too old", nil}, "v1.38.0": {Warning, "newer than the tested", nil}, "v1.37+": {OK, "", nil},
		"v0.0.0-master": {Unknown, "not understood", nil}, "": {Unknown, "", nil},
	} {
		want.verify(t, Version(&kversion.Info{GitVersion: version}))
	}
}

func TestDecideClocks(t *testing.T) {
	t.Parallel()
	beat := func(ago time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(now.Add(-ago)) }
	}
	lease := func(name string, ago time.Duration) coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	tests := []struct {
		name   string
		nodes  []corev1.Node
		leases []coordinationv1.Lease
		want   expect
	}{
		{"fine", []corev1.Node{nodeWith("a")}, nil, expect{OK, "1 node", nil}},
		{"an old status is fine beside a fresh lease", []corev1.Node{nodeWith("a", beat(20*time.Minute))}, []coordinationv1.Lease{lease("a", 9*time.Second)}, expect{OK, "", nil}},
		{"the status alone may be minutes old", []corev1.Node{nodeWith("a", beat(6*time.Minute))}, nil, expect{OK, "", nil}},
		{"future", []corev1.Node{nodeWith("a"), nodeWith("b", beat(-time.Minute))}, nil, expect{"", "1 node", []string{"Node b: 1m0s in the future"}}},
		{"old lease of a Ready node", []corev1.Node{nodeWith("a", beat(time.Hour)), nodeWith("b")}, []coordinationv1.Lease{lease("a", 10*time.Minute)}, expect{"", "", []string{"Node a: 10m0s old"}}},
		{"all differ: it is this machine", []corev1.Node{nodeWith("a", beat(-time.Minute)), nodeWith("b", beat(-time.Minute))}, nil, expect{"", "the clock of this machine", []string{"Node a: future", "Node b: future"}}},
		{"NotReady nodes say nothing", []corev1.Node{nodeWith("a", beat(time.Hour), notReadyNode)}, nil, expect{Skipped, "no Ready node", nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { t.Parallel(); tt.want.verify(t, Clocks(tt.nodes, tt.leases, now, nil)) })
	}
}

func TestDecidePodSecurity(t *testing.T) {
	t.Parallel()
	ns := func(level string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}
	}
	expect{OK, "allows", nil}.verify(t, PodSecurity("x", &corev1.Namespace{}, true, nil))
	expect{OK, "allows", nil}.verify(t, PodSecurity("x", ns("privileged"), true, nil))
	expect{"", `"baseline"`, []string{"Namespace x: "}}.verify(t, PodSecurity("x", ns("baseline"), true, nil))
	expect{"", `"restricted"`, []string{"Namespace x: "}}.verify(t, PodSecurity("x", ns("restricted"), true, nil))
	expect{OK, "do not use hostNetwork", nil}.verify(t, PodSecurity("x", ns("restricted"), false, nil))
	expect{OK, "not there yet", nil}.verify(t, PodSecurity("x", nil, true, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x")))
	expect{Unknown, "boom", nil}.verify(t, PodSecurity("x", nil, true, errors.New("boom")))
}

func TestDecideKubeletVersions(t *testing.T) {
	t.Parallel()
	version := func(v string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = v }
	}
	windows := func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }
	server := &kversion.Info{GitVersion: "v1.37.1"}
	expect{OK, "2 nodes", nil}.verify(t, KubeletVersions(server, []corev1.Node{nodeWith("a"), nodeWith("b", version("v1.34.0+rke2r1"))}))
	expect{"", "3 findings", []string{"Node a: newer", "Node b: more than 3", "Node c: windows"}}.verify(t, KubeletVersions(server,
		[]corev1.Node{nodeWith("a", version("v1.38.0")), nodeWith("b", version("v1.33.9")), nodeWith("c", windows)}))
	expect{Skipped, "", nil}.verify(t, KubeletVersions(server, nil))
}

func TestDecidePermissions(t *testing.T) {
	t.Parallel()
	secrets := rights.Request{Verb: "create", Resource: "secrets", Namespace: "infra"}
	roles := rights.Request{Verb: "patch", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
	kubelets := rights.Request{Verb: "get", Resource: "nodes/proxy"}
	needed, optional := []rights.Request{secrets, roles}, []rights.Request{kubelets}
	decide := func(refused []Object, denied ...rights.Request) Finding {
		return Permissions(needed, optional, denied, refused)
	}
	role := []Object{{Kind: "ClusterRole", Name: "r", Message: "no"}}
	expect{OK, "all 3 rights", nil}.verify(t, decide(nil))
	expect{"", "the caller may not: create secrets in infra, patch clusterroles.rbac.authorization.k8s.io", nil}.verify(t, decide(nil, secrets, kubelets, roles))
	expect{"", "would refuse 1 object", []string{"ClusterRole r: no"}}.verify(t, decide(role, kubelets))
	expect{Warning, "the caller may not: get nodes/proxy", nil}.verify(t, decide(nil, kubelets))
}

func TestDecideRelease(t *testing.T) {
	t.Parallel()
	record := func(status string) []helm.Release {
		return []helm.Release{{Name: "x", Revision: 1, Status: "superseded"}, {Name: "x", Revision: 2, Status: status}}
	}
	decide := func(r []helm.Release, preflight bool) Finding {
		return Release("csccm", "kube-system", r, preflight)
	}
	expect{OK, "is not in namespace", nil}.verify(t, decide(nil, false))
	expect{OK, "revision 2: deployed", nil}.verify(t, decide(record("deployed"), false))
	expect{"", "was killed", []string{"Secret kube-system/sh.helm.release.v1.x.v2: "}}.verify(t, decide(record("pending-upgrade"), false))
	expect{"", "failed", []string{"Secret kube-system/sh.helm.release.v1.x.v2: "}}.verify(t, decide(record("failed"), false))
	expect{Warning, "was killed", []string{"Secret kube-system/sh.helm.release.v1.x.v2: "}}.verify(t, decide(record("pending-install"), true))
}

func TestDecideLeaks(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("AbC123_-", 10)
	text := func(s string) []helm.Release {
		return []helm.Release{{Name: "x", Revision: 1}, {Name: "x", Revision: 2, Manifest: s}}
	}
	for name, tt := range map[string]struct {
		records []helm.Release
		want    expect
	}{
		"none":           {nil, expect{Skipped, "no release", nil}},
		"clean":          {text(`{"config":{"existingSecret":{"name":"cloudstack-secret","key":"cloud-config"}}}`), expect{OK, "2 revisions", nil}},
		"our key":        {[]helm.Release{{Name: "x", Revision: 2, Values: map[string]any{"foo": "canary-secret"}}}, expect{"", "1 record", []string{"Secret sh.helm.release.v1.x.v2: revision 2"}}},
		"any key in INI": {text(`{"manifest":"secret-key = ` + key + `"}`), expect{"", "", []string{"Secret sh.helm.release.v1.x.v2: revision 2"}}},
		"any key, YAML":  {text(`{"manifest":"apiKey: ` + key + `"}`), expect{"", "", []string{"Secret sh.helm.release.v1.x.v2: revision 2"}}},
		"short values":   {text(`{"manifest":"secret-key: cloud-config"}`), expect{OK, "", nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Leaks(tt.records, []string{"canary-secret", ""})
			tt.want.verify(t, f)
			require.NotContains(t, f.Message, "canary-secret")
		})
	}
}

func TestDecideConflicts(t *testing.T) {
	t.Parallel()
	object := func(kind, name string, labels, annotations map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": kind, "metadata": map[string]any{"name": name, "labels": labels, "annotations": annotations}}}
	}
	ours := object("ServiceAccount", "ours", map[string]any{"app.kubernetes.io/managed-by": "Helm"},
		map[string]any{"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "kube-system"})
	nobodys := object("ClusterRole", "nobodys", nil, nil)
	others := object("Deployment", "others", nil, map[string]any{"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "x"})
	expect{OK, "3 objects of the chart, 1 of them", nil}.verify(t, Conflicts([]*unstructured.Unstructured{ours, nil, nil}, "kube-system", "r"))
	expect{"", "2 objects", []string{"ClusterRole nobodys: belongs to nobody", "Deployment others: Helm release x/other"}}.verify(t,
		Conflicts([]*unstructured.Unstructured{ours, nobodys, others}, "kube-system", "r"))
}

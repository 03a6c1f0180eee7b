// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

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

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/installer/report"
)

func server(v string) func(*Facts) { return func(f *Facts) { f.Version = v } }

func TestAPIServer(t *testing.T) {
	t.Parallel()
	f := passes("v1.37.1 at https://192.0.2.1:6443").of(t, "K8S-001", server("v1.37.1"), func(f *Facts) {
		f.Server, f.Context, f.User = "https://192.0.2.1:6443", "prod", "alice"
	})
	require.Equal(t,
		map[string]string{"version": "v1.37.1", "context": "prod", "server": "https://192.0.2.1:6443", "user": "alice"},
		f.Evidence)
	f = fails("connection refused").of(t, "K8S-001",
		failing(Version, &cluster.Error{Problem: *report.Errorf("start it", "connection refused")}))
	require.Equal(t, "start it", f.Remedy)
	for v, want := range map[string]expect{
		"v1.34.0": {OK, "", nil}, "v1.33.9+k3s1": {Warning, "older than the tested", nil},
		"v1.32.0": {"", "too old", nil}, "v1.38.0": {Warning, "newer than the tested", nil}, "v1.37+": {OK, "", nil},
		"v0.0.0-master": {Unknown, "not understood", nil}, "": {Unknown, "", nil},
	} {
		want.of(t, "K8S-002", server(v))
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	beat := func(ago time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(now.Add(-ago)) }
	}
	renewed := func(ago time.Duration) func(*Facts) {
		at := metav1.NewMicroTime(now.Add(-ago))
		return func(f *Facts) {
			f.Heartbeats = []coordinationv1.Lease{
				{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: coordinationv1.LeaseSpec{RenewTime: &at}},
			}
		}
	}

	node := func(name string, ago time.Duration, more ...func(*corev1.Node)) corev1.Node {
		return nodeWith(name, append(more, beat(ago))...)
	}
	const sec, minute, old = time.Second, time.Minute, 20 * time.Minute
	passes("1 node").of(t, "K8S-004", ofNodes(node("a", old)), renewed(9*sec)) // an old heartbeat with a fresh lease
	passes("1 node").of(t, "K8S-004", ofNodes(node("a", 6*minute)))            // minutes are allowed without a lease
	fails("", "Node a: 10m0s old").of(t, "K8S-004", ofNodes(node("a", old), node("b", 0)), renewed(10*minute))
	early := ofNodes(node("a", -minute), node("b", -minute))
	fails("the API server's clock", "Node a: future", "Node b: future").of(t, "K8S-004", early)
	skips("no Ready node").of(t, "K8S-004", ofNodes(node("a", old, notReadyNode)))
	fails("1 clock", "Machine this one: differ by 1m0s").of(t, "K8S-004", ofNodes(node("a", 0)),
		func(f *Facts) { f.MachineAhead = time.Minute })
	behind := func(f *Facts) { f.ClockAhead = new(-3 * minute) }
	fails("1 clock", "CloudStack API: differ by 3m0s").of(t, "K8S-004", ofNodes(node("a", 0)), behind)
}

func TestPodSecurity(t *testing.T) {
	t.Parallel()
	const pods = "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: a}\nspec: {template: {spec: " +
		"{hostNetwork: false}}}\n"
	level := func(level, manifest string) func(*Facts) {
		return func(f *Facts) {
			f.Manifest = manifest
			f.NamespaceOf = &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}},
			}
		}
	}

	passes("allows").of(t, "K8S-005", level("privileged", ""))
	fails(`"baseline"`).of(t, "K8S-005", level("baseline", ""))
	fails(`"restricted"`).of(t, "K8S-005", level("restricted", strings.Replace(pods, "false", "true", 1)))
	passes("allows what the Pods need").of(t, "K8S-005", level("restricted", pods))
	passes("does not exist yet").of(t, "K8S-005",
		failing(Namespace, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x")))
	unknown("boom").of(t, "K8S-005", failing(Namespace, errors.New("boom")))
}

func TestKubeletVersions(t *testing.T) {
	t.Parallel()
	kubelet := func(v string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = v }
	}
	windows := func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }
	passes("2 nodes").of(t, "K8S-006", server("v1.37.1"),
		ofNodes(nodeWith("a"), nodeWith("b", kubelet("v1.34.0+rke2r1"))))
	fails("2 nodes", "Node a: newer", "Node b: more than 3").of(t, "K8S-006", server("v1.37.1"),
		ofNodes(nodeWith("a", kubelet("v1.38.0")), nodeWith("b", kubelet("v1.33.9")), nodeWith("c", windows)))
	fails("1 node", "Node c: Windows, like all other nodes").of(t, "K8S-006", server("v1.37.1"),
		ofNodes(nodeWith("c", windows)))
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	secrets := rights.Request{Verb: "create", Resource: "secrets", Namespace: "infra"}
	roles := rights.Request{Verb: "patch", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
	kubelets := rights.Request{Verb: "get", Resource: "nodes/proxy"}
	denied := func(refused []diff.Change, denied ...rights.Request) func(*Facts) {
		return func(f *Facts) {
			f.Needed, f.Wanted, f.Denied, f.Drift = []rights.Request{secrets,
				roles}, []rights.Request{kubelets}, denied, refused
		}
	}
	role := []diff.Change{{Kind: "ClusterRole", Name: "r", Problem: "no"}, {Kind: "Secret", Name: "s"}}
	passes("all 3 rights").of(t, "K8S-003", denied(nil))
	fails("the caller may not: create secrets in infra, patch clusterroles.rbac.authorization.k8s.io").of(t, "K8S-003",
		denied(nil, secrets, kubelets, roles))
	fails("would refuse 1 object", "ClusterRole r: no").of(t, "K8S-003", denied(role, kubelets))
	warns("the caller may not: get nodes/proxy").of(t, "K8S-003", denied(nil, kubelets))
}

func TestReleases(t *testing.T) {
	t.Parallel()
	record := func(status string, p Phase) func(*Facts) {
		return func(f *Facts) {
			f.Phase, f.Records = p, []helm.Release{
				{Name: "x", Revision: 1, Status: "superseded"},
				{Name: "x", Revision: 2, Status: status},
			}
		}
	}
	secret := []string{"Secret kube-system/sh.helm.release.v1.x.v2: "}
	passes("is not in namespace").of(t, "HELM-001")
	passes("revision 2: deployed").of(t, "HELM-001", record("deployed", PhaseInstalled))
	fails("pending-upgrade", secret...).of(t, "HELM-001", record("pending-upgrade", PhaseInstalled))
	fails("failed", secret...).of(t, "HELM-001", record("failed", PhaseInstalled))
	warns("pending-install", secret...).of(t, "HELM-001", record("pending-install", PhasePreflight))

	key := strings.Repeat("AbC123_-", 10)
	fine, found := passes("2 revisions"), fails("1 record", "Secret sh.helm.release.v1.x.v2: revision 2")
	for manifest, want := range map[string]expect{
		`{"config":{"existingSecret":{"name":"cloudstack-secret","key":"cloud-config"}}}`: fine,
		"our canary-secret":                       found,
		`{"manifest":"secret-key = ` + key + `"}`: found,
		`{"manifest":"apiKey: ` + key + `"}`:      found,
		`{"manifest":"secret-key: cloud-config"}`: fine,
	} {
		f := want.of(t, "HELM-004", func(f *Facts) {
			f.Config.SecretKey = "canary-secret"
			f.Records = []helm.Release{{Name: "x", Revision: 1}, {Name: "x", Revision: 2, Manifest: manifest}}
		})
		require.NotContains(t, f.Message, "canary-secret")
	}
	skips("no release").of(t, "HELM-004")
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	object := func(kind, name, manager, release, namespace string) diff.Change {
		return diff.Change{
			Live: &unstructured.Unstructured{Object: map[string]any{"kind": kind, "metadata": map[string]any{
				"name": name, "labels": map[string]any{"app.kubernetes.io/managed-by": manager},
				"annotations": map[string]any{
					"meta.helm.sh/release-name":      release,
					"meta.helm.sh/release-namespace": namespace,
				},
			}}},
		}
	}
	ours := object("ServiceAccount", "ours", "Helm", "r", "kube-system")
	others := object("Deployment", "others", "Helm", "other", "x")
	live := func(objects ...diff.Change) func(*Facts) {
		return func(f *Facts) { f.Manifest, f.Drift = "of the chart", objects }
	}
	passes("3 objects of the chart").of(t, "HELM-002", live(ours, diff.Change{}, diff.Change{}))
	foreign := []string{
		`ClusterRole nobodys: belongs to Helm release ""`,
		`Deployment others: belongs to Helm release "x/other"`,
	}
	fails("2 objects", foreign...).of(
		t, "HELM-002", live(ours, object("ClusterRole", "nobodys", "", "", ""), others))

	deployed := func(f *Facts) { f.Records = []helm.Release{{Revision: 3, Status: "deployed"}} }
	gone := diff.Change{Kind: "Role", Name: "gone", Action: diff.Create}
	refused := diff.Change{Kind: "Role", Name: "r", Action: diff.Update, Problem: "no"}
	expect{Failed, "2 of 2 objects",
		[]string{"Role gone: in the release and not in the cluster", "Role r: the API server would refuse it"}}.of(
		t, "HELM-003", deployed, live(gone, refused))
	less := diff.Change{Kind: "ValidatingAdmissionPolicyBinding", Name: "gone", Action: diff.Create}
	fails("2 of 2 objects", less.Kind+" gone: not in the cluster", "Role r: the API server would refuse "+
		"it").of(t, "HELM-003",
		deployed, live(less, refused))
	account := diff.Change{Kind: "ServiceAccount", Action: diff.Create}
	require.Contains(t, judge(t, "HELM-003", deployed, live(account)).Remedy, restart+"`; `csccm upgrade`")
	skips("no revision").of(t, "HELM-003", live(gone))
	skips("cannot be compared").of(t, "HELM-003", deployed)
}

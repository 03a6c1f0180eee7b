// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

func verdict(name string, v kubelet.Verdict, remedy string) kubelet.NodeVerdict {
	return kubelet.NodeVerdict{
		Node:     name,
		Verdict:  v,
		Remedy:   remedy,
		Evidence: []kubelet.Evidence{{Source: "/flagz", Detail: "because", Says: v}},
	}
}

func ofKubelets(verdicts ...kubelet.NodeVerdict) func(*Facts) {
	return func(f *Facts) { f.Kubelets = verdicts }
}

func TestKubelets(t *testing.T) {
	t.Parallel()
	good, wrong, dark := verdict("a", kubelet.External,
		""), verdict("b", kubelet.NotExternal, "edit b"), verdict("c", kubelet.Unknown, "ask c")
	adopting := func(f *Facts) {
		f.Pods = []corev1.Pod{
			{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"--adopt-nodes=true"}}}}},
		}
	}

	f := passes("1 node").of(t, "NODE-001", ofKubelets(good))
	require.Equal(t, "external: /flagz: because", f.Evidence["Node a"])
	f = fails("1 of 3 nodes", "Node b: not-external (/flagz: because)", "Node c: unknown").of(t, "NODE-001",
		ofKubelets(good, dark, wrong))
	require.Equal(t, "edit b", f.Remedy)
	f = passes("1 of 2 nodes without it; the controller initialises such nodes").of(t, "NODE-001",
		ofKubelets(good, wrong), adopting)
	require.Empty(t, f.Remedy)
	f = expect{Unknown, "1 of 2 nodes", []string{"Node c: unknown"}}.of(t, "NODE-001", ofKubelets(good, dark))
	require.Equal(t, "ask c", f.Remedy)
}

func TestMatches(t *testing.T) {
	t.Parallel()
	f := passes("2 nodes in").of(t, "NODE-002", threeVMs,
		ofNodes(nodeWith("a"), nodeWith("x", providerID("external-cloudstack://"+idB))))
	require.Equal(t, "VM b ("+idB+"), Running", f.Evidence["Node x"])
	fails("2 of 3 nodes", "Node lost: has no VM", `Node x: belongs to node "a", which is older`).of(t, "NODE-002",
		threeVMs,
		ofNodes(nodeWith("a"), nodeWith("lost"), nodeWith("x", providerID("cloudstack:///"+idA))))
	fails("1 of 1 node", "Node a: 2 VMs are named").of(t, "NODE-002", ofNodes(nodeWith("a")),
		ofVMs(snapshot(vm(idA, "a", ""), vm(idB, "A", ""))))
}

// If two Nodes have one VM, the finding names the younger Node, in whatever order the API server lists them.
func TestSecurityCheckNamesTheLaterNode(t *testing.T) {
	t.Parallel()
	first, later := nodeWith("z", providerID("cloudstack:///"+idA)), nodeWith("a")
	first.CreationTimestamp, later.CreationTimestamp = metav1.NewTime(now), metav1.NewTime(now.Add(time.Minute))
	for _, nodes := range [][]corev1.Node{{first, later}, {later, first}} {
		fails("1 of 2 nodes", `Node a: belongs to node "z", which is older`).of(t, "NODE-002", threeVMs,
			ofNodes(nodes...))
	}
}

func TestProviderIDs(t *testing.T) {
	t.Parallel()
	installed := func(f *Facts) { f.Phase = PhaseInstalled }
	nodes := ofNodes(nodeWith("a", providerID("external-cloudstack://"+idA)), nodeWith("b"))
	passes("").of(t, "NODE-003", threeVMs, nodes)
	warns("1 node", "Node b: never initialised").of(t, "NODE-003", threeVMs, nodes, installed)
	warns("", "Node c: another cloud provider").of(t, "NODE-003", threeVMs,
		ofNodes(nodeWith("c", providerID("k3s://c"))))
	destroyed := vm(idC, "c", "")
	destroyed.State = cloudstack.VMDestroyed
	fails("3 nodes", "Node a: is not a UUID", "Node b: names no VM", "Node c: its VM c ("+idC+") is Destroyed").of(t,
		"NODE-003", ofVMs(snapshot(destroyed)),
		ofNodes(nodeWith("a", providerID("cloudstack:///worker-1")), nodeWith("b", providerID("cloudstack:///"+idB)),
			nodeWith("c", providerID("cloudstack://"+idC))))
}

// One cause gives one finding. A node whose provider ID names no VM is reported by NODE-003 while it is Ready, and by
// NODE-008 when the controller would delete it. NODE-002 never reports it, because its remedy would not help.
func TestStaleProviderIDIsNamedOnce(t *testing.T) {
	t.Parallel()
	const gone = "dddddddd-0000-4000-8000-000000000004"
	stale := func(change ...func(*corev1.Node)) func(*Facts) {
		return ofNodes(nodeWith("a", providerID("cloudstack:///"+idA)),
			nodeWith("b", append(change, providerID("cloudstack:///"+gone), func(n *corev1.Node) {
				n.Status.NodeInfo.SystemUUID = idB
			})...))
	}
	passes("").of(t, "NODE-002", threeVMs, stale())
	fails("1 node", "Node b: by its system UUID it is VM b").of(t, "NODE-003", threeVMs, stale())
	passes("").of(t, "NODE-008", threeVMs, stale())

	passes("").of(t, "NODE-002", threeVMs, stale(notReadyNode))
	passes("").of(t, "NODE-003", threeVMs, stale(notReadyNode))
	fails("1 node would be deleted", "Node b: is NotReady and has no VM").of(t, "NODE-008", threeVMs,
		stale(notReadyNode))
}

func TestUninitialised(t *testing.T) {
	t.Parallel()
	since := func(ago time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) {
			at := metav1.NewTime(now.Add(-ago))
			n.ManagedFields = []metav1.ManagedFieldsEntry{
				{Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)},
			}
		}
	}

	wants := func(ip string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations["alpha.kubernetes.io/provided-node-ip"] = ip }
	}
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: effect})
		}
	}

	no := taint(corev1.TaintEffectNoSchedule)
	passes("1 node").of(t, "NODE-004", ofNodes(nodeWith("a", no, since(time.Minute))))
	fails("1 node", "Node a: tainted for 1h0m0s").of(t, "NODE-004", ofNodes(nodeWith("a", no)))
	fails("1 node", "Node b: tainted for 5m0s").of(t, "NODE-004", threeVMs, ofNodes(
		nodeWith("b", taint(corev1.TaintEffectPreferNoSchedule), since(5*time.Minute), wants("10.1.1.12"))))
}

func TestDoomed(t *testing.T) {
	t.Parallel()
	passes("3 nodes").of(t, "NODE-008", threeVMs,
		ofNodes(nodeWith("a"), nodeWith("b", notReadyNode), nodeWith("unknown-but-ready")))
	// nothing proves that the node may be deleted
	passes("1 node").of(t, "NODE-008", threeVMs, ofNodes(nodeWith("x", notReadyNode)))
	passes("").of(t, "NODE-008", ofNodes(nodeWith("a", notReadyNode)),
		ofVMs(snapshot(vm(idA, "a", ""), vm(idB, "a", ""))))

	stopped, running := vm(idA, "a", ""), vm(idB, "b", "")
	stopped.State = cloudstack.VMStopped
	fails("", "Node a: its VM a is Stopped").of(
		t, "NODE-009", ofNodes(nodeWith("a"), nodeWith("b"), nodeWith("x")), ofVMs(snapshot(stopped, running)),
	)
}

// For a node whose name matches no VM, the finding names the VM that its system UUID identifies.
func TestLikelyVM(t *testing.T) {
	t.Parallel()
	destroyed := vm(idB, "b", "")
	destroyed.State = cloudstack.VMDestroyed
	uuid := func(id string) corev1.Node {
		return nodeWith("other", func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = strings.ToUpper(id) })
	}
	for id, hint := range map[string]bool{idA: true, idB: false, idC: false, "": false} {
		f := fails("", "Node other: has no VM").of(t, "NODE-002", ofVMs(snapshot(vm(idA, "a", ""), destroyed)),
			ofNodes(uuid(id)))
		require.Equal(t, hint, strings.HasSuffix(f.Objects[0].Message, "; by its system UUID it is VM a ("+idA+")"), id)
	}
}

func TestMisplaced(t *testing.T) {
	t.Parallel()
	inZone := func(v cloudstack.VirtualMachine, zone string) cloudstack.VirtualMachine {
		v.ZoneName = zone
		return v
	}

	a, b, c := vm(idA, "a", ""), vm(idB, "b", ""), vm(idC, "c", "")
	lost := func(name, id string) corev1.Node {
		return nodeWith(name, notReadyNode, providerID("cloudstack:///"+id))
	}
	for message, places := range map[string][]credentials.Place{
		"; wrong account, project or zone": {},
		"elsewhere, 2 in project op-proj, zone zone-1 (--project op-proj": {
			{VMs: []cloudstack.VirtualMachine{c}},
			{Project: "op-proj", VMs: []cloudstack.VirtualMachine{a, b}},
		},
		"1 in the account itself, zone z2 (no --project, --zone z2)": {
			{VMs: []cloudstack.VirtualMachine{inZone(a, "z2")}},
		},
	} {
		for _, code := range []string{"NODE-002", "NODE-003", "NODE-008", "CS-004"} {
			f := judge(t, code, ofVMs(snapshot()), func(f *Facts) { f.Places = places },
				ofNodes(lost("a", idA), lost("b", idB)))
			require.Contains(t, f.Message, message, code)
			require.Contains(t, f.Remedy, "do not delete any Node", code)
		}
	}

	destroyed := c
	destroyed.State = cloudstack.VMDestroyed
	renamed := nodeWith("other-name")
	renamed.Status.NodeInfo.SystemUUID = idA
	vms := snapshot(a, destroyed)
	require.Empty(t, Lost([]corev1.Node{nodeWith("a"), nodeWith("c"), renamed, nodeWith("lost")}, vms),
		"most nodes have a VM")
	require.Len(t, Lost([]corev1.Node{nodeWith("c"), nodeWith("lost"), nodeWith("gone")}, vms), 2)
}

// Kubernetes writes only those addresses from CloudStack that the kubelet's --node-ip allows.
func TestAddresses(t *testing.T) {
	t.Parallel()
	const first, second = "10.1.1.11", "10.2.2.21"
	two := vm(idA, "a", first)
	two.NICs = append(two.NICs, cloudstack.NIC{NetworkID: "net-2", IPv4: second})
	for _, tt := range []struct {
		manager, has, nodeIP, flag string
		nics                       *inventory.VMSnapshot
		want                       expect
	}{
		{"kubelet", first, "", "", snapshot(vm(idA, "a", first)), passes("3 nodes")},
		{
			"cloudstack-ccm", "192.0.2.7", "", "", snapshot(vm(idA, "a", first)),
			warns("1 node", "Node a: has InternalIP 192.0.2.7"),
		},
		{"cloudstack-ccm", first, first, "", snapshot(two), passes("")},
		{"cloudstack-ccm", second, second, "", snapshot(two), passes("")},
		{"cloudstack-ccm", first, "10.99.0.1", "", snapshot(two),
			warns("",
				"Node a: --node-ip 10.99.0.1 of its kubelet is none of CloudStack's addresses, InternalIP "+first+
					", InternalIP "+second)},
		{"cloudstack-ccm", first, "", "--node-internal-cidrs=10.1.0.0/16", snapshot(two), passes("")},
	} {
		a := nodeWith("a", providerID("external-cloudstack://"+idA), func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: tt.has}, {Type: corev1.NodeHostName, Address: "a"},
			}
			n.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: tt.manager, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:addresses":{}}}`)},
			}
			if tt.nodeIP != "" {
				n.Annotations["alpha.kubernetes.io/provided-node-ip"] = tt.nodeIP
			}
		})

		tt.want.of(t, "NODE-006", ofVMs(tt.nics), ofNodes(a, nodeWith("b"), nodeWith("lost", providerID("x"))),
			func(f *Facts) {
				f.Controllers = []Workload{{Ours: true, words: []string{tt.flag}}}
			})
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	zone := func(z string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = z }
	}
	volume := func(key, value string, phase corev1.PersistentVolumePhase) corev1.PersistentVolume {
		v := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		v.Status.Phase = phase
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
				},
			}}},
		}
		return v
	}

	decide := func(n corev1.Node, v ...corev1.PersistentVolume) func(*Facts) {
		return func(f *Facts) { f.Nodes, f.Volumes = []corev1.Node{n}, v }
	}
	bound := corev1.VolumeBound
	fine, moved := nodeWith("a", zone("zone-1")), nodeWith("a", zone("mars"))
	passes("").of(t, "NODE-007", threeVMs, decide(nodeWith("a")))
	skips("").of(t, "NODE-007", threeVMs, decide(nodeWith("lost")))
	fails("1 node", "Node a: zone is mars, CloudStack says zone-1").of(t, "NODE-007", threeVMs, decide(moved))
	passes("1 volume").of(t, "NODE-007", threeVMs, decide(fine, volume(corev1.LabelTopologyZone, "zone-1", bound)))
	passes("").of(t, "NODE-007", threeVMs,
		decide(fine, volume("example.org/disk", "x", bound),
			volume(corev1.LabelTopologyZone, "gone", corev1.VolumeReleased)))
	fails("1 volume", "PersistentVolume v: by CloudStack's data no node has it", "Node a: ").of(t, "NODE-007", threeVMs,
		decide(moved, volume(corev1.LabelTopologyZone, "mars", bound)))
	for _, key := range []string{corev1.LabelFailureDomainBetaZone, ZoneKey} {
		wants := []string{"PersistentVolume v: wants " + key + " gone"}
		fails("1 volume", wants...).of(t, "NODE-007", threeVMs, decide(fine, volume(key, "gone", bound)))
	}

	passes("").of(t, "NODE-007", threeVMs,
		decide(nodeWith("a", func(n *corev1.Node) { n.Labels["failure-domain.beta.kubernetes.io/zone"] = "zone-1" }),
			volume("failure-domain.beta.kubernetes.io/zone", "zone-1", bound)))
}

func TestMadeByCKS(t *testing.T) {
	t.Parallel()
	made := func(d cluster.Distribution, pods ...corev1.Pod) func(*Facts) {
		return func(f *Facts) { f.Distribution, f.DistributionBy, f.Pods = d, "a sign", pods }
	}
	named := pod("cloudstack-cloud-controller-manager-x", true)
	fails("created by CKS").of(t, "CKS-001", made(cluster.CKS))
	passes("stays away").of(t, "CKS-001", made(cluster.CKS, named), ofKubelets(verdict("a", kubelet.External, "")))
	fails("created by CKS", "Node a: ").of(t, "CKS-001", made(cluster.CKS, named),
		ofKubelets(verdict("a", kubelet.NotExternal, "")))
	fails("installs its own provider again").of(t, "CKS-001", made(cluster.CKS, pod("x", true)))
}

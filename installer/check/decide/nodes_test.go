// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
)

const (
	idA = "aaaaaaaa-0000-4000-8000-000000000001"
	idB = "bbbbbbbb-0000-4000-8000-000000000002"
	idC = "cccccccc-0000-4000-8000-000000000003"
)

func vm(id, name, ip string) cloudstack.VirtualMachine {
	return cloudstack.VirtualMachine{
		ID: id, Name: name, State: cloudstack.VMRunning, ZoneName: "zone-1",
		NICs: []cloudstack.NIC{{NetworkID: "net-1", NetworkName: "k8s-net", Default: true, IPv4: ip}},
	}
}

func snapshot(vms ...cloudstack.VirtualMachine) *inventory.VMSnapshot {
	return inventory.NewVMSnapshot(now, inventory.Scope{}, vms)
}

func threeVMs() *inventory.VMSnapshot {
	return snapshot(vm(idA, "a", "10.1.1.11"), vm(idB, "b", "10.1.1.12"), vm(idC, "c", "10.1.1.13"))
}

func providerID(id string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.ProviderID = id }
}

func taint(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: effect})
	}
}

func TestDecideKubelets(t *testing.T) {
	t.Parallel()
	verdict := func(name string, v kubelet.Verdict, remedy string) kubelet.NodeVerdict {
		return kubelet.NodeVerdict{Node: name, Verdict: v, Remedy: remedy, Evidence: []kubelet.Evidence{{Source: "/flagz", Detail: "because", Says: v}}}
	}
	good, wrong, dark := verdict("a", kubelet.External, ""), verdict("b", kubelet.NotExternal, "edit b"), verdict("c", kubelet.Unknown, "ask c")
	expect{Skipped, "no nodes", nil}.verify(t, Kubelets(nil, nil))
	f := Kubelets([]kubelet.NodeVerdict{good}, nil)
	expect{OK, "1 node", nil}.verify(t, f)
	require.Equal(t, "external: /flagz: because", f.Evidence["Node a"])
	f = Kubelets([]kubelet.NodeVerdict{good, dark, wrong}, nil)
	expect{"", "1 of 3 nodes", []string{"Node b: not-external (/flagz: because)", "Node c: unknown"}}.verify(t, f)
	require.Equal(t, "edit b", f.Remedy)
	adopting := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"--adopt-nodes=true"}}}}}
	f = Kubelets([]kubelet.NodeVerdict{good, wrong}, []corev1.Pod{adopting})
	expect{OK, "1 of 2 nodes without it; the controller initialises such nodes", nil}.verify(t, f)
	require.Empty(t, f.Remedy)
	f = Kubelets([]kubelet.NodeVerdict{good, dark}, nil)
	expect{Unknown, "1 of 2 nodes", []string{"Node c: unknown"}}.verify(t, f)
	require.Equal(t, "ask c", f.Remedy)
}

func TestDecideMatches(t *testing.T) {
	t.Parallel()
	f := Matches([]corev1.Node{nodeWith("a"), nodeWith("x", providerID("external-cloudstack://"+idB))}, threeVMs())
	expect{OK, "2 nodes in", nil}.verify(t, f)
	require.Equal(t, "VM b ("+idB+"), Running", f.Evidence["Node x"])
	f = Matches([]corev1.Node{nodeWith("a"), nodeWith("lost"), nodeWith("x", providerID("cloudstack:///"+idA))}, threeVMs())
	expect{"", "2 of 3 nodes", []string{"Node lost: has no VM", `Node x: belongs to node "a", which is older`}}.verify(t, f)
	f = Matches([]corev1.Node{nodeWith("a")}, snapshot(vm(idA, "a", ""), vm(idB, "A", "")))
	expect{"", "1 of 1 node", []string{"Node a: 2 VMs are named"}}.verify(t, f)
	expect{Skipped, "", nil}.verify(t, Matches(nil, threeVMs()))
}

// The Node that was created later is the one that is named, in whatever order the API server lists them.
func TestSecurityCheckNamesTheLaterNode(t *testing.T) {
	t.Parallel()
	first, later := nodeWith("z", providerID("cloudstack:///"+idA)), nodeWith("a")
	first.CreationTimestamp, later.CreationTimestamp = metav1.NewTime(now), metav1.NewTime(now.Add(time.Minute))
	for _, nodes := range [][]corev1.Node{{first, later}, {later, first}} {
		f := Matches(nodes, threeVMs())
		expect{"", "1 of 2 nodes", []string{`Node a: belongs to node "z", which is older`}}.verify(t, f)
	}
}

func TestDecideProviderIDs(t *testing.T) {
	t.Parallel()
	nodes := []corev1.Node{nodeWith("a", providerID("external-cloudstack://"+idA)), nodeWith("b")}
	expect{OK, "", nil}.verify(t, ProviderIDs(nodes, threeVMs(), false))
	expect{Warning, "1 node", []string{"Node b: never initialised"}}.verify(t, ProviderIDs(nodes, threeVMs(), true))
	expect{Warning, "", []string{"Node c: another cloud provider"}}.verify(t, ProviderIDs([]corev1.Node{nodeWith("c", providerID("k3s://c"))}, threeVMs(), false))
	destroyed := vm(idC, "c", "")
	destroyed.State = cloudstack.VMDestroyed
	expect{"", "3 nodes", []string{"Node a: is no UUID", "Node b: names no VM", "Node c: its VM c (" + idC + ") is Destroyed"}}.verify(t, ProviderIDs([]corev1.Node{
		nodeWith("a", providerID("cloudstack:///worker-1")), nodeWith("b", providerID("cloudstack:///"+idB)), nodeWith("c", providerID("cloudstack://"+idC)),
	}, snapshot(destroyed), false))
}

func TestDecideUninitialised(t *testing.T) {
	t.Parallel()
	since := func(ago time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) {
			at := metav1.NewTime(now.Add(-ago))
			n.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)}}
		}
	}
	wants := func(ip string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations["alpha.kubernetes.io/provided-node-ip"] = ip }
	}
	no := taint(corev1.TaintEffectNoSchedule)
	expect{OK, "1 node", nil}.verify(t, Uninitialised([]corev1.Node{nodeWith("a")}, nil, now))
	expect{OK, "1 node being initialised", nil}.verify(t, Uninitialised([]corev1.Node{nodeWith("a", no, since(time.Minute))}, nil, now))
	expect{"", "1 node", []string{"Node a: tainted for 1h0m0s"}}.verify(t, Uninitialised([]corev1.Node{nodeWith("a", no)}, nil, now))
	expect{"", "3 nodes", []string{
		"Node a: --node-ip 10.9.9.9 is on no NIC of VM a (10.1.1.11)", "Node b: tainted for 5m0s", "Node x: has no VM",
	}}.verify(t, Uninitialised([]corev1.Node{
		nodeWith("a", no, wants("10.9.9.9")), nodeWith("b", taint(corev1.TaintEffectPreferNoSchedule), since(5*time.Minute), wants("10.1.1.12")), nodeWith("x", no),
	}, threeVMs(), now))
}

func TestDecideDoomed(t *testing.T) {
	t.Parallel()
	expect{OK, "3 nodes, 1 NotReady", nil}.verify(t, Doomed([]corev1.Node{nodeWith("a"), nodeWith("b", notReadyNode), nodeWith("unknown-but-ready")}, threeVMs()))
	expect{"", "1 node", []string{"Node x: is NotReady and has no VM"}}.verify(t, Doomed([]corev1.Node{nodeWith("x", notReadyNode, providerID("cloudstack:///99999999-0000-4000-8000-000000000000"))}, threeVMs()))
	expect{OK, "1 node, 1 NotReady", nil}.verify(t, Doomed([]corev1.Node{nodeWith("x", notReadyNode)}, threeVMs())) // nothing proves that it may be deleted
	expect{OK, "", nil}.verify(t, Doomed([]corev1.Node{nodeWith("a", notReadyNode)}, snapshot(vm(idA, "a", ""), vm(idB, "a", ""))))
}

func csError(kind cloudstack.Kind, text string) error {
	return &cloudstack.Error{Kind: kind, Command: "listX", Text: text}
}

func TestDecideEndpoint(t *testing.T) {
	t.Parallel()
	cfg := &cloudstack.Config{APIURL: "https://cs/client/api"}
	version := func(v string) Finding { return Endpoint(cfg, &cloudstack.Capabilities{Version: v}, nil) }
	expect{OK, "CloudStack 4.22.0.0 at https://cs/client/api", nil}.verify(t, version("4.22.0.0"))
	expect{"", "too old", nil}.verify(t, version("4.15.2.0"))
	expect{Warning, "newer than the tested 4.22", nil}.verify(t, version("4.23.0.0"))
	expect{OK, "", nil}.verify(t, version("main"))
	throttled := &cloudstack.Capabilities{Version: "4.22.0.0", RateMax: 25, RateInterval: time.Second}
	for limit, want := range map[float64]Outcome{cloudconfig.AutoRate: OK, 20: OK, 40: Warning, 0: Warning} {
		expect{want, "API throttling allows the account 25 calls in 1s", nil}.verify(t, Endpoint(&cloudstack.Config{RateLimit: limit}, throttled, nil))
	}
	expect{OK, "its release is not shown", nil}.verify(t, Endpoint(cfg, nil, csError(cloudstack.KindAuth, "unable to verify")))
	expect{OK, "", nil}.verify(t, Endpoint(cfg, nil, csError(cloudstack.KindNotPermitted, "")))
	expect{"", "https://cs/client/api: ", nil}.verify(t, Endpoint(cfg, nil, csError(cloudstack.KindTransient, "connection refused")))
	expect{"", "no such host", nil}.verify(t, Endpoint(nil, nil, errors.New("no such host")))
}

func TestDecideKeys(t *testing.T) {
	t.Parallel()
	apis := sets.New("listZones")
	expect{OK, "1 commands", nil}.verify(t, Keys(nil, apis, nil))
	expect{"", "401", nil}.verify(t, Keys(csError(cloudstack.KindAuth, "401"), nil, csError(cloudstack.KindAuth, "401")))
	expect{OK, "accepted", nil}.verify(t, Keys(csError(cloudstack.KindNotPermitted, ""), nil, csError(cloudstack.KindNotPermitted, "")))
	expect{Warning, "administrator", nil}.verify(t, Keys(nil, sets.New("createRole"), nil))
	expect{Unknown, "boom", nil}.verify(t, Keys(errors.New("boom"), nil, nil))
}

func TestDecideCommands(t *testing.T) {
	t.Parallel()
	required, optional := []string{"assignToLoadBalancerRule", "createTags"}, []string{"createTags"}
	losses := map[string]string{"createTags": "names alone prove ownership"}
	apis := sets.New[string]
	expect{OK, "all 2", nil}.verify(t, Commands(required, optional, losses, apis("assignToLoadBalancerRule", "createTags"), nil))
	lesser := Commands(required, optional, losses, apis("assignToLoadBalancerRule"), nil)
	expect{Warning, "createTags", nil}.verify(t, lesser)
	require.Equal(t, map[string]string{"without createTags": "names alone prove ownership"}, lesser.Evidence)
	expect{"", "assignToLoadBalancerRule, createTags", nil}.verify(t, Commands(required, optional, losses, apis("x"), nil))
	expect{Unknown, "listApis", nil}.verify(t, Commands(required, optional, losses, nil, csError(cloudstack.KindNotPermitted, "")))
	expect{Unknown, "boom", nil}.verify(t, Commands(required, optional, losses, nil, errors.New("boom")))
}

func TestDecideScope(t *testing.T) {
	t.Parallel()
	zones := []cloudstack.Zone{{ID: "z1", Name: "zone-1"}}
	expect{OK, "3 VMs", nil}.verify(t, Scope(ScopeFacts{VMs: threeVMs()}))
	expect{OK, "", nil}.verify(t, Scope(ScopeFacts{Zone: "ZONE-1", Zones: zones, VMs: threeVMs()}))
	expect{"", `zone "mars" does not exist; there are: zone-1`, nil}.verify(t, Scope(ScopeFacts{Zone: "mars", Zones: zones, VMs: threeVMs()}))
	expect{OK, "", nil}.verify(t, Scope(ScopeFacts{Zone: "zone-1", ZonesErr: csError(cloudstack.KindNotPermitted, ""), VMs: threeVMs()}))
	expect{"", `project "p" not found`, nil}.verify(t, Scope(ScopeFacts{ProjectErr: &inventory.ProjectError{Project: "p"}}))
	expect{"", "no VMs in", nil}.verify(t, Scope(ScopeFacts{VMs: snapshot()}))
	expect{"", "not a member", nil}.verify(t, Scope(ScopeFacts{VMsErr: csError(cloudstack.KindNotPermitted, "not a member")}))
	expect{Unknown, "later", nil}.verify(t, Scope(ScopeFacts{VMsErr: csError(cloudstack.KindTransient, "later")}))
}

func TestDecideNetworks(t *testing.T) {
	t.Parallel()
	network := func(vpc string, services ...string) []cloudstack.Network {
		n := cloudstack.Network{ID: "net-1", Name: "k8s-net", VPCID: vpc, Services: map[string]map[string]string{}}
		for _, s := range services {
			n.Services[s] = nil
		}
		return []cloudstack.Network{n}
	}
	nodes := []corev1.Node{nodeWith("a"), nodeWith("b")}
	decide := func(n []cloudstack.Network) Finding { return Networks(nodes, threeVMs(), n) }
	expect{OK, "k8s-net", nil}.verify(t, decide(network("", "Lb", "Firewall")))
	expect{OK, "k8s-net", nil}.verify(t, decide(network("vpc", "Lb", "NetworkACL")))
	expect{"", "1 network", []string{"Network k8s-net: of 2 nodes: its offering lacks Lb"}}.verify(t, decide(network("", "Firewall")))
	expect{"", "", []string{"Network k8s-net: lacks Firewall"}}.verify(t, decide(network("", "Lb")))
	expect{"", "", []string{"Network k8s-net: lacks NetworkACL"}}.verify(t, decide(network("vpc", "Lb")))
	expect{"", "", []string{"Network net-1: not visible"}}.verify(t, decide(nil))
	expect{Skipped, "", nil}.verify(t, Networks(nil, threeVMs(), nil))
}

// A node whose name fits no VM is told which VM it is, by what cannot deceive first.
func TestLikelyVM(t *testing.T) {
	t.Parallel()
	const id = "2b2c4b9e-5ef0-4b5c-9d51-0e7a6a3b2f10"
	vms := inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, []cloudstack.VirtualMachine{
		{ID: id, Name: "vm-1", State: "Running", NICs: []cloudstack.NIC{{MAC: "02:01:00:CC:00:01", IPv4: "10.1.1.21"}}},
		{ID: "other", Name: "vm-2", State: "Running", NICs: []cloudstack.NIC{{MAC: "02:01:00:cc:00:02", IPv4: "10.1.1.22"}}},
		{ID: "twin", Name: "vm-3", State: "Running", NICs: []cloudstack.NIC{{MAC: "02:01:00:cc:00:03", IPv4: "10.1.1.22"}}},
		{ID: "gone", Name: "vm-4", State: "Destroyed", NICs: []cloudstack.NIC{{MAC: "02:01:00:cc:00:04", IPv4: "10.1.1.24"}}},
	})
	with := func(change func(n *corev1.Node)) *corev1.Node {
		n := &corev1.Node{}
		n.Name = "worker-1"
		n.Annotations = map[string]string{}
		change(n)
		return n
	}
	address := func(ip string) func(n *corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
		}
	}
	for name, tt := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"nothing":       {with(func(*corev1.Node) {}), ""},
		"system UUID":   {with(func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = "2B2C4B9E-5EF0-4B5C-9D51-0E7A6A3B2F10" }), "by its system UUID it is VM vm-1 (" + id + ")"},
		"MAC of Antrea": {with(func(n *corev1.Node) { n.Annotations["node.antrea.io/mac-address"] = "02:01:00:cc:00:01" }), "by its MAC address it is VM vm-1 (" + id + ")"},
		"MAC in JSON": {with(func(n *corev1.Node) {
			n.Annotations["k8s.ovn.org/l3-gateway-config"] = `{"default":{"mac-address":"02:01:00:CC:00:02"}}`
		}), "by its MAC address it is VM vm-2 (other)"},
		"address":        {with(address("10.1.1.21")), "by its address it is VM vm-1 (" + id + ")"},
		"address of two": {with(address("10.1.1.22")), ""},
		"of a VM gone":   {with(address("10.1.1.24")), ""},
	} {
		require.Equal(t, tt.want, likelyVM(tt.node, vms), name)
	}
	f := Matches([]corev1.Node{*with(address("10.1.1.21"))}, vms)
	require.Contains(t, f.Objects[0].Message, "has no VM")
	require.Contains(t, f.Objects[0].Message, "by its address it is VM vm-1")
	require.Equal(t, "by its address it is VM vm-1 ("+id+")", f.Evidence["Node worker-1"])
}

func TestDecideMisplaced(t *testing.T) {
	t.Parallel()
	inZone := func(v cloudstack.VirtualMachine, zone string) cloudstack.VirtualMachine {
		v.ZoneName = zone
		return v
	}
	lost := []corev1.Node{nodeWith("a", providerID("cloudstack:///"+idA)), nodeWith("b")}
	for name, tc := range map[string]struct {
		places       []credentials.Place
		zone         string
		message, fix string
	}{
		"nowhere that the keys see": {message: "x; wrong account, project or zone", fix: "--account"},
		"another project": {
			places:  []credentials.Place{{VMs: []cloudstack.VirtualMachine{vm(idC, "c", "")}}, {Project: "op-proj", VMs: []cloudstack.VirtualMachine{vm(idA, "a", ""), vm(idB, "b", "")}}},
			message: "2 in project op-proj", fix: "project op-proj: --project op-proj",
		},
		"the account itself": {
			places:  []credentials.Place{{VMs: []cloudstack.VirtualMachine{vm(idA, "a", "")}}},
			message: "1 in the account itself", fix: "the account itself: no --project",
		},
		"another zone of the project": {
			places:  []credentials.Place{{Project: Here, VMs: []cloudstack.VirtualMachine{inZone(vm(idA, "a", ""), "z2"), inZone(vm(idB, "b", ""), "z2")}}},
			zone:    "z1",
			message: "2 in zone z2", fix: "zone z2: --zone z2",
		},
		"another zone of another project": {
			places:  []credentials.Place{{Project: "p", VMs: []cloudstack.VirtualMachine{inZone(vm(idB, "b", ""), "z2")}}},
			zone:    "z1",
			message: "1 in project p, zone z2", fix: "--project p --zone z2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Elsewhere(Problemf("x").Fix("delete the Node"), lost, tc.places, tc.zone)
			require.Contains(t, f.Message, tc.message)
			require.Contains(t, f.Remedy, tc.fix)
			require.Contains(t, f.Remedy, "do not delete any Node")
		})
	}
}

func TestWithoutVM(t *testing.T) {
	t.Parallel()
	destroyed := vm(idC, "gone", "")
	destroyed.State = cloudstack.VMDestroyed
	vms := snapshot(vm(idA, "a", ""), destroyed)
	renamed := nodeWith("other-name")
	renamed.Status.NodeInfo.SystemUUID = idA
	nodes := WithoutVM([]corev1.Node{nodeWith("a"), nodeWith("gone"), renamed, nodeWith("lost")}, vms)
	require.Len(t, nodes, 1)
	require.Equal(t, "lost", nodes[0].Name)
}

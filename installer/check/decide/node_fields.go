// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/node/helpers"

	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// Older names of the topology labels; volumes made long ago still ask for them.
const (
	oldZone   = "failure-domain.beta.kubernetes.io/zone"
	oldRegion = "failure-domain.beta.kubernetes.io/region"
)

// topology holds the labels of a node's zone, region and instance type.
type topology map[string]string

// wantedTopology returns the labels by CloudStack's data; nil without a VM. The instance type has two forms,
// the controller's and that of Apache's provider.
func wantedTopology(n *corev1.Node, vms *inventory.VMSnapshot, region string) (labels topology, otherType string) {
	vm, err := node.Match(vms, n)
	if err != nil {
		return nil, ""
	}
	meta, err := node.Metadata(vm, node.Options{Node: n, Region: region})
	if err != nil {
		return nil, ""
	}
	return topology{
		corev1.LabelTopologyZone: meta.Zone, corev1.LabelTopologyRegion: meta.Region, corev1.LabelInstanceTypeStable: meta.InstanceType,
	}, node.InstanceTypeLabel(node.LabelUpstream, vm.ServiceOfferingName)
}

// Labels compares the labels that nodes have with what CloudStack says, and looks for volumes
// that no node could mount: those bound to values that no node has, or will have once it is
// initialised (again).
func Labels(nodes []corev1.Node, vms *inventory.VMSnapshot, region string, volumes []corev1.PersistentVolume, installed bool) Finding {
	var out []Object
	var now, after []topology
	judged := 0
	for i := range nodes {
		n := &nodes[i]
		now = append(now, n.Labels)
		want, otherType := wantedTopology(n, vms, region)
		if want == nil {
			after = append(after, n.Labels)
			continue // NODE-002 says it
		}
		judged++
		after = append(after, withOldNames(want))
		var differ []string
		for _, key := range slices.Sorted(maps.Keys(want)) {
			have, labelled := n.Labels[key]
			if !labelled && want[key] != "" && key != corev1.LabelInstanceTypeStable && installed && initialised(n) {
				differ = append(differ, fmt.Sprintf("%s is missing, CloudStack says %s", key, want[key]))
			}
			if !labelled || want[key] == "" || have == want[key] || key == corev1.LabelInstanceTypeStable && have == otherType {
				continue
			}
			differ = append(differ, fmt.Sprintf("%s is %s, CloudStack says %s", key, have, want[key]))
		}
		if len(differ) > 0 {
			out = append(out, NodeObject(n, "%s", strings.Join(differ, "; ")))
		}
	}
	stranded := strandedVolumes(volumes, now, after)
	switch {
	case len(stranded) > 0:
		return Problemf("%s bound to a zone or region that no node has, or will have", plural.Count(len(stranded), "volume")).About(append(stranded, out...)...).
			Fix("a volume's node affinity cannot be changed: set region in the cloud-config, or the zone's name, to the old value, or move the data to a new volume")
	case len(out) > 0:
		return Problemf("%s with labels that CloudStack does not confirm", plural.Count(len(out), "node")).About(out...)
	case judged == 0:
		return Skipf("no node has a VM")
	}
	return Passf("%s, %s", plural.Count(judged, "node"), plural.Count(len(volumes), "volume"))
}

// initialised reports whether the controller has initialised a node, or another provider for CloudStack.
func initialised(n *corev1.Node) bool {
	_, kind, err := node.ParseProviderID(n.Spec.ProviderID)
	return err == nil && kind.IsCloudStack() && !node.HasTaint(n)
}

func withOldNames(t topology) topology {
	out := topology{oldZone: t[corev1.LabelTopologyZone], oldRegion: t[corev1.LabelTopologyRegion]}
	for k, v := range t {
		out[k] = v
	}
	return out
}

// topologyKeys are the labels of a volume's affinity that a cloud controller decides about.
var topologyKeys = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, oldZone, oldRegion}

func strandedVolumes(volumes []corev1.PersistentVolume, now, after []topology) []Object {
	var out []Object
	for i := range volumes {
		v := &volumes[i]
		if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil || v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed {
			continue
		}
		terms := v.Spec.NodeAffinity.Required.NodeSelectorTerms
		asks := topologyOf(terms)
		if asks == "" {
			continue
		}
		o := Object{Kind: "PersistentVolume", Name: v.Name}
		switch {
		case !anyFits(terms, now):
			o.Message = asks + "; no node has it"
		case !anyFits(terms, after):
			o.Message = asks + "; no node has it once the nodes carry what CloudStack says"
		default:
			continue
		}
		if c := v.Spec.ClaimRef; c != nil {
			o.Message += fmt.Sprintf(" (claim %s/%s)", c.Namespace, c.Name)
		}
		out = append(out, o)
	}
	return out
}

// topologyOf describes the zones and regions that the terms require; "" for nothing.
func topologyOf(terms []corev1.NodeSelectorTerm) string {
	var out []string
	for _, t := range terms {
		for _, e := range t.MatchExpressions {
			if slices.Contains(topologyKeys, e.Key) {
				out = append(out, fmt.Sprintf("wants %s %s", e.Key, strings.Join(e.Values, " or ")))
			}
		}
	}
	return strings.Join(slices.Compact(out), ", ")
}

// anyFits reports whether a node satisfies what a term asks of the topology; its other expressions are
// not ours to judge.
func anyFits(terms []corev1.NodeSelectorTerm, nodes []topology) bool {
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(nodes, func(labels topology) bool {
			return !slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
				return slices.Contains(topologyKeys, e.Key) && !fits(e, labels)
			})
		})
	})
}

func fits(e corev1.NodeSelectorRequirement, labels topology) bool {
	v, there := labels[e.Key]
	switch e.Operator { //nolint:exhaustive // Gt and Lt are for numbers, which zones are not
	case corev1.NodeSelectorOpIn:
		return there && slices.Contains(e.Values, v)
	case corev1.NodeSelectorOpNotIn:
		return !slices.Contains(e.Values, v)
	case corev1.NodeSelectorOpExists:
		return there
	case corev1.NodeSelectorOpDoesNotExist:
		return !there
	}
	return true
}

// SecondLook is the time between two reads of a node whose addresses are in doubt: a kubelet writes its
// status every 10 s.
const SecondLook = 15 * time.Second

// Suspect is an initialised node whose addresses are not those that CloudStack has.
type Suspect struct {
	node       *corev1.Node
	have, want string
	Kubelet    bool   // the kubelet wrote them last
	NodeIP     string // the kubelet's --node-ip, if no address of the VM is this one: Kubernetes writes no addresses then
	then       string // addresses at the second look, if they had changed
}

// SuspectAddresses are the nodes on which controller and kubelet may fight. status.addresses is an atomic
// list, so managedFields name the one that wrote it last.
func SuspectAddresses(nodes []corev1.Node, vms *inventory.VMSnapshot, rules node.AddressRules) []Suspect {
	var out []Suspect
	for i := range nodes {
		n := &nodes[i]
		if node.HasTaint(n) || n.Spec.ProviderID == "" || n.Annotations[node.AnnotationAdoptedAt] != "" {
			continue // the controller has not begun, or leaves the addresses to the kubelet
		}
		vm, err := node.Match(vms, n)
		if err != nil {
			continue
		}
		meta, err := node.Metadata(vm, node.Options{Node: n, Addresses: rules})
		if err != nil || len(meta.NodeAddresses) == 0 {
			continue
		}
		s := Suspect{node: n, have: addressText(n.Status.Addresses), want: addressText(meta.NodeAddresses), Kubelet: kubelet.WritesAddresses(n)}
		// Kubernetes writes only those of CloudStack's addresses that the kubelet's --node-ip leaves.
		if ip, given := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; given {
			written, err := helpers.GetNodeAddressesFromNodeIP(ip, meta.NodeAddresses)
			if err != nil {
				s.NodeIP = ip
			} else {
				s.want = addressText(written)
			}
		}
		if s.have != s.want {
			out = append(out, s)
		}
	}
	return out
}

// LookAgain notes the addresses that changed since.
func LookAgain(suspects []Suspect, again []corev1.Node) {
	for i := range suspects {
		s := &suspects[i]
		j := slices.IndexFunc(again, func(n corev1.Node) bool { return n.Name == s.node.Name })
		if j < 0 {
			continue
		}
		if now := addressText(again[j].Status.Addresses); now != s.have {
			s.then = now
		}
	}
}

// Addresses decides NODE-006.
func Addresses(nodes int, suspects []Suspect) Finding {
	var fights, odd []Object
	for _, s := range suspects {
		switch {
		case s.NodeIP != "":
			odd = append(odd, NodeObject(s.node, "has %s, which are not updated: --node-ip %s of its kubelet is none of CloudStack's addresses, %s", s.have, s.NodeIP, s.want))
		case s.Kubelet:
			fights = append(fights, NodeObject(s.node, "its kubelet writes %s, CloudStack has %s", s.have, s.want))
		case s.then != "" && s.then != s.want:
			fights = append(fights, NodeObject(s.node, "its addresses change: %s, %s later %s; CloudStack has %s", s.have, SecondLook, s.then, s.want))
		case s.then == "":
			odd = append(odd, NodeObject(s.node, "has %s, CloudStack has %s", s.have, s.want))
		}
	}
	switch {
	case len(fights) > 0:
		return Problemf("kubelet and controller both write the addresses of %s", plural.Count(len(fights), "node")).About(append(fights, odd...)...)
	case len(odd) > 0:
		return Warnf("%s with other addresses than CloudStack has", plural.Count(len(odd), "node")).About(odd...).
			Fix("wait five minutes, after which the controller has written what CloudStack says; if it stays, look at the controller's log: `%s`", ShowLog)
	}
	return Passf("%s", plural.Count(nodes, "node"))
}

// addressText is the list without names, in a fixed order.
func addressText(addresses []corev1.NodeAddress) string {
	var out []string
	for _, a := range addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			out = append(out, fmt.Sprintf("%s %s", a.Type, a.Address))
		}
	}
	if len(out) == 0 {
		return "no address"
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

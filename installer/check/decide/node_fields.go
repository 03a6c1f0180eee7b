// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/node/helpers"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/node"
)

// topologyKeys are the labels of zone and region, with their older names, which volumes made long ago still ask for, and the label
// of the CSI driver for CloudStack.
var topologyKeys = map[string]string{
	corev1.LabelTopologyZone: corev1.LabelTopologyZone, corev1.LabelTopologyRegion: corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	ZoneKey: ZoneKey,
}

// wantedLabels returns the labels of zone, region and instance type by CloudStack's data; nil without a VM. The instance type
// may also have the form of Apache's provider.
func (f *Facts) wantedLabels(n *corev1.Node) map[string]string {
	vm, ok := f.VM(n)
	meta, err := node.Metadata(vm, node.Options{Node: n, Region: f.Config.Region})
	if !ok || err != nil {
		return nil
	}
	if upstream := node.InstanceTypeLabel(node.LabelUpstream, vm.ServiceOfferingName); n.Labels[corev1.LabelInstanceTypeStable] == upstream {
		meta.InstanceType = upstream
	}
	return map[string]string{
		corev1.LabelTopologyZone: meta.Zone, corev1.LabelTopologyRegion: meta.Region, corev1.LabelInstanceTypeStable: meta.InstanceType,
	}
}

// labels compares the labels that nodes have with what CloudStack says, and looks for volumes that no node can mount when the
// nodes have what CloudStack says.
func labels(f *Facts) Finding {
	var after []corev1.Node
	judged := 0
	odd := about("Node", f.Nodes, func(n *corev1.Node) string {
		want := f.wantedLabels(n)
		relabelled := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{}}}
		maps.Copy(relabelled.Labels, n.Labels)
		for old, key := range topologyKeys {
			if want[key] != "" {
				relabelled.Labels[old] = want[key]
			}
		}
		after = append(after, relabelled)
		if want != nil { // else NODE-002 says it
			judged++
		}
		var differ []string
		for _, key := range slices.Sorted(maps.Keys(want)) {
			have, labelled := n.Labels[key]
			needed := key != corev1.LabelInstanceTypeStable && f.Phase == Installed && initialised(n)
			if want[key] != "" && have != want[key] && (labelled || needed) {
				differ = append(differ, fmt.Sprintf("%s is %s, CloudStack says %s", key, cmp.Or(have, "missing"), want[key]))
			}
		}
		return strings.Join(differ, "; ")
	})
	stranded := about("PersistentVolume", f.Volumes, func(v *corev1.PersistentVolume) string { return stranded(v, after) })
	switch {
	case judged == 0:
		return Skipf("no node has a VM")
	case len(stranded) > 0:
		return Problemf("%s bound to a zone or region that no node has", english.Plural(len(stranded), "volume", "")).About(append(stranded, odd...)...).
			Fix("a volume's node affinity cannot be changed: set region in the cloud-config, or the zone's name, to the old value, " +
				"join a node of that zone, or move the data to a new volume")
	}
	out := Passf("%s, %s", english.Plural(judged, "node", ""), english.Plural(len(f.Volumes), "volume", ""))
	if err := f.Err(Volumes); err != nil {
		out = out.With("volumes", "not judged: "+err.Error())
	}
	return out.Unless(odd, "node", "%s with labels that CloudStack does not confirm")
}

// initialised reports whether the controller has initialised a node, or another provider for CloudStack.
func initialised(n *corev1.Node) bool {
	_, kind, err := node.ParseProviderID(n.Spec.ProviderID)
	return err == nil && kind.IsCloudStack() && !node.HasTaint(n)
}

// stranded says which zone or region a volume requires, where none of the nodes has it; "" otherwise.
func stranded(v *corev1.PersistentVolume, nodes []corev1.Node) string {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil || v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed {
		return ""
	}
	var asks []string
	for _, t := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			if topologyKeys[e.Key] != "" {
				asks = append(asks, fmt.Sprintf("wants %s %s", e.Key, strings.Join(e.Values, " or ")))
			}
		}
	}
	selector, err := nodeaffinity.NewNodeSelector(v.Spec.NodeAffinity.Required)
	if len(asks) == 0 || err != nil || slices.ContainsFunc(nodes, func(n corev1.Node) bool { return selector.Match(&n) }) {
		return ""
	}
	return strings.Join(slices.Compact(asks), ", ") + "; by CloudStack's data no node has it"
}

// addresses names who writes the addresses of a node: status.addresses is an atomic list, so managedFields name the one that
// wrote it last. It leaves out nodes that the controller has not begun with, and those whose addresses it leaves to the kubelet.
func addresses(f *Facts) Finding {
	var rules node.AddressRules
	internal, _ := cluster.Argument(f.Words(), "node-internal-cidrs")
	external, _ := cluster.Argument(f.Words(), "node-external-cidrs")
	rules.Internal, _ = node.ParseCIDRs(internal) // the controller does not start with a list that cannot be read
	rules.External, _ = node.ParseCIDRs(external)
	var odd []Object
	fights := about("Node", f.Nodes, func(n *corev1.Node) string {
		vm, ok := f.VM(n)
		meta, err := node.Metadata(vm, node.Options{Node: n, Addresses: rules})
		if !ok || err != nil || len(meta.NodeAddresses) == 0 || node.HasTaint(n) || n.Spec.ProviderID == "" || n.Annotations[node.AnnotationAdoptedAt] != "" {
			return ""
		}
		have, want := addressText(n.Status.Addresses), addressText(meta.NodeAddresses)
		// Kubernetes writes only those of CloudStack's addresses that the kubelet's --node-ip leaves, and none if it is not among them.
		ip, given := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
		written, err := helpers.GetNodeAddressesFromNodeIP(ip, meta.NodeAddresses)
		if given && err == nil {
			want = addressText(written)
		}
		switch {
		case have == want:
		case given && err != nil:
			odd = append(odd, objectf("Node", "", n.Name,
				"has %s, which are not updated: --node-ip %s of its kubelet is none of CloudStack's addresses, %s", have, ip, want))
		case kubelet.WritesAddresses(n):
			return fmt.Sprintf("its kubelet writes %s, CloudStack has %s", have, want)
		default:
			odd = append(odd, objectf("Node", "", n.Name, "has %s, CloudStack has %s", have, want))
		}
		return ""
	})
	out := Passf("%s", english.Plural(len(f.Nodes), "node", ""))
	if len(odd) > 0 && len(fights) == 0 {
		out = Warnf("%s with other addresses than CloudStack has", english.Plural(len(odd), "node", "")).
			Fix("wait five minutes, after which the controller has written what CloudStack says; if it stays, look at the controller's log: `%s`", showLog)
	}
	return out.Unless(fights, "node", "kubelet and controller both write the addresses of %s").About(odd...)
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

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
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/node/helpers"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/node"
)

// topologyKeys are the labels of zone and region, with their older names, which volumes made long ago still ask for, and the label
// of the CSI driver for CloudStack.
var topologyKeys = map[string]string{
	corev1.LabelTopologyZone: corev1.LabelTopologyZone, corev1.LabelTopologyRegion: corev1.LabelTopologyRegion,
	"failure-domain.beta.kubernetes.io/zone": corev1.LabelTopologyZone, "failure-domain.beta.kubernetes.io/region": corev1.LabelTopologyRegion,
	ZoneKey: ZoneKey,
}

// wantedLabels returns the labels of zone, region and instance type by CloudStack's data; nil without a VM. The instance
// type has two forms, the controller's and that of Apache's provider.
func (f *Facts) wantedLabels(n *corev1.Node) (labels map[string]string, otherType string) {
	vm, ok := f.VM(n)
	if !ok {
		return nil, ""
	}
	meta, err := node.Metadata(vm, node.Options{Node: n, Region: f.Config.Region})
	if err != nil {
		return nil, ""
	}
	return map[string]string{
		corev1.LabelTopologyZone: meta.Zone, corev1.LabelTopologyRegion: meta.Region, corev1.LabelInstanceTypeStable: meta.InstanceType,
	}, node.InstanceTypeLabel(node.LabelUpstream, vm.ServiceOfferingName)
}

// labels compares the labels that nodes have with what CloudStack says, and looks for volumes that no node could mount:
// those bound to values that no node has, or will have once it is initialised (again).
func labels(f *Facts) Finding {
	after := slices.Clone(f.Nodes)
	judged := 0
	for i := range after {
		if want, _ := f.wantedLabels(&after[i]); want != nil {
			judged++
			after[i].Labels = maps.Clone(after[i].Labels)
			for old, key := range topologyKeys {
				after[i].Labels[old] = cmp.Or(want[key], after[i].Labels[old])
			}
		}
	}
	odd := f.nodeObjects(func(n *corev1.Node) string {
		want, otherType := f.wantedLabels(n) // nil: NODE-002 says it
		var differ []string
		for _, key := range slices.Sorted(maps.Keys(want)) {
			have, labelled := n.Labels[key]
			isType := key == corev1.LabelInstanceTypeStable
			switch {
			case want[key] == "" || have == want[key] || isType && have == otherType:
			case labelled:
				differ = append(differ, fmt.Sprintf("%s is %s, CloudStack says %s", key, have, want[key]))
			case !isType && f.Phase == Installed && initialised(n):
				differ = append(differ, fmt.Sprintf("%s is missing, CloudStack says %s", key, want[key]))
			}
		}
		return strings.Join(differ, "; ")
	})
	stranded := strandedVolumes(f.Volumes, f.Nodes, after)
	out := Passf("%s, %s", english.Plural(judged, "node", ""), english.Plural(len(f.Volumes), "volume", ""))
	switch {
	case len(stranded) > 0:
		out = Problemf("%s bound to a zone or region that no node has, or will have", english.Plural(len(stranded), "volume", "")).About(append(stranded, odd...)...).
			Fix("a volume's node affinity cannot be changed: set region in the cloud-config, or the zone's name, to the old value, join a node of that zone, or move the data to a new volume")
	case len(odd) > 0:
		out = Problemf("%s with labels that CloudStack does not confirm", english.Plural(len(odd), "node", "")).About(odd...)
	case judged == 0:
		out = Skipf("no node has a VM")
	}
	if err := f.Err(Volumes); err != nil {
		out = out.With("volumes", "not judged: "+err.Error())
	}
	return out
}

// initialised reports whether the controller has initialised a node, or another provider for CloudStack.
func initialised(n *corev1.Node) bool {
	_, kind, err := node.ParseProviderID(n.Spec.ProviderID)
	return err == nil && kind.IsCloudStack() && !node.HasTaint(n)
}

func strandedVolumes(volumes []corev1.PersistentVolume, now, after []corev1.Node) []Object {
	return about("PersistentVolume", volumes, func(v *corev1.PersistentVolume) string {
		asks, selector := topologyOf(v)
		fits := func(n corev1.Node) bool { return selector.Match(&n) }
		text := ""
		switch {
		case asks == "" || v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed:
			return ""
		case !slices.ContainsFunc(now, fits):
			text = asks + "; no node has it"
		case !slices.ContainsFunc(after, fits):
			text = asks + "; no node has it once the nodes carry what CloudStack says"
		}
		if c := v.Spec.ClaimRef; c != nil && text != "" {
			text += fmt.Sprintf(" (claim %s/%s)", c.Namespace, c.Name)
		}
		return text
	})
}

// topologyOf returns what a volume requires of its node, where that has to do with zone or region: in words, and as a selector.
func topologyOf(v *corev1.PersistentVolume) (asks string, _ *nodeaffinity.NodeSelector) {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return "", nil
	}
	var words []string
	for _, t := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			if topologyKeys[e.Key] != "" {
				words = append(words, fmt.Sprintf("wants %s %s", e.Key, strings.Join(e.Values, " or ")))
			}
		}
	}
	selector, err := nodeaffinity.NewNodeSelector(v.Spec.NodeAffinity.Required)
	if err != nil {
		return "", nil
	}
	return strings.Join(slices.Compact(words), ", "), selector
}

// addresses names who writes the addresses of a node: status.addresses is an atomic list, so managedFields name the one that
// wrote it last. It leaves out nodes that the controller has not begun with, and those whose addresses it leaves to the kubelet.
func addresses(f *Facts) Finding {
	var rules node.AddressRules
	internal, _ := family.Argument(f.Words(), "node-internal-cidrs")
	external, _ := family.Argument(f.Words(), "node-external-cidrs")
	rules.Internal, _ = node.ParseCIDRs(internal) // the controller does not start with a list that cannot be read
	rules.External, _ = node.ParseCIDRs(external)
	var odd []Object
	fights := f.nodeObjects(func(n *corev1.Node) string {
		vm, ok := f.VM(n)
		meta, err := node.Metadata(vm, node.Options{Node: n, Addresses: rules})
		if !ok || err != nil || len(meta.NodeAddresses) == 0 || node.HasTaint(n) || n.Spec.ProviderID == "" || n.Annotations[node.AnnotationAdoptedAt] != "" {
			return ""
		}
		have, want, nodeIP := addressText(n.Status.Addresses), addressText(meta.NodeAddresses), ""
		// Kubernetes writes only those of CloudStack's addresses that the kubelet's --node-ip leaves, and none if it is not among them.
		if ip, given := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; given {
			if written, err := helpers.GetNodeAddressesFromNodeIP(ip, meta.NodeAddresses); err != nil {
				nodeIP = ip
			} else {
				want = addressText(written)
			}
		}
		switch {
		case have == want:
		case nodeIP != "":
			odd = append(odd, objectf("Node", "", n.Name, "has %s, which are not updated: --node-ip %s of its kubelet is none of CloudStack's addresses, %s", have, nodeIP, want))
		case kubelet.WritesAddresses(n):
			return fmt.Sprintf("its kubelet writes %s, CloudStack has %s", have, want)
		default:
			odd = append(odd, objectf("Node", "", n.Name, "has %s, CloudStack has %s", have, want))
		}
		return ""
	})
	if len(fights) == 0 && len(odd) > 0 {
		return Warnf("%s with other addresses than CloudStack has", english.Plural(len(odd), "node", "")).About(odd...).
			Fix("wait five minutes, after which the controller has written what CloudStack says; if it stays, look at the controller's log: `%s`", ShowLog)
	}
	return Passf("%s", english.Plural(len(f.Nodes), "node", "")).Unless(fights, "node", "kubelet and controller both write the addresses of %s").About(odd...)
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/node/helpers"

	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/node"
)

// topologyKeys are the labels of zone and region, with their older names, which volumes made long ago still ask for.
var topologyKeys = map[string]string{
	corev1.LabelTopologyZone: corev1.LabelTopologyZone, corev1.LabelTopologyRegion: corev1.LabelTopologyRegion,
	"failure-domain.beta.kubernetes.io/zone": corev1.LabelTopologyZone, "failure-domain.beta.kubernetes.io/region": corev1.LabelTopologyRegion,
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
	var now, after []map[string]string
	judged := 0
	odd := f.nodeObjects(func(n *corev1.Node) string {
		now = append(now, n.Labels)
		want, otherType := f.wantedLabels(n)
		if want == nil {
			after = append(after, n.Labels)
			return "" // NODE-002 says it
		}
		judged++
		will := maps.Clone(want)
		for old, key := range topologyKeys {
			will[old] = want[key]
		}
		after = append(after, will)
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
	stranded := strandedVolumes(f.Volumes, now, after)
	out := Passf("%s, %s", english.Plural(judged, "node", ""), english.Plural(len(f.Volumes), "volume", ""))
	switch {
	case len(stranded) > 0:
		out = Problemf("%s bound to a zone or region that no node has, or will have", english.Plural(len(stranded), "volume", "")).About(append(stranded, odd...)...).
			Fix("a volume's node affinity cannot be changed: set region in the cloud-config, or the zone's name, to the old value, or move the data to a new volume")
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

func strandedVolumes(volumes []corev1.PersistentVolume, now, after []map[string]string) []Object {
	var out []Object
	for i := range volumes {
		v := &volumes[i]
		asks, terms := topologyOf(v)
		o := Object{Kind: "PersistentVolume", Name: v.Name}
		switch {
		case asks == "" || v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed:
			continue
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

// topologyOf returns what a volume requires of the zone and region of its node, in words and as selectors of which one must
// match; "" for nothing. Its other expressions are not judged.
func topologyOf(v *corev1.PersistentVolume) (asks string, terms []apilabels.Selector) {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return "", nil
	}
	var words []string
	for _, t := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		var term metav1.LabelSelector
		for _, e := range t.MatchExpressions {
			if topologyKeys[e.Key] != "" {
				words = append(words, fmt.Sprintf("wants %s %s", e.Key, strings.Join(e.Values, " or ")))
				term.MatchExpressions = append(term.MatchExpressions, metav1.LabelSelectorRequirement{
					Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
				})
			}
		}
		s, err := metav1.LabelSelectorAsSelector(&term)
		if err != nil { // Gt and Lt are for numbers, which zones are not
			s = apilabels.Everything()
		}
		terms = append(terms, s)
	}
	return strings.Join(slices.Compact(words), ", "), terms
}

func anyFits(terms []apilabels.Selector, nodes []map[string]string) bool {
	return slices.ContainsFunc(terms, func(s apilabels.Selector) bool {
		return slices.ContainsFunc(nodes, func(labels map[string]string) bool { return s.Matches(apilabels.Set(labels)) })
	})
}

// SecondLook is the time between two reads of a node whose addresses are in doubt: a kubelet writes its
// status every 10 s.
const SecondLook = 15 * time.Second

// Suspect is an initialised node whose addresses are not those that CloudStack has.
type Suspect struct {
	node       *corev1.Node
	have, want string
	kubelet    bool   // the kubelet wrote them last
	nodeIP     string // the kubelet's --node-ip, if no address of the VM is this one: Kubernetes writes no addresses then
	then       string // addresses at the second look, if they had changed
}

// Doubtful reports whether only a second look can tell what is wrong.
func (s *Suspect) Doubtful() bool { return !s.kubelet && s.nodeIP == "" }

// SuspectAddresses are the nodes on which controller and kubelet may fight. status.addresses is an atomic
// list, so managedFields name the one that wrote it last.
func (f *Facts) SuspectAddresses() []Suspect {
	var out []Suspect
	var rules node.AddressRules
	for _, word := range f.Words() {
		// The controller does not start with a list that cannot be read.
		if list, ok := strings.CutPrefix(word, "--node-internal-cidrs="); ok {
			rules.Internal, _ = node.ParseCIDRs(list)
		}
		if list, ok := strings.CutPrefix(word, "--node-external-cidrs="); ok {
			rules.External, _ = node.ParseCIDRs(list)
		}
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		vm, ok := f.VM(n)
		if !ok || node.HasTaint(n) || n.Spec.ProviderID == "" || n.Annotations[node.AnnotationAdoptedAt] != "" {
			continue // the controller has not begun, or leaves the addresses to the kubelet
		}
		meta, err := node.Metadata(vm, node.Options{Node: n, Addresses: rules})
		if err != nil || len(meta.NodeAddresses) == 0 {
			continue
		}
		s := Suspect{node: n, have: addressText(n.Status.Addresses), want: addressText(meta.NodeAddresses), kubelet: kubelet.WritesAddresses(n)}
		// Kubernetes writes only those of CloudStack's addresses that the kubelet's --node-ip leaves.
		if ip, given := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; given {
			written, err := helpers.GetNodeAddressesFromNodeIP(ip, meta.NodeAddresses)
			if err != nil {
				s.nodeIP = ip
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
		for j := range again {
			if now := addressText(again[j].Status.Addresses); again[j].Name == s.node.Name && now != s.have {
				s.then = now
			}
		}
	}
}

func addresses(f *Facts) Finding {
	var fights, odd []Object
	for _, s := range f.Suspects {
		switch {
		case s.nodeIP != "":
			odd = append(odd, NodeObject(s.node, "has %s, which are not updated: --node-ip %s of its kubelet is none of CloudStack's addresses, %s", s.have, s.nodeIP, s.want))
		case s.kubelet:
			fights = append(fights, NodeObject(s.node, "its kubelet writes %s, CloudStack has %s", s.have, s.want))
		case s.then != "" && s.then != s.want:
			fights = append(fights, NodeObject(s.node, "its addresses change: %s, %s later %s; CloudStack has %s", s.have, SecondLook, s.then, s.want))
		case s.then == "":
			odd = append(odd, NodeObject(s.node, "has %s, CloudStack has %s", s.have, s.want))
		}
	}
	switch {
	case len(fights) > 0:
		return Problemf("kubelet and controller both write the addresses of %s", english.Plural(len(fights), "node", "")).About(append(fights, odd...)...)
	case len(odd) > 0:
		return Warnf("%s with other addresses than CloudStack has", english.Plural(len(odd), "node", "")).About(odd...).
			Fix("wait five minutes, after which the controller has written what CloudStack says; if it stays, look at the controller's log: `%s`", ShowLog)
	}
	return Passf("%s", english.Plural(len(f.Nodes), "node", ""))
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

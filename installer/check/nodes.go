// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/node/helpers"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// eachNode returns a judge function that reports each node for which say returns a problem. format has one verb, for
// the number of these nodes.
func eachNode(format string, say func(*Facts, *corev1.Node) string) func(*Facts) Finding {
	return func(f *Facts) Finding {
		objects := about("Node", f.Nodes, func(n *corev1.Node) string { return say(f, n) })
		return Passf("%s", count(len(f.Nodes), "node")).Unless(objects, "node", format)
	}
}

var node001 = Check{
	Code:     "NODE-001",
	Title:    "Kubelets run with --cloud-provider=external",
	Severity: SeverityWarning,
	Reads:    Sources{Kubelets},
	Tries:    Sources{Pods},
	Judge:    kubelets,
	What: `Each kubelet reports in /flagz (through the API server) that it runs with --cloud-provider=external. If
		it does not answer, its Node is examined. With the chart value adoptNodes the controller also initialises nodes
		of other kubelets.`,
	Why: `Other kubelets set no taint when they register, so new nodes take Pods before they are initialised; and
		they overwrite the controller's addresses.`,
	Remedy: `start the kubelet with --cloud-provider=external and restart it`,
}

func kubelets(f *Facts) Finding {
	objects, fix := map[kubelet.Verdict]Objects{}, map[kubelet.Verdict]string{}
	evidence := map[string]string{}
	for _, v := range f.Kubelets {
		evidence["Node "+v.Node] = string(v.Verdict) + ": " + v.Reason()
		objects[v.Verdict] = append(objects[v.Verdict], objectf("Node", "", v.Node, "%s (%s)", v.Verdict, v.Reason()))
		fix[v.Verdict] = v.Remedy
	}

	not, unclear := objects[kubelet.NotExternal], objects[kubelet.Unknown]
	all := count(len(f.Kubelets), "node")
	out := Passf("%s", all)
	switch {
	case len(not) > 0 && node.Adopts(f.Pods):
		out = Passf("%d of %s without it; the controller initialises such nodes (adoptNodes)", len(not), all)
	case len(not) > 0:
		out = Problemf("%d of %s without it", len(not), all).
			About(append(not, unclear...)...).
			Fix("%s", fix[kubelet.NotExternal])
	case len(unclear) > 0:
		out = Unknownf("not known of %d of %s", len(unclear), all).About(unclear...).Fix("%s", fix[kubelet.Unknown])
	}

	out.Evidence = evidence
	return out
}

var node002 = Check{
	Code:  "NODE-002",
	Title: "Every node is exactly one VM",
	Reads: Sources{Nodes, VMs},
	Tries: Sources{Places},
	Judge: machines,
	What: `Each Node has one VM, by its provider ID or else by its name, and no two Nodes have the same VM. For a
		node without a match, the check names the VM with its system UUID.`,
	Why: `A node without a VM is never initialised, and neither is one whose name two VMs have.`,
	Remedy: `name the VM as the node, or start the kubelet with --hostname-override; rename one of two VMs with the
		same name`,
}

func machines(f *Facts) Finding {
	count := count(len(f.Nodes), "node")
	all := make([]*corev1.Node, len(f.Nodes))
	for i := range f.Nodes {
		all[i] = &f.Nodes[i]
	}

	out := Passf("%s in %s", count, f.VMs.Scope())
	elsewhere := len(Lost(f.Nodes, f.VMs)) > 0
	objects := about("Node", f.Nodes, func(n *corev1.Node) string {
		vm, err := node.Match(f.VMs, n)
		if err == nil {
			err = node.Unshared(&vm, n, all)
		}
		malformed := node.ReasonOf(err) == node.ReasonInvalidProviderID
		if malformed || err != nil && f.dangling(n) && !elsewhere {
			return "" // NODE-003 or NODE-008 reports this node
		}
		if err != nil {
			return strings.TrimSuffix(withoutName(err, n)+"; "+likelyVM(n, f.VMs), "; ")
		}
		out = out.With("Node "+n.Name, fmt.Sprintf("VM %s (%s), %s", vm.Name, vm.ID, vm.State))
		return ""
	})

	if len(objects) > 0 {
		out.Outcome, out.Message = "", fmt.Sprintf("%d of %s without exactly one VM", len(objects), count)
	}

	return f.misplaced(out.About(objects...))
}

// dangling reports whether a node has a CloudStack provider ID whose VM does not exist in this project and zone.
func (f *Facts) dangling(n *corev1.Node) bool {
	_, err := node.Match(f.VMs, n)
	return node.HasVMID(n) && node.ReasonOf(err) == node.ReasonWithoutVM
}

var node003 = Check{
	Code:  "NODE-003",
	Title: "Provider IDs",
	Reads: Sources{Nodes, VMs},
	Tries: Sources{Places},
	Judge: providerIDs,
	What:  `Each Node's provider ID is CloudStack's and names a VM that exists, or is empty before the installation.`,
	Why: `A provider ID can never be changed. With a foreign one, another controller has initialised the node; if it
		names no VM, the node seems to be deleted.`,
	Remedy: `delete the Node and restart its kubelet, which registers it again`,
}

func providerIDs(f *Facts) Finding {
	var odd Objects
	malformed, elsewhere := false, len(Lost(f.Nodes, f.VMs)) > 0
	wrong := about("Node", f.Nodes, func(n *corev1.Node) string {
		id, err := node.ParseProviderID(n.Spec.ProviderID)
		vm, found := f.VMs.ByID(id)
		_, hasVM := f.VM(n)
		switch {
		case err != nil:
			malformed = true
			return err.Error()
		case f.dangling(n) && !node.Ready(n) && !elsewhere: // NODE-008 reports this node
		case id != "" && !found:
			return strings.TrimSuffix(fmt.Sprintf("%q names no VM of %s; %s",
				n.Spec.ProviderID, f.VMs.Scope(), likelyVM(n, f.VMs)), "; ")
		case id != "" && node.IsGone(vm.State):
			return fmt.Sprintf("its VM %s (%s) is %s", vm.Name, id, vm.State)
		case id != "":
		case n.Spec.ProviderID != "":
			odd.addf("Node", n.Name, "%q is of another cloud provider; the node is found by its name",
				n.Spec.ProviderID)
		case f.Phase == PhaseInstalled && !node.HasTaint(n) && hasVM: // NODE-002 and NODE-004 report the others
			odd.addf("Node", n.Name, "has no provider ID: it was never initialised")
		}

		return ""
	})

	out := Passf("%s", count(len(f.Nodes), "node"))
	if len(wrong)+len(odd) > 0 {
		out = Warnf("%s without a provider ID of CloudStack", count(len(odd), "node")).
			Fix("have the node initialised: `csccm taint %s`; a foreign provider ID stays", namesOf(odd))
	}

	if len(wrong) > 0 {
		out = Problemf("%s with a wrong provider ID", count(len(wrong), "node")).
			Fix("nobody can change a provider ID: `kubectl delete node %s`, then restart the kubelet, which "+
				"registers the Node again", namesOf(wrong))
	}

	if malformed {
		out = out.Fix("%s: `kubectl delete node %s`", node.RemedyProviderID, namesOf(wrong))
	}

	return f.misplaced(out.About(append(wrong, odd...)...))
}

// namesOf returns the names of objects, separated by spaces as on a command line.
func namesOf(objects Objects) string {
	return strings.Join(cloudapi.Names(objects, func(o *Object) string { return o.Name }), " ")
}

// patience is how long a node may take to be initialised.
const patience = 2 * time.Minute

var node004 = Check{
	Code:  "NODE-004",
	Title: "No node waits for its initialisation",
	Phase: PhaseInstalled,
	Reads: Sources{Nodes},
	Tries: Sources{VMs},
	Judge: eachNode("%s waiting for the controller", uninitialised),
	What:  `No node carries the taint node.cloudprovider.kubernetes.io/uninitialized for more than two minutes.`,
	Why:   `Such a node takes no Pods. If --node-ip is on no NIC of the VM, it waits forever.`,
	Remedy: "read the controller's log, `kubectl -n NAMESPACE logs -l app.kubernetes.io/instance=RELEASE " +
		"--tail=-1`, and the result of NODE-002; if either names --node-ip, set --node-ip to an address of the VM",
}

func uninitialised(f *Facts, n *corev1.Node) string {
	since := n.CreationTimestamp.Time // or the time when the taints were last written
	if _, written := cluster.LastWritten(&n.ObjectMeta, "taints"); written.After(since) {
		since = written
	}

	age := f.ago(since)
	if !node.HasTaint(n) || age < patience {
		return ""
	}

	text := fmt.Sprintf("tainted for %s", age)
	if f.VMs == nil {
		return text
	}

	vm, err := node.Match(f.VMs, n)
	if err != nil {
		return text + "; " + withoutName(err, n)
	}

	meta := node.Metadata(&vm, n, node.Options{})
	if ips := node.UnlistedNodeIPs(n, meta.NodeAddresses); len(ips) > 0 {
		text += fmt.Sprintf("; the kubelet's --node-ip %s is on no NIC of VM %s (%s)", ips[0], vm.Name,
			addressText(meta.NodeAddresses))
	}

	return text
}

var node005 = Check{
	Code:     "NODE-005",
	Title:    "Nothing is evicted by the taint",
	Severity: SeverityFatal,
	Reads:    Sources{Nodes},
	Judge:    eachNode("Pods are evicted from %s", evicting),
	What:     `No node carries the taint node.cloudprovider.kubernetes.io/uninitialized with effect NoExecute.`,
	Why:      `NoExecute evicts every Pod of the node that does not tolerate it. Neither kubelets nor csccm ever set it.`,
	Remedy: "find out who sets it, then replace it by one that evicts nothing: `kubectl taint node NODES " +
		"node.cloudprovider.kubernetes.io/uninitialized=true:PreferNoSchedule " +
		"node.cloudprovider.kubernetes.io/uninitialized:NoExecute-`",
}

func evicting(_ *Facts, n *corev1.Node) string {
	return when(slices.ContainsFunc(n.Spec.Taints, node.Evicts), "has the taint with effect NoExecute")
}

var node008 = Check{
	Code:     "NODE-008",
	Title:    "No node is about to be deleted",
	Severity: SeverityFatal,
	Reads:    Sources{Nodes, VMs},
	Tries:    Sources{Places},
	Judge:    doomed,
	What:     `No node is NotReady while its VM is not found.`,
	Why:      `The controller deletes such a Node. With a wrong project or zone in the cloud-config the VM may exist.`,
	Remedy: `if the VM exists, correct project-id and zone in the cloud-config before the controller runs; if not,
		the Node may be deleted`,
}

// doomed finds nodes that the controller would delete. Like the controller, it decides by the provider ID alone.
func doomed(f *Facts) Finding {
	return f.misplaced(eachNode("%s would be deleted", func(f *Facts, n *corev1.Node) string {
		if _, err := node.Match(f.VMs, n); f.dangling(n) && !node.Ready(n) {
			return "is NotReady and " + withoutName(err, n)
		}
		return ""
	})(f))
}

var node009 = Check{
	Code:     "NODE-009",
	Title:    "VMs of the nodes run",
	Severity: SeverityWarning,
	Reads:    Sources{Nodes, VMs},
	Judge:    eachNode("the VMs of %s do not run", notRunning),
	What:     `No node's VM is stopped, being stopped or in an error state in CloudStack.`,
	Why: `The node of a stopped VM takes no Pods and no traffic. CloudStack restarts only VMs of an offering with
		HA.`,
	Remedy: `start the named VMs in CloudStack; for one that does not come back: kubectl delete node NODES`,
}

func notRunning(f *Facts, n *corev1.Node) string {
	vm, ok := f.VM(n) // NODE-002 reports nodes without a VM
	off := node.Off(vm.State) || vm.State == cloudstack.VMStopping || vm.State == cloudstack.VMError
	return when(ok && off, "its VM %s is %s", vm.Name, vm.State)
}

// likelyVM returns the VM with a node's system UUID, as text; "" if there is none. It is only a hint: the controller
// matches by provider ID and name.
func likelyVM(n *corev1.Node, vms *inventory.VMSnapshot) string {
	vm, known := vms.ByID(n.Status.NodeInfo.SystemUUID)
	return when(known && !node.IsGone(vm.State), "by its system UUID it is VM %s (%s)", vm.Name, vm.ID)
}

// topologyKeys are the labels of zone and region, their older names, which old volumes still require, and the label of
// the CSI driver for CloudStack.
var topologyKeys = map[string]string{
	corev1.LabelTopologyZone:            corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion:          corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	ZoneKey:                             ZoneKey,
}

// wantedLabels returns the labels of zone, region and instance type according to CloudStack; nil without a VM. The
// instance type may also have the form of Apache's provider.
func (f *Facts) wantedLabels(n *corev1.Node) map[string]string {
	vm, ok := f.VM(n)
	if !ok {
		return nil
	}

	meta := node.Metadata(&vm, n, node.Options{Region: f.Config.Region})
	if upstream := node.InstanceTypeLabel(
		node.LabelUpstream, vm.ServiceOfferingName,
	); n.Labels[corev1.LabelInstanceTypeStable] == upstream {
		meta.InstanceType = upstream
	}

	return map[string]string{
		corev1.LabelTopologyZone:       meta.Zone,
		corev1.LabelTopologyRegion:     meta.Region,
		corev1.LabelInstanceTypeStable: meta.InstanceType,
	}
}

var node007 = Check{
	Code:     "NODE-007",
	Title:    "Zone, region and type as in CloudStack",
	Severity: SeverityWarning,
	Reads:    Sources{Nodes, VMs},
	Tries:    Sources{Volumes},
	Judge:    labels,
	What: `The labels topology.kubernetes.io/zone and region and node.kubernetes.io/instance-type, where a node has
		them, are what CloudStack says, and every volume with a zone or region, also of the CSI driver for CloudStack,
		finds a node.`,
	Why: `They are read from CloudStack only at initialisation. Wrong labels mislead the scheduler, and a volume
		bound to a value that no node has cannot be mounted.`,
	Remedy: "have the node initialised again: `csccm taint NODES`, which looks for volumes and Pods with the " +
		"old value first",
}

// labels compares the labels of nodes with CloudStack. It also finds volumes that no node could mount if the labels of
// the nodes were those of CloudStack.
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
		if want != nil { // NODE-002 reports nodes without a VM
			judged++
		}

		var differ []string
		for _, key := range slices.Sorted(maps.Keys(want)) {
			have, labelled := n.Labels[key]
			needed := key == corev1.LabelTopologyZone && f.Phase == PhaseInstalled && initialised(n)
			if want[key] != "" && have != want[key] && (labelled || needed) {
				differ = append(differ,
					fmt.Sprintf("%s is %s, CloudStack says %s", key, cmp.Or(have, "missing"), want[key]))
			}
		}

		return strings.Join(differ, "; ")
	})

	stranded := about("PersistentVolume", f.Volumes,
		func(v *corev1.PersistentVolume) string { return stranded(v, after) })
	switch {
	case judged == 0:
		return Skipf("no node has a VM")
	case len(stranded) > 0:
		return Problemf("%s bound to a zone or region that no node has", count(len(stranded), "volume")).
			About(append(stranded, odd...)...).
			Fix("a volume's node affinity cannot be changed: set region in the cloud-config, or the zone's name, to " +
				"the old value, " +
				"join a node of that zone, or move the data to a new volume")
	}

	out := Passf("%s, %s", count(judged, "node"), count(len(f.Volumes), "volume"))
	if err := f.Err(Volumes); err != nil {
		out = out.With("volumes", "not judged: "+err.Error())
	}

	return out.Unless(odd, "node", "%s with labels that CloudStack does not confirm")
}

// initialised reports whether the controller, or another provider for CloudStack, has initialised a node.
func initialised(n *corev1.Node) bool {
	return node.HasVMID(n) && !node.HasTaint(n)
}

// stranded returns the zone or region that a volume requires, if none of the nodes has it; otherwise "".
func stranded(v *corev1.PersistentVolume, nodes []corev1.Node) string {
	if v.Spec.NodeAffinity == nil ||
		v.Spec.NodeAffinity.Required == nil ||
		v.Status.Phase == corev1.VolumeReleased ||
		v.Status.Phase == corev1.VolumeFailed {
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
	if len(asks) == 0 ||
		err != nil ||
		slices.ContainsFunc(nodes, func(n corev1.Node) bool { return selector.Match(&n) }) {
		return ""
	}

	return listed(slices.Compact(asks)) + "; by CloudStack's data no node has it"
}

var node006 = Check{
	Code:  "NODE-006",
	Title: "Kubelet and controller agree on node addresses",
	Phase: PhaseInstalled,
	Reads: Sources{Nodes, VMs},
	Tries: Sources{Controllers},
	Judge: addresses,
	What: `No initialised node has addresses that its kubelet wrote last (managedFields) and that differ from
		CloudStack's.`,
	Why: `A kubelet without --cloud-provider=external and the controller keep overwriting each other's addresses:
		external addresses come and go.`,
	Remedy: `start the kubelets of the named nodes with --cloud-provider=external (NODE-001 says how)`,
}

// addresses finds nodes whose addresses differ from CloudStack's, and who wrote them: status.addresses is an atomic
// list, so managedFields have its last writer. It ignores nodes that are not initialised, and those whose addresses the
// controller leaves to the kubelet.
func addresses(f *Facts) Finding {
	var rules node.AddressRules
	internal, _ := cluster.Argument(f.Words(), "node-internal-cidrs")
	external, _ := cluster.Argument(f.Words(), "node-external-cidrs")
	rules.Internal, _ = node.ParseCIDRs(internal) // ignore errors: the controller does not start with an invalid list
	rules.External, _ = node.ParseCIDRs(external)

	var odd Objects
	fights := about("Node", f.Nodes, func(n *corev1.Node) string {
		vm, ok := f.VM(n)
		meta := node.Metadata(&vm, n, node.Options{Addresses: rules})
		if !ok ||
			len(meta.NodeAddresses) == 0 ||
			node.HasTaint(n) ||
			n.Spec.ProviderID == "" ||
			n.Annotations[node.AnnotationAdoptedAt] != "" {
			return ""
		}

		have, want := addressText(n.Status.Addresses), addressText(meta.NodeAddresses)

		// Kubernetes writes only the addresses of CloudStack that match the kubelet's --node-ip, and none if no address
		// does.
		ip, given := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
		written, err := helpers.GetNodeAddressesFromNodeIP(ip, meta.NodeAddresses)
		if given && err == nil {
			want = addressText(written)
		}

		switch {
		case have == want:
		case given && err != nil:
			odd.addf("Node", n.Name,
				"has %s, which are not updated: --node-ip %s of its kubelet is none of CloudStack's addresses, %s",
				have, ip, want)
		case kubelet.WritesAddresses(n):
			return fmt.Sprintf("its kubelet writes %s, CloudStack has %s", have, want)
		default:
			odd.addf("Node", n.Name, "has %s, CloudStack has %s", have, want)
		}

		return ""
	})

	out := Passf("%s", count(len(f.Nodes), "node"))
	if len(odd) > 0 && len(fights) == 0 {
		out = Warnf("%s with other addresses than CloudStack has", count(len(odd), "node")).
			Fix("wait five minutes, after which the controller has written what CloudStack says; if it stays, look "+
				"at the controller's log: `%s`", showLog)
	}

	return out.Unless(fights, "node", "kubelet and controller both write the addresses of %s").About(odd...)
}

// addressText returns the IP addresses of the list, without host names, in a fixed order.
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
	return listed(out)
}

// Lost returns the nodes without a VM, by provider ID, name or system UUID, if these are most of the nodes: then the
// VMs are probably in another project or zone, and deleting Nodes would destroy a healthy cluster.
func Lost(nodes []corev1.Node, vms *inventory.VMSnapshot) []corev1.Node {
	lost := without(nodes, func(n corev1.Node) bool {
		_, err := node.Match(vms, &n)
		missing, is := errors.AsType[*node.NotFoundError](err)
		return !is || missing.State != "" || likelyVM(&n, vms) != ""
	})
	if 2*len(lost) <= len(nodes) {
		return nil
	}
	return lost
}

// misplaced adds to a finding about nodes without VMs where these VMs are, if they are in another project or zone.
func (f *Facts) misplaced(out Finding) Finding {
	if lost := Lost(f.Nodes, f.VMs); out.Outcome == "" && len(lost) > 0 {
		return Elsewhere(out, lost, append(f.Places, credentials.Place{Project: f.Config.ProjectID, VMs: f.VMs.All()}))
	}
	return out
}

// Elsewhere adds to a finding about nodes without VMs where their VMs are.
func Elsewhere(out Finding, lost []corev1.Node, places []credentials.Place) Finding {
	counts := map[string]int{}
	for _, p := range places {
		there := inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, p.VMs)
		for i := range lost {
			if vm, err := node.Match(there, &lost[i]); err == nil {
				counts[fmt.Sprintf("%s, zone %s (%s, --zone %s)", p, vm.ZoneName, p.Flag(), vm.ZoneName)]++
			}
		}
	}

	out.Message += "; wrong account, project or zone"
	if len(counts) > 0 {
		out.Message += ": VMs of the nodes are elsewhere"
	}

	for _, place := range slices.Sorted(maps.Keys(counts)) {
		out.Message += fmt.Sprintf(", %d in %s", counts[place], place)
	}

	return out.Fix("do not delete any Node: run `csccm install` with the account (--account), project (--project) " +
		"and zone (--zone) " +
		"that own the VMs of the nodes, or with keys of that account")
}

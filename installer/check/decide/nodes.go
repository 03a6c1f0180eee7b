// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// eachNode is a check that names the nodes about which say has something to say; format has one place for their number.
func eachNode(format string, say func(*Facts, *corev1.Node) string) func(*Facts) Finding {
	return func(f *Facts) Finding {
		objects := about("Node", f.Nodes, func(n *corev1.Node) string { return say(f, n) })
		return Passf("%s", english.Plural(len(f.Nodes), "node", "")).Unless(objects, "node", format)
	}
}

func kubelets(f *Facts) Finding {
	objects, fix := map[kubelet.Verdict][]Object{}, map[kubelet.Verdict]string{}
	evidence := map[string]string{}
	for _, v := range f.Kubelets {
		evidence["Node "+v.Node] = string(v.Verdict) + ": " + v.Reason()
		objects[v.Verdict] = append(objects[v.Verdict], objectf("Node", "", v.Node, "%s (%s)", v.Verdict, v.Reason()))
		fix[v.Verdict] = v.Remedy
	}
	not, unclear := objects[kubelet.NotExternal], objects[kubelet.Unknown]
	all := english.Plural(len(f.Kubelets), "node", "")
	out := Passf("%s", all)
	switch {
	case len(not) > 0 && node.Adopts(f.Pods):
		out = Passf("%d of %s without it; the controller initialises such nodes (adoptNodes)", len(not), all)
	case len(not) > 0:
		out = Problemf("%d of %s without it", len(not), all).About(append(not, unclear...)...).Fix("%s", fix[kubelet.NotExternal])
	case len(unclear) > 0:
		out = Unknownf("not known of %d of %s", len(unclear), all).About(unclear...).Fix("%s", fix[kubelet.Unknown])
	}
	out.Evidence = evidence
	return out
}

func matches(f *Facts) Finding {
	all := make([]*corev1.Node, 0, len(f.Nodes))
	for i := range f.Nodes {
		all = append(all, &f.Nodes[i])
	}
	count := english.Plural(len(f.Nodes), "node", "")
	out := Passf("%s in %s", count, f.VMs.Scope())
	objects := about("Node", f.Nodes, func(n *corev1.Node) string {
		vm, err := node.Match(f.VMs, n)
		if err == nil {
			err = node.Unshared(&vm, n, all)
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

func providerIDs(f *Facts) Finding {
	var odd []Object
	wrong := about("Node", f.Nodes, func(n *corev1.Node) string {
		id, kind, err := node.ParseProviderID(n.Spec.ProviderID)
		vm, found := f.VMs.ByID(id)
		_, hasVM := f.VM(n)
		switch {
		case err != nil:
			return err.Error()
		case kind.IsCloudStack() && !found:
			return fmt.Sprintf("%q names no VM of %s", n.Spec.ProviderID, f.VMs.Scope())
		case kind.IsCloudStack() && node.Gone(vm.State):
			return fmt.Sprintf("its VM %s (%s) is %s", vm.Name, id, vm.State)
		case kind.IsCloudStack():
		case kind != node.KindNone:
			odd = append(odd, objectf("Node", "", n.Name, "%q is of another cloud provider; the node is found by its name", n.Spec.ProviderID))
		case f.Phase == Installed && !node.HasTaint(n) && hasVM: // others wait for NODE-004, or NODE-002 says it
			odd = append(odd, objectf("Node", "", n.Name, "has no provider ID: it was never initialised"))
		}
		return ""
	})
	out := Passf("%s", english.Plural(len(f.Nodes), "node", ""))
	if len(wrong)+len(odd) > 0 {
		out = Warnf("%s without a provider ID of CloudStack", english.Plural(len(odd), "node", "")).
			Fix("have the node initialised: `csccm taint %s`; a foreign provider ID stays", namesOf(odd))
	}
	if len(wrong) > 0 {
		out = Problemf("%s with a wrong provider ID", english.Plural(len(wrong), "node", "")).
			Fix("nobody can change a provider ID: `kubectl delete node %s`, then restart the kubelet, which registers the Node again", namesOf(wrong))
	}
	return f.misplaced(out.About(append(wrong, odd...)...))
}

// namesOf returns the names of objects as a command line has them.
func namesOf(objects []Object) string {
	var out []string
	for _, o := range objects {
		out = append(out, o.Name)
	}
	return strings.Join(out, " ")
}

// patience is how long a node may take to be initialised.
const patience = 2 * time.Minute

func uninitialised(f *Facts, n *corev1.Node) string {
	since := n.CreationTimestamp.Time // or when the taints were last written
	for _, m := range n.ManagedFields {
		if m.Time != nil && m.FieldsV1 != nil && m.Time.After(since) && strings.Contains(m.FieldsV1.GetRawString(), `"f:taints"`) {
			since = m.Time.Time
		}
	}
	age := f.At.Sub(since)
	if !node.HasTaint(n) || age < patience {
		return ""
	}
	text := fmt.Sprintf("tainted for %s", age.Round(time.Second))
	if f.VMs == nil {
		return text
	}
	vm, err := node.Match(f.VMs, n)
	if err != nil {
		return text + "; " + withoutName(err, n)
	}
	meta, err := node.Metadata(vm, node.Options{Node: n})
	if ips := node.UnlistedNodeIPs(n, meta.NodeAddresses); err == nil && len(ips) > 0 {
		text += fmt.Sprintf("; the kubelet's --node-ip %s is on no NIC of VM %s (%s)", ips[0], vm.Name, addressText(meta.NodeAddresses))
	}
	return text
}

func evicting(_ *Facts, n *corev1.Node) string {
	if slices.ContainsFunc(n.Spec.Taints, node.Evicts) {
		return "has the taint with effect NoExecute"
	}
	return ""
}

// doomed: the controller deletes a Node by its provider ID alone.
func doomed(f *Facts) Finding {
	return f.misplaced(eachNode("%s would be deleted", func(f *Facts, n *corev1.Node) string {
		_, kind, invalid := node.ParseProviderID(n.Spec.ProviderID)
		_, err := node.Match(f.VMs, n)
		if _, missing := errors.AsType[*node.NotFoundError](err); missing && !node.Ready(n) && invalid == nil && kind.IsCloudStack() {
			return "is NotReady and " + withoutName(err, n)
		}
		return ""
	})(f))
}

func stopped(f *Facts, n *corev1.Node) string {
	vm, ok := f.VM(n) // else NODE-002 says it
	if ok && (node.Off(vm.State) || vm.State == cloudstack.VMStopping || vm.State == cloudstack.VMError) {
		return fmt.Sprintf("its VM %s is %s", vm.Name, vm.State)
	}
	return ""
}

// likelyVM says which VM a node without one is by its system UUID. It is a hint and no match: the controller goes by provider ID
// and name alone. "" where none is.
func likelyVM(n *corev1.Node, vms *inventory.VMSnapshot) string {
	vm, known := vms.ByID(n.Status.NodeInfo.SystemUUID)
	if !known || node.Gone(vm.State) {
		return ""
	}
	return fmt.Sprintf("by its system UUID it is VM %s (%s)", vm.Name, vm.ID)
}

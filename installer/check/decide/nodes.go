// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// Stopped decides NODE-009.
func Stopped(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
	var objects []Object
	running := 0
	for i := range nodes {
		vm, err := node.Match(vms, &nodes[i])
		if err != nil {
			continue // NODE-002 says it
		}
		if !node.Off(vm.State) && vm.State != cloudstack.VMStopping && vm.State != cloudstack.VMError {
			running++ // or starting, or migrating
			continue
		}
		objects = append(objects, NodeObject(&nodes[i], "its VM %s is %s", vm.Name, vm.State))
	}
	switch {
	case len(objects) > 0:
		return Problemf("the VMs of %s do not run", plural.Count(len(objects), "node")).About(objects...)
	case running == 0:
		return Skipf("no node has a VM")
	}
	return Passf("%s", plural.Count(running, "VM"))
}

// Kubelets decides NODE-001.
func Kubelets(verdicts []kubelet.NodeVerdict, controller []corev1.Pod) Finding {
	var not, unclear []Object
	f := Finding{}
	for _, v := range verdicts {
		o := Object{Kind: "Node", Name: v.Node, Message: string(v.Verdict) + " (" + v.Reason() + ")"}
		switch v.Verdict {
		case kubelet.External:
		case kubelet.NotExternal:
			not = append(not, o)
			f.Remedy = v.Remedy
		case kubelet.Unknown:
			unclear = append(unclear, o)
			if f.Remedy == "" {
				f.Remedy = v.Remedy
			}
		}
		f = f.With("Node "+v.Node, string(v.Verdict)+": "+v.Reason())
	}
	switch {
	case len(not) > 0 && node.Adopts(controller):
		f.Outcome, f.Remedy = OK, ""
		f.Message = fmt.Sprintf("%d of %s without it; the controller initialises such nodes (adoptNodes)", len(not), plural.Count(len(verdicts), "node"))
		return f
	case len(not) > 0:
		f.Message = fmt.Sprintf("%d of %s without it", len(not), plural.Count(len(verdicts), "node"))
	case len(unclear) > 0:
		f.Outcome, f.Message = Unknown, fmt.Sprintf("not known of %d of %s", len(unclear), plural.Count(len(verdicts), "node"))
	case len(verdicts) == 0:
		return Skipf("the cluster has no nodes")
	default:
		f.Outcome, f.Message = OK, plural.Count(len(verdicts), "node")
	}
	return f.About(append(not, unclear...)...)
}

// Matches decides NODE-002.
func Matches(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
	var objects []Object
	all := make([]*corev1.Node, 0, len(nodes))
	for i := range nodes {
		all = append(all, &nodes[i])
	}
	f := Passf("%s in %s", plural.Count(len(nodes), "node"), vms.Scope())
	for i := range nodes {
		n := &nodes[i]
		vm, err := node.Match(vms, n)
		if err == nil {
			err = node.Unshared(&vm, n, all)
		}
		if err != nil {
			text := strings.TrimPrefix(err.Error(), fmt.Sprintf("node %q ", n.Name))
			if likely := likelyVM(n, vms); likely != "" {
				text += "; " + likely
				f = f.With("Node "+n.Name, likely)
			}
			objects = append(objects, NodeObject(n, "%s", text))
			continue
		}
		f = f.With("Node "+n.Name, fmt.Sprintf("VM %s (%s), %s", vm.Name, vm.ID, vm.State))
	}
	switch {
	case len(objects) > 0:
		f.Outcome, f.Message = "", fmt.Sprintf("%d of %s without exactly one VM", len(objects), plural.Count(len(nodes), "node"))
	case len(nodes) == 0:
		return Skipf("the cluster has no nodes")
	}
	return f.About(objects...)
}

// ProviderIDs decides NODE-003.
func ProviderIDs(nodes []corev1.Node, vms *inventory.VMSnapshot, installed bool) Finding {
	var wrong, odd []Object
	for i := range nodes {
		n := &nodes[i]
		id, kind, err := node.ParseProviderID(n.Spec.ProviderID)
		switch {
		case err != nil:
			wrong = append(wrong, NodeObject(n, "%v", err))
		case kind == node.KindNone && installed && !node.HasTaint(n) && hasVM(vms, n):
			odd = append(odd, NodeObject(n, "has no provider ID: it was never initialised"))
		case kind == node.KindNone: // waits for NODE-004, or NODE-002 says it
		case !kind.IsCloudStack():
			odd = append(odd, NodeObject(n, "%q is of another cloud provider; the node is found by its name", n.Spec.ProviderID))
		default:
			switch vm, ok := vms.ByID(id); {
			case !ok:
				wrong = append(wrong, NodeObject(n, "%q names no VM of %s", n.Spec.ProviderID, vms.Scope()))
			case node.Gone(vm.State):
				wrong = append(wrong, NodeObject(n, "its VM %s (%s) is %s", vm.Name, id, vm.State))
			}
		}
	}
	switch {
	case len(wrong) > 0:
		return Problemf("%s with a wrong provider ID", plural.Count(len(wrong), "node")).About(append(wrong, odd...)...).
			Fix("nobody can change a provider ID: `kubectl delete node %s`, then restart the kubelet, which registers the Node again", namesOf(wrong))
	case len(odd) > 0:
		return Warnf("%s without a provider ID of CloudStack", plural.Count(len(odd), "node")).About(odd...).
			Fix("have the node initialised: `csccm taint %s`; a foreign provider ID stays", namesOf(odd))
	}
	return Passf("%s", plural.Count(len(nodes), "node"))
}

// namesOf returns the names of objects as a command line has them.
func namesOf(objects []Object) string {
	var out []string
	for _, o := range objects {
		out = append(out, o.Name)
	}
	return strings.Join(out, " ")
}

func hasVM(vms *inventory.VMSnapshot, n *corev1.Node) bool {
	_, err := node.Match(vms, n)
	return err == nil
}

// patience is how long a node may take to be initialised.
const patience = 2 * time.Minute

// Uninitialised decides NODE-004.
func Uninitialised(nodes []corev1.Node, vms *inventory.VMSnapshot, now time.Time) Finding {
	var stuck []Object
	fresh := 0
	for i := range nodes {
		n := &nodes[i]
		if !node.HasTaint(n) {
			continue
		}
		if age := now.Sub(taintedSince(n)); age >= patience {
			stuck = append(stuck, NodeObject(n, "tainted for %s%s", age.Round(time.Second), whyStuck(n, vms)))
		} else {
			fresh++
		}
	}
	switch {
	case len(stuck) > 0:
		return Problemf("%s waiting for the controller", plural.Count(len(stuck), "node")).About(stuck...)
	case fresh > 0:
		return Passf("%s being initialised", plural.Count(fresh, "node"))
	}
	return Passf("%s", plural.Count(len(nodes), "node"))
}

// taintedSince is when the node's taints were last written, as managedFields record it.
func taintedSince(n *corev1.Node) time.Time {
	since := n.CreationTimestamp.Time
	for _, m := range n.ManagedFields {
		if m.Time != nil && m.FieldsV1 != nil && m.Time.After(since) && strings.Contains(m.FieldsV1.GetRawString(), `"f:taints"`) {
			since = m.Time.Time
		}
	}
	return since
}

func whyStuck(n *corev1.Node, vms *inventory.VMSnapshot) string {
	if vms == nil {
		return ""
	}
	vm, err := node.Match(vms, n)
	if err != nil {
		return "; " + strings.TrimPrefix(err.Error(), fmt.Sprintf("node %q ", n.Name))
	}
	wanted := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	if wanted == "" {
		return ""
	}
	have := nicAddresses(&vm)
	for _, ip := range strings.Split(wanted, ",") {
		if !slices.Contains(have, ip) {
			return fmt.Sprintf("; the kubelet's --node-ip %s is on no NIC of VM %s (%s)", ip, vm.Name, strings.Join(have, ", "))
		}
	}
	return ""
}

func nicAddresses(vm *cloudstack.VirtualMachine) []string {
	var out []string
	for i := range vm.NICs {
		for _, ip := range []string{vm.NICs[i].IPv4, vm.NICs[i].IPv6} {
			if ip != "" {
				out = append(out, ip)
			}
		}
	}
	return out
}

// NoExecute decides NODE-005.
func NoExecute(nodes []corev1.Node) Finding {
	var objects []Object
	for i := range nodes {
		if slices.ContainsFunc(nodes[i].Spec.Taints, node.Evicts) {
			objects = append(objects, NodeObject(&nodes[i], "has the taint with effect NoExecute"))
		}
	}
	return Passf("%s", plural.Count(len(nodes), "node")).Unless(objects, "node", "Pods are evicted from %s")
}

// Doomed decides NODE-008.
func Doomed(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
	var objects []Object
	notReady := 0
	for i := range nodes {
		n := &nodes[i]
		if node.Ready(n) {
			continue
		}
		notReady++
		// The controller deletes a Node by its provider ID alone.
		if _, kind, err := node.ParseProviderID(n.Spec.ProviderID); err != nil || !kind.IsCloudStack() {
			continue
		}
		_, err := node.Match(vms, n)
		if _, missing := errors.AsType[*node.NotFoundError](err); missing {
			objects = append(objects, NodeObject(n, "is NotReady and %s", strings.TrimPrefix(err.Error(), fmt.Sprintf("node %q ", n.Name))))
		}
	}
	return Passf("%s, %d NotReady", plural.Count(len(nodes), "node"), notReady).Unless(objects, "node", "%s would be deleted")
}

// likelyVM says which VM a node without one probably is, where its name fits none: by its system UUID, by a MAC
// address that the network plugin left in an annotation, or by its address. It is a hint and no match: the
// controller goes by provider ID and name alone. "" where nothing fits, or more than one VM.
func likelyVM(n *corev1.Node, vms *inventory.VMSnapshot) string {
	for _, sign := range []struct {
		name string
		of   func(vm *cloudstack.VirtualMachine) bool
	}{
		{"system UUID", func(vm *cloudstack.VirtualMachine) bool {
			return n.Status.NodeInfo.SystemUUID != "" && strings.EqualFold(n.Status.NodeInfo.SystemUUID, vm.ID)
		}},
		{"MAC address", func(vm *cloudstack.VirtualMachine) bool { return hasMAC(n, vm) }},
		{"address", func(vm *cloudstack.VirtualMachine) bool { return hasAddress(n, vm) }},
	} {
		var found []cloudstack.VirtualMachine
		for _, vm := range vms.All() {
			if !node.Gone(vm.State) && sign.of(&vm) {
				found = append(found, vm)
			}
		}
		if len(found) == 1 {
			return fmt.Sprintf("by its %s it is VM %s (%s)", sign.name, found[0].Name, found[0].ID)
		}
	}
	return ""
}

// hasMAC looks for the VM's NICs in annotations: Antrea, OVN-Kubernetes and Kube-OVN write a node's MAC address there.
func hasMAC(n *corev1.Node, vm *cloudstack.VirtualMachine) bool {
	for _, value := range n.Annotations {
		value = strings.ToLower(value)
		for i := range vm.NICs {
			if mac := strings.ToLower(vm.NICs[i].MAC); mac != "" && strings.Contains(value, mac) {
				return true
			}
		}
	}
	return false
}

func hasAddress(n *corev1.Node, vm *cloudstack.VirtualMachine) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP && slices.ContainsFunc(vm.NICs, func(nic cloudstack.NIC) bool {
			return a.Address != "" && (a.Address == nic.IPv4 || a.Address == nic.IPv6)
		})
	})
}

// Here stands for the configured project, whose VMs may be in another zone.
const Here = "."

// WithoutVM returns the nodes that have no VM here by provider ID or name, nor one of another name.
func WithoutVM(nodes []corev1.Node, vms *inventory.VMSnapshot) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool {
		_, err := node.Match(vms, &n)
		missing, is := errors.AsType[*node.NotFoundError](err)
		return !is || missing.State != "" || likelyVM(&n, vms) != ""
	})
}

// Elsewhere adds to a finding about nodes without VMs where their VMs are.
func Elsewhere(f Finding, lost []corev1.Node, places []credentials.Place, zone string) Finding {
	var found, flags []string
	for _, p := range places {
		there := inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, p.VMs)
		nodes, zones := 0, []string{}
		for i := range lost {
			vm, err := node.Match(there, &lost[i])
			if err != nil {
				continue
			}
			nodes++
			if !inventory.InZone(&vm, zone) && !slices.Contains(zones, vm.ZoneName) {
				zones = append(zones, vm.ZoneName)
			}
		}
		if nodes == 0 {
			continue
		}
		var where, flag []string
		if p.Project != Here {
			where, flag = append(where, p.String()), append(flag, p.Flag())
		}
		for _, z := range zones {
			where, flag = append(where, "zone "+z), append(flag, "--zone "+z)
		}
		found = append(found, fmt.Sprintf("%d in %s", nodes, strings.Join(where, ", ")))
		flags = append(flags, fmt.Sprintf("%s: %s", strings.Join(where, ", "), strings.Join(flag, " ")))
	}
	f.Message += "; wrong account, project or zone"
	if len(found) == 0 {
		return f.Fix("do not delete any Node: run `csccm install` with the account (--account), project (--project) and zone (--zone) that own the VMs of the nodes, or with keys of that account")
	}
	f.Message += ": VMs of the nodes are elsewhere, " + strings.Join(found, ", ")
	return f.Fix("do not delete any Node: run `csccm install` with the place of the VMs (%s)", strings.Join(flags, "; "))
}

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
func Kubelets(verdicts []kubelet.NodeVerdict) Finding {
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
	nodeOf := map[string]string{} // by VM id
	f := Passf("%s in %s", plural.Count(len(nodes), "node"), vms.Scope())
	for i := range nodes {
		n := &nodes[i]
		vm, err := node.Match(vms, n)
		if err != nil {
			text := strings.TrimPrefix(err.Error(), fmt.Sprintf("node %q ", n.Name))
			if likely := likelyVM(n, vms); likely != "" {
				text += "; " + likely
				f = f.With("Node "+n.Name, likely)
			}
			objects = append(objects, NodeObject(n, "%s", text))
			continue
		}
		if other, taken := nodeOf[vm.ID]; taken {
			objects = append(objects, NodeObject(n, "has the same VM as node %s: %s (%s)", other, vm.Name, vm.ID))
			continue
		}
		nodeOf[vm.ID] = n.Name
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
		case kind == node.KindNone && installed:
			odd = append(odd, NodeObject(n, "has no provider ID: it was never initialised"))
		case kind == node.KindNone:
		case !kind.IsCloudStack():
			odd = append(odd, NodeObject(n, "%q is of another cloud provider; the node is found by its name", n.Spec.ProviderID))
		default:
			if vm, ok := vms.ByID(id); !ok || node.Gone(vm.State) {
				wrong = append(wrong, NodeObject(n, "%q names no VM of %s", n.Spec.ProviderID, vms.Scope()))
			}
		}
	}
	switch {
	case len(wrong) > 0:
		return Problemf("%s with a wrong provider ID", plural.Count(len(wrong), "node")).About(append(wrong, odd...)...)
	case len(odd) > 0:
		return Warnf("%s without a provider ID of CloudStack", plural.Count(len(odd), "node")).About(odd...).
			Fix("have the node initialised: `csccm taint`; a foreign provider ID stays")
	}
	return Passf("%s", plural.Count(len(nodes), "node"))
}

// patience is how long a node may take to be initialised.
const patience = 2 * time.Minute

// Uninitialised decides NODE-004.
func Uninitialised(nodes []corev1.Node, vms *inventory.VMSnapshot, now time.Time) Finding {
	var stuck []Object
	fresh := 0
	for i := range nodes {
		n := &nodes[i]
		if !tainted(n, "") {
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

// tainted reports whether a node carries the taint, with an effect if one is given.
func tainted(n *corev1.Node, effect corev1.TaintEffect) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == cloudproviderapi.TaintExternalCloudProvider && (effect == "" || t.Effect == effect) {
			return true
		}
	}
	return false
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
		if tainted(&nodes[i], corev1.TaintEffectNoExecute) {
			objects = append(objects, NodeObject(&nodes[i], "has the taint with effect NoExecute"))
		}
	}
	if len(objects) > 0 {
		return Problemf("Pods are evicted from %s", plural.Count(len(objects), "node")).About(objects...)
	}
	return Passf("%s", plural.Count(len(nodes), "node"))
}

// Doomed decides NODE-008.
func Doomed(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
	var objects []Object
	notReady := 0
	for i := range nodes {
		n := &nodes[i]
		if isReady(n) {
			continue
		}
		notReady++
		_, err := node.Match(vms, n)
		if _, missing := errors.AsType[*node.NotFoundError](err); missing {
			objects = append(objects, NodeObject(n, "is NotReady and %s", strings.TrimPrefix(err.Error(), fmt.Sprintf("node %q ", n.Name))))
		}
	}
	if len(objects) > 0 {
		return Problemf("%s would be deleted", plural.Count(len(objects), "node")).About(objects...)
	}
	return Passf("%s, %d NotReady", plural.Count(len(nodes), "node"), notReady)
}

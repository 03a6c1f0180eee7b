// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
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
		if tainted(n, "") || n.Spec.ProviderID == "" {
			continue // the controller has not begun
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
			Fix("wait five minutes, after which the controller has written what CloudStack says; if it stays, look at the controller's log: %s", ShowLog)
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
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

// secondLook is the time between two reads of a node whose addresses are in doubt: a kubelet writes its
// status every 10 s.
const secondLook = 15 * time.Second

func runAddressFight(ctx context.Context, e *Env) Finding {
	return judge2(ctx, e.facts.nodes, e.facts.vms, func(nodes []corev1.Node, vms *inventory.VMSnapshot) Finding {
		suspects := suspectAddresses(nodes, vms, e.addressRules(ctx))
		if slices.ContainsFunc(suspects, func(s suspect) bool { return !s.kubelet && s.nodeIP == "" }) {
			select {
			case <-ctx.Done():
				return unread(&unreadError{"the nodes, a second time", ctx.Err()})
			case <-e.Clock.After(secondLook):
			}
			again, err := e.readNodes(ctx)
			if err != nil {
				return unread(&unreadError{"the nodes, a second time", err})
			}
			lookAgain(suspects, again)
		}
		return decideAddresses(len(nodes), suspects)
	})
}

// suspect is an initialised node whose addresses are not those that CloudStack has.
type suspect struct {
	node       *corev1.Node
	have, want string
	kubelet    bool   // the kubelet wrote them last
	nodeIP     string // the kubelet's --node-ip, if no address of the VM is this one: Kubernetes writes no addresses then
	then       string // addresses at the second look, if they had changed
}

// suspectAddresses are the nodes on which controller and kubelet may fight. status.addresses is an atomic
// list, so managedFields name the one that wrote it last.
func suspectAddresses(nodes []corev1.Node, vms *inventory.VMSnapshot, rules node.AddressRules) []suspect {
	var out []suspect
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
		s := suspect{node: n, have: addressText(n.Status.Addresses), want: addressText(meta.NodeAddresses), kubelet: kubelet.WritesAddresses(n)}
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

// lookAgain notes the addresses that changed since.
func lookAgain(suspects []suspect, again []corev1.Node) {
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

// addressRules are those of the controller's flags.
func (e *Env) addressRules(ctx context.Context) node.AddressRules {
	var rules node.AddressRules
	workloads, err := e.facts.workloads.get(ctx)
	if err != nil {
		return rules // as without flags
	}
	for _, word := range ownWords(e.Release, e.Namespace, workloads) {
		// The controller does not start with a list that cannot be read.
		if list, ok := strings.CutPrefix(word, "--node-internal-cidrs="); ok {
			rules.Internal, _ = node.ParseCIDRs(list)
		}
		if list, ok := strings.CutPrefix(word, "--node-external-cidrs="); ok {
			rules.External, _ = node.ParseCIDRs(list)
		}
	}
	return rules
}

func decideAddresses(nodes int, suspects []suspect) Finding {
	var fights, odd []Object
	for _, s := range suspects {
		switch {
		case s.nodeIP != "":
			odd = append(odd, nodeObject(s.node, "has %s, which are not updated: --node-ip %s of its kubelet is none of CloudStack's addresses, %s", s.have, s.nodeIP, s.want))
		case s.kubelet:
			fights = append(fights, nodeObject(s.node, "its kubelet writes %s, CloudStack has %s", s.have, s.want))
		case s.then != "" && s.then != s.want:
			fights = append(fights, nodeObject(s.node, "its addresses change: %s, %s later %s; CloudStack has %s", s.have, secondLook, s.then, s.want))
		case s.then == "":
			odd = append(odd, nodeObject(s.node, "has %s, CloudStack has %s", s.have, s.want))
		}
	}
	switch {
	case len(fights) > 0:
		return problemf("kubelet and controller both write the addresses of %s", plural.Count(len(fights), "node")).About(append(fights, odd...)...)
	case len(odd) > 0:
		return warnf("%s with other addresses than CloudStack has", plural.Count(len(odd), "node")).About(odd...).
			Fix("wait five minutes, after which the controller has written what CloudStack says; if it stays, look at the controller's log: %s", showLog)
	}
	return passf("%s", plural.Count(nodes, "node"))
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

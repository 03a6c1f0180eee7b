// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Members finds the VMs of Nodes for load balancers. It caches the results for all Services, because each of them needs
// every Node.
type Members struct {
	// All returns the cluster's Nodes. Without it, only the Nodes of one call are compared with each other.
	All func() ([]*corev1.Node, error)

	mu    sync.Mutex
	found map[weak.Pointer[inventory.VMSnapshot]]*perNode // weak, because old lists are large
}

// perNode caches the member for the newest known version of each Node.
type perNode struct {
	values map[types.UID]found
	most   int // largest number of Nodes in one call
}

// found is the result of matchOne for a version of a Node.
type found struct {
	version string
	member  plan.Member
	err     error
}

// match returns the members for Nodes. A Node without a resource version was not read from an API server; its member is
// looked up each time.
func (p *perNode) match(vms *inventory.VMSnapshot, nodes []*corev1.Node) []found {
	p.most = max(p.most, len(nodes))
	if p.values == nil || len(p.values) > 2*p.most { // at least half of them are gone
		p.values = make(map[types.UID]found, len(nodes))
	}
	out := make([]found, 0, len(nodes))
	for _, n := range nodes {
		known, ok := p.values[n.UID]
		if !ok || known.version != n.ResourceVersion || n.ResourceVersion == "" {
			known = found{version: n.ResourceVersion}
			known.member, known.err = matchOne(vms, n)
			p.values[n.UID] = known
		}
		out = append(out, known)
	}
	return out
}

// Unmatched is a Node that cannot be a member, and the reason.
type Unmatched struct {
	Node *corev1.Node
	Err  error
}

// memoLists is the number of lists of VMs whose results are remembered: there is one list per project.
const memoLists = 4

// Match finds the VMs of Nodes in a list.
func (m *Members) Match(vms *inventory.VMSnapshot, nodes []*corev1.Node) (members []plan.Member, failed []Unmatched) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := weak.Make(vms)
	known := m.found[list]
	if known == nil {
		if m.found == nil || len(m.found) >= memoLists {
			m.found = map[weak.Pointer[inventory.VMSnapshot]]*perNode{}
		}
		known = &perNode{}
		m.found[list] = known
	}

	all := nodes
	if m.All != nil {
		all, _ = m.All() // a Node that is missing from this list is newer than the list
	}

	owners := make(map[string]*corev1.Node, len(all)) // by VM
	for i, f := range known.match(vms, all) {
		if has := owners[f.member.VMID]; f.err == nil && (has == nil || older(all[i], has)) {
			owners[f.member.VMID] = all[i]
		}
	}

	members = make([]plan.Member, 0, len(nodes))
	for i, f := range known.match(vms, nodes) {
		n := nodes[i] // #nosec G602 -- a result for each node
		if by := owners[f.member.VMID]; f.err == nil && by != nil && by.Name != n.Name && older(by, n) {
			f.err = taken(n, by, f.member.VMID)
		}
		if f.err != nil {
			failed = append(failed, Unmatched{n, f.err})
		} else {
			members = append(members, f.member)
		}
	}

	return members, failed
}

// Ask looks up, by ID, the VMs of failed Nodes that a list lacks, and returns the list with those VMs that exist. A
// list may be incomplete, and a member is removed from its rules only when its VM is proven to be gone.
func Ask(
	ctx context.Context, vms *inventory.Inventory, list *inventory.VMSnapshot, failed []Unmatched,
) (*inventory.VMSnapshot, error) {
	for _, f := range failed {
		missing, ok := errors.AsType[*NotFoundError](f.Err)
		if !ok || missing.ID == "" || missing.State != "" || list.Missing(missing.ID) {
			continue
		}
		if _, _, err := vms.VM(ctx, missing.ID); err != nil {
			return nil, fmt.Errorf("node %q: %w", f.Node.Name, err)
		}
	}
	return cmp.Or(vms.LastVMs(), list), nil
}

func matchOne(vms *inventory.VMSnapshot, n *corev1.Node) (plan.Member, error) {
	vm, err := Match(vms, n)
	switch {
	case err != nil:
		return plan.Member{}, err
	case len(vm.NICs) == 0:
		return plan.Member{}, fmt.Errorf("node %q: its VM %s has no NIC", n.Name, vm.ID)
	case vm.State == cloudstack.VMError:
		// Omit a VM in this state: CloudStack would refuse it, and with it all other VMs of the call. It accepts a
		// stopped VM.
		return plan.Member{}, fmt.Errorf("node %q: its VM %s is in state %s", n.Name, vm.ID, vm.State)
	}
	return MemberOf(n, &vm), nil
}

// Key returns a key for a set of Nodes. It changes with everything that affects their members.
func Key(nodes []*corev1.Node) string {
	lines := make([]string, 0, len(nodes))
	for _, n := range nodes {
		lines = append(lines,
			n.Name+" "+string(n.UID)+" "+n.Spec.ProviderID+" "+strings.Join(memberAddresses(n), ","))
	}
	slices.Sort(lines)
	// Return a digest: the text of a thousand nodes has 100 KB, and every Service may store one key.
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, "\n"))))
}

// MemberOf describes a Node and its VM for the planner.
func MemberOf(n *corev1.Node, vm *cloudstack.VirtualMachine) plan.Member {
	m := plan.Member{Node: n.Name, VMID: vm.ID, Addresses: memberAddresses(n)}
	for _, nic := range vm.NICs {
		m.NICs = append(m.NICs,
			plan.NIC{NetworkID: nic.NetworkID, NetworkName: nic.NetworkName, IP: nic.IPv4, Secondary: nic.SecondaryIP})
	}
	return m
}

// memberAddresses returns the kubelet's --node-ip addresses, or the Node's internal addresses if it has none.
func memberAddresses(n *corev1.Node) []string {
	if own := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; own != "" {
		return strings.Split(own, ",")
	}
	return internalIPs(n.Status.Addresses)
}

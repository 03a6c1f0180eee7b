// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/failover"
)

// nodeMemo remembers what was found out about Nodes, for all Services: each of them looks at every Node. The zero nodeMemo
// is ready for use.
type nodeMemo struct {
	mu      sync.Mutex
	digests perNode[[sha256.Size]byte]
	found   map[weak.Pointer[inventory.VMSnapshot]]*perNode[found] // weak: an old list is large
}

// perNode has a value for each version of a Node; only of the last one of each Node, which is the one that caches have.
type perNode[T any] struct {
	values map[types.UID]versioned[T]
	most   int // Nodes of one question
}

type versioned[T any] struct {
	version string
	value   T
}

// get returns the values of Nodes, in their order. One without a version was not read from an API server.
func (p *perNode[T]) get(nodes []*corev1.Node, compute func(*corev1.Node) T) iter.Seq2[*corev1.Node, T] {
	p.most = max(p.most, len(nodes))
	if p.values == nil || len(p.values) > 2*p.most { // half of them and more are gone
		p.values = make(map[types.UID]versioned[T], len(nodes))
	}
	return func(yield func(*corev1.Node, T) bool) {
		for _, n := range nodes {
			known, ok := p.values[n.UID]
			if !ok || known.version != n.ResourceVersion || n.ResourceVersion == "" {
				known = versioned[T]{n.ResourceVersion, compute(n)}
				p.values[n.UID] = known
			}
			if !yield(n, known.value) {
				return
			}
		}
	}
}

// found is the VM of a Node in a list of VMs, or why it has none there.
type found struct {
	member plan.Member
	err    error
}

type unmatched struct {
	node *corev1.Node
	err  error
}

// memoLists is the number of lists of VMs for which is remembered what was found in them: of as many projects.
const memoLists = 4

// match finds the VMs of Nodes.
func (m *nodeMemo) match(vms *inventory.VMSnapshot, nodes []*corev1.Node) (members []plan.Member, failed []unmatched) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := weak.Make(vms)
	known := m.found[list]
	if known == nil {
		if m.found == nil || len(m.found) >= memoLists {
			m.found = map[weak.Pointer[inventory.VMSnapshot]]*perNode[found]{}
		}
		known = &perNode[found]{}
		m.found[list] = known
	}
	members = make([]plan.Member, 0, len(nodes))
	for n, f := range known.get(nodes, func(n *corev1.Node) (f found) { f.member, f.err = matchOne(vms, n); return f }) {
		if f.err != nil {
			failed = append(failed, unmatched{n, f.err})
		} else {
			members = append(members, f.member)
		}
	}
	return members, failed
}

func matchOne(vms *inventory.VMSnapshot, n *corev1.Node) (plan.Member, error) {
	vm, err := node.Match(vms, n)
	switch {
	case err != nil:
		return plan.Member{}, err
	case len(vm.NICs) == 0:
		return plan.Member{}, fmt.Errorf("node %q: its VM %s has no NIC", n.Name, vm.ID)
	case slices.Contains([]cloudstack.VMState{cloudstack.VMDestroyed, cloudstack.VMExpunging, cloudstack.VMError}, vm.State):
		// CloudStack refuses it, and with it all others of the call. A stopped VM it takes: the router finds out.
		return plan.Member{}, fmt.Errorf("node %q: its VM %s is in state %s", n.Name, vm.ID, vm.State)
	}
	return loadbalancer.MemberOf(n, &vm), nil
}

// key identifies a set of Nodes as far as members are concerned, and those of them that are unfit.
func (m *nodeMemo) key(nodes []*corev1.Node, unfit map[string]failover.Unfitness) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	digests := make([][sha256.Size]byte, 0, len(nodes))
	for _, d := range m.digests.get(nodes, nodeDigest) {
		digests = append(digests, d)
	}
	slices.SortFunc(digests, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	// Not the text itself: of a thousand nodes it has 100 KB, and every Service keeps one.
	all := sha256.New()
	for i := range digests {
		_, _ = all.Write(digests[i][:])
	}
	key := hex.EncodeToString(all.Sum(nil))
	if len(unfit) > 0 {
		key += "\nunfit " + strings.Join(slices.Sorted(maps.Keys(unfit)), " ")
	}
	return key
}

func nodeDigest(n *corev1.Node) [sha256.Size]byte {
	return sha256.Sum256([]byte(n.Name + " " + string(n.UID) + " " + n.Spec.ProviderID + " " + strings.Join(loadbalancer.NodeAddresses(n), ",")))
}

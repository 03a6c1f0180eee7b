// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node/failover"
)

// DeletionLimit limits the deletion of Nodes, see guard.
type DeletionLimit struct {
	// Percent is the percentage of the cluster's Nodes that may lose their VMs within Window. With 100, deletions are
	// refused only if all Nodes lost their VMs.
	Percent int
	Window  time.Duration
}

const (
	// minimumMissing is the number of Nodes without a VM from which on the percentage applies: in a small cluster a
	// single Node is already a large share.
	minimumMissing = 3
	// verdictAge is how long a verdict is reused. It is less than the framework's period of 5 s between rounds.
	verdictAge = 2 * time.Second
	// blockedFor is how long deletions count as blocked after a refusal: the framework asks again every few seconds.
	blockedFor = time.Minute
)

// guard prevents the deletion of Nodes while csccm looks in the wrong place: in another project, with an account that
// can no longer see the VMs, or on a server with wrong answers. Each single VM then looks destroyed; only the number of
// missing VMs shows the error.
type guard struct {
	*Deps

	mu      sync.Mutex
	deleted map[string]time.Time // by name of the Node
	// The verdict on one snapshot applies to all Nodes that the framework asks about in one round.
	snapshot *inventory.VMSnapshot
	judged   time.Time
	verdict  error
	refused  time.Time // the last refusal
}

// check returns an error if a snapshot is not sufficient evidence to delete Nodes.
func (g *guard) check(s *inventory.VMSnapshot) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.snapshot != s || g.Clock.Since(g.judged) >= verdictAge {
		nodes, err := g.List()
		if err != nil {
			return fmt.Errorf("cannot count the nodes that lost their VMs: %w", err)
		}
		g.snapshot, g.judged, g.verdict = s, g.Clock.Now(), g.judge(s, nodes)
	}
	if g.verdict != nil {
		g.refused = g.Clock.Now()
	}
	return g.verdict
}

// judge returns why Nodes are not deleted although their VMs are not found; nil if they may be.
func (g *guard) judge(s *inventory.VMSnapshot, nodes []*corev1.Node) error {
	missing, total := withoutVM(s, nodes)
	known := make(map[string]*corev1.Node, len(nodes))
	for _, n := range nodes {
		known[n.Name] = n
	}

	if len(missing) < total { // some VMs are found: csccm looks in the right place
		// The cluster autoscaler taints a Node before it deletes its VM. Nodes that are about to be deleted are
		// expected to lose their VMs, so they do not count towards the limit.
		unmarked := slices.DeleteFunc(slices.Clone(missing),
			func(name string) bool { return failover.Leaving(known[name]) })
		missing, total = unmarked, total-len(missing)+len(unmarked)
	}

	now := g.Clock.Now()
	for name, at := range g.deleted {
		switch {
		case now.Sub(at) > g.Limit.Window:
			delete(g.deleted, name)
		case known[name] == nil: // a Node that still exists was counted above
			total++
			missing = append(missing, name)
		}
	}

	slices.Sort(missing)
	tooMany := len(missing) >= minimumMissing && len(missing)*100 > g.Limit.Percent*total
	if len(missing) == 0 || len(missing) < total && !tooMany {
		return nil
	}

	names := strings.Join(missing[:min(5, len(missing))], ", ")
	if len(missing) > 5 {
		names += ", ..."
	}

	if len(missing) == total {
		return &eventError{ReasonDeletionRefused, fmt.Errorf("refusing to delete nodes: none of the %d nodes (%s) "+
			"has a VM in %s: project-id or the API key in the cloud-config is more likely wrong; if the VMs are really "+
			"gone, delete the Nodes with kubectl",
			total, names, s.Scope())}
	}

	return &eventError{ReasonDeletionRefused, fmt.Errorf("refusing to delete nodes: %d of %d nodes (%s) lost their "+
		"VMs within %s, more than %d %%, in %s: if the VMs are really gone, delete the Nodes with kubectl or raise "+
		"--node-deletion-limit",
		len(missing), total, names, g.Limit.Window, g.Limit.Percent, s.Scope())}
}

// withoutVM returns the names of the Nodes with a CloudStack ID whose VM is not in the list. total also counts the
// Nodes whose VM is in the list.
func withoutVM(s *inventory.VMSnapshot, nodes []*corev1.Node) (missing []string, total int) {
	for _, n := range nodes {
		_, err := Match(s, n)
		switch reason := ReasonOf(err); {
		case reason == ReasonInvalidProviderID:
		case reason != ReasonWithoutVM:
			total++ // one VM matches, or several do
		case HasVMID(n): // otherwise it may not be a VM of CloudStack
			total++
			missing = append(missing, n.Name)
		}
	}
	return missing, total
}

// blocked returns 1 while deletions are refused.
func (g *guard) blocked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused.IsZero() || g.Clock.Since(g.refused) >= blockedFor {
		return 0
	}
	return 1
}

// deleting records that a Node will be deleted. A Node that was about to be deleted anyway does not count.
func (g *guard) deleting(n *corev1.Node) {
	if failover.Leaving(n) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deleted[n.Name] = g.Clock.Now()
}

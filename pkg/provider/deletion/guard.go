// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletion decides whether Nodes may be deleted.
package deletion

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/failover"
)

// Options say when the disappearance of VMs is taken for an error in what we see.
type Options struct {
	// Percent of the cluster's Nodes that may vanish within Window; 100 leaves only the check that not
	// all of them vanish.
	Percent int
	// Window within which deletions are counted together.
	Window time.Duration
}

// minimum is the number of vanished Nodes below which a share says nothing.
const minimum = 3

// Guard keeps Nodes from being deleted because csccm looks in the wrong place: another project, an account
// that lost its VMs from sight, a server that lies. Each VM on its own may look destroyed then; that many
// of them do so at once gives it away.
type Guard struct {
	options Options
	clock   clock.PassiveClock

	mu      sync.Mutex
	deleted map[string]time.Time // Nodes given up for deletion, by name
	// The verdict of one snapshot serves all Nodes that are asked about in one round of the framework.
	snapshot *inventory.VMSnapshot
	judged   time.Time
	verdict  error
	refused  time.Time // when a deletion was refused last
}

// verdictAge is less than the framework's period of 5 s between rounds.
const verdictAge = 2 * time.Second

// RefusedError says why a Node is not deleted although its VM cannot be seen.
type RefusedError struct{ text string }

func (e *RefusedError) Error() string { return "refusing to delete nodes: " + e.text }

// NewGuard returns a Guard that has seen no deletion.
func NewGuard(o Options, c clock.PassiveClock) *Guard {
	return &Guard{options: o, clock: c, deleted: map[string]time.Time{}}
}

// Check reports whether Nodes may be deleted on the evidence of a snapshot. list is the cluster's Nodes.
func (g *Guard) Check(s *inventory.VMSnapshot, list func() ([]*corev1.Node, error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.snapshot != s || g.clock.Since(g.judged) >= verdictAge {
		nodes, err := list()
		if err != nil {
			return fmt.Errorf("cannot tell how many nodes lost their VMs: %w", err)
		}
		g.snapshot, g.judged, g.verdict = s, g.clock.Now(), g.judge(s, nodes)
	}
	if g.verdict != nil {
		g.refused = g.clock.Now()
	}
	return g.verdict
}

// judge returns nil or a *RefusedError.
func (g *Guard) judge(s *inventory.VMSnapshot, nodes []*corev1.Node) error {
	missing, total := WithoutVM(s, nodes)
	if len(missing) < total { // some VM is seen, so that csccm looks in the right place
		missing, total = unannounced(missing, total, nodes)
	}
	seen := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		seen[n.Name] = true
	}
	now := g.clock.Now()
	for name, at := range g.deleted {
		switch {
		case now.Sub(at) > g.options.Window:
			delete(g.deleted, name)
		case !seen[name]: // else it was counted above, or has come back
			total++
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	tooMany := len(missing) >= minimum && len(missing)*100 > g.options.Percent*total
	if len(missing) == 0 || len(missing) < total && !tooMany {
		return nil
	}
	names := strings.Join(missing[:min(5, len(missing))], ", ")
	if len(missing) > 5 {
		names += ", ..."
	}
	if len(missing) == total {
		return &RefusedError{fmt.Sprintf("none of the %d nodes (%s) has a VM in %s: project-id or the API key in the cloud-config is more likely wrong; if the VMs are really gone, delete the Nodes with kubectl",
			total, names, s.Scope())}
	}
	return &RefusedError{fmt.Sprintf("%d of %d nodes (%s) lost their VMs within %s, more than %d %%, in %s: if the VMs are really gone, delete the Nodes with kubectl or raise --node-deletion-limit",
		len(missing), total, names, g.options.Window, g.options.Percent, s.Scope())}
}

// unannounced leaves out the Nodes that are about to be deleted: the cluster autoscaler marks a Node before it deletes the
// VM, so that any number of them may lose theirs at once.
func unannounced(missing []string, total int, nodes []*corev1.Node) (rest []string, of int) {
	announced := map[string]bool{}
	for _, n := range nodes {
		announced[n.Name] = failover.Leaving(n)
	}
	for _, name := range missing {
		if !announced[name] {
			rest = append(rest, name)
		}
	}
	return rest, total - len(missing) + len(rest)
}

// WithoutVM names the Nodes with a CloudStack id whose VM is not in the list; total counts those of which
// the VM is, too.
func WithoutVM(s *inventory.VMSnapshot, nodes []*corev1.Node) (missing []string, total int) {
	for _, n := range nodes {
		_, kind, err := node.ParseProviderID(n.Spec.ProviderID)
		if err != nil {
			continue
		}
		_, err = node.Match(s, n)
		switch _, gone := errors.AsType[*node.NotFoundError](err); {
		case !gone:
			total++ // it is there, maybe twice
		case kind.IsCloudStack():
			total++
			missing = append(missing, n.Name)
		default: // no VM of CloudStack, or not yet known to be one
		}
	}
	return missing, total
}

// blockedFor is how long a refusal counts as standing: the framework asks again every few seconds.
const blockedFor = time.Minute

// Blocked reports whether deletions are being refused.
func (g *Guard) Blocked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.refused.IsZero() && g.clock.Since(g.refused) < blockedFor
}

// Deleting notes that a Node is being given up, unless that was announced.
func (g *Guard) Deleting(n *corev1.Node) {
	if failover.Leaving(n) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deleted[n.Name] = g.clock.Now()
}

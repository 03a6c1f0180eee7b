// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
)

const (
	// period is the time between two looks at the Nodes, which are in memory.
	period = 10 * time.Second
	// refresh is how often the entry is read although the Nodes did not change.
	refresh = time.Hour
	// retry is the wait after a failure.
	retry = time.Minute
)

// Controller keeps the entry of its cluster true. All fields are required.
type Controller struct {
	API API
	// Project returns the id of the VMs' project; empty for the account of the keys.
	Project func(ctx context.Context) (string, error)
	// Name is the entry's name.
	Name      string
	ClusterID string
	// Nodes returns the Nodes in the informer's cache.
	Nodes func() ([]*corev1.Node, error)
	// VMs returns a list of the VMs that is not much older than the Nodes.
	VMs   func(ctx context.Context) (node.Lookup, error)
	Clock clock.WithTicker

	done Wanted    // what the entry was made to be at last
	next time.Time // no call before that without a change
	last string    // the error that was logged last
}

// Run keeps the entry true until the context ends, or until it is known that CloudStack made the cluster.
func (c *Controller) Run(ctx context.Context) {
	ticker := c.Clock.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if err := c.look(ctx); errors.Is(err, ErrManaged) {
				return
			}
		}
	}
}

// look calls CloudStack when the Nodes changed or the entry was not read for long.
func (c *Controller) look(ctx context.Context) error {
	nodes, err := c.Nodes()
	if err != nil {
		return nil //nolint:nilerr // the cache is not filled yet
	}
	w := Wanted{Name: c.Name, ClusterID: c.ClusterID}
	w.Control, w.Workers = vmsOf(nodes)
	same := slices.Equal(w.Control, c.done.Control) && slices.Equal(w.Workers, c.done.Workers)
	now := c.Clock.Now()
	if len(w.Control)+len(w.Workers) == 0 || now.Before(c.next) && (same || c.last != "") {
		return nil
	}
	asked := w
	p, err := c.sync(ctx, &w)
	if err != nil {
		c.next = now.Add(retry)
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			c.next = now.Add(refresh)
		}
		if err.Error() != c.last {
			klog.ErrorS(err, "The cluster is not registered in CloudStack; Services and Nodes are not affected")
		}
		c.last = err.Error()
		return err
	}
	c.done, c.next, c.last = asked, now.Add(refresh), ""
	if p.Changes() {
		klog.InfoS("The cluster's entry in CloudStack follows its nodes", "name", w.Name,
			"created", p.Create, "added", len(p.AddControl)+len(p.AddWorkers), "removed", len(p.Remove))
	}
	return nil
}

func (c *Controller) sync(ctx context.Context, w *Wanted) (*Plan, error) {
	if c.ClusterID == "" {
		return nil, errors.New("the UID of namespace kube-system could not be read, which tells this cluster's entry from others; allow it to the controller's role")
	}
	vms, err := c.VMs(ctx)
	if err != nil {
		return nil, err
	}
	w.place(vms)
	if w.ZoneID == "" {
		return nil, errors.New("CloudStack shows none of the nodes' VMs")
	}
	project, err := c.Project(ctx)
	if err != nil {
		return nil, err
	}
	return Sync(ctx, c.API, project, w)
}

// vmsOf returns the ids of the Nodes' VMs, sorted.
func vmsOf(nodes []*corev1.Node) (control, workers []string) {
	for _, n := range nodes {
		id, kind, err := node.ParseProviderID(n.Spec.ProviderID)
		switch {
		case err != nil || !kind.IsCloudStack():
		case node.ControlPlane(n):
			control = append(control, id)
		default:
			workers = append(workers, id)
		}
	}
	slices.Sort(control)
	slices.Sort(workers)
	return slices.Compact(control), slices.Compact(workers)
}

// place fills in zone and network from the VMs, and drops VMs that CloudStack does not show. The network stays empty
// where the VMs are in several: the entry shows the source NAT address of its network.
func (w *Wanted) place(vms node.Lookup) {
	networks := map[string]bool{}
	exists := func(id string) bool {
		vm, ok := vms.ByID(id)
		if !ok || node.Gone(vm.State) {
			return false
		}
		w.ZoneID = vm.ZoneID
		for i := range vm.NICs {
			if vm.NICs[i].Default {
				networks[vm.NICs[i].NetworkID] = true
				w.NetworkID = vm.NICs[i].NetworkID
			}
		}
		return true
	}
	gone := func(id string) bool { return !exists(id) }
	w.Control, w.Workers = slices.DeleteFunc(slices.Clone(w.Control), gone), slices.DeleteFunc(slices.Clone(w.Workers), gone)
	if len(networks) != 1 {
		w.NetworkID = ""
	}
}

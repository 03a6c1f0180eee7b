// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory holds what csccm knows of VMs, networks, zones and the project: snapshots that all
// callers share, each complete or an error, each fetched once for all who want it.
package inventory

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// API is what an Inventory needs of a *cloudstack.Client.
type API interface {
	ListVirtualMachines(ctx context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error)
	ListNetworks(ctx context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error)
	ListZones(ctx context.Context) ([]cloudstack.Zone, error)
	ListProjects(ctx context.Context) ([]cloudstack.Project, error)
}

// Options are the settings of an Inventory.
type Options struct {
	// ProjectID is the project's id or name; empty means the account's own resources. A name is resolved
	// with listProjects once; an id is used as it is, so a role without listProjects will do.
	ProjectID string
	// Zone is the zone's name or id; empty means all. It decides between VMs of one name.
	Zone string
	// AffinityGroups asks for the VMs' affinity groups, too.
	AffinityGroups bool
	// Clock is the real one when nil.
	Clock clock.PassiveClock
}

const (
	zonesAge = 10 * time.Minute
	// projectSeenAge is how long a list of the project's VMs proves that the project exists.
	projectSeenAge = time.Minute

	joinAge = time.Second // how far a call for one VM may be on its way for another caller to join it
)

// Inventory answers questions about VMs, networks and zones from shared snapshots. It is safe for use by
// several goroutines.
type Inventory struct {
	api     API
	options Options
	clock   clock.PassiveClock
	metrics metrics

	project *flight[string]
	zones   *flight[[]cloudstack.Zone]
	vms     *flight[*VMSnapshot]

	mu       sync.Mutex
	vm       map[string]*flight[*cloudstack.VirtualMachine] // by id; only while asked
	networks map[string]*flight[cloudstack.Network]         // by id
}

// New makes an empty inventory. It makes no call.
func New(api API, o Options) *Inventory {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	i := &Inventory{
		api:      api,
		options:  o,
		clock:    o.Clock,
		vm:       map[string]*flight[*cloudstack.VirtualMachine]{},
		networks: map[string]*flight[cloudstack.Network]{},
	}
	i.project = newFlight(o.Clock, i.fetchProject)
	i.zones = newFlight(o.Clock, i.fetchZones)
	i.vms = newFlight(o.Clock, i.fetchVMs)
	return i
}

// VMs returns a complete list of the project's VMs, with their service offerings, asked for no longer
// than maxAge ago. A maxAge of zero asks the server now.
func (i *Inventory) VMs(ctx context.Context, maxAge time.Duration) (*VMSnapshot, error) {
	r, err := i.vms.get(ctx, maxAge)
	if err != nil {
		return nil, fmt.Errorf("list the VMs of %s: %w", i.scope(""), err)
	}
	return r.value, nil
}

// LastVMs is the last complete list of VMs, however old; nil before the first. It makes no call.
func (i *Inventory) LastVMs() *VMSnapshot {
	if last := i.vms.peek(); last != nil {
		return last.value
	}
	return nil
}

func (i *Inventory) fetchVMs(ctx context.Context) (*VMSnapshot, error) {
	project, err := i.ProjectID(ctx)
	if err != nil {
		return nil, err
	}
	taken := i.clock.Now()
	// All zones: a VM that is known by its id counts wherever it is, so that a wrong zone in the
	// cloud-config can never make it look destroyed.
	vms, err := i.api.ListVirtualMachines(ctx, cloudstack.VMQuery{ProjectID: project, WithOffering: true, WithAffinityGroups: i.options.AffinityGroups})
	i.metrics.fetched("vms", err)
	if err != nil {
		return nil, err
	}
	return NewVMSnapshot(taken, i.scope(project), vms), nil
}

// Forget makes everything be asked for anew: what was seen with one key says little of what another sees.
// LastVMs still tells of the last list.
func (i *Inventory) Forget() {
	i.vms.expire()
	i.zones.expire()
	i.mu.Lock()
	clear(i.vm)
	clear(i.networks)
	i.mu.Unlock()
}

// VM asks the server for one VM by its id, in whatever zone; found is false when the server's answer,
// complete and without error, does not hold it. What is found also goes into the current snapshot, and what
// is not is noted there (see VMSnapshot.Lacks). Several callers for one id share a call.
func (i *Inventory) VM(ctx context.Context, id string) (vm cloudstack.VirtualMachine, found bool, err error) {
	id = strings.ToLower(id)
	i.mu.Lock()
	f, ok := i.vm[id]
	if !ok {
		f = newFlight(i.clock, func(ctx context.Context) (*cloudstack.VirtualMachine, error) { return i.fetchVM(ctx, id) })
		i.vm[id] = f
	}
	i.mu.Unlock()
	r, err := f.get(ctx, joinAge)
	i.mu.Lock()
	if i.vm[id] == f {
		delete(i.vm, id) // results are kept in the snapshot, not here; a late second call is merely a call
	}
	i.mu.Unlock()
	switch {
	case err != nil:
		return vm, false, fmt.Errorf("look up VM %s in %s: %w", id, i.scope(""), err)
	case r.value == nil:
		return vm, false, nil
	}
	return *r.value, true, nil
}

func (i *Inventory) fetchVM(ctx context.Context, id string) (*cloudstack.VirtualMachine, error) {
	project, err := i.ProjectID(ctx)
	if err != nil {
		return nil, err
	}
	before := i.vms.peek() // an answer says nothing of a list that was asked for later
	vms, err := i.api.ListVirtualMachines(ctx, cloudstack.VMQuery{ID: id, ProjectID: project, WithOffering: true, WithAffinityGroups: i.options.AffinityGroups})
	i.metrics.fetched("vm", err)
	switch {
	case cloudstack.IsNotFound(err) && i.projectSeen(project): // the server does not know the id: a complete answer
	case err != nil:
		return nil, err
	}
	for n := range vms {
		if strings.EqualFold(vms[n].ID, id) {
			i.vms.amend(before, func(s *VMSnapshot) *VMSnapshot { return s.with(vms[n]) })
			return &vms[n], nil
		}
	}
	if len(vms) > 0 {
		return nil, fmt.Errorf("the server answered with VM %s", vms[0].ID)
	}
	i.vms.amend(before, func(s *VMSnapshot) *VMSnapshot { return s.without(id) })
	return nil, nil //nolint:nilnil // an empty answer is a complete answer
}

// projectSeen tells whether an answer that something does not exist can only mean the VM: the server gives
// the same answer for a project that does not exist, but then there is no list of its VMs either.
func (i *Inventory) projectSeen(project string) bool {
	last := i.vms.peek()
	return project == "" || last != nil && i.clock.Since(last.begun) < projectSeenAge
}

// networkIdle is how long the description of a network is kept that nobody asks for.
const networkIdle = time.Hour

// Network returns one network of the project; a network that is not there is a *cloudstack.Error of
// KindNotFound.
func (i *Inventory) Network(ctx context.Context, id string, maxAge time.Duration) (cloudstack.Network, error) {
	i.mu.Lock()
	f, ok := i.networks[id]
	if !ok {
		// Networks come and go with the clusters' Services; those that nobody asks for are dropped.
		maps.DeleteFunc(i.networks, func(_ string, other *flight[cloudstack.Network]) bool {
			last := other.peek()
			return last != nil && i.clock.Since(last.begun) > networkIdle
		})
		f = newFlight(i.clock, func(ctx context.Context) (cloudstack.Network, error) { return i.fetchNetwork(ctx, id) })
		i.networks[id] = f
	}
	i.mu.Unlock()
	r, err := f.get(ctx, maxAge)
	if err != nil {
		return cloudstack.Network{}, fmt.Errorf("look up network %s: %w", id, err)
	}
	return r.value, nil
}

func (i *Inventory) fetchNetwork(ctx context.Context, id string) (cloudstack.Network, error) {
	project, err := i.ProjectID(ctx)
	if err != nil {
		return cloudstack.Network{}, err
	}
	// Root admins find a network by its id only with listall; for users it changes nothing.
	list, err := i.api.ListNetworks(ctx, cloudstack.NetworkQuery{ID: id, ProjectID: project, ListAll: true})
	i.metrics.fetched("network", err)
	if err != nil {
		return cloudstack.Network{}, err
	}
	for n := range list {
		if strings.EqualFold(list[n].ID, id) {
			return list[n], nil
		}
	}
	return cloudstack.Network{}, &cloudstack.Error{
		Kind:    cloudstack.KindNotFound,
		Command: "listNetworks",
		Text:    fmt.Sprintf("no network %s in %s", id, i.scope(project)),
	}
}

// Zones returns the zones that the caller may use; they are at most ten minutes old.
func (i *Inventory) Zones(ctx context.Context) ([]cloudstack.Zone, error) {
	r, err := i.zones.get(ctx, zonesAge)
	if err != nil {
		return nil, fmt.Errorf("list zones: %w", err)
	}
	return r.value, nil
}

func (i *Inventory) fetchZones(ctx context.Context) ([]cloudstack.Zone, error) {
	zones, err := i.api.ListZones(ctx)
	i.metrics.fetched("zones", err)
	return zones, err
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory caches VMs, networks, zones and the project ID. All callers share its snapshots. A snapshot is
// always complete, or an error is returned, and concurrent callers share a single fetch.
package inventory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// API is the part of *cloudstack.Client that an Inventory uses.
type API interface {
	ListVirtualMachines(ctx context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error)
	ListNetworks(ctx context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error)
	ListZones(ctx context.Context) ([]cloudstack.Zone, error)
	ListProjects(ctx context.Context) ([]cloudstack.Project, error)
}

// Options are the settings of an Inventory.
type Options struct {
	// ProjectID is the project's ID or name; empty means the account's own resources. A name is resolved
	// once with listProjects; an ID is used unchanged, so that a role without listProjects is sufficient.
	ProjectID string
	// Zone is the zone's name or ID; empty means all zones. It selects among VMs with the same name.
	Zone string
	// NodeVMs is node-vms of the cloud-config; empty means any VM.
	NodeVMs string
	// AffinityGroups requests the VMs' affinity groups too.
	AffinityGroups bool
	// Clock is the clock to use; nil means the real clock.
	Clock clock.PassiveClock
}

const (
	zonesAge = 10 * time.Minute
	// projectSeenAge is how long a list of the project's VMs proves that the project exists.
	projectSeenAge = time.Minute

	joinAge = time.Second // a caller joins a call for the same VM that started at most this long ago
)

// Inventory answers questions about VMs, networks and zones from shared snapshots. It is safe for use by
// several goroutines.
type Inventory struct {
	api     API
	options Options
	fetches *prometheus.CounterVec

	project *flight[string]
	zones   *flight[[]cloudstack.Zone]
	vms     *flight[*VMSnapshot]

	mu       sync.Mutex
	vm       map[string]*flight[*cloudstack.VirtualMachine] // by ID; only while a call is in flight
	networks map[string]*flight[cloudstack.Network]         // by ID
}

// New returns an empty inventory. It makes no API call.
func New(api API, o Options) *Inventory {
	o.Clock = cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{})
	i := &Inventory{
		api: api, options: o, fetches: newFetches(),
		vm: map[string]*flight[*cloudstack.VirtualMachine]{}, networks: map[string]*flight[cloudstack.Network]{},
	}
	i.project = newFlight(o.Clock, i.fetchProject)
	i.zones = newFlight(o.Clock, func(ctx context.Context) ([]cloudstack.Zone, error) {
		zones, err := api.ListZones(ctx)
		i.fetched("zones", err)
		return zones, err
	})
	i.vms = newFlight(o.Clock, i.fetchVMs)
	return i
}

// VMs returns a complete list of the project's VMs, with their service offerings, that was requested at most
// maxAge ago. A maxAge of zero always requests a new list.
func (i *Inventory) VMs(ctx context.Context, maxAge time.Duration) (*VMSnapshot, error) {
	r, err := i.vms.get(ctx, maxAge)
	if err != nil {
		return nil, fmt.Errorf("list the VMs of %s: %w", i.scope(""), err)
	}
	return r.value, nil
}

// LastVMs returns the last complete list of VMs regardless of its age, or nil if there is none yet. It makes no API
// call.
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
	taken := i.options.Clock.Now()
	// List all zones: a VM found by its ID counts in any zone, so that a wrong zone in the cloud-config can
	// never make a VM look destroyed.
	vms, err := i.api.ListVirtualMachines(ctx,
		cloudstack.VMQuery{ProjectID: project, WithOffering: true, WithAffinityGroups: i.options.AffinityGroups})
	i.fetched("vms", err)
	if err != nil {
		return nil, err
	}
	return NewVMSnapshot(taken, i.scope(project), vms), nil
}

// Reset invalidates all cached data, because an API key may see different resources than the key that was used
// before. LastVMs still returns the last list.
func (i *Inventory) Reset() {
	i.vms.expire()
	i.zones.expire()
	i.mu.Lock()
	clear(i.vm)
	clear(i.networks)
	i.mu.Unlock()
}

// VM requests one VM by its ID, in any zone. found is false if the server's answer is complete, without error, and does
// not contain the VM. VM also updates the current snapshot: it adds the VM, or records that the server does not know
// the ID (see VMSnapshot.Missing). Concurrent callers for the same ID share a call.
func (i *Inventory) VM(ctx context.Context, id string) (vm cloudstack.VirtualMachine, found bool, err error) {
	id = strings.ToLower(id)
	i.mu.Lock()
	f, ok := i.vm[id]
	if !ok {
		f = newFlight(i.options.Clock,
			func(ctx context.Context) (*cloudstack.VirtualMachine, error) { return i.fetchVM(ctx, id) })
		i.vm[id] = f
	}
	i.mu.Unlock()

	r, err := f.get(ctx, joinAge)

	i.mu.Lock()
	if i.vm[id] == f {
		delete(i.vm, id) // the snapshot keeps the result; a second call for the same ID does no harm
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

	before := i.vms.peek() // this answer must not change a list that is requested later
	vms, err := i.api.ListVirtualMachines(ctx,
		cloudstack.VMQuery{
			ID:                 id,
			ProjectID:          project,
			WithOffering:       true,
			WithAffinityGroups: i.options.AffinityGroups,
		})
	i.fetched("vm", err)

	switch {
	case cloudstack.IsNotFound(err) && i.projectSeen(project): // the server does not know the ID: a complete answer
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

// projectSeen reports whether a "not found" answer must be about the VM and not about the project. The server gives the
// same answer for a project that does not exist; a recent list of the project's VMs proves that the project exists.
func (i *Inventory) projectSeen(project string) bool {
	last := i.vms.peek()
	return project == "" || last != nil && i.options.Clock.Since(last.begun) < projectSeenAge
}

// networkIdle is how long a network is cached that nobody requests.
const networkIdle = time.Hour

// Network returns one network of the project. If the network does not exist, the error is a *cloudstack.Error of
// KindNotFound.
func (i *Inventory) Network(ctx context.Context, id string, maxAge time.Duration) (cloudstack.Network, error) {
	i.mu.Lock()
	f, ok := i.networks[id]
	if !ok {
		// Delete networks that nobody requests any more: their Services may have been deleted.
		maps.DeleteFunc(i.networks, func(_ string, other *flight[cloudstack.Network]) bool {
			last := other.peek()
			return last != nil && i.options.Clock.Since(last.begun) > networkIdle
		})
		f = newFlight(i.options.Clock,
			func(ctx context.Context) (cloudstack.Network, error) { return i.fetchNetwork(ctx, id) })
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

	// Root admins find a network by its ID only with listall; for other users listall has no effect.
	list, err := i.api.ListNetworks(ctx, cloudstack.NetworkQuery{ID: id, ProjectID: project, ListAll: true})
	i.fetched("network", err)
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

// Zones returns the zones that the API key's user may use; the list is at most ten minutes old.
func (i *Inventory) Zones(ctx context.Context) ([]cloudstack.Zone, error) {
	r, err := i.zones.get(ctx, zonesAge)
	if err != nil {
		return nil, fmt.Errorf("list zones: %w", err)
	}
	return r.value, nil
}

// ProjectError means that the configured project was not found or could not be looked up.
type ProjectError struct {
	Project string   // as in the cloud-config
	Known   []string // names of the projects that the key's user belongs to
	Err     error    // the error of listProjects, if it failed
}

func (e *ProjectError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("project-id %q is a name, and the projects cannot be listed to find its id (give the id "+
			"instead): %v", e.Project, e.Err)
	case len(e.Known) == 0:
		return fmt.Sprintf("project %q not found: the API key's user belongs to no project", e.Project)
	default:
		return fmt.Sprintf("project %q not found: the API key's user belongs to %s", e.Project,
			strings.Join(e.Known, ", "))
	}
}

// Unwrap returns the error of listProjects, or a *cloudstack.Error of KindNotFound if the list lacks the project.
func (e *ProjectError) Unwrap() error {
	if e.Err == nil {
		return &cloudstack.Error{
			Kind:    cloudstack.KindNotFound,
			Command: "listProjects",
			Text:    "no project " + e.Project,
		}
	}
	return e.Err
}

// ProjectID returns the ID of the configured project, or "" if none is configured. An error is a *ProjectError and
// is not cached: the next call tries again.
func (i *Inventory) ProjectID(ctx context.Context) (string, error) {
	p := i.options.ProjectID
	if p == "" {
		return "", nil
	}
	if _, err := uuid.Parse(p); err == nil && len(p) == 36 {
		return p, nil
	}
	r, err := i.project.get(ctx, time.Duration(math.MaxInt64))
	if err != nil {
		return "", err
	}
	return r.value, nil
}

// KnownProjectID is ProjectID without an API call: a name that was never resolved is returned as it is.
func (i *Inventory) KnownProjectID() string {
	if last := i.project.peek(); last != nil {
		return last.value
	}
	return i.options.ProjectID
}

func (i *Inventory) fetchProject(ctx context.Context) (string, error) {
	projects, err := i.api.ListProjects(ctx)
	i.fetched("projects", err)
	if err != nil {
		return "", &ProjectError{Project: i.options.ProjectID, Err: err}
	}

	var known []string
	found := ""
	for _, p := range projects {
		if p.Name == i.options.ProjectID {
			return p.ID, nil
		}
		// Without an exact match, ignore letter case, as the server does.
		if found == "" && strings.EqualFold(p.Name, i.options.ProjectID) {
			found = p.ID
		}
		known = append(known, fmt.Sprintf("%q", p.Name))
	}

	if found != "" {
		return found, nil
	}

	slices.Sort(known)
	return "", &ProjectError{Project: i.options.ProjectID, Known: known}
}

func (i *Inventory) scope(projectID string) Scope {
	return Scope{Project: i.options.ProjectID, ProjectID: projectID, Zone: i.options.Zone, NodeVMs: i.options.NodeVMs}
}

// Scope returns the configured project and zone.
func (i *Inventory) Scope() Scope { return i.scope("") }

var (
	ageDesc = prometheus.NewDesc("cloudstack_inventory_snapshot_age_seconds",
		"Age of the last complete list of VMs. Absent before the first.", nil, nil)
	sizeDesc = prometheus.NewDesc("cloudstack_inventory_snapshot_vms",
		"Number of VMs in the last complete list of VMs. Absent before the first.", nil, nil)
)

func newFetches() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cloudstack_inventory_fetches_total",
		Help: "Number of reads from CloudStack, by kind of object and result.",
	}, []string{"what", "result"})
}

func (i *Inventory) fetched(what string, err error) {
	// Create both series together: rate() does not count the first error of a series that starts with it.
	counter, failed := i.fetches.WithLabelValues(what, "ok"), i.fetches.WithLabelValues(what, "error")
	if err != nil {
		counter = failed
	}
	counter.Inc()
}

// Describe implements prometheus.Collector.
func (i *Inventory) Describe(ch chan<- *prometheus.Desc) {
	ch <- ageDesc
	ch <- sizeDesc
	i.fetches.Describe(ch)
}

// Collect implements prometheus.Collector.
func (i *Inventory) Collect(ch chan<- prometheus.Metric) {
	if last := i.vms.peek(); last != nil {
		ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue,
			i.options.Clock.Since(last.value.Taken).Seconds())
		ch <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(last.value.Len()))
	}
	i.fetches.Collect(ch)
}

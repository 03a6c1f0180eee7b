// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// fakeAPI answers from its fields and records the calls.
type fakeAPI struct {
	mu       sync.Mutex
	vms      []cloudstack.VirtualMachine
	networks []cloudstack.Network
	projects []cloudstack.Project
	err      error
	calls    []string
	// gate, if set, blocks each call that lists VMs until it is closed; entered receives the context of each such call.
	gate    chan struct{}
	entered chan context.Context
}

func (f *fakeAPI) called(s string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, s)
	return f.err
}

func (f *fakeAPI) count() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.calls) }

func (f *fakeAPI) set(change func()) { f.mu.Lock(); defer f.mu.Unlock(); change() }

func (f *fakeAPI) ListVirtualMachines(ctx context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error) {
	if err := f.called(fmt.Sprintf("vms id=%q project=%q zone=%q offering=%v", q.ID, q.ProjectID, q.ZoneID, q.WithOffering)); err != nil {
		return nil, err
	}
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if gate != nil {
		f.entered <- ctx
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.ID == "" {
		return f.vms, nil
	}
	for _, vm := range f.vms {
		if vm.ID == q.ID {
			return []cloudstack.VirtualMachine{vm}, nil
		}
	}
	return nil, nil
}

func (f *fakeAPI) ListNetworks(_ context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error) {
	if err := f.called(fmt.Sprintf("networks id=%q project=%q listall=%v", q.ID, q.ProjectID, q.ListAll)); err != nil {
		return nil, err
	}
	return f.networks, nil
}

func (f *fakeAPI) ListZones(context.Context) ([]cloudstack.Zone, error) {
	return []cloudstack.Zone{{ID: "z1", Name: "zone-1"}}, f.called("zones")
}

func (f *fakeAPI) ListProjects(context.Context) ([]cloudstack.Project, error) {
	return f.projects, f.called("projects")
}

func machine(id, name, zone string) cloudstack.VirtualMachine {
	return cloudstack.VirtualMachine{ID: id, Name: name, ZoneName: zone, ZoneID: "id-of-" + zone}
}

func TestSnapshotIsSharedUntilMaxAge(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Now())
	api := &fakeAPI{vms: []cloudstack.VirtualMachine{machine("a", "w1", "zone-1")}}
	i := New(api, Options{Clock: c})

	first, err := i.VMs(t.Context(), 30*time.Second)
	require.NoError(t, err)
	c.SetTime(c.Now().Add(30 * time.Second))
	same, err := i.VMs(t.Context(), 30*time.Second)
	require.NoError(t, err)
	assert.Same(t, first, same)
	assert.Equal(t, 1, api.count())

	c.SetTime(c.Now().Add(time.Second))
	newer, err := i.VMs(t.Context(), 30*time.Second)
	require.NoError(t, err)
	assert.NotSame(t, first, newer)
	_, err = i.VMs(t.Context(), 3*time.Second)
	require.NoError(t, err)
	assert.Equal(t, 2, api.count())

	_, err = i.VMs(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, 3, api.count(), "a max age of zero always asks the server")
	assert.Equal(t, `vms id="" project="" zone="" offering=true`, api.calls[0])
}

func TestErrorsAreNotCached(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{}
	i := New(api, Options{Zone: "zone-1"})

	_, err := i.VMs(t.Context(), 0)
	require.NoError(t, err, "an empty list is complete")

	api.set(func() { api.err = &cloudstack.Error{Kind: cloudstack.KindAuth, Command: "listVirtualMachines"} })
	_, err = i.VMs(t.Context(), 0)
	require.ErrorContains(t, err, `list the VMs of the API key's own account, zone "zone-1"`)
	assert.True(t, cloudstack.IsKind(err, cloudstack.KindAuth))
	old, err := i.VMs(t.Context(), time.Hour)
	require.NoError(t, err, "the last complete list is still used if it is recent enough")
	assert.Zero(t, old.Len())

	api.set(func() { api.err = nil; api.vms = []cloudstack.VirtualMachine{machine("a", "w1", "zone-1")} })
	got, err := i.VMs(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, 1, got.Len())
}

func TestSingleFlight(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{gate: make(chan struct{}), entered: make(chan context.Context, 10)}
	i := New(api, Options{})
	leader, stop := context.WithCancel(t.Context())
	defer stop()

	leaderErr := make(chan error, 1)
	go func() {
		_, err := i.VMs(leader, time.Minute)
		leaderErr <- err
	}()
	<-api.entered

	var group sync.WaitGroup
	var failures atomic.Int32
	for range 20 {
		group.Go(func() {
			if _, err := i.VMs(t.Context(), time.Minute); err != nil {
				failures.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool {
		i.vms.mu.Lock()
		defer i.vms.mu.Unlock()
		return i.vms.calls != nil && i.vms.calls.waiters == 21
	}, time.Minute, time.Millisecond)

	stop()
	err := <-leaderErr
	require.ErrorIs(t, err, context.Canceled, "the caller that started the call may give up")
	var unanswered *cloudstack.Error
	require.ErrorAs(t, err, &unanswered, "the error names CloudStack")
	close(api.gate)
	group.Wait()
	assert.Zero(t, failures.Load(), "the other callers get the answer")
	assert.Equal(t, 1, api.count())
}

func TestAbandonedCallIsCancelledAndNotJoined(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{gate: make(chan struct{}), entered: make(chan context.Context, 10)}
	i := New(api, Options{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := i.VMs(ctx, time.Minute); done <- err }()
	call := <-api.entered
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
	<-call.Done()

	go func() { _, err := i.VMs(t.Context(), time.Minute); done <- err }()
	<-api.entered
	close(api.gate)
	require.NoError(t, <-done)
	assert.Equal(t, 2, api.count())
}

// A caller with a maxAge of zero must not get the result of a call that is already in flight.
func TestMaxAgeZeroDoesNotJoinAnOlderCall(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{gate: make(chan struct{}), entered: make(chan context.Context, 10)}
	i := New(api, Options{})
	first := make(chan *VMSnapshot, 1)
	go func() { s, _ := i.VMs(t.Context(), time.Minute); first <- s }()
	<-api.entered

	const callers = 5
	late := make(chan *VMSnapshot, callers)
	for range callers {
		go func() { s, _ := i.VMs(t.Context(), 0); late <- s }()
	}
	require.Eventually(t, func() bool {
		i.vms.mu.Lock()
		defer i.vms.mu.Unlock()
		return i.vms.calls != nil && i.vms.calls.waiters == 1+callers
	}, time.Minute, time.Millisecond)
	api.set(func() { api.vms = []cloudstack.VirtualMachine{machine("new", "new", "zone-1")} })
	api.gate <- struct{}{}
	<-first
	<-api.entered
	close(api.gate)
	for range callers {
		s := <-late
		require.NotNil(t, s)
		_, ok := s.ByID("new")
		assert.True(t, ok)
	}
	assert.Equal(t, 2, api.count(), "they share the second call")
}

func TestSnapshotLookups(t *testing.T) {
	t.Parallel()
	s := NewVMSnapshot(time.Now(), Scope{Project: "dev", ProjectID: "id-of-dev", Zone: "Zone-1"}, []cloudstack.VirtualMachine{
		machine("A1", "Worker-1", "zone-1"), machine("b2", "worker-1", "zone-1"),
		machine("c3", "worker-1", "zone-2"), machine("d4", "other", "zone-2"),
	})
	vm, ok := s.ByID("a1")
	require.True(t, ok)
	assert.Equal(t, "Worker-1", vm.Name)
	_, ok = s.ByID("d4")
	assert.True(t, ok, "an id counts in every zone")
	assert.Len(t, s.ByName("WORKER-1"), 2, "a name counts in the configured zone")
	assert.Empty(t, s.ByName("other"))
	assert.Equal(t, `project "dev" (id-of-dev), zone "Zone-1" (2 of 4 VMs; zones with VMs: zone-1, zone-2)`, s.Scope())

	all := NewVMSnapshot(time.Now(), Scope{}, s.All())
	assert.Len(t, all.ByName("worker-1"), 3)
	assert.Equal(t, "the API key's own account, all zones (4 VMs)", all.Scope())
	byZoneID := NewVMSnapshot(time.Now(), Scope{Zone: "id-of-zone-2"}, s.All())
	assert.Len(t, byZoneID.ByName("worker-1"), 1)

	assert.Equal(t, 1, NewVMSnapshot(time.Now(), Scope{}, nil).Pages())
	assert.Equal(t, 1, NewVMSnapshot(time.Now(), Scope{}, make([]cloudstack.VirtualMachine, 500)).Pages())
	assert.Equal(t, 2, NewVMSnapshot(time.Now(), Scope{}, make([]cloudstack.VirtualMachine, 501)).Pages())
}

func TestVMByID(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{vms: []cloudstack.VirtualMachine{machine("a", "w1", "zone-1")}}
	c := clocktesting.NewFakePassiveClock(time.Now())
	i := New(api, Options{ProjectID: "6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b", Zone: "zone-1", Clock: c})
	before, err := i.VMs(t.Context(), time.Minute)
	require.NoError(t, err)

	_, found, err := i.VM(t.Context(), "b")
	require.NoError(t, err)
	assert.False(t, found)

	api.set(func() { api.vms = append(api.vms, machine("b", "w2", "zone-2")) })
	vm, found, err := i.VM(t.Context(), "B")
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, "w2", vm.Name)
	assert.Equal(t, `vms id="b" project="6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b" zone="" offering=true`, api.calls[2], "in any zone")

	after, err := i.VMs(t.Context(), time.Minute)
	require.NoError(t, err)
	assert.Equal(t, 3, api.count(), "no new list")
	_, ok := after.ByID("b")
	assert.True(t, ok, "it is in the snapshot now")
	assert.Equal(t, 1, after.Added())
	_, ok = before.ByID("b")
	assert.False(t, ok, "a snapshot is immutable")

	api.set(func() { api.err = &cloudstack.Error{Kind: cloudstack.KindNotFound} })
	_, found, err = i.VM(t.Context(), "gone")
	require.NoError(t, err, "an ID that the server does not know is not an error")
	assert.False(t, found)
	c.SetTime(c.Now().Add(time.Hour))
	_, _, err = i.VM(t.Context(), "gone")
	require.Error(t, err, "the project may be the one that the server does not know")
	api.set(func() { api.err = &cloudstack.Error{Kind: cloudstack.KindNotPermitted} })
	_, _, err = i.VM(t.Context(), "b")
	require.ErrorContains(t, err, "look up VM b in project")
	assert.Empty(t, i.vm, "nothing is left behind")
}

func TestProject(t *testing.T) {
	t.Parallel()
	projects := []cloudstack.Project{{ID: "p-1", Name: "Dev"}, {ID: "p-2", Name: "dev"}, {ID: "p-3", Name: "prod"}}
	for _, c := range []struct {
		name, configured, want, err string
		projects                    []cloudstack.Project
		calls                       int
		fails                       error
	}{
		{name: "none"},
		{name: "an id needs no call", configured: "6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b", want: "6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b"},
		{name: "a name", configured: "dev", projects: projects, want: "p-2", calls: 1},
		{name: "a name without case", configured: "PROD", projects: projects, want: "p-3", calls: 1},
		{name: "not there", configured: "test", projects: projects, calls: 2, err: `project "test" not found: the API key's user belongs to "Dev", "dev", "prod"`},
		{name: "none there", configured: "test", calls: 2, err: `project "test" not found: the API key's user belongs to no project`},
		{
			name: "refused", configured: "test", calls: 2, fails: &cloudstack.Error{Kind: cloudstack.KindNotPermitted, Command: "listProjects"},
			err: `project-id "test" is a name, and the projects cannot be listed to find its id (give the id instead)`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			api := &fakeAPI{projects: c.projects, err: c.fails}
			i := New(api, Options{ProjectID: c.configured})
			for range 2 {
				got, err := i.ProjectID(t.Context())
				assert.Equal(t, c.want, got)
				if c.err == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, c.err)
				var named *ProjectError
				require.ErrorAs(t, err, &named)
				assert.Equal(t, c.fails == nil, cloudstack.IsNotFound(err))
				if c.fails != nil {
					assert.Equal(t, c.fails, errors.Unwrap(named))
				}
			}
			assert.Equal(t, c.calls, api.count())
		})
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Now())
	api := &fakeAPI{networks: []cloudstack.Network{{ID: "n-1", Name: "k8s-net"}}}
	i := New(api, Options{Clock: c})
	for range 3 {
		n, err := i.Network(t.Context(), "n-1", time.Minute)
		require.NoError(t, err)
		assert.Equal(t, "k8s-net", n.Name)
	}
	assert.Equal(t, []string{`networks id="n-1" project="" listall=true`}, api.calls)
	c.SetTime(c.Now().Add(2 * time.Minute))
	_, err := i.Network(t.Context(), "n-1", time.Minute)
	require.NoError(t, err)
	assert.Equal(t, 2, api.count())

	_, err = i.Network(t.Context(), "n-2", time.Minute)
	assert.True(t, cloudstack.IsNotFound(err))
	require.ErrorContains(t, err, "look up network n-2")

	c.SetTime(c.Now().Add(2 * time.Hour))
	_, _ = i.Network(t.Context(), "n-3", time.Minute)
	assert.NotContains(t, i.networks, "n-1", "not requested for an hour")
}

func TestZonesAndMetrics(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Now())
	api := &fakeAPI{vms: []cloudstack.VirtualMachine{machine("a", "w1", "zone-1")}}
	i := New(api, Options{Clock: c})
	for range 2 {
		zones, err := i.Zones(t.Context())
		require.NoError(t, err)
		assert.Len(t, zones, 1)
	}
	assert.Equal(t, 1, api.count())
	_, err := i.VMs(t.Context(), 0)
	require.NoError(t, err)
	c.SetTime(c.Now().Add(7 * time.Second))
	api.set(func() { api.err = errors.New("no") })
	_, err = i.VMs(t.Context(), 0)
	require.Error(t, err)

	require.NoError(t, testutil.CollectAndCompare(i, strings.NewReader(`
# HELP cloudstack_inventory_fetches_total Number of times something was read from CloudStack, by what it was and how it went.
# TYPE cloudstack_inventory_fetches_total counter
cloudstack_inventory_fetches_total{result="error",what="vms"} 1
cloudstack_inventory_fetches_total{result="error",what="zones"} 0
cloudstack_inventory_fetches_total{result="ok",what="vms"} 1
cloudstack_inventory_fetches_total{result="ok",what="zones"} 1
# HELP cloudstack_inventory_snapshot_age_seconds Age of the last complete list of VMs. Absent before the first.
# TYPE cloudstack_inventory_snapshot_age_seconds gauge
cloudstack_inventory_snapshot_age_seconds 7
# HELP cloudstack_inventory_snapshot_vms Number of VMs in the last complete list of VMs. Absent before the first.
# TYPE cloudstack_inventory_snapshot_vms gauge
cloudstack_inventory_snapshot_vms 1
`)))
}

// A snapshot knows that the server did not find an ID, until the next list replaces the snapshot.
func TestSnapshotLacks(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Now())
	api := &fakeAPI{vms: []cloudstack.VirtualMachine{machine("a", "w1", "zone-1")}}
	i := New(api, Options{Clock: c})
	list := func(maxAge time.Duration) *VMSnapshot {
		t.Helper()
		s, err := i.VMs(t.Context(), maxAge)
		require.NoError(t, err)
		return s
	}
	ask := func(id string) bool {
		t.Helper()
		_, found, err := i.VM(t.Context(), id)
		require.NoError(t, err)
		return found
	}
	assert.False(t, ask("x"), "without a list the answer is not recorded")
	before := list(time.Minute)
	assert.False(t, before.Lacks("x"), "the answer is older than the list")

	assert.False(t, ask("B"))
	assert.False(t, ask("x"))
	s := list(time.Minute)
	assert.True(t, s.Lacks("b"))
	assert.True(t, s.Lacks("X"))
	assert.False(t, s.Lacks("a"), "not requested")
	assert.False(t, before.Lacks("b"), "a snapshot is immutable")
	assert.Equal(t, 1, s.Len())

	api.set(func() { api.vms = append(api.vms, machine("b", "w2", "zone-1")) })
	assert.True(t, ask("b"))
	s = list(time.Minute)
	assert.False(t, s.Lacks("b"), "found by now")
	assert.True(t, s.Lacks("x"))

	api.set(func() { api.err = &cloudstack.Error{Kind: cloudstack.KindAuth} })
	_, _, err := i.VM(t.Context(), "y")
	require.Error(t, err)
	assert.False(t, list(time.Minute).Lacks("y"), "an error proves nothing")
	api.set(func() { api.err = nil })

	assert.False(t, list(0).Lacks("x"), "a new list")
}

// An answer that arrives after a new list may be older than that list.
func TestLateAnswerIsNotRecordedInNewerList(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{}
	i := New(api, Options{})
	_, err := i.VMs(t.Context(), 0)
	require.NoError(t, err)
	api.set(func() { api.gate, api.entered = make(chan struct{}), make(chan context.Context, 1) })
	asked := make(chan error, 1)
	go func() { _, _, err := i.VM(t.Context(), "x"); asked <- err }()
	<-api.entered
	gate := api.gate
	api.set(func() { api.gate = nil })
	_, err = i.VMs(t.Context(), 0)
	require.NoError(t, err)
	close(gate)
	require.NoError(t, <-asked)
	assert.False(t, i.LastVMs().Lacks("x"))
}

func TestForget(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Now())
	api := &fakeAPI{vms: []cloudstack.VirtualMachine{machine("a", "w1", "zone-1")}, networks: []cloudstack.Network{{ID: "n-1"}}}
	i := New(api, Options{Clock: c})
	i.Forget() // no effect on an empty inventory
	everything := func() {
		t.Helper()
		_, err := i.VMs(t.Context(), time.Hour)
		require.NoError(t, err)
		_, err = i.Zones(t.Context())
		require.NoError(t, err)
		_, err = i.Network(t.Context(), "n-1", time.Hour)
		require.NoError(t, err)
	}
	everything()
	_, found, err := i.VM(t.Context(), "x")
	require.NoError(t, err)
	assert.False(t, found)
	everything()
	assert.Equal(t, 4, api.count())

	i.Forget()
	assert.Equal(t, 1, i.LastVMs().Len(), "the last list is still available for comparison")
	everything()
	assert.Equal(t, 7, api.count(), "everything is requested again")
	s, err := i.VMs(t.Context(), time.Hour)
	require.NoError(t, err)
	assert.False(t, s.Lacks("x"))
}

// The result of a call with the old key must not be cached for the new key.
func TestForgetDuringCall(t *testing.T) {
	t.Parallel()
	api := &fakeAPI{gate: make(chan struct{}), entered: make(chan context.Context, 10)}
	i := New(api, Options{})
	first := make(chan error, 1)
	go func() { _, err := i.VMs(t.Context(), time.Minute); first <- err }()
	<-api.entered
	i.Forget()
	second := make(chan error, 1)
	go func() { _, err := i.VMs(t.Context(), time.Minute); second <- err }()
	<-api.entered
	close(api.gate)
	require.NoError(t, <-first, "the waiting caller gets the answer")
	require.NoError(t, <-second)
	assert.Equal(t, 2, api.count())
}

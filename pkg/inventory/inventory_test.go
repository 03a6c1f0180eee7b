// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// fakeAPI answers from its fields as they are when the call arrives, and records the calls.
type fakeAPI struct {
	vms      []cloudstack.VirtualMachine
	networks []cloudstack.Network
	projects []cloudstack.Project
	err      error
	takes    time.Duration // duration of a call that lists VMs
	mu       sync.Mutex
	calls    []string
}

func (f *fakeAPI) called(s string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, s)
	return f.err
}

func (f *fakeAPI) ListVirtualMachines(
	ctx context.Context, q cloudstack.VMQuery,
) (found []cloudstack.VirtualMachine, err error) {
	err = f.called(fmt.Sprintf("vms id=%q project=%q zone=%q offering=%v", q.ID, q.ProjectID, q.ZoneID, q.WithOffering))
	for _, vm := range f.vms {
		if q.ID == "" || vm.ID == q.ID {
			found = append(found, vm)
		}
	}
	select {
	case <-time.After(f.takes):
		return found, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fakeAPI) ListNetworks(_ context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error) {
	return f.networks, f.called(fmt.Sprintf("networks id=%q project=%q listall=%v", q.ID, q.ProjectID, q.ListAll))
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

// env is an inventory of a CloudStack with one VM, in a synctest bubble.
type env struct {
	*Inventory
	t   *testing.T
	api *fakeAPI
}

func test(t *testing.T, o Options, do func(t *testing.T, e *env)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{
			vms:      []cloudstack.VirtualMachine{machine("a", "w1", "zone-1")},
			networks: []cloudstack.Network{{ID: "n-1", Name: "k8s-net"}},
		}
		do(t, &env{New(api, o), t, api})
	})
}

func (e *env) list(maxAge time.Duration) *VMSnapshot {
	e.t.Helper()
	s, err := e.VMs(e.t.Context(), maxAge)
	require.NoError(e.t, err)
	return s
}

// begin lists the VMs in a goroutine, which waits for the answer when begin returns.
func (e *env) begin(ctx context.Context, maxAge time.Duration) func() (*VMSnapshot, error) {
	var s *VMSnapshot
	ended := make(chan error, 1)
	go func() {
		var err error
		s, err = e.VMs(ctx, maxAge)
		ended <- err
	}()
	synctest.Wait()
	return func() (*VMSnapshot, error) { err := <-ended; return s, err }
}

// ask reports whether there is a VM with an ID.
func (e *env) ask(id string) bool {
	e.t.Helper()
	_, found, err := e.VM(e.t.Context(), id)
	require.NoError(e.t, err)
	return found
}

func TestSnapshotIsSharedUntilMaxAge(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		first := e.list(30 * time.Second)
		time.Sleep(30 * time.Second)
		assert.Same(t, first, e.list(30*time.Second))
		assert.Len(t, e.api.calls, 1)
		time.Sleep(time.Second)
		assert.NotSame(t, first, e.list(30*time.Second))
		e.list(3 * time.Second)
		assert.Len(t, e.api.calls, 2)
		e.list(0)
		assert.Len(t, e.api.calls, 3, "a max age of zero always asks the server")
		assert.Equal(t, `vms id="" project="" zone="" offering=true`, e.api.calls[0])
	})
}

func TestErrorsAreNotCached(t *testing.T) {
	test(t, Options{Zone: "zone-1"}, func(t *testing.T, e *env) {
		e.api.vms = nil
		e.list(0) // an empty list is complete
		e.api.err = &cloudstack.Error{Kind: cloudstack.KindAuth, Command: "listVirtualMachines"}
		_, err := e.VMs(t.Context(), 0)
		require.ErrorContains(t, err, `list the VMs of the API key's own account, zone "zone-1"`)
		assert.True(t, cloudstack.IsKind(err, cloudstack.KindAuth))
		assert.Zero(t, e.list(time.Hour).Len(), "the last complete list is still used if it is recent enough")
		e.api.err, e.api.vms = nil, []cloudstack.VirtualMachine{machine("a", "w1", "zone-1")}
		assert.Equal(t, 1, e.list(0).Len())
	})
}

func TestSingleFlight(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		e.api.takes = time.Second
		ctx, stop := context.WithCancel(t.Context())
		first := e.begin(ctx, time.Minute)
		var others []func() (*VMSnapshot, error)
		for range 20 {
			others = append(others, e.begin(t.Context(), time.Minute))
		}

		stop()
		_, err := first()
		require.ErrorIs(t, err, context.Canceled, "the caller that started the call may give up")
		var unanswered *cloudstack.Error
		require.ErrorAs(t, err, &unanswered, "the error names CloudStack")
		for _, other := range others {
			_, err = other()
			require.NoError(t, err, "the other callers get the answer")
		}

		assert.Len(t, e.api.calls, 1)
	})
}

func TestAbandonedCallIsCancelledAndNotJoined(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		e.api.takes = time.Hour // a call ends earlier only if it is cancelled
		ctx, stop := context.WithCancel(t.Context())
		abandoned := e.begin(ctx, time.Minute)
		stop()
		_, err := abandoned()
		require.ErrorIs(t, err, context.Canceled)
		e.api.takes = 0
		began := time.Now()
		e.list(time.Minute)
		assert.Zero(t, time.Since(began))
		assert.Len(t, e.api.calls, 2)
	})
}

// A caller with a maxAge of zero must not get the result of a call that is already in flight.
func TestMaxAgeZeroDoesNotJoinAnOlderCall(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		e.api.takes = time.Second
		first := e.begin(t.Context(), time.Minute)
		e.api.vms = []cloudstack.VirtualMachine{machine("new", "new", "zone-1")}
		var late []func() (*VMSnapshot, error)
		for range 5 {
			late = append(late, e.begin(t.Context(), 0))
		}

		_, err := first()
		require.NoError(t, err)
		for _, answer := range late {
			s, err := answer()
			require.NoError(t, err)
			_, ok := s.ByID("new")
			assert.True(t, ok)
		}

		assert.Len(t, e.api.calls, 2, "they share the second call")
	})
}

func TestSnapshotLookups(t *testing.T) {
	t.Parallel()
	s := NewVMSnapshot(time.Now(), Scope{Project: "dev", ProjectID: "id-of-dev", Zone: "Zone-1"},
		[]cloudstack.VirtualMachine{
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
	const project = "6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b"
	test(t, Options{ProjectID: project, Zone: "zone-1"}, func(t *testing.T, e *env) {
		before := e.list(time.Minute)
		assert.False(t, e.ask("b"))
		e.api.vms = append(e.api.vms, machine("b", "w2", "zone-2"))
		vm, found, err := e.VM(t.Context(), "B")
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, "w2", vm.Name)
		assert.Equal(t, `vms id="b" project="`+project+`" zone="" offering=true`, e.api.calls[2], "in any zone")

		after := e.list(time.Minute)
		assert.Len(t, e.api.calls, 3, "no new list")
		_, ok := after.ByID("b")
		assert.True(t, ok, "it is in the snapshot now")
		assert.Equal(t, 1, after.Added())
		_, ok = before.ByID("b")
		assert.False(t, ok, "a snapshot is immutable")

		e.api.err = &cloudstack.Error{Kind: cloudstack.KindNotFound}
		assert.False(t, e.ask("gone"), "an ID that the server does not know is not an error")
		time.Sleep(time.Hour)
		_, _, err = e.VM(t.Context(), "gone")
		require.Error(t, err, "the project may be the one that the server does not know")
		e.api.err = &cloudstack.Error{Kind: cloudstack.KindNotPermitted}
		_, _, err = e.VM(t.Context(), "b")
		require.ErrorContains(t, err, "look up VM b in project")
		assert.Empty(t, e.vm, "nothing is left behind")
	})
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
		{
			name:       "an id needs no call",
			configured: "6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b",
			want:       "6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b",
		},
		{name: "a name", configured: "dev", projects: projects, want: "p-2", calls: 1},
		{name: "a name without case", configured: "PROD", projects: projects, want: "p-3", calls: 1},
		{
			name:       "not there",
			configured: "test",
			projects:   projects,
			calls:      2,
			err:        `project "test" not found: the API key's user belongs to "Dev", "dev", "prod"`,
		},
		{
			name:       "none there",
			configured: "test",
			calls:      2,
			err:        `project "test" not found: the API key's user belongs to no project`,
		},
		{
			name:       "refused",
			configured: "test",
			calls:      2,
			fails:      &cloudstack.Error{Kind: cloudstack.KindNotPermitted, Command: "listProjects"},
			err:        `project-id "test" is a name, and the projects cannot be listed to find its id (give the id instead)`,
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

			assert.Len(t, api.calls, c.calls)
		})
	}
}
func TestNetwork(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		for range 3 {
			n, err := e.Network(t.Context(), "n-1", time.Minute)
			require.NoError(t, err)
			assert.Equal(t, "k8s-net", n.Name)
		}
		assert.Equal(t, []string{`networks id="n-1" project="" listall=true`}, e.api.calls)
		time.Sleep(2 * time.Minute)
		_, err := e.Network(t.Context(), "n-1", time.Minute)
		require.NoError(t, err)
		assert.Len(t, e.api.calls, 2)

		e.api.networks = nil
		_, err = e.Network(t.Context(), "n-2", time.Minute)
		assert.True(t, cloudstack.IsNotFound(err))
		require.ErrorContains(t, err, "look up network n-2")
		time.Sleep(2 * time.Hour)
		_, _ = e.Network(t.Context(), "n-3", time.Minute)
		assert.NotContains(t, e.networks, "n-1", "not requested for an hour")
	})
}

func TestMetrics(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		for range 2 {
			zones, err := e.Zones(t.Context())
			require.NoError(t, err)
			assert.Len(t, zones, 1)
		}

		assert.Len(t, e.api.calls, 1)
		e.list(0)
		time.Sleep(7 * time.Second)
		e.api.err = errors.New("no")
		_, err := e.VMs(t.Context(), 0)
		require.Error(t, err)
		require.NoError(t, testutil.CollectAndCompare(e, strings.NewReader(`
# HELP cloudstack_inventory_fetches_total Number of reads from CloudStack, by kind of object and result.
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
	})
}

// A snapshot records that the server did not find an ID, until the next list replaces the snapshot.
func TestSnapshotLacks(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		assert.False(t, e.ask("x"), "without a list the answer is not recorded")
		before := e.list(time.Minute)
		assert.False(t, before.Missing("x"), "the answer is older than the list")
		assert.False(t, e.ask("B"))
		assert.False(t, e.ask("x"))
		s := e.list(time.Minute)
		assert.True(t, s.Missing("b"))
		assert.True(t, s.Missing("X"))
		assert.False(t, s.Missing("a"), "not requested")
		assert.False(t, before.Missing("b"), "a snapshot is immutable")
		assert.Equal(t, 1, s.Len())

		e.api.vms = append(e.api.vms, machine("b", "w2", "zone-1"))
		assert.True(t, e.ask("b"))
		assert.False(t, e.list(time.Minute).Missing("b"), "found by now")
		assert.True(t, e.list(time.Minute).Missing("x"))
		e.api.err = &cloudstack.Error{Kind: cloudstack.KindAuth}
		_, _, err := e.VM(t.Context(), "y")
		require.Error(t, err)
		assert.False(t, e.list(time.Minute).Missing("y"), "an error proves nothing")
		e.api.err = nil
		assert.False(t, e.list(0).Missing("x"), "a new list")
	})
}

// An answer that arrives after a new list may be older than that list.
func TestLateAnswerIsNotRecordedInNewerList(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		e.list(0)
		e.api.takes = time.Second
		asked := make(chan error, 1)
		go func() { _, _, err := e.VM(t.Context(), "x"); asked <- err }()
		synctest.Wait()
		e.api.takes = 0
		e.list(0)
		require.NoError(t, <-asked)
		assert.False(t, e.LastVMs().Missing("x"))
	})
}

func TestForget(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		e.Reset() // no effect on an empty inventory
		everything := func() *VMSnapshot {
			t.Helper()
			_, err := e.Zones(t.Context())
			require.NoError(t, err)
			_, err = e.Network(t.Context(), "n-1", time.Hour)
			require.NoError(t, err)
			return e.list(time.Hour)
		}

		everything()
		assert.False(t, e.ask("x"))
		everything()
		assert.Len(t, e.api.calls, 4)
		e.Reset()
		assert.Equal(t, 1, e.LastVMs().Len(), "the last list is still available for comparison")
		assert.False(t, everything().Missing("x"))
		assert.Len(t, e.api.calls, 7, "everything is requested again")
	})
}

// The result of a call with the old key must not be cached for the new key.
func TestForgetDuringCall(t *testing.T) {
	test(t, Options{}, func(t *testing.T, e *env) {
		e.api.takes = time.Second
		first := e.begin(t.Context(), time.Minute)
		e.Reset()
		e.list(time.Minute)
		_, err := first()
		require.NoError(t, err, "the waiting caller gets the answer")
		assert.Len(t, e.api.calls, 2)
	})
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// cloudStack is the shipped example world, seen with the keys of the cluster's owner.
func cloudStack(t *testing.T) (*simulator.Simulator, *cloudstack.Client) {
	t.Helper()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	t.Cleanup(sim.Close)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	apiKey, secretKey, ok := sim.Keys("k8s-owner")
	require.True(t, ok)
	client, err := cloudstack.NewClient(&cloudstack.Config{APIURL: server.URL + "/client/api", APIKey: apiKey, SecretKey: secretKey})
	require.NoError(t, err)
	return sim, client
}

func create(t *testing.T, dir string) *migrate.Journal {
	t.Helper()
	j, err := migrate.CreateJournal(filepath.Join(dir, "journal.jsonl"), migrate.Header{APIURL: "sim"}, clock.RealClock{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// oldService is the Service whose rules the example world holds.
func oldService() corev1.Service {
	return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "01234567-89ab-cdef-0123-456789abcdef"}}
}

func TestLegacyRulesOfTheExampleWorld(t *testing.T) {
	t.Parallel()
	sim, client := cloudStack(t)
	before, err := migrate.Read(t.Context(), client, "")
	require.NoError(t, err)
	require.Len(t, before, 2)
	for _, r := range before {
		require.Empty(t, r.Protocol, "made without one, as old providers did")
		require.Len(t, r.Members, 2)
	}

	// Without its Service nothing is planned; with it both rules are.
	require.Empty(t, migrate.MakePlan(migrate.Inventory{Rules: before}, migrate.Selection{}).Steps)
	plan := migrate.MakePlan(migrate.Inventory{Rules: before, Services: []corev1.Service{oldService()}}, migrate.Selection{})
	require.Len(t, plan.Steps, 2)

	dir := t.TempDir()
	a := &migrate.Applier{API: client, Jobs: client.Jobs(), Journal: create(t, dir)}
	sim.Ledger().Reset()
	done, err := a.Apply(t.Context(), plan.Steps)
	require.NoError(t, err)
	require.Equal(t, 2, done)
	require.Equal(t, 2, sim.Ledger().Count("updateLoadBalancerRule"))
	require.Zero(t, sim.Ledger().Count("createLoadBalancerRule", "deleteLoadBalancerRule", "assignToLoadBalancerRule", "removeFromLoadBalancerRule"))

	after, err := migrate.Read(t.Context(), client, "")
	require.NoError(t, err)
	for i, r := range after {
		require.Equal(t, before[i].ID, r.ID, "the rule is the same")
		require.Equal(t, before[i].Members, r.Members)
		require.Equal(t, before[i].Algorithm, r.Algorithm)
		require.Equal(t, before[i].State, r.State)
		require.Equal(t, "tcp", r.Protocol)
		require.Equal(t, migrate.FamilyUpstream, migrate.ParseName(r.Name).Family, r.Name)
	}

	file, err := os.Open(filepath.Join(dir, "journal.jsonl"))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	_, back, err := migrate.ReadJournal(file)
	require.NoError(t, err)
	undo := &migrate.Applier{API: client, Jobs: client.Jobs(), Journal: create(t, t.TempDir())}
	done, err = undo.Apply(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, 2, done)
	undone, err := migrate.Read(t.Context(), client, "")
	require.NoError(t, err)
	for i := range undone {
		require.Equal(t, before[i].Name, undone[i].Name)
		require.Equal(t, before[i].Members, undone[i].Members)
	}
}

// Whatever happens to one update, the next run ends with both rules renamed and nothing lost.
func TestFaultsAndAnotherRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer, simulator.FaultCutBefore, simulator.FaultJobFails} {
		sim, client := cloudStack(t)
		plan := func() []migrate.Step {
			rules, err := migrate.Read(t.Context(), client, "")
			require.NoError(t, err)
			for _, r := range rules {
				require.Len(t, r.Members, 2)
			}
			return migrate.MakePlan(migrate.Inventory{Rules: rules, Services: []corev1.Service{oldService()}}, migrate.Selection{}).Steps
		}
		remove := sim.Inject(simulator.Fault{Command: "updateLoadBalancerRule", Nth: 1, Kind: kind, HTTPStatus: 530, Text: "injected"})
		a := &migrate.Applier{API: client, Jobs: client.Jobs(), Journal: create(t, t.TempDir())}
		_, first := a.Apply(t.Context(), plan())
		remove()
		b := &migrate.Applier{API: client, Jobs: client.Jobs(), Journal: create(t, t.TempDir())}
		_, err := b.Apply(t.Context(), plan())
		require.NoError(t, err, "fault %v, first run: %v", kind, first)
		require.Empty(t, plan(), "fault %v, first run: %v", kind, first)
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
)

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

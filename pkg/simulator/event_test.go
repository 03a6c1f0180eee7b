// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	st := h.sim.st
	u := st.Users.Rows[0]
	var last *store.Event
	for range 3 * store.MaxEvents {
		last = st.AddEvent(&store.Event{Kind: "X", State: store.EventCompleted, Owner: u.Account, User: u, Start: last})
	}
	require.LessOrEqual(t, len(st.Events.Rows), store.MaxEvents)
	require.Len(t, st.Events.ByUUID, len(st.Events.Rows))
	got, ok := st.Events.ByID(last.ID)
	require.True(t, ok)
	require.Same(t, last, got)
}

// TestEventTable finds mistakes in the table: each command is in the catalogue and has the parameter that names its
// object.
func TestEventTable(t *testing.T) {
	t.Parallel()
	cat, err := catalogue.Load()
	require.NoError(t, err)
	for i := range commands {
		name, s := commands[i].Name, commands[i].Event
		api := cat.ByName[name]
		require.NotNil(t, api, name)
		if s == nil {
			continue
		}
		require.True(t, s.Param == "" || api.Param(s.Param) != nil, "%s has no parameter %s", name, s.Param)
	}
}

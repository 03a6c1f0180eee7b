// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/events"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.tenant("dev", "alice")
	h.tenant("dev", "bob")
	h.tenant("dev", "boss", "accounttype", "2")
	alice := "dev/alice"
	made := h.ok(h.call(alice, "createProject", "name", "p1"))
	h.clock.Step(time.Minute)
	h.done(alice, made)

	own := h.call(alice, "listEvents", "type", "PROJECT.CREATE").items("event")
	require.Len(t, own, 4)
	for i, state := range []string{store.EventCompleted, store.EventStarted, store.EventScheduled, store.EventCreated} { // newest first
		e := own[i]
		require.Equal(t, state, e["state"])
		require.Equal(t, store.LevelInfo, e["level"])
		require.Equal(t, "alice", e["account"])
		require.Equal(t, made.str("id"), e["resourceid"])
		if state == store.EventCreated {
			require.NotContains(t, e, "parentid")
		} else {
			require.Equal(t, own[3]["id"], e["parentid"])
		}
	}
	require.Equal(t, "Successfully completed creating project. Project Id: "+made.str("id"), own[0]["description"])
	first := id(own[3])
	require.Len(t, h.call(alice, "listEvents", "startid", first).items("event"), 4)
	require.Len(t, h.call(alice, "listEvents", "resourceid", made.str("id"), "resourcetype", "Project").items("event"), 4)
	h.fails(h.call(alice, "listEvents", "resourceid", made.str("id")), 431, wire.CSInvalidValue, "resourceid parameter must be used with resourcetype parameter")
	h.fails(h.call(alice, "listEvents", "resourcetype", "Cow"), 431, wire.CSInvalidValue, "Invalid resourcetype")
	require.Len(t, h.call(alice, "listEvents", "state", "Scheduled").items("event"), 1)
	require.Len(t, h.call(alice, "listEvents", "keyword", "PROJECT", "enddate", "2026-01-02").items("event"), 4)
	require.Empty(t, h.call(alice, "listEvents", "enddate", "2026-01-01").body)
	h.fails(h.call(alice, "listEvents", "startdate", "soon"), 431, wire.CSGeneric, "Unable to parse date soon for command listevents")

	for name, tc := range map[string]struct {
		user  string
		pairs []string
		some  bool
	}{
		"a stranger":                {"dev/bob", nil, false},
		"a stranger by id":          {"dev/bob", []string{"id", first}, false},
		"an admin":                  {"dev/boss", nil, false},
		"an admin, listall":         {"dev/boss", []string{"listall", "true"}, true},
		"an admin by id":            {"dev/boss", []string{"id", first}, true},
		"root, listall":             {"admin", []string{"listall", "true"}, true},
		"root":                      {"admin", nil, false},
		"the account, by its level": {alice, []string{"level", "INFO"}, true},
		"errors only":               {alice, []string{"level", "ERROR"}, false},
	} {
		got := h.ok(h.call(tc.user, "listEvents", append([]string{"type", "PROJECT.CREATE"}, tc.pairs...)...)).items("event")
		require.Equal(t, tc.some, len(got) > 0, name)
	}

	// A job that fails, and a synchronous command that does.
	h.broken(alice, h.call(alice, "addAccountToProject", "projectid", made.str("id"), "account", "nobody"), 431, "Unable to find account")
	e := h.first(h.call(alice, "listEvents", "projectid", made.str("id"), "level", "ERROR"), "event")
	require.Equal(t, "PROJECT.ACCOUNT.ADD", e["type"])
	require.Equal(t, "p1", e["project"])
	h.fails(h.root("createDomain", "name", "dev"), 431, wire.CSInvalidValue, "already exists")
	e = h.first(h.root("listEvents", "type", "DOMAIN.CREATE"), "event")
	require.Equal(t, store.LevelError, e["level"])
	require.Equal(t, "Error while creating Domain", e["description"])
	h.login("alice", "pw", "/dev")
	h.first(h.call(alice, "listEvents", "type", "USER.LOGIN"), "event")

	h.ok(h.call(alice, "archiveEvents", "ids", first))
	require.Len(t, h.call(alice, "listEvents", "type", "PROJECT.CREATE").items("event"), 3)
	require.Len(t, h.call(alice, "listEvents", "archived", "true").items("event"), 1)
	h.fails(h.call("dev/bob", "deleteEvents", "ids", id(own[0])), 530, wire.CSGeneric, "Unable to delete Events")
	h.fails(h.call(alice, "deleteEvents"), 431, wire.CSInvalidValue, "either ids, type or enddate must be specified")
	h.ok(h.call(alice, "deleteEvents", "type", "PROJECT.CREATE"))
	require.Empty(t, h.call(alice, "listEvents", "type", "PROJECT.CREATE").body)
	require.NotEmpty(t, h.call(alice, "listEventTypes").items("eventtype"))
	require.Empty(t, h.root("listAlerts").body)
}

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

// TestEventTable finds slips in the table: each command is in the catalogue and has the parameter that names its object.
func TestEventTable(t *testing.T) {
	t.Parallel()
	cat, err := catalogue.Load()
	require.NoError(t, err)
	for name, s := range events.EventSpecs {
		api := cat.ByName[name]
		require.NotNil(t, api, name)
		require.True(t, s.Param == "" || api.Param(s.Param) != nil, "%s has no parameter %s", name, s.Param)
	}
}

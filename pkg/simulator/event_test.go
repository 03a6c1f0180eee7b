// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.tenant("dev", "alice")
	h.tenant("dev", "bob")
	h.tenant("dev", "boss", "accounttype", "2")
	h.play(`
		dev/alice createProject name=p1 > p
		dev/alice listEvents type=PROJECT.CREATE => count 4 > /event.3.id=first id=last  # the newest first
		dev/alice listEvents type=PROJECT.CREATE => state=Completed level=INFO account=alice resourceid={p} parentid={first} \
			description="Successfully completed creating project. Project Id: {p}" /event.1.state=Started /event.1.parentid={first} \
			/event.2.state=Scheduled /event.2.parentid={first} /event.3.state=Created /event.3.parentid=-
		dev/alice listEvents startid={first} => count 4
		dev/alice listEvents resourceid={p} resourcetype=Project => count 4
		dev/alice listEvents resourceid={p} => 431/4350 resourceid parameter must be used with resourcetype parameter
		dev/alice listEvents resourcetype=Cow => 431/4350 Invalid resourcetype
		dev/alice listEvents state=Scheduled => count 1
		dev/alice listEvents keyword=PROJECT enddate=2026-01-02 => count 4
		dev/alice listEvents enddate=2026-01-01 => count 0
		dev/alice listEvents startdate=soon => 431/9999 Unable to parse date soon for command listevents
		dev/alice listEvents type=PROJECT.CREATE level=INFO => count 4
		dev/alice listEvents type=PROJECT.CREATE level=ERROR => count 0

		dev/bob listEvents type=PROJECT.CREATE => count 0
		dev/bob listEvents type=PROJECT.CREATE id={first} => count 0
		dev/boss listEvents type=PROJECT.CREATE => count 0
		dev/boss listEvents type=PROJECT.CREATE listall=true => count 4
		dev/boss listEvents type=PROJECT.CREATE id={first} => count 1
		admin listEvents type=PROJECT.CREATE => count 0
		admin listEvents type=PROJECT.CREATE listall=true => count 4

		# A job that fails, and a synchronous command that does.
		dev/alice addAccountToProject projectid={p} account=nobody => job 431 Unable to find account
		dev/alice listEvents projectid={p} level=ERROR => type=PROJECT.ACCOUNT.ADD project=p1
		root createDomain name=dev => 431/4350 already exists
		root listEvents type=DOMAIN.CREATE => level=ERROR description="Error while creating Domain"
	`)
	h.login("alice", "pw", "/dev")
	h.play(`
		dev/alice listEvents type=USER.LOGIN => id~
		dev/alice listEvents type=PROJECT.CREATE => count 4
	`)
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

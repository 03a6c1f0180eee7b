// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMissingObjectIsAbsentOnlyWithProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contradicts, proof string
		absent             bool
		says               string
	}{
		"nothing of ours is shown": {says: "project-id"},
		"a proof":                  {proof: "network n", absent: true, says: "network n"},
		"a proof, and something that needs the object": {
			contradicts: "rule r on it",
			proof:       "network n",
			says:        "rule r on it",
		},
		"something that needs the object": {contradicts: "rule r on it", says: "rule r on it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := Missing(c.contradicts, c.proof)
			assert.Equal(t, c.absent, e.Absent())
			assert.Equal(t, c.absent, e.Err() == nil)
			assert.False(t, e.Present())
			if says := e.Proof(); !c.absent {
				require.ErrorContains(t, e.Err(), c.says)
				assert.Empty(t, says)
			} else {
				assert.Contains(t, says, c.says)
			}
		})
	}

	require.Error(t, Evidence{}.Err(), "the zero value knows nothing")
	require.NoError(t, Present().Err())
}

func TestAbsenceIsProvenTwice(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	doubts := Doubts{}
	ask := func(e Evidence, after time.Duration) (Evidence, time.Duration) {
		return doubts.Twice("a", e, now.Add(after))
	}

	e, wait := ask(Absent("Free"), 0)
	assert.False(t, e.Absent())
	assert.Equal(t, Pause, wait)
	e, wait = ask(Absent("Free"), Pause-time.Second)
	assert.False(t, e.Absent())
	assert.Equal(t, time.Second, wait)
	e, wait = ask(Absent("Free"), Pause)
	assert.True(t, e.Absent())
	assert.Zero(t, wait)
	e, _ = ask(Absent("Free"), Pause+5*time.Minute)
	assert.True(t, e.Absent(), "what followed the proof failed")
	e, _ = ask(Absent("Free"), time.Hour)
	assert.False(t, e.Absent(), "the first proof is too old")

	e, _ = ask(Present(), time.Hour+time.Second)
	assert.True(t, e.Present())
	e, _ = ask(Absent("Free"), time.Hour+2*Pause)
	assert.False(t, e.Absent(), "it was there in between")
	e, _ = ask(Unknown(errors.New("no answer")), 2*time.Hour)
	require.Error(t, e.Err())
	assert.False(t, e.Absent())
}

func TestInstantsAreEqualInAnyTimeZone(t *testing.T) {
	t.Parallel()
	at := InstantOf("2026-11-21T17:01:51+0000")
	assert.Equal(t, at, InstantOf("2026-11-21T12:01:51-0500"),
		"recorded after the server was restarted in another zone")
	assert.Equal(t, at, InstantOf("2026-11-21T17:01:51Z"))
	assert.Equal(t, at, InstantOf(string(at)))
	assert.NotEqual(t, at, InstantOf("2026-11-21T17:01:52+0000"))
	assert.NotEqual(t, at, InstantOf("2026-11-21T17:01:51-0500"), "the same text on another clock")
	assert.Empty(t, InstantOf(""))
	assert.True(t, at.Time().Equal(time.Date(2026, 11, 21, 17, 1, 51, 0, time.UTC)))
	assert.True(t, InstantOf("yesterday").Time().IsZero())
	assert.Equal(t, Instant("yesterday"), InstantOf("yesterday"))
}

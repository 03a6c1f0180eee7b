// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"strings"
	"time"
)

// Event is an entry of the event log that listEvents shows.
type Event struct {
	Entity
	Kind, Level, State, Text string
	Owner                    *Account
	User                     *User
	Start                    *Event // the first event of the same command
	Resource                 Resource
}

// Resource is the object that an event refers to.
type Resource struct{ Kind, UUID, Name string }

// States and levels of events.
const (
	EventCreated   = "Created"
	EventScheduled = "Scheduled"
	EventStarted   = "Started"
	EventCompleted = "Completed"

	LevelInfo  = "INFO"
	LevelError = "ERROR"
)

// MaxEvents limits the memory of a simulator that runs for days: when it is exceeded, the oldest quarter is deleted.
const MaxEvents = 20_000

// AddEvent stores an event and deletes the oldest events if there are too many.
func (st *State) AddEvent(e *Event) *Event {
	if e.Level == "" {
		e.Level = LevelInfo
	}
	st.Events.Add(e)
	if len(st.Events.Rows) > MaxEvents {
		for _, old := range st.Events.Rows[:MaxEvents/4] {
			delete(st.Events.ByUUID, strings.ToLower(old.UUID))
			old.Start = nil
		}
		st.Events.Rows = slices.Clone(st.Events.Rows[MaxEvents/4:])
	}
	return e
}

// EventSpec describes the events of a command.
type EventSpec struct {
	Kind     string // type such as LB.CREATE
	Phrase   string // the action, as in descriptions
	Label    string // label of the object's id in descriptions; "" omits the id
	Resource string // resource type in answers
	Param    string // parameter that refers to the object; "": the command creates the object
	// Scheduled is the text of a job's first event if it differs from the description; {uuid} and {id} stand for the
	// object's ids.
	Scheduled string
}

// JobEvents holds what the events of a job have in common.
type JobEvents struct {
	Spec  *EventSpec
	Who   Caller
	Actor *Account // owner of the events that the job itself records
	Res   Resource
	Start *Event
}

// Describe returns the text of an event about an object.
func (s *EventSpec) Describe(res Resource) string {
	if s.Label == "" || res.UUID == "" {
		return s.Phrase
	}
	return s.Phrase + ". " + s.Label + ": " + res.UUID
}

// Add records an event of the job.
func (t *JobEvents) Add(st *State, now time.Time, state, level, text string) *Event {
	return st.AddEvent(&Event{
		Entity:   Entity{Created: now},
		Kind:     t.Spec.Kind,
		State:    state,
		Level:    level,
		Text:     text,
		Owner:    t.Actor,
		User:     t.Who.User,
		Start:    t.Start,
		Resource: t.Res,
	})
}

// End records the last event of a job.
func (t *JobEvents) End(st *State, now time.Time, failed bool) {
	if t == nil {
		return
	}
	if failed {
		t.Add(st, now, EventCompleted, LevelError, "Error while "+t.Spec.Describe(t.Res))
		return
	}
	t.Add(st, now, EventCompleted, "", "Successfully completed "+t.Spec.Describe(t.Res))
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// event is an entry of the event log that listEvents shows.
type event struct {
	entity
	kind, level, state, text string
	owner                    *account
	user                     *user
	start                    *event // the first event of the same action
	resource                 resource
	archived                 bool
}

// resource is the object that an event refers to.
type resource struct{ kind, uuid, name string }

// States and levels of events.
const (
	eventCreated   = "Created"
	eventScheduled = "Scheduled"
	eventStarted   = "Started"
	eventCompleted = "Completed"

	levelInfo  = "INFO"
	levelError = "ERROR"
)

// maxEvents limits the memory of a simulator that runs for days: when it is exceeded, the oldest quarter is deleted.
const maxEvents = 20_000

func (st *state) addEvent(e *event) *event {
	if e.level == "" {
		e.level = levelInfo
	}
	st.events.add(e)
	if len(st.events.rows) > maxEvents {
		for _, old := range st.events.rows[:maxEvents/4] {
			delete(st.events.byUUID, strings.ToLower(old.uuid))
			old.start = nil
		}
		st.events.rows = slices.Clone(st.events.rows[maxEvents/4:])
	}
	return e
}

// eventSpec describes the events of a command.
type eventSpec struct {
	kind     string // type such as LB.CREATE
	phrase   string // the action, as in descriptions
	label    string // label of the object's id in descriptions; "" omits the id
	resource string // resource type in answers
	param    string // parameter that refers to the object; "": the command creates the object
}

// jobEvents holds what the events of a job have in common.
type jobEvents struct {
	spec  *eventSpec
	who   caller
	actor *account // owner of the events that the job itself records
	res   resource
	start *event
}

// eventSpec returns the event spec of the call, or nil for commands without events.
func (c *call) eventSpec() *eventSpec {
	if s, ok := eventSpecs[c.api.Name]; ok {
		return &s
	}
	return nil
}

func (s *eventSpec) describe(res resource) string {
	if s.label == "" || res.uuid == "" {
		return s.phrase
	}
	return s.phrase + ". " + s.label + ": " + res.uuid
}

// eventResource returns the object of the call: the one that the parameter refers to, or else the one with id made.
func (c *call) eventResource(s *eventSpec, made string) resource {
	res := resource{kind: s.resource, uuid: made}
	if r, ok := c.refs[s.param]; ok && s.param != "" {
		if e, ok := r.obj.(interface{ ent() *entity }); ok {
			res.uuid, res.name = e.ent().uuid, nameOf(r.obj)
		}
	}
	return res
}

// eventActor returns the owner of events that CloudStack records for the caller: the caller's account, or the project
// of the call.
func (c *call) eventActor() *account {
	for _, name := range []string{"projectid", "id"} {
		if p := arg[*project](c, name); p != nil {
			return p.account
		}
	}
	return c.caller.account
}

// eventOwner returns the owner of a job's Scheduled event: the owner of the object.
func (c *call) eventOwner(s *eventSpec) *account {
	if r, ok := c.refs[s.param]; ok {
		if a := ownerOf(r.obj); a != nil {
			return a
		}
	}
	if d := arg[*domain](c, "domainid"); d != nil && c.has("account") {
		if a, ok := c.st.accountIn(d, c.str("account")); ok {
			return a
		}
	}
	return c.eventActor()
}

// recordSync records the event of a synchronous command.
func (c *call) recordSync(body any, err error) {
	s := c.eventSpec()
	if s == nil {
		return
	}
	e := &event{entity: entity{created: c.now}, kind: s.kind, state: eventCompleted, owner: c.eventActor(), user: c.caller.user}
	if err != nil {
		e.level, e.resource = levelError, c.eventResource(s, "")
		e.text = "Error while " + s.describe(e.resource)
	} else {
		e.resource = c.eventResource(s, madeID(body))
		e.text = "Successfully completed " + s.describe(e.resource)
	}
	c.st.addEvent(e)
}

// recordRefused records the event of a failed create phase.
func (c *call) recordRefused() {
	if s := c.eventSpec(); s != nil && s.param == "" {
		c.st.addEvent(&event{
			entity: entity{created: c.now}, kind: s.kind, state: eventCreated, level: levelError, owner: c.eventActor(), user: c.caller.user,
			text: "Error while creating entity for " + s.phrase, resource: resource{kind: s.resource},
		})
	}
}

// recordScheduled records the first events of a job: Created if it creates an object, Scheduled, and Started.
func (c *call) recordScheduled(spec *jobSpec) *jobEvents {
	s := c.eventSpec()
	if s == nil {
		return nil
	}
	t := &jobEvents{spec: s, who: c.caller, actor: c.eventActor(), res: c.eventResource(s, spec.objectID)}
	if spec.instanceType != "" && spec.instanceType != "None" {
		t.res.kind = spec.instanceType
	}
	if spec.objectID != "" {
		t.start = t.add(c.st, c.now, eventCreated, "", "Successfully created entity for "+s.describe(t.res))
	}
	scheduled := t.add(c.st, c.now, eventScheduled, "", s.describe(t.res))
	scheduled.owner = c.eventOwner(s)
	if t.start == nil {
		t.start = scheduled
	}
	text := s.describe(t.res)
	t.add(c.st, c.now, eventStarted, "", strings.ToUpper(text[:1])+text[1:])
	return t
}

func (t *jobEvents) add(st *state, now time.Time, state, level, text string) *event {
	return st.addEvent(&event{
		entity: entity{created: now}, kind: t.spec.kind, state: state, level: level, text: text, owner: t.actor, user: t.who.user, start: t.start, resource: t.res,
	})
}

// end records the last event of a job.
func (t *jobEvents) end(st *state, now time.Time, failed bool) {
	if t == nil {
		return
	}
	if failed {
		t.add(st, now, eventCompleted, levelError, "Error while "+t.spec.describe(t.res))
		return
	}
	t.add(st, now, eventCompleted, "", "Successfully completed "+t.spec.describe(t.res))
}

// note records an additional event of a command.
func (c *call) note(kind, text, resourceKind string, obj interface{ ent() *entity }) {
	c.st.addEvent(&event{
		entity: entity{created: c.now}, kind: kind, state: eventCompleted, text: text, owner: c.caller.account, user: c.caller.user,
		resource: resource{resourceKind, obj.ent().uuid, nameOf(obj)},
	})
}

// madeID returns the id of the object in the answer of a synchronous command: {"role":{"id":...}}.
func madeID(body any) string {
	v := reflect.Indirect(reflect.ValueOf(body))
	if v.Kind() == reflect.Map && v.Len() == 1 {
		v = v.MapIndex(v.MapKeys()[0])
		if v.Kind() == reflect.Interface {
			v = v.Elem()
		}
	} else if v.Kind() == reflect.Struct && v.NumField() == 1 {
		v = v.Field(0)
	}
	v = reflect.Indirect(v)
	if v.Kind() != reflect.Struct {
		return ""
	}
	if id := v.FieldByName("ID"); id.IsValid() && id.Kind() == reflect.String {
		return id.String()
	}
	return ""
}

// recordUser records the event of a login or logout.
func (s *Simulator) recordUser(u *user, kind, text string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.addEvent(&event{
		entity: entity{created: now}, kind: kind, state: eventCompleted, text: text, owner: u.account, user: u, resource: resource{"User", u.uuid, u.username},
	})
}

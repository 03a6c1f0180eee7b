// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// event is a row of the log that listEvents shows.
type event struct {
	entity
	kind, level, state, text string
	owner                    *account
	user                     *user
	start                    *event // the first event of the same action
	resource                 resource
	archived                 bool
}

// resource is what an event is about.
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

// maxEvents bounds the memory of a simulator that runs for days: of more than that the oldest quarter goes.
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

// eventSpec says which events a command leaves behind.
type eventSpec struct {
	kind     string // LB.CREATE ...
	phrase   string // what is being done, as descriptions say it
	label    string // how descriptions name the object; "" leaves it out
	resource string // kind of the object in answers
	param    string // parameter that names the object; "": the command makes it
}

// trail is what the events of a job have in common.
type trail struct {
	spec  *eventSpec
	who   caller
	actor *account // owner of the events that the job itself makes
	res   resource
	start *event
}

// spec is the event spec of the call; nil for commands without events.
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

// eventResource finds the object of the call: by its parameter, or made says its id.
func (c *call) eventResource(s *eventSpec, made string) resource {
	res := resource{kind: s.resource, uuid: made}
	if r, ok := c.refs[s.param]; ok && s.param != "" {
		if e, ok := r.obj.(interface{ ent() *entity }); ok {
			res.uuid, res.name = e.ent().uuid, nameOf(r.obj)
		}
	}
	return res
}

// eventActor owns the events that the server writes for the caller: its account, or the project of the call.
func (c *call) eventActor() *account {
	for _, name := range []string{"projectid", "id"} {
		if p := arg[*project](c, name); p != nil {
			return p.account
		}
	}
	return c.caller.account
}

// eventOwner owns the event of a scheduled job: who owns its object.
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

// recordSync writes the event of a synchronous command.
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

// recordRefused writes the event of a create phase that failed.
func (c *call) recordRefused() {
	if s := c.eventSpec(); s != nil && s.param == "" {
		c.st.addEvent(&event{
			entity: entity{created: c.now}, kind: s.kind, state: eventCreated, level: levelError, owner: c.eventActor(), user: c.caller.user,
			text: "Error while creating entity for " + s.phrase, resource: resource{kind: s.resource},
		})
	}
}

// recordScheduled writes the first events of a job: Created if it makes an object, Scheduled, Started.
func (c *call) recordScheduled(spec *jobSpec) *trail {
	s := c.eventSpec()
	if s == nil {
		return nil
	}
	t := &trail{spec: s, who: c.caller, actor: c.eventActor(), res: c.eventResource(s, spec.objectID)}
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

func (t *trail) add(st *state, now time.Time, state, level, text string) *event {
	return st.addEvent(&event{
		entity: entity{created: now}, kind: t.spec.kind, state: state, level: level, text: text, owner: t.actor, user: t.who.user, start: t.start, resource: t.res,
	})
}

// end writes the last event of a job.
func (t *trail) end(st *state, now time.Time, failed bool) {
	if t == nil {
		return
	}
	if failed {
		t.add(st, now, eventCompleted, levelError, "Error while "+t.spec.describe(t.res))
		return
	}
	t.add(st, now, eventCompleted, "", "Successfully completed "+t.spec.describe(t.res))
}

// note writes an event that a command makes beside its own.
func (c *call) note(kind, text, resourceKind string, obj interface{ ent() *entity }) {
	c.st.addEvent(&event{
		entity: entity{created: c.now}, kind: kind, state: eventCompleted, text: text, owner: c.caller.account, user: c.caller.user,
		resource: resource{resourceKind, obj.ent().uuid, nameOf(obj)},
	})
}

// madeID finds the id of the object in the answer of a synchronous command: {"role":{"id":...}}.
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

// ownerOf is who owns an object; nil when nobody does or the kind has no owner.
func ownerOf(obj any) *account {
	switch o := obj.(type) {
	case *vm:
		return o.owner
	case *publicIP:
		return o.owner
	case *lbRule:
		return o.account
	case *fwRule:
		return o.account
	case *network:
		return o.owner
	case *vpc:
		return o.owner
	case *aclList:
		if o.vpc != nil {
			return o.vpc.owner
		}
	case *aclItem:
		return ownerOf(o.list)
	case *project:
		return o.owner()
	case *account:
		return o
	case *user:
		return o.account
	}
	return nil
}

// nameOf is how events name an object.
func nameOf(obj any) string {
	switch o := obj.(type) {
	case *vm:
		return o.name
	case *publicIP:
		return o.addr.String()
	case *lbRule:
		return o.name
	case *network:
		return o.name
	case *vpc:
		return o.name
	case *aclList:
		return o.name
	case *project:
		return o.name
	case *account:
		return o.name
	case *user:
		return o.username
	case *domain:
		return o.name
	case *role:
		return o.name
	}
	return ""
}

// recordUser writes the event of a login or logout.
func (s *Simulator) recordUser(u *user, kind, text string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.addEvent(&event{
		entity: entity{created: now}, kind: kind, state: eventCompleted, text: text, owner: u.account, user: u, resource: resource{"User", u.uuid, u.username},
	})
}

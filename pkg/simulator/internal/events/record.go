// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// eventResource returns the object of the call: the one that the parameter refers to, or else the new one with id
// made.
func eventResource(c *wire.Call, s *store.EventSpec, createdID string) store.Resource {
	res := store.Resource{Kind: s.Resource, UUID: createdID}
	if r, ok := c.Refs[s.Param]; ok && s.Param != "" {
		if e, ok := r.Obj.(interface{ Ent() *store.Entity }); ok {
			res.UUID, res.Name = e.Ent().UUID, nameOf(r.Obj)
		}
	}
	return res
}

// eventActor returns the owner of events that CloudStack records for the caller: the caller's account, or the project
// of the call.
func eventActor(c *wire.Call) *store.Account {
	for _, name := range []string{"projectid", "id"} {
		if p := wire.Arg[*store.Project](c, name); p != nil {
			return p.Account
		}
	}
	return c.Caller.Account
}

// eventOwner returns the owner of a job's Scheduled event: the owner of the object.
func eventOwner(c *wire.Call, s *store.EventSpec) *store.Account {
	if r, ok := c.Refs[s.Param]; ok {
		if a := OwnerOf(r.Obj); a != nil {
			return a
		}
	}
	if d := wire.Arg[*store.Domain](c, "domainid"); d != nil && c.Has("account") {
		if a, ok := c.St.AccountIn(d, c.Str("account")); ok {
			return a
		}
	}
	return eventActor(c)
}

// RecordSync records the event of a synchronous command.
func RecordSync(c *wire.Call, body any, err error) {
	s := c.Cmd.Event
	if s == nil {
		return
	}

	e := &store.Event{
		Entity: store.Entity{Created: c.Now},
		Kind:   s.Kind,
		State:  store.EventCompleted,
		Owner:  eventActor(c),
		User:   c.Caller.User,
	}

	if err != nil {
		e.Level, e.Resource = store.LevelError, eventResource(c, s, "")
		e.Text = "Error while " + s.Describe(e.Resource)
	} else {
		e.Resource = eventResource(c, s, createdID(body))
		e.Text = "Successfully completed " + s.Describe(e.Resource)
	}

	c.St.AddEvent(e)
}

// RecordRefused records the event of a failed create phase.
func RecordRefused(c *wire.Call) {
	if s := c.Cmd.Event; s != nil && s.Param == "" {
		c.St.AddEvent(&store.Event{
			Entity:   store.Entity{Created: c.Now},
			Kind:     s.Kind,
			State:    store.EventCreated,
			Level:    store.LevelError,
			Owner:    eventActor(c),
			User:     c.Caller.User,
			Text:     "Error while creating entity for " + s.Phrase,
			Resource: store.Resource{Kind: s.Resource},
		})
	}
}

// RecordScheduled records the first events of a job: Created if it creates an object, Scheduled, and Started.
func RecordScheduled(c *wire.Call, spec *wire.JobSpec) *store.JobEvents {
	s := c.Cmd.Event
	if s == nil {
		return nil
	}

	t := &store.JobEvents{Spec: s, Who: c.Caller, Actor: eventActor(c), Res: eventResource(c, s, spec.ObjectID)}
	if spec.InstanceType != "" && spec.InstanceType != "None" {
		t.Res.Kind = spec.InstanceType
	}

	if spec.ObjectID != "" {
		t.Start = t.Add(c.St, c.Now, store.EventCreated, "", "Successfully created entity for "+s.Describe(t.Res))
	}

	scheduled := t.Add(c.St, c.Now, store.EventScheduled, "", scheduledText(c, s, t.Res))
	scheduled.Owner = eventOwner(c, s)
	if t.Start == nil {
		t.Start = scheduled
	}

	text := s.Describe(t.Res)
	t.Add(c.St, c.Now, store.EventStarted, "", strings.ToUpper(text[:1])+text[1:])
	return t
}

// scheduledText returns the text of a job's first event.
func scheduledText(c *wire.Call, s *store.EventSpec, res store.Resource) string {
	if s.Scheduled == "" {
		return s.Describe(res)
	}
	id := c.Refs[s.Param].ID
	if k, ok := c.St.KubernetesClusters.Get(res.UUID); ok {
		id = k.ID
	}
	return strings.NewReplacer("{uuid}", res.UUID, "{id}", strconv.FormatInt(id, 10)).Replace(s.Scheduled)
}

// Note records an additional event of a command.
func Note(c *wire.Call, kind, text, resourceKind string, obj interface{ Ent() *store.Entity }) {
	c.St.AddEvent(&store.Event{
		Entity:   store.Entity{Created: c.Now},
		Kind:     kind,
		State:    store.EventCompleted,
		Text:     text,
		Owner:    c.Caller.Account,
		User:     c.Caller.User,
		Resource: store.Resource{Kind: resourceKind, UUID: obj.Ent().UUID, Name: nameOf(obj)},
	})
}

// createdID returns the id of the object in the answer of a synchronous command: {"role":{"id":...}}.
func createdID(body any) string {
	answer, _ := body.(map[string]any)
	for _, v := range answer {
		if v := reflect.Indirect(reflect.ValueOf(v)); v.Kind() == reflect.Struct && v.FieldByName("ID").IsValid() {
			return v.FieldByName("ID").String()
		}
	}
	return ""
}

// OwnerOf returns the owner of an object, or nil if it has none.
func OwnerOf(obj any) *store.Account {
	switch o := obj.(type) {
	case *store.VM:
		return o.Owner
	case *store.NIC:
		return OwnerOf(o.VM)
	case *store.SecondaryIP:
		return OwnerOf(o.NIC)
	case *store.PublicIP:
		return o.Owner
	case *store.LBRule:
		return o.Account
	case *store.StickyPolicy:
		return OwnerOf(o.Rule)
	case *store.SSLCert:
		return o.Owner
	case *store.FWRule:
		return o.Account
	case *store.PFRule:
		return o.Account
	case *store.Network:
		return o.Owner
	case *store.VPC:
		return o.Owner
	case *store.ACLList:
		if o.VPC != nil {
			return o.VPC.Owner
		}
	case *store.ACLItem:
		return OwnerOf(o.List)
	case *store.KubernetesCluster:
		return o.Owner
	case *store.CNIConfig:
		return o.Owner
	case *store.Project:
		return o.Owner()
	case *store.Account:
		return o
	case *store.User:
		return o.Account
	case *store.Job:
		return o.Caller.Account
	case *store.Event:
		return o.Owner
	}

	return nil
}

// nameOf returns the name of an object in events, or "" for kinds without a name.
func nameOf(obj any) string {
	switch o := obj.(type) {
	case *store.PublicIP:
		return o.Addr.String()
	case *store.User:
		return o.Username
	case *store.NetworkOffering:
		return o.Spec.Name
	}
	if name := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Name"); name.IsValid() {
		return name.String()
	}
	return ""
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records the events of commands, and lists them.
package events

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// eventView is the API object event.
type eventView struct {
	ID           string `json:"id"`
	Username     string `json:"username"`
	Type         string `json:"type"`
	Level        string `json:"level"`
	Description  string `json:"description"`
	ResourceID   string `json:"resourceid,omitempty"`
	ResourceType string `json:"resourcetype,omitempty"`
	ResourceName string `json:"resourcename,omitempty"`
	wire.OwnerView
	Created  *wire.Timestamp `json:"created"`
	State    string          `json:"state"`
	ParentID string          `json:"parentid,omitempty"`
	Archived bool            `json:"archived"`
}

func viewEvent(c *wire.Call, e *store.Event) eventView {
	v := eventView{
		ID:          e.UUID,
		Username:    e.User.Username,
		Type:        e.Kind,
		Level:       e.Level,
		Description: e.Text,
		OwnerView:   wire.ViewOwner(e.Owner),
		Created:     wire.Stamp(e.Created),
		State:       e.State,
	}

	if e.Resource.UUID != "" {
		v.ResourceID, v.ResourceType, v.ResourceName = e.Resource.UUID, e.Resource.Kind, e.Resource.Name
		if obj, _ := c.St.ByUUID(store.ResourceKinds[e.Resource.Kind], e.Resource.UUID); obj != nil {
			v.ResourceName = nameOf(obj)
		}
	}

	if e.Start != nil {
		v.ParentID = e.Start.UUID
	}

	return v
}

// dateFormats are the accepted formats of dates.
var dateFormats = []string{"2006-01-02T15:04:05-0700", "2006-01-02T15:04:05Z", "2006-01-02 15:04:05", "2006-01-02"}

// Date reads a date parameter. A date without a time means the start of the day, or the end of the day if end is set.
func Date(c *wire.Call, name string, end bool) (time.Time, *wire.Error) {
	v, ok := c.Args[name]
	if !ok {
		return time.Time{}, nil
	}
	for _, f := range dateFormats {
		t, err := time.Parse(f, v)
		if err != nil {
			continue
		}
		if end && len(f) == len("2006-01-02") {
			t = t.Add(24*time.Hour - time.Second)
		}
		return t, nil
	}
	return time.Time{}, wire.ParamError("Unable to parse date %s for command %s, please pass dates in the format "+
		"yyyy-MM-dd'T'HH:mm:ss+/-ZZ:ZZ", v, c.API.Lower)
}

// dates reads startdate and enddate; a zero time means no limit.
func dates(c *wire.Call) (from, to time.Time, err *wire.Error) {
	if from, err = Date(c, "startdate", false); err == nil {
		to, err = Date(c, "enddate", true)
	}
	return from, to, err
}

// InDates reports whether t is between the two times. It ignores fractions of a second, because answers do not show
// them.
func InDates(t, from, to time.Time) bool {
	t = t.Truncate(time.Second)
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || !t.After(to))
}

func listEvents(c *wire.Call) (any, error) {
	from, to, err := dates(c)
	if err != nil {
		return nil, err
	}

	if err := checkEventResource(c); err != nil {
		return nil, err
	}

	in, err := c.OwnerScope(c.Given("id"))
	if err != nil {
		return nil, err
	}

	startID := wire.Arg[*store.Event](c, "startid")
	return wire.List(c, "event", wire.Newest(c.St.Events.Rows), func(e *store.Event) bool {
		return in(e.Owner) &&
			InDates(e.Created, from, to) &&
			(!c.Given("startid") || e == startID || e.Start == startID) &&
			c.Is("type", e.Kind) &&
			c.Is("level", e.Level) &&
			c.Is("state", e.State) &&
			c.Is("resourceid", e.Resource.UUID) &&
			c.Is("resourcetype", e.Resource.Kind) &&
			c.Like("keyword", e.Kind, e.Text, e.Level)
	}, func(e *store.Event) eventView { return viewEvent(c, e) })
}

// checkEventResource checks resourceid and resourcetype, which must be used together.
func checkEventResource(c *wire.Call) *wire.Error {
	if c.Has("resourcetype") && !resourceKinds()[strings.ToLower(c.Str("resourcetype"))] {
		return wire.Invalid("Invalid resourcetype")
	}
	id, ok := c.Args["resourceid"]
	if !ok {
		return nil
	}
	if !c.Has("resourcetype") {
		return wire.Invalid("resourceid parameter must be used with resourcetype parameter")
	}
	if _, err := uuid.Parse(id); err != nil {
		return wire.Invalid("Invalid resourceid")
	}
	return nil
}

// resourceKinds returns, in lower case, the kinds of objects that events can refer to.
func resourceKinds() map[string]bool {
	kinds := store.SetOf("none", "host", "storagepool", "domainrouter", "systemvm", "pod", "cluster")
	for kind := range store.ResourceKinds {
		kinds[strings.ToLower(kind)] = true
	}
	return kinds
}

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listEvents", ID: store.RefEvent, Run: listEvents},
}

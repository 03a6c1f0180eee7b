// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

var eventRefs = map[string]refKind{"id": refEvent, "ids": refEvent, "startid": refEvent}

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
	ownerView
	Created  *timestamp `json:"created"`
	State    string     `json:"state"`
	ParentID string     `json:"parentid,omitempty"`
	Archived bool       `json:"archived"`
}

func (c *call) viewEvent(e *event) eventView {
	v := eventView{
		ID: e.uuid, Username: e.user.username, Type: e.kind, Level: e.level, Description: e.text, ownerView: viewOwner(e.owner),
		Created: stamp(e.created), State: e.state, Archived: e.archived,
	}
	if e.resource.uuid != "" {
		v.ResourceID, v.ResourceType, v.ResourceName = e.resource.uuid, e.resource.kind, e.resource.name
		if obj, _ := c.st.byUUID(resourceTables[e.resource.kind], e.resource.uuid); obj != nil {
			v.ResourceName = nameOf(obj)
		}
	}
	if e.start != nil {
		v.ParentID = e.start.uuid
	}
	return v
}

// dateFormats are the accepted formats of dates.
var dateFormats = []string{"2006-01-02T15:04:05-0700", "2006-01-02T15:04:05Z", "2006-01-02 15:04:05", "2006-01-02"}

// date reads a date parameter. A date without a time means the start of the day, or its end if end is set.
func (c *call) date(name string, end bool) (time.Time, *apiError) {
	v, ok := c.args[name]
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
	return time.Time{}, paramError("Unable to parse date %s for command %s, please pass dates in the format yyyy-MM-dd'T'HH:mm:ss+/-ZZ:ZZ", v, c.api.lower)
}

// dates reads startdate and enddate; a zero time means no limit.
func (c *call) dates() (from, to time.Time, err *apiError) {
	if from, err = c.date("startdate", false); err == nil {
		to, err = c.date("enddate", true)
	}
	return from, to, err
}

// inDates reports whether t is between the two times. It ignores fractions of a second, because answers do not show
// them.
func inDates(t, from, to time.Time) bool {
	t = t.Truncate(time.Second)
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || !t.After(to))
}

func listEvents(c *call) (any, error) {
	from, to, err := c.dates()
	if err != nil {
		return nil, err
	}
	if err := c.checkEventResource(); err != nil {
		return nil, err
	}
	in, err := c.ownerScope(c.given("id"))
	if err != nil {
		return nil, err
	}
	startID := arg[*event](c, "startid")
	var out []*event
	for _, e := range slices.Backward(c.st.events.rows) { // newest first
		switch {
		case e.removed || !in(e.owner) || !matches(c, "id", e) || !inDates(e.created, from, to):
		case !c.given("id") && e.archived != c.boolean("archived"), c.given("startid") && e != startID && e.start != startID:
		case c.has("type") && !strings.EqualFold(c.str("type"), e.kind), c.has("level") && !strings.EqualFold(c.str("level"), e.level):
		case c.has("state") && !strings.EqualFold(c.str("state"), e.state):
		case c.has("resourceid") && !strings.EqualFold(c.str("resourceid"), e.resource.uuid):
		case c.has("resourcetype") && !strings.EqualFold(c.str("resourcetype"), e.resource.kind):
		case c.has("keyword") && !like(e.kind, c.str("keyword")) && !like(e.text, c.str("keyword")) && !like(e.level, c.str("keyword")):
		case c.has("entrytime") && c.has("duration"): // CloudStack answers nothing either
		default:
			out = append(out, e)
		}
	}
	return page(c, "event", out, c.viewEvent)
}

// checkEventResource checks resourceid and resourcetype, which must be used together.
func (c *call) checkEventResource() *apiError {
	if c.has("resourcetype") && !resourceKinds()[strings.ToLower(c.str("resourcetype"))] {
		return invalid("Invalid resourcetype")
	}
	id, ok := c.args["resourceid"]
	if !ok {
		return nil
	}
	if !c.has("resourcetype") {
		return invalid("resourceid parameter must be used with resourcetype parameter")
	}
	if _, err := uuid.Parse(id); err != nil {
		return invalid("Invalid resourceid")
	}
	return nil
}

// resourceKinds returns the kinds of objects that events refer to, in lower case.
func resourceKinds() map[string]bool {
	kinds := map[string]bool{"none": true, "host": true, "storagepool": true, "domainrouter": true, "systemvm": true, "pod": true, "cluster": true}
	for _, s := range eventSpecs {
		kinds[strings.ToLower(s.resource)] = true
	}
	return kinds
}

type nameItem struct {
	Name string `json:"name"`
}

func listEventTypes(*call) (any, error) {
	return whole("eventtype", eventTypes(), func(s string) nameItem { return nameItem{s} }), nil
}

// sweepEvents archives or deletes events by ids, by type, or up to a date.
func (c *call) sweepEvents(what string) (any, error) {
	if !c.has("ids") && !c.has("type") && !c.has("enddate") {
		return nil, invalid("either ids, type or enddate must be specified")
	}
	if c.has("startdate") && !c.has("enddate") {
		return nil, invalid("enddate must be specified with startdate parameter")
	}
	from, to, err := c.dates()
	if err != nil {
		return nil, err
	}
	ids := map[*event]bool{}
	for _, r := range c.lists["ids"] {
		if e, ok := r.obj.(*event); ok {
			ids[e] = true
		}
	}
	var hits []*event
	for _, e := range c.st.events.rows {
		if e.archived || !c.mayClear(e) || c.has("ids") && !ids[e] || c.has("type") && !strings.EqualFold(c.str("type"), e.kind) || !inDates(e.created, from, to) {
			continue
		}
		hits = append(hits, e)
	}
	if c.has("ids") && len(hits) < len(ids) {
		return nil, errf(codeInternal, csGeneric, "Unable to %s Events, one or more parameters has invalid values", what)
	}
	for _, e := range hits {
		if what == "archive" {
			e.archived = true
		} else {
			c.st.events.drop(e)
		}
	}
	return success{true}, nil
}

// mayClear reports whether the caller may archive or delete an event: their own, or for admins one of their domain.
func (c *call) mayClear(e *event) bool {
	me := c.caller.account
	if me.normal() {
		return e.owner == me
	}
	return c.access(e.owner)
}

// listAlerts answers an empty list, because the simulator has no alerts.
func listAlerts(c *call) (any, error) {
	return page(c, "alert", []nameItem(nil), func(v nameItem) nameItem { return v })
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// Call is one request while the server processes it.
type Call struct {
	Server  *Server
	St      *store.State
	Now     time.Time
	Req     *Request
	API     *catalogue.API
	Cmd     *Command // nil: not implemented
	Caller  store.Caller
	Session *Session // nil for API keys and the integration port
	Faults  []*fault.Fault

	Args  map[string]string // parameters by lower-case name, without those reserved to admins
	Refs  map[string]store.Ref
	Lists map[string][]store.Ref
	Maps  map[string][]MapEntry
}

// Has reports whether the parameter was sent.
func (c *Call) Has(name string) bool { _, ok := c.Args[name]; return ok }

// Str returns the parameter, or "" if it is absent.
func (c *Call) Str(name string) string { return c.Args[name] }

// Boolean reports whether the parameter is "true", in any case.
func (c *Call) Boolean(name string) bool { return strings.EqualFold(c.Args[name], "true") }

// BoolOr is like Boolean, with a default for an absent parameter.
func (c *Call) BoolOr(name string, def bool) bool {
	if !c.Has(name) {
		return def
	}
	return c.Boolean(name)
}

// OptBool returns the value of the parameter, or nil if it is absent.
func (c *Call) OptBool(name string) *bool {
	if !c.Has(name) {
		return nil
	}
	return Ptr(c.Boolean(name))
}

// Integer returns a numeric parameter, which the parameter checks have already validated, or 0 if it is absent.
func (c *Call) Integer(name string) int {
	n, err := strconv.Atoi(strings.TrimSpace(c.Args[name]))
	if err != nil {
		return 0
	}
	return n
}

// OptInt returns the number of the parameter, or nil if it is absent.
func (c *Call) OptInt(name string) *int {
	if !c.Has(name) {
		return nil
	}
	return Ptr(c.Integer(name))
}

// List splits a comma-separated value. An empty value is an empty list; blanks are kept.
func (c *Call) List(name string) []string { return elements(c.Args[name]) }

// Arg returns the object that a uuid parameter refers to, or nil if the parameter is absent or refers to no object.
func Arg[T store.Row](c *Call, name string) T {
	if v, ok := c.Refs[name].Obj.(T); ok {
		return v
	}
	var zero T
	return zero
}

// Given reports whether a uuid parameter was sent, even if it refers to no object.
func (c *Call) Given(name string) bool { _, ok := c.Refs[name]; return ok }

// Matches is a list filter: it reports whether a uuid parameter is absent or refers to v.
func Matches[T store.Row](c *Call, name string, v T) bool {
	if !c.Given(name) {
		return true
	}
	var zero T
	got := Arg[T](c, name)
	return got != zero && got == v
}

// MatchesIn is like Matches, for objects that not every row has.
func MatchesIn[T store.Row](c *Call, name string, v T) bool {
	var zero T
	return !c.Given(name) || v != zero && Matches(c, name, v)
}

// TagFilter returns the tags of the parameters tags[i].key and tags[i].value.
func (c *Call) TagFilter() []store.Tag {
	var out []store.Tag
	for _, e := range c.Maps["tags"] {
		out = append(out, store.Tag{Key: e["key"], Value: e["value"]})
	}
	return out
}

// Access reports whether CloudStack lets the caller use objects of the account.
func (c *Call) Access(owner *store.Account) bool {
	a := c.Caller.Account
	switch {
	case owner == nil:
		return true
	case a == owner || a.RootAdmin():
		return true
	case owner.Project != nil:
		if owner.Project.Admits(c.Caller) {
			return true
		}
		return a.DomainAdmin() && owner.Domain.Within(a.Domain)
	case a.DomainAdmin():
		return owner.Domain.Within(a.Domain)
	}
	return false
}

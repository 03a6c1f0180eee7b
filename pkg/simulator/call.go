// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"strings"
	"time"
)

// caller is who sends a request.
type caller struct {
	user    *user
	account *account
	session *session // nil for API keys and the integration port
	byKey   bool     // called with API keys
}

func (c caller) rootAdmin() bool { return c.account.rootAdmin() }

// call is one request on its way through the server.
type call struct {
	s      *Simulator
	st     *state
	now    time.Time
	req    *request
	api    *apiSpec
	caller caller
	faults []*Fault

	args  map[string]string // parameters by lower-case name, those reserved to admins dropped
	refs  map[string]ref
	lists map[string][]ref
	maps  map[string][]mapEntry
}

func (c *call) has(name string) bool { _, ok := c.args[name]; return ok }

func (c *call) str(name string) string { return c.args[name] }

// boolean is true for "true" in any case; everything else is false.
func (c *call) boolean(name string) bool { return strings.EqualFold(c.args[name], "true") }

// boolOr is boolean with a default for an absent parameter.
func (c *call) boolOr(name string, def bool) bool {
	if !c.has(name) {
		return def
	}
	return c.boolean(name)
}

// optBool is nil when the parameter is absent.
func (c *call) optBool(name string) *bool {
	if !c.has(name) {
		return nil
	}
	return ptr(c.boolean(name))
}

// integer returns a number that the parameter phase has already checked; 0 when absent.
func (c *call) integer(name string) int {
	n, err := strconv.Atoi(strings.TrimSpace(c.args[name]))
	if err != nil {
		return 0
	}
	return n
}

func (c *call) optInt(name string) *int {
	if !c.has(name) {
		return nil
	}
	return ptr(c.integer(name))
}

// list splits a comma separated value; an empty value is an empty list, and blanks stay.
func (c *call) list(name string) []string { return elements(c.args[name]) }

// arg returns the object that a uuid parameter names: nil when absent or dangling.
func arg[T row](c *call, name string) T {
	if v, ok := c.refs[name].obj.(T); ok {
		return v
	}
	var zero T
	return zero
}

// given tells whether a uuid parameter was sent, whatever it resolved to.
func (c *call) given(name string) bool { _, ok := c.refs[name]; return ok }

// matches filters by a uuid parameter: true when it is absent or names v.
func matches[T row](c *call, name string, v T) bool {
	if !c.given(name) {
		return true
	}
	var zero T
	got := arg[T](c, name)
	return got != zero && got == v
}

// tagFilter reads tags[i].key/.value.
func (c *call) tagFilter() []tag {
	var out []tag
	for _, e := range c.maps["tags"] {
		out = append(out, tag{key: e["key"], value: e["value"]})
	}
	return out
}

// access is the server's check that the caller may touch what the account owns.
func (c *call) access(owner *account) bool {
	a := c.caller.account
	switch {
	case owner == nil:
		return true
	case a == owner || a.rootAdmin():
		return true
	case owner.project != nil:
		if owner.project.admits(c.caller) {
			return true
		}
		return a.domainAdmin() && owner.domain.within(a.domain)
	case a.domainAdmin():
		return owner.domain.within(a.domain)
	}
	return false
}

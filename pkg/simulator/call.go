// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"strings"
	"time"
)

// caller is the authenticated sender of a request.
type caller struct {
	user    *user
	account *account
	byKey   bool // authenticated with an API key
}

func (c caller) rootAdmin() bool { return c.account.rootAdmin() }

// call is one request while the server processes it.
type call struct {
	server  *server
	st      *state
	now     time.Time
	req     *request
	api     *apiSpec
	cmd     *command // nil: not implemented
	caller  caller
	session *session // nil for API keys and the integration port
	faults  []*Fault

	args  map[string]string // parameters by lower-case name, without those reserved to admins
	refs  map[string]ref
	lists map[string][]ref
	maps  map[string][]mapEntry
}

func (c *call) has(name string) bool { _, ok := c.args[name]; return ok }

func (c *call) str(name string) string { return c.args[name] }

// boolean returns true for "true" in any case; any other value is false.
func (c *call) boolean(name string) bool { return strings.EqualFold(c.args[name], "true") }

// boolOr is boolean with a default for an absent parameter.
func (c *call) boolOr(name string, def bool) bool {
	if !c.has(name) {
		return def
	}
	return c.boolean(name)
}

// optBool returns nil if the parameter is absent.
func (c *call) optBool(name string) *bool {
	if !c.has(name) {
		return nil
	}
	return ptr(c.boolean(name))
}

// integer returns a numeric parameter, which the parameter checks have already validated, or 0 if it is absent.
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

// list splits a comma-separated value. An empty value is an empty list; blanks are kept.
func (c *call) list(name string) []string { return elements(c.args[name]) }

// arg returns the object that a uuid parameter refers to, or nil if the parameter is absent or refers to no object.
func arg[T row](c *call, name string) T {
	if v, ok := c.refs[name].obj.(T); ok {
		return v
	}
	var zero T
	return zero
}

// given reports whether a uuid parameter was sent, even if it refers to no object.
func (c *call) given(name string) bool { _, ok := c.refs[name]; return ok }

// matches is a list filter: it reports whether a uuid parameter is absent or refers to v.
func matches[T row](c *call, name string, v T) bool {
	if !c.given(name) {
		return true
	}
	var zero T
	got := arg[T](c, name)
	return got != zero && got == v
}

// tagFilter returns the tags of the parameters tags[i].key and tags[i].value.
func (c *call) tagFilter() []tag {
	var out []tag
	for _, e := range c.maps["tags"] {
		out = append(out, tag{key: e["key"], value: e["value"]})
	}
	return out
}

// access reports whether CloudStack lets the caller use objects of the account.
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// Paging is the page of a list that the caller requested.
type Paging struct {
	from, size int // size < 0: everything
	countOnly  bool
}

// checkPagePair refuses page without pagesize and the reverse. CloudStack checks this for every list command before
// the command runs, even if the command ignores paging.
func (c *Call) checkPagePair() *Error {
	switch hasPage, hasSize := c.Has("page"), c.Has("pagesize"); {
	case c.API.Param("pagesize") == nil:
	case hasPage && !hasSize:
		return ParamError(`"pagesize" parameter is required when "page" is specified`)
	case hasSize && !hasPage && c.Integer("pagesize") != -1:
		return ParamError(`"page" parameter is required when "pagesize" is specified`)
	}
	return nil
}

// ReadPaging reads page and pagesize, and checks what checkPagePair does not.
func (c *Call) ReadPaging() (Paging, *Error) {
	maxSize := c.St.IntSetting("default.page.size")
	p := Paging{size: maxSize}
	hasPage, hasSize := c.Has("page"), c.Has("pagesize")
	size := c.Integer("pagesize")
	switch {
	case hasSize && size > maxSize:
		return p, Invalid("Page size can't exceed max allowed page size value: %d", maxSize)
	case hasSize && size == -1 && hasPage:
		return p, Invalid("Can't specify page parameter when pagesize is -1 (Unlimited)")
	case hasSize && size == -1:
		p.size = -1
	case hasSize:
		p.size = max(size, 0)
		p.from = max(c.Integer("page")-1, 0) * p.size
	}
	p.countOnly = c.Boolean("retrieveonlyresourcecount")
	return p, nil
}

// ListAnswer is the body of a list: the count and the named array, or an empty object.
type ListAnswer struct {
	count int
	name  string
	items any // slice; nil leaves the array out
}

// encode writes the list into the answer's buffer.
func (l ListAnswer) encode(buf *bytes.Buffer) error {
	if l.count == 0 {
		buf.WriteString("{}")
		return nil
	}
	fmt.Fprintf(buf, `{"count":%d`, l.count)
	if l.items != nil {
		fmt.Fprintf(buf, `,"%s":`, l.name)
		if err := Encode(buf, l.items); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}

// Page returns the requested page of the matches and renders only that page.
func Page[T, R any](c *Call, name string, matched []T, render func(T) R) (any, error) {
	p, err := c.ReadPaging()
	if err != nil {
		return nil, err
	}
	ans := ListAnswer{count: len(matched), name: name}
	if p.countOnly || p.size == 0 || p.from >= len(matched) {
		return ans, nil
	}
	window := matched[p.from:]
	if p.size > 0 && len(window) > p.size {
		window = window[:p.size]
	}
	return fill(ans, window, render), nil
}

// List returns a page of the rows that are not removed, that match the parameters id and ids, and that pass the
// filter.
func List[T store.Row, R any](c *Call, name string, rows []T, pass func(T) bool, render func(T) R) (any, error) {
	ids := map[any]bool{}
	for _, r := range c.Lists["ids"] {
		ids[r.Obj] = true
	}
	var out []T
	for _, v := range rows {
		if !v.Ent().Removed && Matches(c, "id", v) && (len(ids) == 0 || ids[v]) && pass(v) {
			out = append(out, v)
		}
	}
	return Page(c, name, out, render)
}

// Newest returns the rows in reverse order, for lists that begin with the newest.
func Newest[T any](rows []T) []T {
	out := slices.Clone(rows)
	slices.Reverse(out)
	return out
}

// Is is a list filter: it reports whether the parameter is absent or equals the value, ignoring case.
func (c *Call) Is(name, value string) bool {
	return !c.Has(name) || strings.EqualFold(c.Str(name), value)
}

// Flag is a list filter: it reports whether the parameter is absent or has the value.
func (c *Call) Flag(name string, value bool) bool { return !c.Has(name) || c.Boolean(name) == value }

// Like is a list filter: it reports whether the parameter is absent or part of one of the values.
func (c *Call) Like(name string, values ...string) bool {
	return !c.Has(name) || slices.ContainsFunc(values, func(v string) bool { return store.Like(v, c.Str(name)) })
}

// Whole returns all matches, for the few lists that ignore paging.
func Whole[T, R any](name string, matched []T, render func(T) R) any {
	return fill(ListAnswer{count: len(matched), name: name}, matched, render)
}

func fill[T, R any](ans ListAnswer, window []T, render func(T) R) ListAnswer {
	out := make([]R, 0, len(window))
	for _, v := range window {
		out = append(out, render(v))
	}
	if len(out) > 0 {
		ans.items = out
	}
	return ans
}

// Scope reports whether a list shows objects of the owner to the caller.
type Scope func(owner *store.Account) bool

// OwnerScope reads the owner filters account, domainid, projectid, listall and isrecursive. byID is set if the call
// selects objects by id.
func (c *Call) OwnerScope(byID bool) (Scope, *Error) {
	if c.Given("projectid") {
		return c.projectScope()
	}

	me := c.Caller.Account
	listAll := c.Boolean("listall")
	var dom *store.Domain
	if c.Given("domainid") {
		dom = Arg[*store.Domain](c, "domainid")
		if dom == nil || dom.Removed {
			return nil, Invalid("Unable to find domain by id %d", c.Refs["domainid"].ID)
		}
		if !c.DomainAccess(dom) {
			return nil, Denied()
		}
	}

	if name := c.Str("account"); name != "" {
		in := dom
		if in == nil {
			in = me.Domain
		}
		a, ok := c.St.AccountIn(in, name)
		if !ok {
			return nil, Invalid("could not find account %s in domain %s", name, in.Text())
		}
		if !c.Access(a) {
			return nil, Denied()
		}
		return func(o *store.Account) bool { return o == a }, nil
	}

	if dom != nil && !me.Normal() {
		recursive := c.BoolOr("isrecursive", listAll)
		return func(o *store.Account) bool {
			return o != nil && (o.Project == nil || byID) && (o.Domain == dom || recursive && o.Domain.Within(dom))
		}, nil
	}

	wide := listAll || byID
	switch {
	case wide && me.RootAdmin():
		return func(o *store.Account) bool { return o != nil && (o.Project == nil || byID) }, nil
	case wide && me.DomainAdmin():
		return func(o *store.Account) bool {
			return o != nil && o.Domain.Within(me.Domain) && (o.Project == nil || byID)
		}, nil
	}

	return func(o *store.Account) bool { return o == me }, nil
}

func (c *Call) projectScope() (Scope, *Error) {
	me := c.Caller.Account
	if c.Str("account") != "" {
		return nil, Invalid("Account and projectId can't be specified together")
	}

	if r := c.Refs["projectid"]; r.Obj == nil && r.ID == -1 {
		listAll := c.Boolean("listall")
		return func(o *store.Account) bool {
			switch {
			case o == nil:
				return false
			case me.RootAdmin():
				return listAll || o.Project != nil
			case o.Project == nil:
				return listAll && o == me
			}
			return o.Project.Admits(c.Caller)
		}, nil
	}

	p := Arg[*store.Project](c, "projectid")
	if p == nil || p.Removed {
		return nil, Invalid("Unable to find project by id %s", c.ProjectRef())
	}

	if !c.Access(p.Account) {
		return nil, Errf(CodeAccount, CSPermission, "Account %s can't access project id=%d", store.AccountText(me),
			p.ID)
	}

	return func(o *store.Account) bool { return o == p.Account }, nil
}

// ProjectRef returns the internal id of the call's project, with which error texts name it.
func (c *Call) ProjectRef() string { return fmt.Sprint(c.Refs["projectid"].ID) }

// DomainAccess reports whether the caller may use objects of the domain.
func (c *Call) DomainAccess(d *store.Domain) bool {
	me := c.Caller.Account
	return me.RootAdmin() || d == me.Domain || me.DomainAdmin() && d.Within(me.Domain)
}

// ByID reports whether the call selects objects by id or ids.
func (c *Call) ByID() bool { return c.Given("id") || len(c.Lists["ids"]) > 0 }

// Visible applies a display flag: by default, only root admins see hidden objects.
func (c *Call) Visible(param string, hidden bool) bool {
	if c.Has(param) {
		return c.Boolean(param) == !hidden
	}
	return !hidden || c.Caller.RootAdmin()
}

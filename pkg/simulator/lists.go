// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"fmt"
)

// paging is the page of a list that the caller requested.
type paging struct {
	from, size int // size < 0: everything
	countOnly  bool
}

// checkPagePair refuses page without pagesize and the reverse. CloudStack checks this for every list command before
// the command runs, even if the command ignores paging.
func (c *call) checkPagePair() *apiError {
	switch hasPage, hasSize := c.has("page"), c.has("pagesize"); {
	case c.api.param("pagesize") == nil:
	case hasPage && !hasSize:
		return paramError(`"pagesize" parameter is required when "page" is specified`)
	case hasSize && !hasPage && c.integer("pagesize") != -1:
		return paramError(`"page" parameter is required when "pagesize" is specified`)
	}
	return nil
}

// readPaging applies the other rules of page and pagesize.
func (c *call) readPaging() (paging, *apiError) {
	maxSize := c.st.settings.pageSize()
	p := paging{size: maxSize}
	hasPage, hasSize := c.has("page"), c.has("pagesize")
	size := c.integer("pagesize")
	switch {
	case hasSize && size > maxSize:
		return p, invalid("Page size can't exceed max allowed page size value: %d", maxSize)
	case hasSize && size == -1 && hasPage:
		return p, invalid("Can't specify page parameter when pagesize is -1 (Unlimited)")
	case hasSize && size == -1:
		p.size = -1
	case hasSize:
		p.size = max(size, 0)
		p.from = max(c.integer("page")-1, 0) * p.size
	}
	p.countOnly = c.boolean("retrieveonlyresourcecount")
	return p, nil
}

// listAnswer is the body of a list: the count and the named array, or an empty object.
type listAnswer struct {
	count int
	name  string
	items any // slice; nil leaves the array out
}

// encode writes the list into the answer's buffer.
func (l listAnswer) encode(buf *bytes.Buffer) error {
	if l.count == 0 {
		buf.WriteString("{}")
		return nil
	}
	fmt.Fprintf(buf, `{"count":%d`, l.count)
	if l.items != nil {
		fmt.Fprintf(buf, `,"%s":`, l.name)
		if err := encode(buf, l.items); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}

// page returns the requested page of the matches and renders only that page.
func page[T, R any](c *call, name string, matched []T, render func(T) R) (any, error) {
	p, err := c.readPaging()
	if err != nil {
		return nil, err
	}
	ans := listAnswer{count: len(matched), name: name}
	if p.countOnly || p.size == 0 || p.from >= len(matched) {
		return ans, nil
	}
	window := matched[p.from:]
	if p.size > 0 && len(window) > p.size {
		window = window[:p.size]
	}
	return fill(ans, window, render), nil
}

// whole renders all matches, for the few lists that ignore paging.
func whole[T, R any](name string, matched []T, render func(T) R) any {
	return fill(listAnswer{count: len(matched), name: name}, matched, render)
}

func fill[T, R any](ans listAnswer, window []T, render func(T) R) listAnswer {
	out := make([]R, 0, len(window))
	for _, v := range window {
		out = append(out, render(v))
	}
	if len(out) > 0 {
		ans.items = out
	}
	return ans
}

// scope reports whether a list shows objects of the owner to the caller.
type scope func(owner *account) bool

// ownerScope reads the owner filters account, domainid, projectid, listall and isrecursive. byID is set if the call
// selects objects by id.
func (c *call) ownerScope(byID bool) (scope, *apiError) {
	if c.given("projectid") {
		return c.projectScope()
	}
	me := c.caller.account
	listAll := c.boolean("listall")
	var dom *domain
	if c.given("domainid") {
		dom = arg[*domain](c, "domainid")
		if dom == nil || dom.removed {
			return nil, invalid("Unable to find domain by id %d", c.refs["domainid"].id)
		}
		if !c.domainAccess(dom) {
			return nil, denied()
		}
	}
	if name := c.str("account"); name != "" {
		in := dom
		if in == nil {
			in = me.domain
		}
		a, ok := c.st.accountIn(in, name)
		if !ok {
			return nil, invalid("could not find account %s in domain %s", name, in.text())
		}
		if !c.access(a) {
			return nil, denied()
		}
		return func(o *account) bool { return o == a }, nil
	}
	if dom != nil && !me.normal() {
		recursive := c.boolOr("isrecursive", listAll)
		return func(o *account) bool {
			return o != nil && (o.project == nil || byID) && (o.domain == dom || recursive && o.domain.within(dom))
		}, nil
	}
	wide := listAll || byID
	switch {
	case wide && me.rootAdmin():
		return func(o *account) bool { return o != nil && (o.project == nil || byID) }, nil
	case wide && me.domainAdmin():
		return func(o *account) bool { return o != nil && o.domain.within(me.domain) && (o.project == nil || byID) }, nil
	}
	return func(o *account) bool { return o == me }, nil
}

func (c *call) projectScope() (scope, *apiError) {
	me := c.caller.account
	if c.str("account") != "" {
		return nil, invalid("Account and projectId can't be specified together")
	}
	if r := c.refs["projectid"]; r.obj == nil && r.id == -1 {
		listAll := c.boolean("listall")
		return func(o *account) bool {
			switch {
			case o == nil:
				return false
			case me.rootAdmin():
				return listAll || o.project != nil
			case o.project == nil:
				return listAll && o == me
			}
			return o.project.admits(c.caller)
		}, nil
	}
	p := arg[*project](c, "projectid")
	if p == nil || p.removed {
		return nil, invalid("Unable to find project by id %s", c.projectRef())
	}
	if !c.access(p.account) {
		return nil, errf(codeAccount, csPermission, "Account %s can't access project id=%d", accountText(me), p.id)
	}
	return func(o *account) bool { return o == p.account }, nil
}

// projectRef returns the internal id of the call's project, with which error texts name it.
func (c *call) projectRef() string { return fmt.Sprint(c.refs["projectid"].id) }

func (c *call) domainAccess(d *domain) bool {
	me := c.caller.account
	return me.rootAdmin() || d == me.domain || me.domainAdmin() && d.within(me.domain)
}

// byID reports whether the call selects objects by id or ids.
func (c *call) byID() bool { return c.given("id") || len(c.lists["ids"]) > 0 }

// visible applies a display flag: by default, only root admins see hidden objects.
func (c *call) visible(param string, hidden bool) bool {
	if c.has(param) {
		return c.boolean(param) == !hidden
	}
	return !hidden || c.caller.rootAdmin()
}

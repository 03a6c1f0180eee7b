// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

var domainRefs = map[string]refKind{"id": refDomain}

// domainView is the API object domain.
type domainView struct {
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	Level         int        `json:"level"`
	ParentID      string     `json:"parentdomainid,omitempty"`
	ParentName    string     `json:"parentdomainname,omitempty"`
	HasChild      bool       `json:"haschild"`
	NetworkDomain string     `json:"networkdomain,omitempty"`
	Path          string     `json:"path"`
	State         string     `json:"state"`
	Created       *timestamp `json:"created"`
	Annotations   bool       `json:"hasannotations"`
	*counters
	jobRef
}

func (c *call) viewDomain(d *domain) domainView {
	v := domainView{
		ID: d.uuid, Name: d.name, Level: d.level(), Path: d.display(), State: "Active", Created: stamp(d.created), NetworkDomain: d.networkDomain,
		jobRef: c.st.jobRef(d),
	}
	if d.parent != nil {
		v.ParentID, v.ParentName = d.parent.uuid, d.parent.name
	}
	if d.inactive {
		v.State = "Inactive"
	}
	v.HasChild = len(c.st.children(d)) > 0
	return v
}

// fullDomain returns the view with the resource counters.
func (c *call) fullDomain(d *domain) domainView {
	v := c.viewDomain(d)
	v.counters = ptr(c.st.countDomain(d))
	return v
}

func (d *domain) level() int {
	n := 0
	for ; d.parent != nil; d = d.parent {
		n++
	}
	return n
}

// children returns the direct subdomains.
func (st *state) children(d *domain) []*domain {
	var out []*domain
	for _, o := range st.domains.rows {
		if o.parent == d && !o.removed {
			out = append(out, o)
		}
	}
	return out
}

// resourceDetails reads details (all, resource or min) and reports whether the answer shows the resource counters.
func (c *call) resourceDetails() (counted bool, err *apiError) {
	wanted := c.list("details")
	for _, d := range wanted {
		if !slices.Contains([]string{"all", "resource", "min"}, d) {
			return false, invalid("The details parameter contains a non permitted value. The allowed values are [all, resource, min]")
		}
	}
	return len(wanted) == 0 || slices.Contains(wanted, "all") || slices.Contains(wanted, "resource"), nil
}

func listDomains(c *call) (any, error) {
	counted, err := c.resourceDetails()
	if err != nil {
		return nil, err
	}
	me := c.caller.account
	only := arg[*domain](c, "id")
	if c.given("id") {
		if only == nil || only.removed {
			return nil, invalid("Domain id=%d doesn't exist", c.refs["id"].id)
		}
		if !c.domainAccess(only) {
			return nil, denied()
		}
	}
	var out []*domain
	for _, d := range c.st.domains.rows {
		visible := d == only
		if only == nil {
			visible = me.rootAdmin() || d == me.domain || c.boolean("listall") && d.within(me.domain)
		}
		switch {
		case d.removed || d.inactive || !visible:
		case c.has("name") && !strings.EqualFold(c.str("name"), d.name), c.has("keyword") && !like(d.name, c.str("keyword")):
		case c.has("level") && c.integer("level") != d.level():
		default:
			out = append(out, d)
		}
	}
	return page(c, "domain", out, func(d *domain) domainView {
		if counted {
			return c.fullDomain(d)
		}
		return c.viewDomain(d)
	})
}

func listDomainChildren(c *call) (any, error) {
	top := c.caller.account.domain
	if c.given("id") {
		top = arg[*domain](c, "id")
		if top == nil || top.removed || !c.domainAccess(top) {
			return nil, denied()
		}
	}
	deep := c.boolean("isrecursive") && !c.boolean("listall")
	var out []*domain
	for _, d := range c.st.domains.rows {
		switch {
		case d.removed || d.inactive || d == top || d.parent != top && (!deep || !d.within(top)):
		case c.has("name") && !like(d.name, c.str("name")), c.has("keyword") && !like(d.name, c.str("keyword")):
		default:
			out = append(out, d)
		}
	}
	return page(c, "domain", out, c.fullDomain)
}

type domainAnswer struct {
	Domain domainView `json:"domain"`
}

// badNetworkDomain is the error of all commands except createDomain for an invalid network domain.
func badNetworkDomain() *apiError {
	return invalid("Invalid network domain. Total length shouldn't exceed 190 chars. Each domain label must be between 1 and 63 characters long, " +
		"can contain ASCII letters 'a' through 'z', the digits '0' through '9', and the hyphen ('-'); can't start or end with \"-\"")
}

var domainLabel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// validDomainName reports whether s is a valid network domain.
func validDomainName(s string) bool {
	if len(s) < 1 || len(s) > 190 {
		return false
	}
	return !slices.ContainsFunc(strings.Split(s, "."), func(l string) bool { return !domainLabel.MatchString(l) })
}

func createDomain(c *call) (any, error) {
	parent := c.st.root()
	name := c.str("name")
	if c.given("parentdomainid") {
		if parent = arg[*domain](c, "parentdomainid"); parent == nil || parent.removed {
			return nil, invalid("Unable to create domain %s, parent domain %d not found.", name, c.refs["parentdomainid"].id)
		}
	}
	switch {
	case parent.inactive:
		return nil, c.internal(csRuntime, "The domain cannot be created as the parent domain %s is being deleted", parent.name)
	case !c.domainAccess(parent):
		return nil, denied()
	case c.has("networkdomain") && !validDomainName(c.str("networkdomain")):
		return nil, invalid("Invalid network domain. Total length should not exceed 190 chars. Each domain label must be between 1 and 63 characters long. " +
			"It can contain ASCII letters 'a' through 'z', the digits '0' through '9', and the hyphen ('-'); it cannot start or end with \"-\".")
	case c.st.childNamed(parent, name) != nil:
		return nil, invalid("Domain with name [%s] already exists for the parent with ID [%d].", name, parent.id)
	case strings.Contains(name, "/"):
		return nil, invalid("Domain name can't contain \"/\"")
	}
	d := c.st.domains.add(&domain{
		entity: entity{uuid: c.str("domainid"), created: c.now}, name: name, parent: parent, networkDomain: c.str("networkdomain"),
	})
	return domainAnswer{c.fullDomain(d)}, nil
}

func (st *state) childNamed(parent *domain, name string) *domain {
	for _, d := range st.children(parent) {
		if strings.EqualFold(d.name, name) {
			return d
		}
	}
	return nil
}

func updateDomain(c *call) (any, error) {
	d := arg[*domain](c, "id")
	name, named := c.args["name"]
	switch {
	case d == nil || d.removed:
		return nil, invalid("Unable to find domain with specified domain id")
	case d.parent == nil && named:
		return nil, invalid("ROOT domain can not be edited with a new name")
	case !c.domainAccess(d):
		return nil, denied()
	}
	if named {
		if o := c.st.childNamed(d.parent, name); o != nil && o != d {
			return nil, invalid("Failed to update specified domain id with name '%s' since it already exists in the system", name)
		}
	}
	if n := c.str("networkdomain"); n != "" && !validDomainName(n) {
		return nil, badNetworkDomain()
	}
	if named {
		d.name = name
	}
	if n, ok := c.args["networkdomain"]; ok {
		d.networkDomain = n
	}
	return domainAnswer{c.fullDomain(d)}, nil
}

func moveDomain(c *call) (any, error) {
	d, to := arg[*domain](c, "domainid"), arg[*domain](c, "parentdomainid")
	switch {
	case d != nil && d.parent == nil:
		return nil, invalid("The domain to be moved cannot be the ROOT domain.")
	case d != nil && d == to:
		return nil, invalid("The domain to be moved and the new parent domain cannot be the same.")
	case d == nil || d.removed:
		return nil, invalid("Unable to find a domain with the specified ID [%d].", c.refs["domainid"].id)
	case to == nil || to.removed:
		return nil, invalid("Unable to find a domain with the specified ID [%d].", c.refs["parentdomainid"].id)
	case d.parent == to:
		return nil, invalid("The current parent domain of the domain to be moved is equal to the new parent domain [%s].", to.text())
	case to.within(d):
		return nil, invalid("The new parent domain of the domain cannot be one of its children.")
	case c.st.childNamed(to, d.name) != nil:
		return nil, invalid("Domain with name [%s] already exists for the parent with ID [%d].", d.name, to.id)
	}
	d.parent = to
	return domainAnswer{c.fullDomain(d)}, nil
}

func deleteDomain(c *call) (*jobSpec, error) {
	d := arg[*domain](c, "id")
	if d == nil || d.removed {
		return nil, invalid("Failed to delete domain %d, domain not found", c.refs["id"].id)
	}
	return &jobSpec{instanceType: "Domain", instanceID: d.uuid, subject: d, run: func(now time.Time) (any, error) {
		switch {
		case d.removed:
			return nil, invalid("Failed to delete domain %d, domain not found", d.id)
		case d.parent == nil:
			return nil, errf(codeAccount, csPermission, "Can't delete ROOT domain")
		case !c.domainAccess(d):
			return nil, denied()
		}
		if c.boolean("cleanup") {
			c.st.purgeDomain(d, now)
			return success{true}, nil
		}
		if n := c.st.domainNetworks(d); n > 0 {
			return nil, errf(codeInternal, csRuntime, "Can't delete the domain yet because it has %d non-removed networks", n)
		}
		if _, used := c.st.accounts.find(func(a *account) bool { return a.domain == d }); used || len(c.st.children(d)) > 0 {
			return nil, errf(codeInternal, csRuntime, "Delete failed on domain %s (id: %d); Please make sure all users and sub domains have been removed "+
				"from the domain before deleting", d.name, d.id)
		}
		d.removed = true
		return success{true}, nil
	}}, nil
}

// domainNetworks counts the networks that belong to the domain itself, not to an account.
func (st *state) domainNetworks(d *domain) int {
	n := 0
	for _, o := range st.networks.rows {
		if !o.removed && o.owner == nil && o.domain == d {
			n++
		}
	}
	return n
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/internal/must"
)

// Cleaner removes the objects of a run. It finds them by the run's prefix, so it needs no journal.
type Cleaner struct {
	Run   string
	API   Client
	Guard *proxy.Guard
	// Log logs what the Cleaner removes.
	Log func(format string, a ...any)
}

// allowed returns the objects of a list command, or none if the role does not allow the command.
func allowed(list func() []Object) []Object {
	all, err := must.Try(list)
	if !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		must.OK(err)
	}
	return all
}

// Runs returns the ids of the runs that have objects in a cloud.
func Runs(ctx context.Context, c Client) []string {
	found := map[string]bool{}
	for _, l := range [][2]string{
		{"listDomains", "domain"},
		{"listNetworks", "network"},
		{"listVPCs", "vpc"},
		{"listVirtualMachines", "virtualmachine"},
	} {
		for _, o := range allowed(func() []Object { return c.List(ctx, l[0], l[1], Params{"listall": "true"}) }) {
			rest, ours := strings.CutPrefix(o.Text("name"), Prefix)
			id, _, _ := strings.Cut(rest, "-")
			if ours && CheckRun(id) == nil {
				found[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

const (
	cleanLimit = 10 * time.Minute // time for the removal of a run's objects
	cleanTries = 3
	cleanPause = 10 * time.Second
)

// errNotExpunged means that the user may not expunge VMs, so that a retry after some seconds is useless.
var errNotExpunged = errors.New("VMs are destroyed but not expunged, so their network stays; clean up again when " +
	"CloudStack has expunged them")

// Clean removes everything, or returns an error that names what is left. It retries, because CloudStack does not
// remove an object before its creation has ended.
func (c *Cleaner) Clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	for try := 1; ; try++ {
		err := must.Catch(func() { c.clean(ctx) })
		if err == nil || errors.Is(err, errNotExpunged) || try == cleanTries {
			return err
		}
		c.Log("trying again: %v", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(cleanPause):
		}
	}
}

func (c *Cleaner) clean(ctx context.Context) {
	// Domains and roles have no owner. Those of the run have its prefix.
	named := func(command, object string, is func(name string) bool) []Object {
		all := allowed(func() []Object {
			return c.API.List(ctx, command, object, Params{}.Flag("listall", object == "domain"))
		})
		return c.adopt(slices.DeleteFunc(all, func(o Object) bool { return !is(o.Text("name")) }))
	}

	domains, domain := named("listDomains", "domain", func(name string) bool { return name == PrefixOf(c.Run) }), ""
	for _, o := range domains {
		domain = o.Text("id")
	}

	projects := allowed(func() []Object { return c.list(ctx, "listProjects", "project", domain, "") })
	var errs []error
	try := func(work func()) { errs = append(errs, must.Catch(work)) }
	for _, project := range append(slices.Clone(projects), Object{}) {
		try(func() { c.contents(ctx, domain, project.Text("id")) })
	}

	try(func() { c.remove(ctx, "deleteProject", projects, Params{"cleanup": "true"}) })
	try(func() { c.remove(ctx, "deleteDomain", domains, Params{"cleanup": "true"}) })
	try(func() { c.remove(ctx, "deleteRole", named("listRoles", "role", c.named), nil) })
	must.OK(errors.Join(errs...))
}

// adopt registers objects of the run with the guard.
func (c *Cleaner) adopt(all []Object) []Object {
	for _, o := range all {
		c.Guard.Adopt(o.Text("id"))
	}
	return all
}

// named reports whether a name belongs to the run: it is the prefix, or starts with the prefix and a hyphen.
func (c *Cleaner) named(name string) bool { return strings.HasPrefix(name+"-", PrefixOf(c.Run)+"-") }

// list returns the run's objects of a kind: those in the run's domain, and those with its prefix.
func (c *Cleaner) list(ctx context.Context, command, object, domain, project string) []Object {
	params := Params{"listall": "true"}
	if project != "" {
		params = Params{"projectid": project}
	} else if domain != "" {
		params["domainid"], params["isrecursive"] = domain, "true"
	}
	return c.adopt(slices.DeleteFunc(c.API.List(ctx, command, object, params), func(o Object) bool {
		return (domain == "" || o.Text("domainid") != domain) && !c.named(o.Text("name"))
	}))
}

// contents removes VMs, then networks, then VPCs. A plain user may expunge VMs only if the operator allows it
// (allow.user.expunge.recover.vm). Otherwise VMs are destroyed, and their network can be removed after CloudStack has
// expunged them.
func (c *Cleaner) contents(ctx context.Context, domain, project string) {
	vms := c.list(ctx, "listVirtualMachines", "virtualmachine", domain, project)
	if err := must.Catch(func() {
		c.remove(ctx, "destroyVirtualMachine", vms, Params{"expunge": "true"})
	}); err != nil {
		c.remove(ctx, "destroyVirtualMachine", vms, nil)
		must.Fail("%w (%w)", errNotExpunged, err)
	}
	c.remove(ctx, "deleteNetwork", c.list(ctx, "listNetworks", "network", domain, project), nil)
	c.remove(ctx, "deleteVPC", c.list(ctx, "listVPCs", "vpc", domain, project), nil)
}

// remove deletes objects. An object that does not exist counts as deleted.
func (c *Cleaner) remove(ctx context.Context, command string, objects []Object, more Params) {
	for _, o := range objects { // logged here, because many are removed at once below
		c.Log("%s %s", command, o.Text("name"))
	}
	must.Each(len(objects), func(i int) {
		id, name := objects[i].Text("id"), objects[i].Text("name")
		params := Params{"id": id}
		maps.Copy(params, more)
		err := must.Catch(func() { c.API.Do(ctx, command, params) })
		if e, ok := errors.AsType[*cloudstack.Error](err); err != nil && (!ok || e.HTTPCode != 431) {
			must.Fail("%s %s: %w", command, name, err)
		}
	})
}

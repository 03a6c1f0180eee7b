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

// Cleaner removes what a run has made. It finds it by the run's prefix, so it needs no journal.
type Cleaner struct {
	Run   string
	API   Client
	Guard *proxy.Guard
	// Log says what is removed.
	Log func(format string, a ...any)
}

// allowed are the objects of a list, none where the role does not have the command.
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
	for _, l := range [][2]string{{"listDomains", "domain"}, {"listNetworks", "network"}, {"listVPCs", "vpc"}, {"listVirtualMachines", "virtualmachine"}} {
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
	cleanLimit = 10 * time.Minute // for what a run has made to go
	cleanTries = 3
	cleanPause = 10 * time.Second
)

// errNotExpunged is of a user who may not expunge VMs: waiting for seconds does not help.
var errNotExpunged = errors.New("VMs are destroyed but not expunged, so their network stays; clean up again when CloudStack has expunged them")

// Clean removes everything and returns what is left. It tries again, since what was interrupted while it was made cannot be
// removed until CloudStack has finished it.
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
	// Domains and roles are of nobody: the run's have its prefix.
	named := func(command, object string, is func(name string) bool) []Object {
		all := allowed(func() []Object { return c.API.List(ctx, command, object, Params{}.Flag("listall", object == "domain")) })
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

// adopt lets the guard know objects of the run.
func (c *Cleaner) adopt(all []Object) []Object {
	for _, o := range all {
		c.Guard.Adopt(o.Text("id"))
	}
	return all
}

// named reports whether a name is of the run: the prefix alone, or followed by a hyphen.
func (c *Cleaner) named(name string) bool { return strings.HasPrefix(name+"-", PrefixOf(c.Run)+"-") }

// list returns the run's objects of a kind: they are in the run's domain, or their name has the run's prefix.
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

// contents removes VMs, then networks, then VPCs. A plain user may expunge VMs only where the operator allows it
// (allow.user.expunge.recover.vm); elsewhere they are destroyed, and their network can be removed when CloudStack has expunged them.
func (c *Cleaner) contents(ctx context.Context, domain, project string) {
	vms := c.list(ctx, "listVirtualMachines", "virtualmachine", domain, project)
	if err := must.Catch(func() { c.remove(ctx, "destroyVirtualMachine", vms, Params{"expunge": "true"}) }); err != nil {
		c.remove(ctx, "destroyVirtualMachine", vms, nil)
		must.Fail("%w (%w)", errNotExpunged, err)
	}
	c.remove(ctx, "deleteNetwork", c.list(ctx, "listNetworks", "network", domain, project), nil)
	c.remove(ctx, "deleteVPC", c.list(ctx, "listVPCs", "vpc", domain, project), nil)
}

// remove deletes objects; one that is gone already is deleted.
func (c *Cleaner) remove(ctx context.Context, command string, objects []Object, more Params) {
	for _, o := range objects { // not below, where they are many at once
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

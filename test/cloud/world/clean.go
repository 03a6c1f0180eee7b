// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/guard"
	"github.com/csccm/csccm/test/internal/must"
)

// Cleaner removes what a run has made. It finds it by the run's prefix, so it needs no journal.
type Cleaner struct {
	Run   string
	API   *api.Client
	Guard *guard.Guard
	// Log says what is removed.
	Log func(format string, a ...any)
}

// Runs returns the ids of the runs that have objects in a cloud.
func Runs(ctx context.Context, c *api.Client) ([]string, error) {
	found := map[string]bool{}
	for _, l := range []struct{ command, object string }{
		{"listDomains", "domain"}, {"listNetworks", "network"}, {"listVPCs", "vpc"}, {"listVirtualMachines", "virtualmachine"},
	} {
		list, err := c.List(ctx, l.command, l.object, api.Params{"listall": "true"})
		if err != nil && api.Code(err) != notAllowed {
			return nil, err
		}
		for _, o := range list {
			rest, ours := strings.CutPrefix(o.Text("name"), Prefix)
			id, _, _ := strings.Cut(rest, "-")
			if ours && CheckRun(id) == nil {
				found[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// notAllowed is the code for a command that the role does not have.
const notAllowed = 432

// Clean removes everything and returns what is left. It tries again, since what was interrupted while it was made cannot be
// removed until CloudStack has finished it.
func (c *Cleaner) Clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	for try := 1; ; try++ {
		err := c.clean(ctx)
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

const (
	cleanTries = 3
	cleanPause = 10 * time.Second
)

// errNotExpunged is of a user who may not expunge VMs: waiting for seconds does not help.
var errNotExpunged = errors.New("it is destroyed but not expunged, so its network stays; clean up again when CloudStack has expunged it")

func (c *Cleaner) clean(ctx context.Context) error {
	return must.Catch(func() {
		domain := c.domain(ctx)
		var errs []error
		for _, project := range append(c.projects(ctx, domain), "") {
			errs = append(errs, must.Catch(func() { c.contents(ctx, domain, project) }))
			if project != "" {
				errs = append(errs, c.remove(ctx, "project", "deleteProject", project, api.Params{"cleanup": "true"}))
			}
		}
		if domain != "" {
			errs = append(errs, c.remove(ctx, "domain", "deleteDomain", domain, api.Params{"cleanup": "true"}))
		}
		must.OK(errors.Join(append(errs, c.roles(ctx))...))
	})
}

// domain returns the id of the run's domain, or "" where it has none.
func (c *Cleaner) domain(ctx context.Context) string {
	list, err := c.API.List(ctx, "listDomains", "domain", api.Params{"listall": "true"})
	if api.Code(err) != notAllowed {
		must.OK(err)
	}
	for _, o := range list {
		if o.Text("name") == PrefixOf(c.Run) {
			c.Guard.Adopt(o.Text("id"), "the domain of the run")
			return o.Text("id")
		}
	}
	return ""
}

// mine reports whether an object is the run's: it is in the run's domain, or its name has the run's prefix.
func (c *Cleaner) mine(o api.Object, domain string) bool {
	return domain != "" && o.Text("domainid") == domain || c.named(o.Text("name"))
}

// named reports whether a name is of the run: the prefix alone, or followed by a hyphen.
func (c *Cleaner) named(name string) bool {
	rest, ok := strings.CutPrefix(name, PrefixOf(c.Run))
	return ok && (rest == "" || rest[0] == '-')
}

// list returns the run's objects of a kind.
func (c *Cleaner) list(ctx context.Context, command, object, domain, project string) (_ []api.Object, err error) {
	defer must.Return(&err)
	params := api.Params{"listall": "true"}
	if project != "" {
		params = api.Params{"projectid": project}
	} else if domain != "" {
		params["domainid"] = domain
		params["isrecursive"] = "true"
	}
	list := must.Get(c.API.List(ctx, command, object, params))
	list = slices.DeleteFunc(list, func(o api.Object) bool { return !c.mine(o, domain) })
	for _, o := range list {
		c.Guard.Adopt(o.Text("id"), "has the prefix of the run, or is in its domain")
	}
	return list, nil
}

func (c *Cleaner) projects(ctx context.Context, domain string) []string {
	list, err := c.list(ctx, "listProjects", "project", domain, "")
	if err != nil {
		return nil // the role knows no projects
	}
	var ids []string
	for _, o := range list {
		ids = append(ids, o.Text("id"))
	}
	return ids
}

// contents removes VMs, then networks, then VPCs.
func (c *Cleaner) contents(ctx context.Context, domain, project string) {
	for _, kind := range []struct {
		list, object string
		remove       func(api.Object) error
	}{
		{"listVirtualMachines", "virtualmachine", func(o api.Object) error { return c.destroy(ctx, o) }},
		{"listNetworks", "network", func(o api.Object) error {
			return c.remove(ctx, "network "+o.Text("name"), "deleteNetwork", o.Text("id"), nil)
		}},
		{"listVPCs", "vpc", func(o api.Object) error { return c.remove(ctx, "VPC "+o.Text("name"), "deleteVPC", o.Text("id"), nil) }},
	} {
		all := must.Get(c.list(ctx, kind.list, kind.object, domain, project))
		errs := make([]error, len(all))
		var wg sync.WaitGroup
		for i, o := range all {
			wg.Go(func() { errs[i] = kind.remove(o) })
		}
		wg.Wait()
		must.OK(errors.Join(errs...))
	}
}

// destroy expunges a VM. A plain user may only where the operator allows it (allow.user.expunge.recover.vm); elsewhere the VM is
// destroyed, and its network can be removed when CloudStack has expunged it.
func (c *Cleaner) destroy(ctx context.Context, vm api.Object) error {
	what, id := "VM "+vm.Text("name"), vm.Text("id")
	err := c.remove(ctx, what, "destroyVirtualMachine", id, api.Params{"expunge": "true"})
	if err == nil {
		return nil
	}
	if derr := c.remove(ctx, what, "destroyVirtualMachine", id, nil); derr != nil {
		return errors.Join(err, derr)
	}
	return fmt.Errorf("%s: %w (%w)", what, errNotExpunged, err)
}

// remove deletes one object; one that is gone already is deleted.
func (c *Cleaner) remove(ctx context.Context, what, command, id string, more api.Params) error {
	c.Log("removing %s", what)
	params := api.Params{"id": id}
	maps.Copy(params, more)
	if _, err := c.API.Do(ctx, command, params); err != nil && api.Code(err) != 431 {
		return fmt.Errorf("remove %s: %w", what, err)
	}
	return nil
}

// roles removes the roles that csccm has made for the run.
func (c *Cleaner) roles(ctx context.Context) error {
	list, err := c.API.List(ctx, "listRoles", "role", nil)
	if err != nil {
		return nil //nolint:nilerr // who may list no roles has made none
	}
	for _, o := range list {
		if !c.named(o.Text("name")) {
			continue
		}
		c.Guard.Adopt(o.Text("id"), "has the prefix of the run")
		if err := c.remove(ctx, "role "+o.Text("name"), "deleteRole", o.Text("id"), nil); err != nil {
			return err
		}
	}
	return nil
}

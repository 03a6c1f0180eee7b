// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selftest checks, call by call, that a cloud-config is sufficient for the controller. The controller runs the
// self-test in a Pod (--self-test), whose log the installer reads. The installer runs it with keys that are not in the
// cluster yet.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// The first words of the lines of a self-test.
const (
	MarkOK      = "ok"
	MarkWarning = "warning"
	MarkFailed  = "failed"
	MarkFix     = "fix"
)

// Problems with the settings, which only a change of the settings solves.
var (
	ErrNoZone = errors.New("there is no zone")
	ErrNoVM   = errors.New("the user sees no virtual machine")
)

// Problem is a requirement that is not met, and what to do about it.
type Problem struct { //nolint:errname // a finding first
	Err    error // wraps that of the call that failed, or one of the above
	Remedy string
}

func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// failed returns the Problem of a call that failed.
func failed(text string, err error) error {
	return &Problem{fmt.Errorf("%s: %w", text, err), Remedy(err)}
}

// Remedy returns what an operator can do about a failed call or a Problem.
func Remedy(err error) string {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Remedy
	}

	if _, ok := errors.AsType[*inventory.ProjectError](err); ok {
		return "set project-id in the cloud-config to a project of the keys' account"
	}

	const path = "check api-url (it usually ends in " + cloudconfig.APIPath +
		") and ca-file in the cloud-config, the proxy and the network of the Pod"
	api, ok := errors.AsType[*cloudstack.Error](err)
	switch {
	case !ok:
		return "see the error"
	case api.Kind == cloudstack.KindAuth:
		return "check both keys, that user and account are enabled, that the user's API key access is on, and the " +
			"clock of this machine"
	case api.Kind == cloudstack.KindNotPermitted:
		return "allow the command in the role of the account, and make the account a member of the project"
	case api.Kind == cloudstack.KindTransient, api.Kind == cloudstack.KindThrottled:
		return "none needed if CloudStack is down or busy; else " + path
	}

	return path
}

// CheckZone finds the zone of the cloud-config and returns its name. The name is empty if no zone is configured, or if
// the role may not list zones.
func CheckZone(ctx context.Context, inv *inventory.Inventory, want string) (name string, err error) {
	if want == "" {
		return "", nil
	}

	zones, err := inv.Zones(ctx)
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		return "", nil
	case err != nil:
		return "", err
	}

	var known []string
	for _, z := range zones {
		if strings.EqualFold(z.ID, want) || strings.EqualFold(z.Name, want) {
			return z.Name, nil
		}
		known = append(known, z.Name)
	}

	slices.Sort(known)
	return "", &Problem{fmt.Errorf("%w %q", ErrNoZone, want),
		"set zone in the cloud-config to one of these, or remove it: " + strings.Join(known, ", ")}
}

// Test tests a cloud-config.
type Test struct {
	Config *cloudconfig.Config
	Client *cloudstack.Client
	// Required are the commands that the controller calls, Optional those of them that it can do without.
	Required, Optional []string
	Out                io.Writer
	inventory          *inventory.Inventory
}

// Run makes calls that change nothing, and stops at the first requirement that is not met.
func (t *Test) Run(ctx context.Context) error {
	t.inventory = inventory.New(t.Client, inventory.Options{ProjectID: t.Config.ProjectID, Zone: t.Config.Zone})
	for _, step := range []func(context.Context) error{t.Keys, t.zone, t.role, t.project} {
		if err := step(ctx); err != nil {
			t.write(MarkFailed, "", "%v", err)
			t.write(MarkFix, "", "%s", Remedy(err))
			return fmt.Errorf("self-test: %w", err)
		}
	}
	return nil
}

// Line returns one line of a self-test.
func Line(mark, subject, text string) string {
	return fmt.Sprintf("%-7s  %-8s  %s\n", mark, subject, terminal.Plain(strings.Join(strings.Fields(text), " ")))
}

func (t *Test) write(mark, subject, format string, args ...any) {
	// Write errors are ignored: the error that Run returns says the same.
	_, _ = io.WriteString(t.Out, Line(mark, subject, fmt.Sprintf(format, args...)))
}

// Keys checks that a CloudStack API answers and accepts the keys, whatever their role.
func (t *Test) Keys(ctx context.Context) error {
	c, err := t.Client.Capabilities(ctx)
	switch {
	case err == nil:
		t.write(MarkOK, "API", "CloudStack %s at %s accepts the keys", c.Version, t.Config.APIURL)
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted): // the role lacks the command, so the keys were accepted
		t.write(MarkOK, "API", "CloudStack at %s accepts the keys; the role may not query its version", t.Config.APIURL)
	case cloudstack.IsKind(err, cloudstack.KindAuth):
		return failed(fmt.Sprintf("CloudStack at %s does not accept the API keys", t.Config.APIURL), err)
	default:
		return failed("no CloudStack API answers at "+t.Config.APIURL, err)
	}
	return nil
}

func (t *Test) zone(ctx context.Context) error {
	name, err := CheckZone(ctx, t.inventory, t.Config.Zone)
	if name != "" {
		t.write(MarkOK, "zone", "%s", name)
	} else if err == nil && t.Config.Zone != "" {
		t.write(MarkWarning, "zone", "%s: the role may not list zones", t.Config.Zone)
	}
	return err
}

// role compares the commands that the role allows with those that the controller calls.
func (t *Test) role(ctx context.Context) error {
	allowed, err := t.Client.ListAPIs(ctx)
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		t.write(MarkWarning, "role", "may not list its APIs, so missing rights are noticed only when a call is refused")
		return nil
	case err != nil:
		return failed("commands that the role allows", err)
	}

	less := sets.New(t.Required...).Difference(allowed)
	switch missing := less.Difference(sets.New(t.Optional...)); {
	case len(missing) > 0:
		return &Problem{errors.New("the user's role does not allow " + strings.Join(sets.List(missing), ", ")),
			"allow them in the role of the account, or use a user of another account"}
	case len(less) > 0:
		t.write(MarkWarning, "role", "allows what the controller must call, but not %s",
			strings.Join(sets.List(less), ", "))
	default:
		t.write(MarkOK, "role", "allows all %d commands that the controller calls", len(t.Required))
	}

	return nil
}

// project checks which VMs and networks the keys can see.
func (t *Test) project(ctx context.Context) error {
	id, err := t.inventory.ProjectID(ctx)
	if err != nil {
		return err
	}

	vms, err := t.inventory.VMs(ctx, 0)
	if err != nil {
		return failed("VMs", err)
	}

	if !slices.ContainsFunc(vms.All(), func(vm cloudstack.VirtualMachine) bool {
		return inventory.InZone(&vm, t.Config.Zone)
	}) {
		return &Problem{
			fmt.Errorf("%w: wrong account, project or zone: %s", ErrNoVM, vms.Scope()),
			"use keys of the account, or set project-id to the project, that owns the cluster's VMs, and zone " +
				"to their zone",
		}
	}

	t.write(MarkOK, "VMs", "%s", vms.Scope())
	networks, err := t.Client.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: id, ListAll: true})
	if err != nil {
		return failed("networks", err)
	}

	var able []string
	for i := range networks {
		if networks[i].HasService("Lb") {
			able = append(able, networks[i].Name)
		}
	}

	if len(able) == 0 {
		t.write(MarkWarning, "networks",
			"none of %d has the Lb service: nodes work, Services of type LoadBalancer will be refused", len(networks))
		return nil
	}

	t.write(MarkOK, "networks", "load balancers are possible in %s", strings.Join(able, ", "))
	return nil
}

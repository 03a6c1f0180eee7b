// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// User is the part of the CloudStack client that verification calls, with the controller's keys.
// *cloudapi.Client has it.
type User interface {
	Capabilities(ctx context.Context) (*cloudstack.Capabilities, error)
	ListAPIs(ctx context.Context) (sets.Set[string], error)
	ListZones(ctx context.Context) ([]cloudstack.Zone, error)
	ListProjects(ctx context.Context) ([]cloudstack.Project, error)
	ListNetworks(ctx context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error)
	ListVirtualMachines(ctx context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error)
}

// Want says what the keys must be able to do.
type Want struct {
	APIURL   string
	Project  string   // name or id; "" = the account's own resources
	Account  string   // name; "" = whichever the keys are of
	Zone     string   // name or id; "" = any
	Required []string // commands without which the controller cannot work
	Optional []string // commands without which it works with less
}

// Without are the commands that are not among others; case does not matter.
func Without(commands, others []string) []string {
	return slices.DeleteFunc(slices.Clone(commands), func(c string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return strings.EqualFold(c, o) })
	})
}

// Finding is one verified fact.
type Finding struct {
	OK      bool // false: works, but see Text
	Subject string
	Text    string
}

// Verified says what the keys can do.
type Verified struct {
	Version  string // of CloudStack; "" when the role may not ask
	Project  cloudstack.Project
	Zone     cloudstack.Zone // zero when none was named, or the role may not list zones
	VMs      int
	Networks []string // names of the networks that can carry load balancers
	Findings []Finding
}

// Verify proves call by call what the controller will need, and stops at the
// first thing that it cannot work without. It changes nothing.
func Verify(ctx context.Context, api User, w Want) (*Verified, error) {
	v := &Verified{}
	for _, step := range []func(context.Context, User, Want) error{
		v.server, v.project, v.zone, v.commands, v.virtualMachines, v.networks,
	} {
		if err := step(ctx, api, w); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (v *Verified) found(ok bool, subject, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{ok, subject, fmt.Sprintf(format, args...)})
}

// server makes the first signed call: it shows whether there is a CloudStack
// and whether it takes the keys.
func (v *Verified) server(ctx context.Context, api User, w Want) error {
	capabilities, err := api.Capabilities(ctx)
	var failed *cloudstack.Error
	switch {
	case err == nil:
		v.Version = capabilities.Version
		v.found(true, "API", "CloudStack %s at %s takes the keys", v.Version, w.APIURL)
		return nil
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		// A minimal role may leave this call out; being refused proves the keys.
		v.found(true, "API", "CloudStack at %s takes the keys; the role may not ask for its version", w.APIURL)
		return nil
	case cloudstack.IsKind(err, cloudstack.KindAuth):
		return &Error{
			What: fmt.Sprintf("CloudStack at %s does not accept the API keys", w.APIURL),
			Fix:  "check both keys, that user and account are enabled, that the user's API key access is on, and the clock of this machine",
			Err:  err,
		}
	case errors.As(err, &failed) && (failed.HTTPCode == 0 || failed.Kind == cloudstack.KindTransient):
		return unanswered(w.APIURL, err)
	}
	err = explain(fmt.Sprintf("asking the CloudStack at %s for its version", w.APIURL), err)
	var known *Error
	if errors.As(err, &known) && known.Fix == "" {
		known.Fix = "check --api-url: it usually ends in /client/api"
	}
	return err
}

func (v *Verified) project(ctx context.Context, api User, w Want) error {
	if w.Project == "" {
		return nil
	}
	projects, err := api.ListProjects(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		// The role that CKS gives its project users may not list projects. The
		// VM list below proves an id; a name cannot be resolved.
		if !looksLikeID(w.Project) {
			return &Error{
				What: fmt.Sprintf("the role may not list projects, so the name %q cannot be looked up", w.Project),
				Fix:  "give the project's id with --project", Code: report.ExitUsage,
				Err: err,
			}
		}
		v.Project = cloudstack.Project{ID: w.Project, Name: w.Project}
		v.found(false, "project", "%s: the role may not list projects", w.Project)
		return nil
	}
	if err != nil {
		return explain("listing projects", err)
	}
	if v.Project, err = pickProject(projects, w.Project); err != nil {
		return err
	}
	if v.Project.State != "" && !strings.EqualFold(v.Project.State, "Active") {
		return report.Remedied(fmt.Errorf("project %q is %s", v.Project.Name, v.Project.State),
			"activate the project in CloudStack")
	}
	v.found(true, "project", "%s (%s)", v.Project.Name, v.Project.ID)
	return nil
}

// looksLikeID reports whether a text is a UUID rather than a name.
func looksLikeID(s string) bool { return len(s) == 36 && strings.Count(s, "-") == 4 }

func (v *Verified) zone(ctx context.Context, api User, w Want) error {
	if w.Zone == "" {
		return nil
	}
	z, err := FindZone(ctx, api, w.Zone)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		v.found(false, "zone", "%s: the role may not list zones", w.Zone)
		return nil
	}
	if err != nil {
		return err
	}
	v.Zone = z
	v.found(true, "zone", "%s", z.Name)
	return nil
}

// FindZone is the zone of that name or id.
func FindZone(ctx context.Context, api User, want string) (cloudstack.Zone, error) {
	zones, err := api.ListZones(ctx)
	if err != nil {
		return cloudstack.Zone{}, explain("listing zones", err)
	}
	known := make([]string, 0, len(zones))
	for _, z := range zones {
		if z.ID == want || z.Name == want {
			return z, nil
		}
		known = append(known, z.Name)
	}
	return cloudstack.Zone{}, report.Usage(fmt.Sprintf("there is no zone %q", want), "name one of these with --zone: "+some(known))
}

// commands compares what the role allows with what the controller calls.
func (v *Verified) commands(ctx context.Context, api User, w Want) error {
	apis, err := api.ListAPIs(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		v.found(false, "role", "may not list its APIs, so its rights show only in use")
		return nil
	}
	if err != nil {
		return explain("listing the APIs that the role allows", err)
	}
	allowed := slices.Collect(maps.Keys(apis))
	if missing := Without(w.Required, allowed); len(missing) > 0 {
		return report.Remedied(fmt.Errorf("the user's role does not allow %s", strings.Join(missing, ", ")),
			"allow them in the role of the account, or use a user of another account")
	}
	if less := Without(w.Optional, allowed); len(less) > 0 {
		v.found(false, "role", "allows what the controller must call, but not %s", strings.Join(less, ", "))
		return nil
	}
	v.found(true, "role", "allows all %d commands that the controller calls", len(w.Required)+len(w.Optional))
	return nil
}

func (v *Verified) virtualMachines(ctx context.Context, api User, w Want) error {
	vms, err := api.ListVirtualMachines(ctx, cloudstack.VMQuery{ProjectID: v.Project.ID, ZoneID: v.Zone.ID, ListAll: true})
	if err != nil {
		if v.Project.ID != "" && cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return &Error{
				What: fmt.Sprintf("the user is not a member of project %q", w.Project),
				Fix:  "add the user's account to the project, or name another with --project",
				Err:  err,
			}
		}
		return explain("listing virtual machines", err)
	}
	v.VMs = len(vms)
	if v.VMs == 0 {
		e := &Error{
			What: "the user sees no virtual machine" + v.scope() + ": wrong account, project or zone",
			Fix:  "name the account (--account) or the project (--project) that owns the cluster's VMs, and its zone (--zone)",
		}
		if elsewhere := seen(Places(ctx, api, v.Project.ID)); elsewhere != "" {
			e.Fix += "; the user sees VMs in " + elsewhere
		}
		return e
	}
	if err := ofAccount(vms, w.Account); err != nil {
		return err
	}
	v.found(true, "VMs", "%d%s", v.VMs, v.scope())
	return nil
}

// ofAccount refuses keys of another account than the one that was named: the VMs that they see are those of their own.
func ofAccount(vms []cloudstack.VirtualMachine, want string) error {
	var owners []string
	for i := range vms {
		owners = append(owners, vms[i].Account)
	}
	if want == "" || slices.Contains(owners, want) {
		return nil
	}
	slices.Sort(owners)
	owners = slices.Compact(owners)
	return report.Usage(fmt.Sprintf("--account %s does not match the keys: the VMs that they see are of account %s", want, some(owners)),
		"leave out --account, or give the keys of a user in account "+want)
}

func (v *Verified) networks(ctx context.Context, api User, _ Want) error {
	networks, err := api.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: v.Project.ID, ZoneID: v.Zone.ID, ListAll: true})
	if err != nil {
		return explain("listing networks", err)
	}
	for i := range networks {
		if networks[i].HasService("Lb") {
			v.Networks = append(v.Networks, networks[i].Name)
		}
	}
	slices.Sort(v.Networks)
	if len(v.Networks) == 0 {
		v.found(false, "networks", "none of %d has the Lb service: nodes work, Services of type LoadBalancer will be refused", len(networks))
		return nil
	}
	v.found(true, "networks", "load balancers are possible in %s", strings.Join(v.Networks, ", "))
	return nil
}

func (v *Verified) scope() string {
	var s string
	if v.Project.ID != "" {
		s += " in project " + v.Project.Name
	}
	if v.Zone.Name != "" {
		s += " in zone " + v.Zone.Name
	}
	return s
}

// ProbeKeys are for a client that only has to find out who answers: a CloudStack refuses them.
var ProbeKeys = Keys{APIKey: "probe", SecretKey: "probe"}

// Probe reports what answers at a URL that is no CloudStack; nil for a CloudStack.
func Probe(ctx context.Context, apiURL string, api *cloudapi.Client) error {
	_, err := api.Capabilities(ctx)
	var answer *cloudstack.Error
	switch {
	case err == nil, cloudstack.IsKind(err, cloudstack.KindAuth), cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		return nil
	case errors.As(err, &answer):
		return fmt.Errorf("no CloudStack API answers at %s: %s", apiURL, answer.Text)
	}
	return err
}

// CheckKeys asks CloudStack whether it takes keys. It refuses nothing that only the role lacks.
func CheckKeys(ctx context.Context, apiURL string, api *cloudapi.Client) error {
	return (&Verified{}).server(ctx, api, Want{APIURL: apiURL})
}

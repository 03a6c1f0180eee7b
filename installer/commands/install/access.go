// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/selftest"
)

// pending reports whether the plan creates or changes something in CloudStack.
func (r *run) pending() bool { return r.user != nil && r.user.Changes() }

// findAccess determines which keys the controller will use, and asks for what is missing. It changes nothing.
func (r *run) findAccess(ctx context.Context) error {
	if err := r.askSource(ctx); err != nil {
		return err
	}

	if r.Source != SourceAdmin && (r.CreateAccount || r.Domain+r.User+r.Role+r.Account != "") {
		return report.Usage(
			"leave them out, or give an administrator's login with "+adminFlags,
			"--account, --create-account, --domain, --controller-user and --role-name are for a user that an "+
				"administrator creates, but keys are given",
		)
	}

	if err := r.merge(ctx); err != nil {
		return err
	}

	if r.Source != SourceSecret {
		// The error of the probe says what answers at the URL if that is not a CloudStack API.
		err := r.askURL(ctx, r.Env, func(url string) error {
			if err := checkURL(url); err != nil {
				return err
			}

			there := r.withoutProject(credentials.Keys{APIKey: "probe", SecretKey: "probe"})
			there.APIURL = url
			api, err := cloudapi.NewClient(there)
			if err != nil {
				return err
			}

			return credentials.Probe(ctx, url, api)
		})

		if err == nil && r.Source == SourceKeys {
			err = r.askKeys(ctx)
		}

		if err != nil {
			return err
		}
	}

	for _, name := range r.config.Ignored {
		r.Progress.Warn("%s is a key of another provider and has no effect; the Secret will not contain it", name)
	}

	switch {
	case r.Source == SourceAdmin:
		return r.planUser(ctx)

	case r.secret.HasReplaced(r.config.APIKey):
		r.Progress.Info("csccm rotate-keys has replaced these keys; using the credentials in Secret %s", r.secret)
		r.Source, r.config.APIKey, r.config.SecretKey = SourceSecret, r.secret.Config.APIKey, r.secret.Config.SecretKey

	case r.Source == SourceSecret && r.secret.Problem != nil:
		return report.Usage("correct the Secret, or give credentials and --overwrite-secret", "%v", r.secret.Problem)
	}

	return nil
}

// merge sets the controller's cloud-config: the values that the operator gave, which override those of the Secret.
func (r *run) merge(ctx context.Context) (err error) {
	given := r.Over(nil)
	found := &cloudstack.Config{}
	r.config = given
	if r.secret.Config != nil {
		var end func()
		if found, end, err = r.secret.LocalConfig(ctx, r.Cluster.Kube); err != nil {
			return err
		}

		r.config, r.ends = r.Over(found), append(r.ends, end)
	}

	if r.Source == SourceKeys { // never combine a given key with the other key of the Secret's pair
		r.config.APIKey, r.config.SecretKey = given.APIKey, given.SecretKey
	}

	file := given.CAFile
	switch {
	case file == "":
		return nil
	case r.FromPredecessor && r.Flags["ca-file"] == "":
		r.Progress.Warn("ca-file %s is in the other provider's Pod; give the certificates with --ca-file FILE", file)
		r.config.CAFile = found.CAFile
		return nil
	}

	if r.caPEM, err = os.ReadFile(file); err == nil && !x509.NewCertPool().AppendCertsFromPEM(r.caPEM) {
		err = fmt.Errorf("%s contains no PEM certificate", file)
	}

	if err != nil {
		err = report.Usage("name a file with PEM certificates", "--ca-file: %v", err)
	}

	return err
}

// withoutProject returns the configuration with keys but without the project, for users who may not see the project.
func (r *run) withoutProject(keys credentials.Keys) *cloudstack.Config {
	cfg := *r.config
	cfg.APIKey, cfg.SecretKey, cfg.ProjectID = keys.APIKey, keys.SecretKey, ""
	return &cfg
}

// planUser logs in as the administrator, and plans the role, account, user and keys of the controller.
func (r *run) planUser(ctx context.Context) (err error) {
	r.Domain, r.Account = ownerIn(r.Account, r.Domain)
	if r.Account == "" && r.config.ProjectID == "" {
		if account, domain := r.created.Owner(r.config.APIURL); r.Domain == "" {
			r.Account, r.Domain = account, domain
		}
	}

	missing := r.Account == "" && r.config.ProjectID == ""
	if missing && !r.Interactive { // askOwner then returns an error, before the login
		return r.askOwner(ctx, "")
	}

	var end func()
	if r.admin, end, err = r.LogIn(ctx, r.Env, r.withoutProject(credentials.Keys{})); err != nil {
		return err
	}

	r.ends = append(r.ends, end)

	// Check the zone before anything is created. Whether the controller's user sees the zone is tested later.
	if r.config.Zone != "" {
		err = credentials.CheckZone(ctx, r.admin, r.config.Zone)
	} else {
		err = r.askZone(ctx, r.admin)
	}

	if err == nil && missing {
		err = r.askOwner(ctx, r.ownerOfNodes(ctx))
	}

	if err != nil {
		return err
	}

	r.Progress.Step("User for the controller")
	if !missing {
		if err := r.judgeOwner(ctx); err != nil {
			return err
		}
	}

	r.Progress.Done("user %q in account %q of domain %s", r.user.User, r.user.Account, r.user.Domain.Path)
	r.config.APIKey, r.config.SecretKey, r.config.ProjectID = "", "", r.user.Project.ID
	return nil
}

// judgeOwner plans the controller's user in the given account or project.
func (r *run) judgeOwner(ctx context.Context) (err error) {
	request := credentials.Request{
		Domain:        r.Domain,
		Account:       r.Account,
		CreateAccount: r.CreateAccount,
		Project:       r.config.ProjectID,
		User:          r.User,
		Role:          r.Role,
		Commands:      r.roleCommands(),
		Former:        r.secret.FormerUsers(),
		Created:       r.created,
		Sees: func(ctx context.Context, keys credentials.Keys, projectID string) (bool, error) {
			api, err := cloudapi.NewClient(r.withoutProject(keys))
			if err != nil {
				return false, err
			}

			projects, err := api.ListProjects(ctx)
			if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
				return false, nil
			}

			return slices.ContainsFunc(projects, func(p cloudstack.Project) bool { return p.ID == projectID }), err
		},
	}

	if was := r.secret.Config; was != nil {
		request.InUse = credentials.Keys{APIKey: was.APIKey, SecretKey: was.SecretKey}
	}

	if r.user, err = credentials.Plan(ctx, r.admin, request); err == nil {
		err = r.matchNodes(ctx)
	}

	return err
}

// roleCommands returns the API commands that the minimal role allows.
func (r *run) roleCommands() []string {
	all := slices.Clone(provider.RequiredCommands)
	if name, _ := r.chartValues()["registerCluster"].(string); name != "" {
		all = append(all, registration.Commands...)
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// matchesVMs is the code of the check that matchNodes replaces while there are no keys.
const matchesVMs = "NODE-002"

// matchNodes returns an error if the account or project does not own the VMs of the nodes, before a user is created in
// it. It lists the VMs with the administrator's login. If the administrator may not list them, matchNodes returns nil,
// and the check with the keys of the user decides later.
func (r *run) matchNodes(ctx context.Context) error {
	if slices.Contains(r.SkipChecks, matchesVMs) || len(r.nodes) == 0 {
		return nil
	}

	place := credentials.Place{Account: r.user.Account, Domain: r.user.Domain.Path}
	query := cloudstack.VMQuery{Account: r.user.Account, DomainID: r.user.Domain.ID}
	if r.user.Project.ID != "" {
		place, query = credentials.Place{Project: r.user.Project.Name}, cloudstack.VMQuery{ProjectID: r.user.Project.ID}
	}

	vms, err := r.admin.ListVirtualMachines(ctx, query)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) || cloudstack.IsNotFound(err) {
		return nil
	}

	if err != nil {
		return err
	}

	zone := r.config.Zone
	lost := check.Lost(r.nodes, inZone(vms, zone))
	if len(lost) == 0 {
		return nil
	}

	out := check.Problemf("%d of %s have no VM in %s", len(lost), report.Count(len(r.nodes), "node"), place)
	if zone != "" {
		out.Message += ", zone " + zone
	}

	there := place.String()
	place.VMs = vms // of all zones
	out = check.Elsewhere(out, lost, append(
		slices.DeleteFunc(
			credentials.AdminPlaces(ctx, r.admin),
			func(p credentials.Place) bool { return p.String() == there },
		),
		place,
	))

	return checksFailed(check.PhasePreflight, check.Result{Code: matchesVMs, Finding: out})
}

// inZone returns the VMs that are in a zone; all VMs if zone is "".
func inZone(vms []cloudstack.VirtualMachine, zone string) *inventory.VMSnapshot {
	return inventory.NewVMSnapshot(time.Time{}, inventory.Scope{},
		slices.DeleteFunc(slices.Clone(vms), func(vm cloudstack.VirtualMachine) bool {
			return !inventory.InZone(&vm, zone)
		}))
}

// takeKeys creates what is missing in CloudStack, and sets the keys of the controller. What it creates is recorded in
// the cluster before and after the creation.
func (r *run) takeKeys(ctx context.Context) error {
	r.Progress.Step("User for the controller in CloudStack")
	if r.user.Changes() {
		if err := access.EnsureNamespace(ctx, r.Cluster.Kube, r.Cluster.Namespace); err != nil {
			return err
		}
	}

	return credentials.Recorded(ctx, r.Cluster, r.config, r.user.Makes, func() error {
		keys, err := r.user.Apply(ctx, func(what string) {
			r.Note("made %s", what)
			r.Progress.Info("made %s", what)
		})
		if err == nil {
			r.config.APIKey, r.config.SecretKey = keys.APIKey, keys.SecretKey
			r.user.Steps = nil
		}

		return err
	})
}

// close ends the sessions. If the install failed, it names what the install has created in CloudStack.
func (r *run) close(err error) {
	var names []string
	for i := 0; err != nil && r.user != nil && i < len(r.user.Makes); i++ {
		if o := r.user.Makes[i]; o.ID != "" {
			names = append(names, o.String())
		}
	}

	if len(names) > 0 {
		r.Progress.Info("Created in CloudStack: %s; the next run continues with it, and csccm uninstall "+
			"--delete-user removes it", strings.Join(names, ", "))
	}

	for _, end := range r.ends {
		end()
	}
}

// scrub removes the keys from text, such as logs of the controller. The controller never logs the keys; scrub is a
// second safeguard.
func (r *run) scrub(text string) string {
	if r.config == nil {
		return text
	}
	return report.Mask(text, r.config.APIKey, r.config.SecretKey)
}

// verify tests the keys with the API calls that the controller makes.
func (r *run) verify(ctx context.Context) error {
	r.Progress.Step("Credentials against CloudStack")
	api, err := cloudapi.NewClient(r.config)
	if err != nil {
		return err
	}

	var lines strings.Builder
	test := &selftest.Test{
		Config:   r.config,
		Client:   api.Client,
		Required: provider.RequiredCommands,
		Optional: provider.OptionalCommands,
		Out:      &lines,
	}

	project, err := credentials.Verify(ctx, test)
	showTest(r.Progress, lines.String())
	if err == nil && project != "" && r.config.ProjectID != project {
		r.config.ProjectID = project // the id, which stays valid if the project is renamed
		api, err = cloudapi.NewClient(r.config)
	}

	if err != nil {
		return err
	}

	r.api = api
	r.Progress.Done("verified")
	return nil
}

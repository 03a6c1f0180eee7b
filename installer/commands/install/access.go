// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	podtest "github.com/csccm/csccm/installer/kube/selftest"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/selftest"
)

// access is the controller's access to CloudStack, and that of the administrator who makes its user.
type access struct {
	config *cloudstack.Config // of the controller, for this machine; without keys as long as they are to be made
	api    *cloudapi.Client   // with the controller's keys, when they are verified
	caPEM  []byte

	admin *cloudapi.Client       // an administrator's session
	user  *credentials.Provision // what makes the user; nil where keys were given
	ends  []func()
}

// pending reports whether something is to be made in CloudStack.
func (a *access) pending() bool { return a.user != nil && a.user.Changes() }

// findAccess finds out, by reading alone, whose keys the controller will use.
func (r *run) findAccess(ctx context.Context) error {
	if err := r.askCredentials(ctx); err != nil {
		return err
	}
	k := &r.Credentials
	if k.CAFile != "" {
		var err error
		if r.caPEM, err = os.ReadFile(k.CAFile); err == nil && !x509.NewCertPool().AppendCertsFromPEM(r.caPEM) {
			err = fmt.Errorf("%s holds no PEM certificate", k.CAFile)
		}
		if err != nil {
			return report.Usage(fmt.Sprintf("--ca-file: %v", err), "name a file with PEM certificates")
		}
	}
	switch {
	case k.Source == SourceAdmin:
		return r.planUser(ctx)
	case k.Source == SourceKeys && !r.secret.HasReplaced(k.Keys.APIKey):
		r.config = r.cloudConfig(k.Keys)
		return nil
	case k.Source == SourceKeys:
		r.Progress.Info("csccm rotate-keys has replaced these keys; using the credentials in Secret %s/%s", r.secret.Namespace, r.secret.Name)
		k.Source = SourceSecret
	case r.secret.Problem != nil:
		return report.Usage(r.secret.Problem.Error(), "correct the Secret, or give credentials and --overwrite-secret")
	}
	cfg, cleanup, err := r.secret.LocalConfig(ctx, r.Cluster.Kube)
	if err != nil {
		return r.Cluster.Explain(err)
	}
	r.ends = append(r.ends, cleanup)
	cfg.CAFile, cfg.ProjectID = cmp.Or(k.CAFile, cfg.CAFile), cmp.Or(r.Project, cfg.ProjectID)
	r.config = r.overlaid(cfg)
	return nil
}

// cloudConfig is the controller's configuration. It keeps what an operator set in an existing Secret and csccm has no flag for.
func (r *run) cloudConfig(keys credentials.Keys) *cloudstack.Config {
	cfg, k := cloudconfig.Default(), &r.Credentials
	if was := r.secret.Config; was != nil && was.APIURL == k.APIURL {
		cfg = *was
	}
	cfg.APIURL, cfg.APIKey, cfg.SecretKey = k.APIURL, keys.APIKey, keys.SecretKey
	cfg.CAFile, cfg.SSLNoVerify, cfg.ProjectID = k.CAFile, k.SSLNoVerify, r.Project
	return r.overlaid(&cfg)
}

// overlaid sets what flags say.
func (c *Config) overlaid(cfg *cloudstack.Config) *cloudstack.Config {
	cfg.Zone, cfg.Region, cfg.ClusterID = cmp.Or(c.Zone, cfg.Zone), cmp.Or(c.Region, cfg.Region), cmp.Or(c.ClusterID, cfg.ClusterID)
	return cfg
}

// withoutProject is the configuration for a user who need not see the project.
func (r *run) withoutProject(keys credentials.Keys) *cloudstack.Config {
	cfg := r.cloudConfig(keys)
	cfg.ProjectID = ""
	return cfg
}

// planUser logs in, and plans role, account, user and keys.
func (r *run) planUser(ctx context.Context) (err error) {
	missing := r.Credentials.Account == "" && r.Project == ""
	if missing && !r.Interactive { // refuses before the login
		return r.askOwner(ctx, "")
	}
	var end func()
	if r.admin, end, err = r.Credentials.LogIn(ctx, r.Env, r.withoutProject(credentials.Keys{})); err != nil {
		return err
	}
	r.ends = append(r.ends, end)
	if r.Zone != "" { // before anything is made; the user's own rights are proven later
		err = credentials.CheckZone(ctx, r.admin, r.Zone)
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
	r.config = r.cloudConfig(credentials.Keys{})
	r.config.ProjectID = cmp.Or(r.user.Project.ID, r.config.ProjectID)
	return nil
}

// judgeOwner plans the user in the account or project that is given.
func (r *run) judgeOwner(ctx context.Context) (err error) {
	k := &r.Credentials
	request := credentials.Request{
		Domain: k.Domain, Account: k.Account, CreateAccount: k.CreateAccount, Project: r.Project,
		User: k.User, Role: k.Role, Commands: r.roleCommands(), Former: credentials.RotationOf(r.secret.Object).Former,
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
	if was := r.secret.Config; was != nil && was.APIURL == k.APIURL {
		request.InUse = credentials.Keys{APIKey: was.APIKey, SecretKey: was.SecretKey}
	}
	if r.user, err = credentials.Plan(ctx, r.admin, request); err == nil {
		err = r.matchNodes(ctx)
	}
	return err
}

// roleCommands returns what the minimal role allows.
func (r *run) roleCommands() []string {
	all := slices.Clone(provider.RequiredCommands)
	if name, _ := r.chartValues()["registerCluster"].(string); name != "" {
		all = append(all, registration.Commands...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// matchesVMs is the check that matchNodes stands for before there are keys.
const matchesVMs = "NODE-002"

// matchNodes refuses an account or project that does not own the VMs of the nodes, before a user is made in it. The
// administrator's login lists its VMs; where it may not, the checks with the user's keys judge later.
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
	finding, ok := check.Misplaced(r.nodes, vms, place, r.cloudConfig(credentials.Keys{}).Zone, func() []credentials.Place {
		return credentials.AdminPlaces(ctx, r.admin)
	})
	if ok {
		return nil
	}
	return checksFailed(check.PhasePreflight, check.Result{Code: matchesVMs, Message: finding.Message, Remedy: finding.Remedy})
}

// makeUser makes what the plan of the user lists, after checks of the cluster and a question, and takes the keys.
func (r *run) makeUser(ctx context.Context) error {
	if r.user == nil {
		return nil
	}
	if !r.user.Changes() {
		return r.takeKeys(ctx, func(string, ...any) {})
	}
	if err := r.overwrites(); err != nil {
		return err
	}
	if err := r.preflight(ctx); err != nil {
		return err
	}
	if !r.Yes {
		text := "To do in CloudStack:\n  - " + strings.Join(r.user.Steps, "\n  - ") + "\n"
		if _, err := fmt.Fprint(r.ErrOut, text); err != nil {
			return err
		}
		if err := r.agreed(ctx, "Do this in CloudStack for the controller"); err != nil {
			return err
		}
	}
	r.Progress.Step("User for the controller in CloudStack")
	err := r.session.Run(ctx, engine.Step{Name: "the user in CloudStack", Do: r.takeKeys})
	if err == nil {
		r.Progress.Done("%q", r.user.User)
	}
	return err
}

// takeKeys makes what is missing, which is recorded in the cluster before and after.
func (r *run) takeKeys(ctx context.Context, note engine.Note) error {
	return engine.Shielded(ctx, func(ctx context.Context) error {
		if r.user.Changes() {
			if err := credentials.EnsureNamespace(ctx, r.Cluster.Kube, r.Cluster.Namespace); err != nil {
				return r.Cluster.Explain(err)
			}
		}
		return credentials.Recorded(ctx, r.Cluster, r.config, r.user.Makes, func() error {
			keys, err := r.user.Apply(ctx, func(what string) {
				note("made %s", what)
				r.Progress.Info("made %s", what)
			})
			if err == nil {
				r.config.APIKey, r.config.SecretKey = keys.APIKey, keys.SecretKey
				r.user.Steps = nil
			}
			return err
		})
	})
}

// agreed asks about a change.
func (r *run) agreed(ctx context.Context, question string) error {
	ok, err := r.Confirm(ctx, prompt.Question{Message: question, Default: "yes"})
	if err == nil && !ok {
		err = report.Declined("nothing was changed in the cluster")
	}
	return err
}

// close ends sessions. Where the install failed it names what is left in CloudStack.
func (r *run) close(err error) {
	var names []string
	for i := 0; err != nil && r.user != nil && i < len(r.user.Makes); i++ {
		if o := r.user.Makes[i]; o.ID != "" {
			names = append(names, o.String())
		}
	}
	if len(names) > 0 {
		r.Progress.Info("Made in CloudStack: %s; the next run goes on with it, and csccm uninstall --delete-user removes it", strings.Join(names, ", "))
	}
	for _, end := range r.ends {
		end()
	}
}

// scrub removes the keys from text of others. The controller never writes them; this is the second lock.
func (r *run) scrub(text string) string {
	if r.config == nil {
		return text
	}
	return report.Mask(text, r.config.APIKey, r.config.SecretKey)
}

// verify proves that the keys are good for what the controller does.
func (r *run) verify(ctx context.Context) error {
	r.Progress.Step("Credentials against CloudStack")
	api, err := cloudapi.NewClient(r.config)
	if err != nil {
		return err
	}
	var lines strings.Builder
	test := &selftest.Test{Config: r.config, Client: api.Client, Required: provider.RequiredCommands, Optional: provider.OptionalCommands, Out: &lines}
	project, err := credentials.Verify(ctx, test)
	podtest.Show(r.Progress, lines.String())
	if err == nil && project != "" && r.config.ProjectID != project {
		r.config.ProjectID = project // the id outlives a renaming
		api, err = cloudapi.NewClient(r.config)
	}
	if err != nil {
		return err
	}
	r.api = api
	r.Progress.Done("verified")
	return nil
}

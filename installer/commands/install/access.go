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

	admin *cloudapi.Client         // an administrator's session
	user  *credentials.Provision   // what makes the user; nil where keys were given
	done  []string                 // of its steps
	made  []credentials.MadeObject // by this run
	ends  []func()
}

// pending reports whether something is to be made in CloudStack.
func (a *access) pending() bool { return a.user != nil && a.user.Changes() }

// find finds out, by reading alone, whose keys the controller will use.
func (a *access) find(ctx context.Context, e *engine.Env, c *Config, f *facts) error {
	if err := c.askCredentials(ctx, e, f); err != nil {
		return err
	}
	k := &c.Credentials
	if k.CAFile != "" {
		var err error
		if a.caPEM, err = os.ReadFile(k.CAFile); err == nil && !x509.NewCertPool().AppendCertsFromPEM(a.caPEM) {
			err = fmt.Errorf("%s holds no PEM certificate", k.CAFile)
		}
		if err != nil {
			return report.Usage(fmt.Sprintf("--ca-file: %v", err), "name a file with PEM certificates")
		}
	}
	switch {
	case k.Source == SourceAdmin:
		return a.planUser(ctx, e, c, f)
	case k.Source == SourceKeys && !f.secret.HasReplaced(k.Keys.APIKey):
		a.config = c.cloudConfig(f, k.Keys)
		return nil
	case k.Source == SourceKeys:
		e.Progress.Info("csccm rotate-keys has replaced these keys; using the credentials in Secret %s/%s", f.secret.Namespace, f.secret.Name)
		k.Source = SourceSecret
	case f.secret.Problem != nil:
		return report.Usage(f.secret.Problem.Error(), "correct the Secret, or give credentials and --overwrite-secret")
	case !f.secret.Exists:
		return report.Usage(fmt.Sprintf("there is no Secret %s/%s", f.secret.Namespace, f.secret.Name), "add "+adminFlags+", or "+keyFlags)
	}
	cfg, cleanup, err := f.secret.LocalConfig(ctx, e.Cluster.Kube)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	a.ends = append(a.ends, cleanup)
	cfg.CAFile, cfg.ProjectID = cmp.Or(k.CAFile, cfg.CAFile), cmp.Or(c.Project, cfg.ProjectID)
	c.overlay(cfg)
	a.config = cfg
	return nil
}

// cloudConfig is the controller's configuration. It keeps what an operator set in an existing Secret and csccm has no flag for.
func (c *Config) cloudConfig(f *facts, keys credentials.Keys) *cloudstack.Config {
	cfg, k := cloudconfig.Default(), &c.Credentials
	if was := f.secret.Config; was != nil && was.APIURL == k.APIURL {
		cfg = *was
	}
	cfg.APIURL, cfg.APIKey, cfg.SecretKey = k.APIURL, keys.APIKey, keys.SecretKey
	cfg.CAFile, cfg.SSLNoVerify, cfg.ProjectID = k.CAFile, k.SSLNoVerify, c.Project
	c.overlay(&cfg)
	return &cfg
}

func (c *Config) overlay(cfg *cloudstack.Config) {
	cfg.Zone, cfg.Region, cfg.ClusterID = cmp.Or(c.Zone, cfg.Zone), cmp.Or(c.Region, cfg.Region), cmp.Or(c.ClusterID, cfg.ClusterID)
}

// withoutProject is the configuration for a user who need not see the project.
func (c *Config) withoutProject(f *facts, keys credentials.Keys) *cloudstack.Config {
	cfg := c.cloudConfig(f, keys)
	cfg.ProjectID = ""
	return cfg
}

// planUser logs in, and plans role, account, user and keys.
func (a *access) planUser(ctx context.Context, e *engine.Env, c *Config, f *facts) (err error) {
	missing := c.Credentials.Account == "" && c.Project == ""
	if missing && !e.Interactive {
		if err := c.askOwner(ctx, e, "", func(*Config) error { return nil }); err != nil {
			return err
		}
		missing = false
	}
	var end func()
	if a.admin, end, err = c.Credentials.LogIn(ctx, e, c.withoutProject(f, credentials.Keys{})); err != nil {
		return err
	}
	a.ends = append(a.ends, end)
	if c.Zone != "" { // before anything is made; the user's own rights are proven later
		err = credentials.CheckZone(ctx, a.admin, c.Zone)
	} else {
		err = c.askZone(ctx, e, a.admin)
	}
	if err != nil {
		return err
	}
	judge := func(c *Config) (err error) {
		if a.user, err = credentials.Plan(ctx, a.admin, c.request(f)); err == nil {
			err = a.matchNodes(ctx, c, f)
		}
		return err
	}
	if missing {
		if err := c.askOwner(ctx, e, ownerOf(ctx, f, a.admin, c.Zone), judge); err != nil {
			return err
		}
	}
	e.Progress.Step("User for the controller")
	if !missing {
		if err := judge(c); err != nil {
			return err
		}
	}
	e.Progress.Done("user %q in account %q of domain %s", a.user.User, a.user.Account, a.user.Domain.Path)
	a.config = c.cloudConfig(f, credentials.Keys{})
	a.config.ProjectID = cmp.Or(a.user.Project.ID, a.config.ProjectID)
	return nil
}

// request is what the administrator is asked for.
func (c *Config) request(f *facts) credentials.Request {
	k := &c.Credentials
	r := credentials.Request{
		Domain: k.Domain, Account: k.Account, CreateAccount: k.CreateAccount, Project: c.Project,
		User: k.User, Role: k.Role, Commands: c.roleCommands(f), Former: f.secret.FormerUsers(),
		Sees: func(ctx context.Context, keys credentials.Keys, projectID string) (bool, error) {
			api, err := cloudapi.NewClient(c.withoutProject(f, keys))
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
	if was := f.secret.Config; was != nil && was.APIURL == k.APIURL {
		r.InUse = credentials.Keys{APIKey: was.APIKey, SecretKey: was.SecretKey}
	}
	return r
}

// roleCommands returns what the minimal role allows.
func (c *Config) roleCommands(f *facts) []string {
	all := slices.Clone(provider.RequiredCommands)
	if name, _ := c.values(f)["registerCluster"].(string); name != "" {
		all = append(all, registration.Commands...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// matchesVMs is the check that matchNodes stands for before there are keys.
const matchesVMs = "NODE-002"

// matchNodes refuses an account or project that does not own the VMs of the nodes, before a user is made in it. The
// administrator's login lists its VMs; where it may not, the checks with the user's keys judge later.
func (a *access) matchNodes(ctx context.Context, c *Config, f *facts) error {
	if slices.Contains(c.SkipChecks, matchesVMs) || len(f.nodes) == 0 {
		return nil
	}
	place := credentials.Place{Account: a.user.Account, Domain: a.user.Domain.Path}
	query := cloudstack.VMQuery{Account: a.user.Account, DomainID: a.user.Domain.ID}
	if a.user.Project.ID != "" {
		place, query = credentials.Place{Project: a.user.Project.Name}, cloudstack.VMQuery{ProjectID: a.user.Project.ID}
	}
	vms, err := a.admin.ListVirtualMachines(ctx, query)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) || cloudstack.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	finding, ok := check.Misplaced(f.nodes, vms, place, c.cloudConfig(f, credentials.Keys{}).Zone, func() []credentials.Place {
		return credentials.AdminPlaces(ctx, a.admin)
	})
	if ok {
		return nil
	}
	return checksFailed(check.PhasePreflight, check.Result{
		Code: matchesVMs, Outcome: check.Failed, Message: finding.Message, Remedy: finding.Remedy, Objects: finding.Objects,
	})
}

// makeUser makes what the plan of the user lists, after checks of the cluster and a question, and takes the keys.
func (a *access) makeUser(ctx context.Context, e *engine.Env, s *engine.Session, c *Config, f *facts, p *plan) error {
	if a.user == nil {
		return nil
	}
	if !a.user.Changes() {
		return a.takeKeys(ctx, e, func(string, ...any) {})
	}
	if refusal := p.overwrites(c, f, a); refusal != nil && e.Yes {
		return refusal
	}
	if err := p.preflight(ctx, e, c, f, a); err != nil {
		return err
	}
	if !e.Yes {
		text := "To do in CloudStack:\n  - " + strings.Join(a.user.Steps, "\n  - ") + "\n"
		if _, err := fmt.Fprint(e.ErrOut, text); err != nil {
			return err
		}
		if err := a.agreed(ctx, e, "Do this in CloudStack for the controller"); err != nil {
			return err
		}
	}
	e.Progress.Step("User for the controller in CloudStack")
	err := s.Run(ctx, engine.Step{Name: "the user in CloudStack", Do: func(ctx context.Context, note engine.Note) error {
		return a.takeKeys(ctx, e, note)
	}})
	if err == nil {
		e.Progress.Done("%q", a.user.User)
	}
	return err
}

// takeKeys makes what is missing, which is recorded in the cluster before and after.
func (a *access) takeKeys(ctx context.Context, e *engine.Env, note engine.Note) error {
	return engine.Shielded(ctx, func(ctx context.Context) error {
		if a.user.Changes() {
			if err := credentials.EnsureNamespace(ctx, e.Cluster.Kube, e.Cluster.Namespace); err != nil {
				return e.Cluster.Explain(err)
			}
		}
		err := credentials.Recorded(ctx, e.Cluster, a.config, a.user.Makes, func() error {
			keys, err := a.user.Apply(ctx, func(what string) {
				a.done = append(a.done, what)
				note("made %s", what)
				e.Progress.Info("made %s", what)
			})
			if err == nil {
				a.config.APIKey, a.config.SecretKey = keys.APIKey, keys.SecretKey
				a.user.Steps = nil
			}
			return err
		})
		a.made = append(a.made, slices.DeleteFunc(a.user.Makes(), func(o credentials.MadeObject) bool { return o.ID == "" })...)
		return err
	})
}

// agreed asks about a change.
func (a *access) agreed(ctx context.Context, e *engine.Env, question string) error {
	ok, err := e.Confirm(ctx, prompt.Question{Message: question, Default: "yes"})
	switch {
	case err != nil || ok:
		return err
	case len(a.made) == 0:
		return report.Declined("nothing was changed")
	}
	return report.Declined("nothing was changed in the cluster")
}

// close ends sessions. Where the install failed it names what is left in CloudStack.
func (a *access) close(e *engine.Env, err error) {
	if err != nil && len(a.made) > 0 {
		var names []string
		for _, o := range a.made {
			names = append(names, o.String())
		}
		e.Progress.Info("Made in CloudStack: %s; the next run goes on with it, and csccm uninstall --delete-user removes it", strings.Join(names, ", "))
	}
	for _, end := range a.ends {
		end()
	}
}

// scrub removes the keys from text of others. The controller never writes them; this is the second lock.
func (a *access) scrub(text string) string {
	if a.config == nil {
		return text
	}
	return report.Mask(text, a.config.APIKey, a.config.SecretKey)
}

// verify proves that the keys are good for what the controller does.
func (a *access) verify(ctx context.Context, e *engine.Env, c *Config) error {
	e.Progress.Step("Credentials against CloudStack")
	api, err := cloudapi.NewClient(a.config)
	if err != nil {
		return err
	}
	var lines strings.Builder
	test := &selftest.Test{Config: a.config, Client: api.Client, Required: provider.RequiredCommands, Optional: provider.OptionalCommands, Out: &lines}
	project, err := credentials.Verify(ctx, test)
	var result podtest.Result
	podtest.Parse(lines.String(), &result)
	sayFindings(e, result.Findings)
	if err == nil && project != "" && a.config.ProjectID != project {
		a.config.ProjectID = project // the id outlives a renaming
		api, err = cloudapi.NewClient(a.config)
	}
	if err != nil {
		return err
	}
	a.api = api
	e.Progress.Done("verified")
	return nil
}

// sayFindings shows what a self-test found.
func sayFindings(e *engine.Env, findings []podtest.Finding) {
	for _, f := range findings {
		say := e.Progress.Warn
		if f.OK {
			say = e.Progress.Info
		}
		say("%s: %s", f.Subject, f.Text)
	}
}

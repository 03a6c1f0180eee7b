// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"slices"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/cloud/login"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// selfKnowledge are commands by which a user learns about its own rights: csccm
// doctor judges the controller's keys with them. The minimal role allows them
// besides what the controller calls.
var selfKnowledge = []string{"listApis", "listCapabilities"}

// credentials finds out, by reading alone, whose keys the controller will use.
func (in *Installer) credentials(ctx context.Context) error {
	if err := in.complete(ctx); err != nil {
		return err
	}
	c := &in.Options.Credentials
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s holds no PEM certificate", c.CAFile)
		}
		if err != nil {
			return report.Usage(fmt.Sprintf("--ca-file: %v", err), "name a file with PEM certificates")
		}
		in.caPEM = pem
	}
	switch c.Source {
	case SourceSecret:
		return in.fromSecret(ctx)
	case SourceKeys:
		if in.existing.HasReplaced(c.Keys.APIKey) {
			in.Progress.Info("csccm rotate-keys has replaced these keys; using the credentials in Secret %s/%s", in.existing.Namespace, in.existing.Name)
			c.Source, c.Origin = SourceSecret, nil
			return in.fromSecret(ctx)
		}
		in.config = in.newConfig()
		in.config.APIKey, in.config.SecretKey = c.Keys.APIKey, c.Keys.SecretKey
		return nil
	case SourceAdmin:
		return in.planProvision(ctx)
	case SourceUnset:
	}
	return report.Usage("no credentials are given", "add "+adminFlags+", or "+keyFlags)
}

// newConfig is the configuration without keys. It keeps what an operator set in
// an existing Secret and csccm has no flag for.
func (in *Installer) newConfig() *cloudstack.Config {
	fresh := cloudconfig.Default()
	cfg := &fresh
	c := &in.Options.Credentials
	if in.existing.Config != nil && in.existing.Config.APIURL == c.APIURL {
		*cfg = *in.existing.Config
		cfg.APIKey, cfg.SecretKey = "", ""
		cfg.SSLNoVerify, cfg.ProjectID = false, ""
	}
	cfg.APIURL, cfg.CAFile = c.APIURL, c.CAFile
	cfg.SSLNoVerify = cfg.SSLNoVerify || c.SSLNoVerify
	cfg.ProjectID = in.Options.Project
	in.overlay(cfg)
	return cfg
}

func (in *Installer) overlay(cfg *cloudstack.Config) {
	for _, o := range []struct {
		to   *string
		from string
	}{{&cfg.Zone, in.Options.Zone}, {&cfg.Region, in.Options.Region}, {&cfg.ClusterID, in.Options.ClusterID}} {
		if o.from != "" {
			*o.to = o.from
		}
	}
}

// fromSecret uses the Secret's keys; zone and the like given by flag change it.
func (in *Installer) fromSecret(ctx context.Context) error {
	if in.existing.Problem != nil {
		return report.Usage(in.existing.Problem.Error(), "correct the Secret, or give credentials and --overwrite-secret")
	}
	if !in.existing.Exists {
		return report.Usage(fmt.Sprintf("there is no Secret %s/%s", in.existing.Namespace, in.existing.Name),
			"add "+adminFlags+", or "+keyFlags)
	}
	cfg, cleanup, err := in.existing.LocalConfig(ctx, in.Cluster.Kube)
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.cleanups = append(in.cleanups, cleanup)
	if in.Options.Credentials.CAFile != "" {
		cfg.CAFile = in.Options.Credentials.CAFile
	}
	if in.Options.Project != "" {
		cfg.ProjectID = in.Options.Project
	}
	in.overlay(cfg)
	in.config = cfg
	return nil
}

// planProvision logs in and plans role, account, user and keys.
func (in *Installer) planProvision(ctx context.Context) error {
	if err := in.logIn(ctx); err != nil {
		return err
	}
	if in.Interactive {
		if err := in.askPlace(ctx); err != nil {
			return err
		}
	}
	in.Progress.Step("User for the controller")
	if in.Options.Zone != "" {
		// Before anything is made; the user's own rights are proven later.
		if _, err := credentials.FindZone(ctx, in.admin, in.Options.Zone); err != nil {
			return err
		}
	}
	plan, err := credentials.Plan(ctx, in.admin, in.request())
	if err != nil {
		return err
	}
	in.Progress.Done("user %q in account %q of domain %s", plan.User, plan.Account, plan.Domain.Path)
	if err := in.matchNodes(ctx, plan); err != nil {
		return err
	}
	in.provision = plan
	in.config = in.newConfig()
	if plan.Project.ID != "" {
		in.config.ProjectID = plan.Project.ID
	}
	return nil
}

// keysInUse are those of the Secret, if they are of the same CloudStack.
func (in *Installer) keysInUse() credentials.Keys {
	was := in.existing.Config
	if was == nil || was.APIURL != in.Options.Credentials.APIURL {
		return credentials.Keys{}
	}
	return credentials.Keys{APIKey: was.APIKey, SecretKey: was.SecretKey}
}

// request is what the administrator is asked for.
func (in *Installer) request() credentials.Request {
	c := &in.Options.Credentials
	return credentials.Request{
		Domain: c.Domain, Account: c.Account, CreateAccount: c.CreateAccount, Project: in.Options.Project,
		User: c.User, Role: c.Role, Commands: in.roleCommands(), Sees: in.seesProject,
		InUse: in.keysInUse(), Former: in.existing.FormerUsers(),
	}
}

// logIn makes the administrator's session.
func (in *Installer) logIn(ctx context.Context) error {
	c := &in.Options.Credentials
	session := in.newConfig()
	session.ProjectID = ""
	session.APIKey, session.SecretKey = c.AdminKeys.APIKey, c.AdminKeys.SecretKey
	open := func(ctx context.Context, user, password, domain string) (credentials.Administrators, error) {
		admin, err := in.Login(ctx, session, user, password, domain)
		if err != nil {
			return nil, err
		}
		in.endSession(ctx) // of a user who is no administrator
		in.admin = admin
		return admin, nil
	}
	if c.AdminKeys.given() {
		in.Progress.Step("The administrator's keys at %s", c.APIURL)
		admin, err := open(ctx, "", "", "")
		if err == nil {
			err = credentials.MustBeAdmin(ctx, admin, "the user of the administrator's keys")
		}
		if err != nil {
			return credentials.ExplainLogin(c.APIURL, c.AdminUser, c.AdminDomain, err)
		}
		in.Progress.Done("accepted")
		return nil
	}
	l := &login.Login{
		Prompt: in.Prompt, Progress: in.Progress, Again: in.Interactive, APIURL: c.APIURL,
		User: c.AdminUser, Password: c.AdminPassword, Domain: c.AdminDomain, Do: open,
	}
	err := l.Run(ctx)
	c.AdminPassword = "" // not needed again
	c.AdminUser = l.User
	if c.AdminDomain != "" || l.Domain != credentials.DefaultDomain {
		c.AdminDomain = l.Domain
	}
	return err
}

func (in *Installer) roleCommands() []string {
	all := slices.Concat(in.Required, selfKnowledge)
	slices.Sort(all)
	return slices.Compact(all)
}

// seesProject asks with the user's keys.
func (in *Installer) seesProject(ctx context.Context, keys credentials.Keys, projectID string) (bool, error) {
	cfg := in.newConfig()
	cfg.ProjectID = ""
	cfg.APIKey, cfg.SecretKey = keys.APIKey, keys.SecretKey
	api, err := in.Connect(cfg)
	if err != nil {
		return false, err
	}
	projects, err := api.ListProjects(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return false, nil
	}
	return slices.ContainsFunc(projects, func(p cloudstack.Project) bool { return p.ID == projectID }), err
}

// provisionKeys makes what the plan lists, after asking, and takes the keys.
func (in *Installer) provisionKeys(ctx context.Context) error {
	if in.provision == nil {
		return nil
	}
	if !in.provision.Changes() {
		return in.takeKeys(ctx)
	}
	if err := in.confirmProvision(ctx); err != nil {
		return err
	}
	in.Progress.Step("User for the controller in CloudStack")
	if err := in.session.Run(ctx, in.recorded("the user in CloudStack", in.takeKeys)); err != nil {
		return err
	}
	in.Progress.Done("%q", in.provision.User)
	return nil
}

func (in *Installer) takeKeys(ctx context.Context) error {
	return engine.Shielded(ctx, func(ctx context.Context) error {
		if err := in.recordMade(ctx); err != nil {
			return err
		}
		done := []string{}
		keys, err := in.provision.Apply(ctx, in.admin, func(what string) {
			done = append(done, what)
			in.note("made %s", what)
			in.Progress.Info("made %s", what)
		})
		if rerr := in.outcomeMade(ctx, err); rerr != nil {
			in.Progress.Warn("%v", rerr) // it names the objects already
		}
		if err != nil {
			return err
		}
		in.config.APIKey, in.config.SecretKey = keys.APIKey, keys.SecretKey
		in.plan.CloudStack.Steps, in.plan.CloudStack.Done = []string{}, done // nothing of the plan is left to do
		return nil
	})
}

func (in *Installer) confirmProvision(ctx context.Context) error {
	if in.Options.Yes {
		return nil
	}
	if _, err := fmt.Fprintln(in.ErrOut, "To do in CloudStack:"); err != nil {
		return err
	}
	for _, s := range in.provision.Steps {
		if _, err := fmt.Fprintln(in.ErrOut, "  - "+s); err != nil {
			return err
		}
	}
	return in.agreed(ctx, "Do this in CloudStack")
}

// declined is an install that the operator did not confirm. It names what the run has made in CloudStack before.
func (in *Installer) declined() error {
	if len(in.made) == 0 {
		return report.Declined("nothing was changed")
	}
	return &report.Error{
		What: "not confirmed: nothing was changed in the cluster. " + in.madeInCloudStack(),
		Fix:  "run csccm install again to go on with it; " + in.removeMade(), Code: report.ExitUsage,
	}
}

func (in *Installer) agreed(ctx context.Context, question string) error {
	ok, err := in.Prompt.Confirm(ctx, prompt.Question{Message: question, Flag: "--yes", Default: "yes"})
	if err != nil {
		return err
	}
	if !ok {
		return in.declined()
	}
	return nil
}

// namedAccount is the account that keys which exist must be of; "" where nobody has named one. A member of a project
// sees the project's VMs, which are of no account.
func (in *Installer) namedAccount() string {
	if in.Options.Credentials.Source == SourceAdmin || in.config.ProjectID != "" {
		return ""
	}
	return in.Options.Credentials.Account
}

// verify proves that the keys are good for what the controller does.
func (in *Installer) verify(ctx context.Context) error {
	in.Progress.Step("Credentials against CloudStack")
	cloud, err := in.Connect(in.config)
	if err != nil {
		return err
	}
	in.verified, err = credentials.Verify(ctx, cloud, credentials.Want{
		APIURL: in.config.APIURL, Project: in.config.ProjectID, Zone: in.config.Zone, Account: in.namedAccount(),
		Required: credentials.Without(in.Required, in.Optional),
		Optional: in.Optional,
	})
	for _, f := range in.verified.Findings {
		if f.OK {
			in.Progress.Info("%s: %s", f.Subject, f.Text)
		} else {
			in.Progress.Warn("%s: %s", f.Subject, f.Text)
		}
	}
	if err != nil {
		return err
	}
	in.cloud = cloud
	if in.verified.Project.ID != "" && in.config.ProjectID != in.verified.Project.ID {
		in.config.ProjectID = in.verified.Project.ID // the id outlives a renaming
		if in.cloud, err = in.Connect(in.config); err != nil {
			return err
		}
	}
	in.Progress.Done("verified")
	return nil
}

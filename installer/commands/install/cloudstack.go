// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

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

// credentials finds out, by reading alone, whose keys the controller will use.
func (in *Installer) credentials(ctx context.Context) error {
	if err := in.complete(ctx); err != nil {
		return err
	}
	c := &in.Credentials
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
			c.Source = SourceSecret
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
	c := &in.Credentials
	if in.existing.Config != nil && in.existing.Config.APIURL == c.APIURL {
		*cfg = *in.existing.Config
		cfg.APIKey, cfg.SecretKey = "", ""
		cfg.SSLNoVerify, cfg.ProjectID = false, ""
	}
	cfg.APIURL, cfg.CAFile = c.APIURL, c.CAFile
	cfg.SSLNoVerify = cfg.SSLNoVerify || c.SSLNoVerify
	cfg.ProjectID = in.Project
	in.overlay(cfg)
	return cfg
}

func (in *Installer) overlay(cfg *cloudstack.Config) {
	cfg.Zone, cfg.Region, cfg.ClusterID = cmp.Or(in.Zone, cfg.Zone), cmp.Or(in.Region, cfg.Region), cmp.Or(in.ClusterID, cfg.ClusterID)
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
	in.ends = append(in.ends, cleanup)
	cfg.CAFile, cfg.ProjectID = cmp.Or(in.Credentials.CAFile, cfg.CAFile), cmp.Or(in.Project, cfg.ProjectID)
	in.overlay(cfg)
	in.config = cfg
	return nil
}

// planProvision logs in and plans role, account, user and keys.
func (in *Installer) planProvision(ctx context.Context) error {
	session := in.newConfig()
	session.ProjectID = ""
	admin, end, err := in.Credentials.LogIn(ctx, in.Env, session)
	if err != nil {
		return err
	}
	in.admin, in.ends = admin, append(in.ends, end)
	if in.Interactive {
		if err := in.askPlace(ctx); err != nil {
			return err
		}
	}
	in.Progress.Step("User for the controller")
	if in.Zone != "" {
		// Before anything is made; the user's own rights are proven later.
		if err := credentials.CheckZone(ctx, in.admin, in.Zone); err != nil {
			return err
		}
	}
	var plan *credentials.Provision
	for moved := true; moved; {
		if plan, err = credentials.Plan(ctx, in.admin, in.request()); err != nil {
			return err
		}
		in.Progress.Done("user %q in account %q of domain %s", plan.User, plan.Account, plan.Domain.Path)
		if moved, err = in.matchNodes(ctx, plan); err != nil {
			return err
		}
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
	if was == nil || was.APIURL != in.Credentials.APIURL {
		return credentials.Keys{}
	}
	return credentials.Keys{APIKey: was.APIKey, SecretKey: was.SecretKey}
}

// request is what the administrator is asked for.
func (in *Installer) request() credentials.Request {
	c := &in.Credentials
	return credentials.Request{
		Domain: c.Domain, Account: c.Account, CreateAccount: c.CreateAccount, Project: in.Project,
		User: c.User, Role: c.Role, Commands: in.roleCommands(), Sees: in.seesProject,
		InUse: in.keysInUse(), Former: in.existing.FormerUsers(),
	}
}

// seesProject asks with the user's keys.
func (in *Installer) seesProject(ctx context.Context, keys credentials.Keys, projectID string) (bool, error) {
	cfg := in.newConfig()
	cfg.ProjectID = ""
	cfg.APIKey, cfg.SecretKey = keys.APIKey, keys.SecretKey
	api, err := cloudapi.NewClient(cfg)
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
		keys, err := in.provision.Apply(ctx, func(what string) {
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
	if in.Yes {
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
	return in.agreed(ctx, "Do this in CloudStack for the controller")
}

// declined is an install that the operator did not confirm. It names what the run has made in CloudStack before.
func (in *Installer) declined() error {
	if len(in.made) == 0 {
		return report.Declined("nothing was changed")
	}
	return &report.Error{
		What: "not confirmed: nothing was changed in the cluster. " + in.madeInCloudStack(),
		Fix:  "run csccm install again to go on with it; " + removeMade, Code: report.ExitUsage,
	}
}

func (in *Installer) agreed(ctx context.Context, question string) error {
	ok, err := in.Confirm(ctx, prompt.Question{Message: question, Default: "yes"})
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
	if in.Credentials.Source == SourceAdmin || in.config.ProjectID != "" {
		return ""
	}
	return in.Credentials.Account
}

// verify proves that the keys are good for what the controller does.
func (in *Installer) verify(ctx context.Context) error {
	in.Progress.Step("Credentials against CloudStack")
	cloud, err := cloudapi.NewClient(in.config)
	if err != nil {
		return err
	}
	var lines strings.Builder
	test := &selftest.Test{Config: in.config, Client: cloud.Client, Required: provider.RequiredCommands, Optional: provider.OptionalCommands, Out: &lines}
	project, err := credentials.Verify(ctx, test, in.namedAccount())
	var result podtest.Result
	podtest.Parse(lines.String(), &result)
	in.sayFindings(result.Findings)
	if err != nil {
		return err
	}
	in.cloud = cloud
	if project != "" && in.config.ProjectID != project {
		in.config.ProjectID = project // the id outlives a renaming
		if in.cloud, err = cloudapi.NewClient(in.config); err != nil {
			return err
		}
	}
	in.Progress.Done("verified")
	return nil
}

// roleCommands returns what the minimal role allows.
func (in *Installer) roleCommands() []string {
	all := slices.Clone(provider.RequiredCommands)
	if name, _ := in.effectiveValues()["registerCluster"].(string); name != "" {
		all = append(all, registration.Commands...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// recordMade lists in the cluster what is about to be made in CloudStack.
func (in *Installer) recordMade(ctx context.Context) error {
	objects := in.provision.Makes()
	if len(objects) == 0 {
		return nil
	}
	if err := credentials.EnsureNamespace(ctx, in.Cluster.Kube, in.Cluster.Namespace); err != nil {
		return in.Cluster.Explain(err)
	}
	return in.Cluster.Explain(credentials.RecordMade(ctx, in.Cluster.Kube, in.Cluster.Namespace, in.config.APIURL, in.config.SSLNoVerify, objects...))
}

// outcomeMade gives the list the ids of what was made. What was certainly not made after an error leaves it.
func (in *Installer) outcomeMade(ctx context.Context, err error) error {
	objects := in.provision.Makes()
	if len(objects) == 0 {
		return nil
	}
	made := slices.DeleteFunc(slices.Clone(objects), func(o credentials.MadeObject) bool { return o.ID == "" })
	in.made = append(in.made, made...)
	if len(made) > 0 {
		rerr := credentials.RecordMade(ctx, in.Cluster.Kube, in.Cluster.Namespace, in.config.APIURL, in.config.SSLNoVerify, made...)
		if rerr != nil {
			return rerr
		}
	}
	var api *cloudstack.Error
	if err == nil || !errors.As(err, &api) || api.MayHaveHappened {
		return nil
	}
	not := slices.DeleteFunc(slices.Clone(objects), func(o credentials.MadeObject) bool { return o.ID != "" })
	return credentials.ForgetMade(ctx, in.Cluster.Kube, in.Cluster.Namespace, not...)
}

// madeInCloudStack names what this run has made there.
func (in *Installer) madeInCloudStack() string {
	names := make([]string, 0, len(in.made))
	for _, o := range in.made {
		names = append(names, o.String())
	}
	return "Made in CloudStack: " + strings.Join(names, ", ")
}

// removeMade says how to remove what this run has made in CloudStack.
const removeMade = "csccm uninstall --delete-user removes it"

// sayMade names, where the install fails, what it has made in CloudStack.
func (in *Installer) sayMade(err error) {
	made := in.madeInCloudStack()
	if err == nil || len(in.made) == 0 || strings.Contains(err.Error(), made) {
		return
	}
	in.Progress.Info("%s; the next run goes on with it, and %s", made, removeMade)
}

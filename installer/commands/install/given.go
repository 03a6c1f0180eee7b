// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Source is where the controller's keys come from.
type Source string

// The sources.
const (
	SourceAdmin  Source = "admin"  // an administrator makes a user with keys
	SourceKeys   Source = "keys"   // existing keys are given
	SourceSecret Source = "secret" // the Secret in the cluster holds the keys
)

// byAdmin reports whether an administrator's login or keys are given, at least in part.
func (c *Config) byAdmin() bool {
	return c.AdminUser != "" || c.AdminPassword != "" || c.AdminKeys != (credentials.Keys{})
}

// Read reads passwords and keys from files, stdin and the environment; the command line never contains them. It warns
// about files that other users of this machine may read. In an interactive run it does not read a password from stdin,
// because a prompt asks for it later.
func (c *Config) Read(in io.Reader, errOut io.Writer, getenv func(string) string, interactive bool) error {
	keys := c.APIKeyFile != "" || c.SecretKeyFile != ""
	admin := c.AdminUser != "" || c.AdminKeys.APIKey != "" || c.AdminAPIKeyFile != "" || c.AdminSecretKeyFile != ""
	existing := c.CloudConfig != "" || keys

	var own credentials.Keys
	for _, twice := range []struct {
		what string
		is   bool
	}{
		{"--admin-password-file and --admin-password-stdin", c.AdminPasswordFile != "" && c.AdminPasswordStdin},
		{"--cloud-config and key files", c.CloudConfig != "" && keys},
		{"credentials of an administrator and keys of the controller", admin && existing},
		{"--from-predecessor and other credentials", c.FromPredecessor && (admin || existing)},
	} {
		if twice.is {
			return report.Usage("", "%s are both given; give one", twice.what)
		}
	}

	readPassword := func(flag, path string) (string, error) { return credentials.ReadPassword(flag, path, nil) }
	for _, file := range []struct {
		flag, path string
		to         *string
		read       func(flag, path string) (string, error)
	}{
		{"--admin-password-file", c.AdminPasswordFile, &c.AdminPassword, readPassword},
		{"--admin-api-key-file", c.AdminAPIKeyFile, &c.AdminKeys.APIKey, credentials.ReadKeyFile},
		{"--admin-secret-key-file", c.AdminSecretKeyFile, &c.AdminKeys.SecretKey, credentials.ReadKeyFile},
		{"--api-key-file", c.APIKeyFile, &own.APIKey, credentials.ReadKeyFile},
		{"--secret-key-file", c.SecretKeyFile, &own.SecretKey, credentials.ReadKeyFile},
		{"--cloud-config", c.CloudConfig, nil, nil},
	} {
		if mode, open := credentials.ExposedMode(file.path); open {
			_, _ = fmt.Fprintf(errOut, "warning: other users may read %s (%s, mode %04o)\n  fix: chmod 600 %s\n",
				file.path, file.flag, mode, report.ShellLine(file.path))
		}

		if file.path == "" || file.read == nil {
			continue
		}

		var err error
		if *file.to, err = file.read(file.flag, file.path); err != nil {
			return err
		}
	}

	if c.AdminPasswordStdin && !interactive {
		var err error
		if c.AdminPassword, err = credentials.ReadPassword("--admin-password-stdin", "", in); err != nil {
			return err
		}
	} else if c.AdminUser != "" {
		c.AdminPassword = cmp.Or(c.AdminPassword, getenv("CSCCM_ADMIN_PASSWORD"))
	}

	if keys {
		c.Answer("api-key", own.APIKey)
		c.Answer("secret-key", own.SecretKey)
	}

	if c.CloudConfig != "" {
		var err error
		c.File, err = access.ReadFile(c.CloudConfig)
		return err
	}

	if admin || c.FromPredecessor {
		return nil
	}

	for _, name := range []string{"api-url", "api-key", "secret-key"} {
		variable := "CLOUDSTACK_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if value := credentials.TrimKey(getenv(variable)); value != "" && c.Answers[name] == "" {
			c.Answer(name, value)
		}
	}

	return nil
}

// LogIn opens an administrator's session at the API of cfg, or returns a client with the administrator's keys. It asks
// for missing values, and asks again if CloudStack refuses an answer. It clears the password when it returns.
func (c *Config) LogIn(ctx context.Context, e *engine.Env, cfg *cloudstack.Config) (*cloudapi.Client, func(), error) {
	keys := c.AdminKeys != (credentials.Keys{})
	if keys && (c.AdminKeys.APIKey == "" || c.AdminKeys.SecretKey == "") {
		return nil, nil, report.Usage(
			"give both --admin-api-key-file and --admin-secret-key-file",
			"only one of the administrator's two keys is given",
		)
	}

	if err := credentials.RefusePlainLogin(cfg.APIURL, c.AllowHTTP); err != nil {
		return nil, nil, err
	}

	cfg.APIKey, cfg.SecretKey, cfg.CAFile =
		c.AdminKeys.APIKey, c.AdminKeys.SecretKey, cmp.Or(c.Flags["ca-file"], cfg.CAFile)

	given := *c
	defer func() { c.AdminPassword = "" }()

	for first := true; ; first = false {
		asked := !keys && (c.AdminUser == "" || c.AdminPassword == "")
		if asked {
			if err := c.askLogin(ctx, e, c.AdminUser == "" || !first); err != nil {
				return nil, nil, err
			}
		}

		session, end, err := c.logIn(ctx, e, cfg, keys)
		if err == nil {
			e.Progress.Done("")
			return session, end, nil
		}

		e.Progress.Fail("")

		var refused *credentials.RefusedError
		if !asked || !e.Interactive || ctx.Err() != nil || !errors.As(err, &refused) {
			return nil, nil, err
		}

		e.Progress.Warn("%v", err)
		e.Progress.Info("%s", refused.Problem.Fix)
		c.AdminUser, c.AdminPassword, c.AdminDomain = given.AdminUser, given.AdminPassword, given.AdminDomain
	}
}

// logIn makes one attempt to log in, or to use the administrator's keys.
func (c *Config) logIn(
	ctx context.Context, e *engine.Env, cfg *cloudstack.Config, keys bool,
) (session *cloudapi.Client, end func(), err error) {
	who, domain := fmt.Sprintf("user %q", c.AdminUser), cmp.Or(c.AdminDomain, credentials.DefaultDomain)

	end = func() {}
	if keys {
		who = "the user of the administrator's keys"
		e.Progress.Step("The administrator's keys at %s", cfg.APIURL)
		session, err = cloudapi.NewClient(cfg)
	} else {
		e.Progress.Step("Logging in to CloudStack at %s", cfg.APIURL)
		session, err = cloudapi.Login(ctx, cfg, c.AdminUser, c.AdminPassword, domain)
		end = func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = session.Logout(ctx) // if this fails, the session expires
		}
	}

	if err == nil && !c.AnyUser {
		if err = credentials.MustBeAdmin(ctx, session, who); err != nil {
			end()
		}
	}

	if err != nil {
		return nil, nil, credentials.ExplainLogin(cfg.APIURL, c.AdminUser, domain, err)
	}

	return session, end, nil
}

// askLogin asks for the missing parts of a login. If the user name is given, it asks for the domain only after a login
// has failed.
func (c *Config) askLogin(ctx context.Context, e *engine.Env, askDomain bool) error {
	if err := ask(ctx, e, &c.AdminUser, prompt.Question{
		Message: "CloudStack administrator", Default: "admin", Validate: notEmpty,
		Flag: "--admin-user USER with --admin-password-file FILE (or --admin-api-key-file and --admin-secret-key-file)",
	}); err != nil {
		return err
	}

	if c.AdminDomain == "" && e.Interactive && askDomain {
		domain, err := e.Prompt.Ask(ctx, prompt.Question{
			Message: "Domain of " + c.AdminUser, Default: credentials.DefaultDomain, Flag: "--admin-domain PATH",
			Help:     "the path of the administrator's domain as CloudStack shows it, for example ROOT/k8s",
			Validate: notEmpty,
		})
		if err != nil {
			return err
		}

		if domain != credentials.DefaultDomain { // FlagLine leaves out the default
			c.AdminDomain = domain
		}
	}

	return ask(ctx, e, &c.AdminPassword,
		prompt.Question{Message: "Password of " + c.AdminUser, Secret: true, Flag: passwordFlags, Validate: notEmpty})
}

// ask asks a question if *to is empty.
func ask(ctx context.Context, e *engine.Env, to *string, q prompt.Question) (err error) {
	if *to == "" {
		*to, err = e.Prompt.Ask(ctx, q)
	}
	return err
}

// askURL asks for the URL of the API if it is not given, and checks it.
func (c *Config) askURL(ctx context.Context, e *engine.Env, validate func(string) error) error {
	url := c.config.APIURL
	if err := ask(ctx, e, &url, prompt.Question{
		Message: "URL of the CloudStack API", Flag: "--api-url URL (for example https://cloud.example.org/client/api)",
		Help: "the address that the controller's Pods will use; it usually ends in /client/api", Validate: validate,
	}); err != nil {
		return err
	}

	if err := checkURL(url); err != nil {
		return report.Usage("give the URL of the API", "--%v", err)
	}

	if c.config.APIURL == "" {
		c.complete("api-url", url)
	}

	return nil
}

// complete sets a missing setting of the cloud-config to the answer to a question.
func (c *Config) complete(name, value string) {
	c.Answer(name, value) // for FlagLine
	_ = c.config.Set(name, value)
}

// Reach connects to CloudStack with the credentials that Read has read: a cloud-config, a login or keys. Without them
// it returns the result of secret. It is for commands that also work without a Kubernetes cluster.
func (c *Config) Reach(
	ctx context.Context, e *engine.Env, secret func(context.Context) (*access.Cloud, error),
) (*access.Cloud, error) {
	admin := c.byAdmin()
	c.config = c.Over(nil)
	switch {
	case admin: // connects below
	case c.config.APIKey+c.config.SecretKey == "":
		found, err := secret(ctx)
		if err == nil {
			found.Config.ProjectID = cmp.Or(c.config.ProjectID, found.Config.ProjectID)
		}
		return found, err
	case c.config.APIKey == "" || c.config.SecretKey == "":
		return nil, report.Usage(
			"give both: "+keyFlags+", or CLOUDSTACK_API_KEY and CLOUDSTACK_SECRET_KEY",
			"only one of the two keys is given",
		)
	}

	if err := c.askURL(ctx, e, checkURL); err != nil {
		return nil, err
	}

	out := &access.Cloud{Config: c.config, From: cmp.Or(c.CloudConfig, "the keys that were given"), Close: func() {}}
	if !admin {
		return out.Open()
	}

	client, end, err := c.LogIn(ctx, e, out.Config)
	if err != nil {
		return nil, err
	}

	out.Client, out.Close, out.From = client, end, "the login"
	return out, nil
}

const (
	adminFlags = "--admin-user USER with --admin-password-file FILE or --admin-password-stdin (or " +
		"--admin-api-key-file and --admin-secret-key-file)"
	keyFlags      = "--api-key-file FILE with --secret-key-file FILE"
	passwordFlags = "--admin-password-file FILE or --admin-password-stdin, or set CSCCM_ADMIN_PASSWORD"
)

// Questions are asked again after a wrong answer: the Validate function of a question checks the answer with read-only
// calls to CloudStack. Without a terminal, the first question is an error that names its flag.

// askSource decides where the controller's keys come from.
func (r *run) askSource(ctx context.Context) error {
	switch given := r.Over(nil); {
	case r.Source != "":
		return nil
	case r.FromPredecessor: // read below
	case given.APIKey+given.SecretKey != "":
		r.Source = SourceKeys
		return nil
	case r.byAdmin():
		r.Source = SourceAdmin
		return nil
	case r.secret.Exists && (r.secret.Problem == nil || !r.OverwriteSecret):
		r.Source = SourceSecret
		r.Progress.Info("using the credentials in Secret %s", r.secret)
		return nil
	}

	text, from, err := access.OfPredecessor(ctx, r.Cluster.Kube, r.controllers.Predecessors)
	if !r.FromPredecessor {
		choices := []prompt.Choice{
			{
				Value: string(SourceAdmin),
				Label: "Log in as a CloudStack administrator and create a user for the controller",
			},
			{Value: string(SourceKeys), Label: "Use API keys that exist already"},
		}

		const predecessor = "predecessor"
		if err == nil {
			choices = append(choices, prompt.Choice{
				Value: predecessor,
				Label: fmt.Sprintf("Use the keys of the other provider (%s)", from),
			})
		}

		source, err := r.Prompt.Ask(ctx, prompt.Question{
			Message: "Credentials for the controller",
			Default: string(SourceAdmin),
			Choices: choices,
			Flag:    adminFlags + ", or " + keyFlags,
			Help: "a login is used once, to create a user with the rights that the controller needs, and is not " +
				"stored",
		})
		if err != nil || source != predecessor {
			r.Source = Source(source)
			return err
		}
	}

	if err != nil {
		return err
	}

	// The settings of the other provider apply unless a flag overrides them. Its keys are verified like other keys.
	r.Progress.Info("credentials of the other provider: %s", from)
	r.Source, r.FromPredecessor = SourceKeys, true
	r.File = text
	return nil
}

// askKeys asks for the controller's keys until CloudStack accepts them.
func (r *run) askKeys(ctx context.Context) error {
	k, given := r.config, *r.config
	for ; ; k.APIKey, k.SecretKey = given.APIKey, given.SecretKey {
		for _, q := range []struct {
			to         *string
			name, flag string
		}{
			{&k.APIKey, "API key", "--api-key-file FILE, or set CLOUDSTACK_API_KEY"},
			{&k.SecretKey, "Secret key", "--secret-key-file FILE, or set CLOUDSTACK_SECRET_KEY"},
		} {
			err := ask(ctx, r.Env, q.to, prompt.Question{
				Message: q.name,
				Secret:  true,
				Flag:    q.flag,
				Validate: func(s string) error {
					if err := notEmpty(s); err != nil {
						return err
					}
					return credentials.CheckKey(q.name, credentials.TrimKey(s))
				},
			})
			if err != nil {
				return err
			}

			*q.to = credentials.TrimKey(*q.to)
		}

		if !r.Interactive || given.APIKey != "" && given.SecretKey != "" {
			return nil
		}

		api, err := cloudapi.NewClient(k)
		if err == nil {
			err = credentials.CheckKeys(ctx, k.APIURL, api)
		}

		switch {
		case err == nil:
			return r.askZone(ctx, api)
		case !cloudstack.IsKind(err, cloudstack.KindAuth):
			return err
		}

		r.Progress.Warn("%v", err)
	}
}

// askOwner asks for the account or project that owns the VMs: NAME of an account, DOMAIN/NAME, or project/NAME. It
// checks the answer by planning the controller's user in that account or project.
func (r *run) askOwner(ctx context.Context, owner string) error {
	project, domain := r.Answers["project-id"], r.Domain
	_, err := r.Prompt.Ask(ctx, prompt.Question{
		Message: "Account that owns the cluster's VMs",
		Flag:    "--account NAME, or --project NAME for a cluster in a project",
		Default: owner,
		Help: "the controller's user is created in this account, since nobody else sees its VMs; for VMs in a " +
			"project type project/NAME, for an account of another domain the domain's path too, as in ROOT/shop/NAME",
		Validate: func(answer string) error {
			if err := notEmpty(answer); err != nil {
				return err
			}

			// Undo what an earlier answer has set.
			r.complete("project-id", project)
			r.Domain, r.Account = domain, ""

			if name, ok := strings.CutPrefix(answer, "project/"); ok {
				r.complete("project-id", name)
			} else {
				r.Domain, r.Account = ownerIn(answer, domain)
			}

			err := r.judgeOwner(ctx)
			if known, ok := errors.AsType[*report.Error](err); ok && known.Fix != "" {
				return fmt.Errorf("%w (%s)", err, known.Fix)
			}

			return err
		},
	})

	return err
}

// ownerIn splits DOMAIN/NAME into the domain and the account. For a NAME without a domain it returns the given domain.
func ownerIn(name, domain string) (string, string) {
	if i := strings.LastIndex(name, "/"); i > 0 {
		return name[:i], name[i+1:]
	}
	return domain, name
}

// ownerOfNodes returns the account or project that owns the VMs of all nodes, in the syntax of askOwner; "" if there is
// none.
func (r *run) ownerOfNodes(ctx context.Context) string {
	if len(r.nodes) == 0 {
		return ""
	}
	for _, p := range credentials.AdminPlaces(ctx, r.admin) {
		if len(check.Lost(r.nodes, inZone(p.VMs, r.config.Zone))) > 0 {
			continue
		}

		if p.Project != "" {
			return "project/" + p.Project
		}

		return p.Domain + "/" + p.Account
	}

	return ""
}

// askZone asks for the zone if there are several.
func (r *run) askZone(ctx context.Context, api *cloudapi.Client) error {
	if r.config.Zone != "" || !r.Interactive {
		return nil
	}

	zones, err := api.ListZones(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil // without a zone the controller looks for VMs in all zones
	}

	if err != nil || len(zones) < 2 {
		return err
	}

	choices := []prompt.Choice{{Value: "", Label: "any zone"}}
	for _, z := range zones {
		choices = append(choices, prompt.Choice{Value: z.Name})
	}

	zone, err := r.Prompt.Ask(ctx, prompt.Question{
		Message: "Zone of the cluster's VMs",
		Choices: choices,
		Flag:    "--zone NAME",
		Help:    "the controller looks for the nodes' VMs there; any zone if the cluster is in several",
	})
	r.complete("zone", zone)
	return err
}

func notEmpty(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("an answer is needed")
	}
	return nil
}

func checkURL(s string) error {
	_, err := (&cloudstack.Config{APIURL: s}).Endpoint()
	return err
}

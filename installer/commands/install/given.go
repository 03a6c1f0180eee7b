// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// Credentials says where the controller's keys come from. At most one of the sources Admin..., Keys and existing Secret is used.
type Credentials struct {
	APIURL      string
	CAFile      string
	SSLNoVerify bool

	Source Source

	// SourceAdmin: a login, or an administrator's keys.
	AdminUser, AdminPassword, AdminDomain string
	AdminKeys                             credentials.Keys
	Account, Domain, User, Role           string
	CreateAccount                         bool
	// AllowHTTP lets the login, or the calls with an administrator's keys, go to an http:// URL.
	AllowHTTP bool
	// AnyUser lets a user log in who is no administrator.
	AnyUser bool

	Keys            credentials.Keys // SourceKeys: the controller's own
	FromPredecessor bool             // they are those of the provider that the install replaces
}

// Source is where keys come from.
type Source string

// The sources.
const (
	SourceUnset  Source = ""
	SourceAdmin  Source = "admin"
	SourceKeys   Source = "keys"
	SourceSecret Source = "secret" // the Secret that is in the cluster
)

// admin reports whether an administrator's login or keys are given, or a part of them.
func (c *Credentials) admin() bool {
	return c.AdminUser != "" || c.AdminPassword != "" || c.AdminKeys != (credentials.Keys{})
}

// Given is where the flags say that passwords and keys are. None of them is in argv.
type Given struct {
	AdminPasswordFile                   string
	AdminPasswordStdin                  bool
	AdminAPIKeyFile, AdminSecretKeyFile string
	APIKeyFile, SecretKeyFile           string
	CloudConfig                         string

	In          io.Reader // stdin
	ErrOut      io.Writer // for what an operator should know about the secrets
	Getenv      func(string) string
	Interactive bool // somebody can be asked
}

// Read reads passwords and keys; none of them comes from argv. It warns of files that other users of this machine may read.
func (f *Given) Read(o *Config) error {
	c := &o.Credentials
	keys := f.APIKeyFile != "" || f.SecretKeyFile != ""
	admin := c.AdminUser != "" || c.AdminKeys.APIKey != "" || f.AdminAPIKeyFile != "" || f.AdminSecretKeyFile != ""
	existing := c.Keys.APIKey != "" || f.CloudConfig != "" || keys
	for _, twice := range []struct {
		what string
		is   bool
	}{
		{"--admin-password-file and --admin-password-stdin", f.AdminPasswordFile != "" && f.AdminPasswordStdin},
		{"--cloud-config and key files", f.CloudConfig != "" && keys},
		{"credentials of an administrator and keys of the controller", admin && existing},
		{"--from-predecessor and other credentials", c.FromPredecessor && (admin || existing)},
	} {
		if twice.is {
			return report.Usage(twice.what+" are both given; give one", "")
		}
	}
	readPassword := func(flag, path string) (string, error) { return credentials.ReadPassword(flag, path, nil) }
	for _, file := range []struct {
		flag, path string
		to         *string
		read       func(flag, path string) (string, error)
	}{
		{"--admin-password-file", f.AdminPasswordFile, &c.AdminPassword, readPassword},
		{"--admin-api-key-file", f.AdminAPIKeyFile, &c.AdminKeys.APIKey, credentials.ReadKeyFile},
		{"--admin-secret-key-file", f.AdminSecretKeyFile, &c.AdminKeys.SecretKey, credentials.ReadKeyFile},
		{"--api-key-file", f.APIKeyFile, &c.Keys.APIKey, credentials.ReadKeyFile},
		{"--secret-key-file", f.SecretKeyFile, &c.Keys.SecretKey, credentials.ReadKeyFile},
	} {
		if !f.given(file.flag, file.path) {
			continue
		}
		var err error
		if *file.to, err = file.read(file.flag, file.path); err != nil {
			return err
		}
	}
	if f.AdminPasswordStdin && !f.Interactive {
		var err error
		if c.AdminPassword, err = credentials.ReadPassword("--admin-password-stdin", "", f.In); err != nil {
			return err
		}
	} else if c.AdminUser != "" {
		c.AdminPassword = cmp.Or(c.AdminPassword, f.Getenv("CSCCM_ADMIN_PASSWORD"))
	}
	if f.given("--cloud-config", f.CloudConfig) {
		cfg, err := cloud.ReadFile(f.CloudConfig)
		if err != nil {
			return err
		}
		c.CAFile = cmp.Or(c.CAFile, cfg.CAFile)
		o.fill(cfg) // flags go over it
	} else if !admin && !c.FromPredecessor {
		c.APIURL = cmp.Or(c.APIURL, f.Getenv("CLOUDSTACK_API_URL"))
		c.Keys.APIKey = cmp.Or(c.Keys.APIKey, credentials.TrimKey(f.Getenv("CLOUDSTACK_API_KEY")))
		c.Keys.SecretKey = cmp.Or(c.Keys.SecretKey, credentials.TrimKey(f.Getenv("CLOUDSTACK_SECRET_KEY")))
	}
	return nil
}

// given reports whether a file is given, and warns if other users of this machine may read it.
func (f *Given) given(flag, path string) bool {
	if mode, open := credentials.ExposedMode(path); open {
		_, _ = fmt.Fprintf(f.ErrOut, "warning: other users may read %s (%s, mode %04o)\n  fix: chmod 600 %s\n", path, flag, mode, report.ShellLine(path))
	}
	return path != ""
}

// Session is LogIn of a run.
func (c *Credentials) Session(e *engine.Env) func(context.Context, *cloudstack.Config) (*cloudapi.Client, func(), error) {
	return func(ctx context.Context, cfg *cloudstack.Config) (*cloudapi.Client, func(), error) {
		return c.LogIn(ctx, e, cfg)
	}
}

// LogIn opens the session of an administrator at cfg's API, or works with an administrator's keys, after asking for what
// is missing; somebody at the terminal is asked again for what CloudStack refuses. The password is forgotten.
func (c *Credentials) LogIn(ctx context.Context, e *engine.Env, cfg *cloudstack.Config) (*cloudapi.Client, func(), error) {
	keys := c.AdminKeys != (credentials.Keys{})
	if keys && (c.AdminKeys.APIKey == "" || c.AdminKeys.SecretKey == "") {
		return nil, nil, report.Usage("only one of the administrator's two keys is given", "give both --admin-api-key-file and --admin-secret-key-file")
	}
	if err := credentials.RefusePlainLogin(cfg.APIURL, c.AllowHTTP); err != nil {
		return nil, nil, err
	}
	cfg.APIKey, cfg.SecretKey = c.AdminKeys.APIKey, c.AdminKeys.SecretKey
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

func (c *Credentials) logIn(ctx context.Context, e *engine.Env, cfg *cloudstack.Config, keys bool) (session *cloudapi.Client, end func(), err error) {
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
			_ = session.Logout(ctx) // the session ends by itself otherwise
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

// askLogin asks for what is missing of a login. Who has given a user name is asked for its domain only where the login failed.
func (c *Credentials) askLogin(ctx context.Context, e *engine.Env, askDomain bool) (err error) {
	if c.AdminUser == "" {
		if c.AdminUser, err = e.Prompt.Ask(ctx, prompt.Question{
			Message: "CloudStack administrator", Default: "admin", Validate: notEmpty,
			Flag: "--admin-user USER with --admin-password-file FILE (or --admin-api-key-file and --admin-secret-key-file)",
		}); err != nil {
			return err
		}
	}
	if c.AdminDomain == "" && e.Interactive && askDomain {
		domain, err := e.Prompt.Ask(ctx, prompt.Question{
			Message: "Domain of " + c.AdminUser, Default: credentials.DefaultDomain, Flag: "--admin-domain PATH",
			Help: "the path of the administrator's domain as CloudStack shows it, for example ROOT/k8s", Validate: notEmpty,
		})
		if err != nil {
			return err
		}
		if domain != credentials.DefaultDomain { // the flag line leaves the default out
			c.AdminDomain = domain
		}
	}
	if c.AdminPassword == "" {
		c.AdminPassword, err = e.Prompt.Ask(ctx, prompt.Question{Message: "Password of " + c.AdminUser, Secret: true, Flag: passwordFlags, Validate: notEmpty})
	}
	return err
}

// askURL asks for the API's URL where it is missing, and judges it.
func (c *Credentials) askURL(ctx context.Context, p prompt.Prompter, validate func(string) error) (err error) {
	if c.APIURL == "" {
		if c.APIURL, err = p.Ask(ctx, prompt.Question{
			Message: "URL of the CloudStack API", Flag: "--api-url URL (for example https://cloud.example.org/client/api)",
			Help: "the address that the controller's Pods will use; it usually ends in /client/api", Validate: validate,
		}); err != nil {
			return err
		}
	}
	if err := checkURL(c.APIURL); err != nil {
		return report.Usage("--"+err.Error(), "give the URL of the API")
	}
	return nil
}

// Reach returns CloudStack with the credentials that Read has read, for commands that work without a Kubernetes cluster:
// those of a cloud-config, a login or keys. Without any it returns what secret finds.
func (f *Given) Reach(ctx context.Context, e *engine.Env, o *Config, secret func(context.Context) (*cloud.Cloud, error)) (*cloud.Cloud, error) {
	c := &o.Credentials
	admin := c.admin()
	if !admin && c.Keys == (credentials.Keys{}) {
		found, err := secret(ctx)
		if err == nil {
			found.Config.ProjectID = cmp.Or(o.Project, found.Config.ProjectID)
		}
		return found, err
	}
	if !admin && (c.Keys.APIKey == "" || c.Keys.SecretKey == "") {
		return nil, report.Usage("only one of the two keys is given", "give both: "+keyFlags+", or CLOUDSTACK_API_KEY and CLOUDSTACK_SECRET_KEY")
	}
	if err := c.askURL(ctx, e.Prompt, checkURL); err != nil {
		return nil, err
	}
	config := cloudconfig.Default()
	config.APIURL, config.CAFile, config.SSLNoVerify, config.ProjectID, config.Zone = c.APIURL, c.CAFile, c.SSLNoVerify, o.Project, o.Zone
	out := &cloud.Cloud{Config: &config, From: cmp.Or(f.CloudConfig, "the keys that were given"), Close: func() {}}
	if !admin {
		config.APIKey, config.SecretKey = c.Keys.APIKey, c.Keys.SecretKey
		return out.Open()
	}
	client, end, err := c.LogIn(ctx, e, &config)
	if err != nil {
		return nil, err
	}
	out.Client, out.Close, out.From = client, end, "the login"
	return out, nil
}

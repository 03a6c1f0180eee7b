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
	var err error
	if f.given("--admin-password-file", f.AdminPasswordFile) {
		if c.AdminPassword, err = credentials.ReadPassword("--admin-password-file", f.AdminPasswordFile, nil); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		flag, path string
		to         *string
	}{
		{"--admin-api-key-file", f.AdminAPIKeyFile, &c.AdminKeys.APIKey},
		{"--admin-secret-key-file", f.AdminSecretKeyFile, &c.AdminKeys.SecretKey},
		{"--api-key-file", f.APIKeyFile, &c.Keys.APIKey},
		{"--secret-key-file", f.SecretKeyFile, &c.Keys.SecretKey},
	} {
		if !f.given(file.flag, file.path) {
			continue
		}
		if *file.to, err = credentials.ReadKeyFile(file.flag, file.path); err != nil {
			return err
		}
	}
	switch {
	case f.AdminPasswordStdin && !f.Interactive:
		if c.AdminPassword, err = credentials.ReadPassword("--admin-password-stdin", "", f.In); err != nil {
			return err
		}
	case c.AdminPassword == "" && c.AdminUser != "":
		c.AdminPassword = f.Getenv("CSCCM_ADMIN_PASSWORD")
	}
	switch {
	case f.given("--cloud-config", f.CloudConfig):
		cfg, err := cloud.ReadFile(f.CloudConfig)
		if err != nil {
			return err
		}
		c.CAFile = cmp.Or(c.CAFile, cfg.CAFile)
		o.fill(cfg) // flags go over it
	case !admin && !c.FromPredecessor:
		c.APIURL = cmp.Or(c.APIURL, f.Getenv("CLOUDSTACK_API_URL"))
		for name, to := range map[string]*string{"CLOUDSTACK_API_KEY": &c.Keys.APIKey, "CLOUDSTACK_SECRET_KEY": &c.Keys.SecretKey} {
			if *to == "" {
				*to = credentials.TrimKey(f.Getenv(name))
			}
		}
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

// checkLogin refuses what cannot become a login.
func (c *Credentials) checkLogin(apiURL string) error {
	if (c.AdminKeys.APIKey == "") != (c.AdminKeys.SecretKey == "") {
		return report.Usage("only one of the administrator's two keys is given", "give both --admin-api-key-file and --admin-secret-key-file")
	}
	return credentials.RefusePlainLogin(apiURL, c.AllowHTTP)
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
	if err := c.checkLogin(cfg.APIURL); err != nil {
		return nil, nil, err
	}
	cfg.APIKey, cfg.SecretKey = c.AdminKeys.APIKey, c.AdminKeys.SecretKey
	if c.AdminKeys != (credentials.Keys{}) {
		e.Progress.Step("The administrator's keys at %s", cfg.APIURL)
		session, err := cloudapi.NewClient(cfg)
		if err == nil && !c.AnyUser {
			err = credentials.MustBeAdmin(ctx, session, "the user of the administrator's keys")
		}
		if err != nil {
			return nil, nil, credentials.ExplainLogin(cfg.APIURL, c.AdminUser, c.AdminDomain, err)
		}
		e.Progress.Done("accepted")
		return session, func() {}, nil
	}
	given := *c
	defer func() { c.AdminPassword = "" }()
	for first := true; ; first = false {
		domain, asked, err := c.askLogin(ctx, e, c.AdminUser == "" || !first)
		if err != nil {
			return nil, nil, err
		}
		e.Progress.Step("Logging in to CloudStack at %s", cfg.APIURL)
		session, err := cloudapi.Login(ctx, cfg, c.AdminUser, c.AdminPassword, domain)
		end := func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = session.Logout(ctx) // the session ends by itself otherwise
		}
		if err != nil {
			err = credentials.ExplainLogin(cfg.APIURL, c.AdminUser, domain, err)
		} else if !c.AnyUser {
			if err = credentials.MustBeAdmin(ctx, session, fmt.Sprintf("user %q", c.AdminUser)); err != nil {
				end()
			}
		}
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
		e.Progress.Info("%s", refused.Remedy())
		c.AdminUser, c.AdminPassword, c.AdminDomain = given.AdminUser, given.AdminPassword, given.AdminDomain
	}
}

// askLogin asks for what is missing of a login, and reports whether it has asked anything. Who has given a user name is asked
// for its domain only where the login failed.
func (c *Credentials) askLogin(ctx context.Context, e *engine.Env, askDomain bool) (domain string, asked bool, err error) {
	if c.AdminUser == "" {
		asked = true
		if c.AdminUser, err = e.Prompt.Ask(ctx, prompt.Question{
			Message: "CloudStack administrator", Default: "admin", Validate: notEmpty,
			Flag: "--admin-user USER with --admin-password-file FILE (or --admin-api-key-file and --admin-secret-key-file)",
		}); err != nil {
			return "", asked, err
		}
	}
	domain = cmp.Or(c.AdminDomain, credentials.DefaultDomain)
	if c.AdminDomain == "" && e.Interactive && askDomain {
		asked = true
		if domain, err = e.Prompt.Ask(ctx, prompt.Question{
			Message: "Domain of " + c.AdminUser, Default: credentials.DefaultDomain, Flag: "--admin-domain PATH",
			Help: "the path of the administrator's domain as CloudStack shows it, for example ROOT/k8s", Validate: notEmpty,
		}); err != nil {
			return "", asked, err
		}
		if domain != credentials.DefaultDomain {
			c.AdminDomain = domain
		}
	}
	if c.AdminPassword == "" {
		asked = true
		c.AdminPassword, err = e.Prompt.Ask(ctx, prompt.Question{Message: "Password of " + c.AdminUser, Secret: true, Flag: passwordFlags, Validate: notEmpty})
	}
	return domain, asked, err
}

// askURL asks for the API's URL where it is missing, and judges it.
func (c *Credentials) askURL(ctx context.Context, p prompt.Prompter, known string, validate func(string) error) (err error) {
	if c.APIURL == "" {
		if c.APIURL, err = p.Ask(ctx, prompt.Question{
			Message: "URL of the CloudStack API", Default: known, Flag: "--api-url URL (for example https://cloud.example.org/client/api)",
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
	fresh := cloudconfig.Default()
	out := &cloud.Cloud{Config: &fresh, From: "the keys that were given", Close: func() {}}
	if f.CloudConfig != "" {
		config, err := cloud.ReadFile(f.CloudConfig)
		if err != nil {
			return nil, err
		}
		out.Config, out.From = config, f.CloudConfig
	}
	if !admin && (c.Keys.APIKey == "" || c.Keys.SecretKey == "") {
		return nil, report.Usage("only one of the two keys is given", "give both: "+keyFlags+", or CLOUDSTACK_API_KEY and CLOUDSTACK_SECRET_KEY")
	}
	if err := c.askURL(ctx, e.Prompt, "", checkURL); err != nil {
		return nil, err
	}
	config := out.Config
	config.APIURL, config.CAFile, config.ProjectID = c.APIURL, c.CAFile, o.Project
	config.SSLNoVerify = config.SSLNoVerify || c.SSLNoVerify
	if !admin {
		config.APIKey, config.SecretKey = c.Keys.APIKey, c.Keys.SecretKey
		return out.Open()
	}
	client, end, err := c.LogIn(ctx, e, config)
	if err != nil {
		return nil, err
	}
	out.Client, out.Close, out.From = client, end, "the login"
	return out, nil
}

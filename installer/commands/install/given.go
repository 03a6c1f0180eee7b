// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
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

// Given is where the flags say that passwords and keys are. None of them is in argv.
type Given struct {
	AdminPasswordFile                   string
	AdminPasswordStdin                  bool
	AdminAPIKeyFile, AdminSecretKeyFile string
	APIKeyFile, SecretKeyFile           string
	CloudConfig                         string
	// CMKProfile and AdminCMKProfile are profiles of cmk (CloudMonkey), whose configuration is CMKConfig; "" is cmk's own.
	CMKConfig, CMKProfile, AdminCMKProfile string

	In          io.Reader // stdin
	Getenv      func(string) string
	Interactive bool // somebody can be asked
}

// Read reads passwords and keys; none of them comes from argv.
func (f *Given) Read(o *Options) error {
	c := &o.Credentials
	if err := f.readCMK(c); err != nil {
		return err
	}
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
	if f.AdminPasswordFile != "" {
		if c.AdminPassword, err = credentials.ReadPassword("--admin-password-file", f.AdminPasswordFile, nil); err != nil {
			return err
		}
	}
	for _, file := range f.keyFiles(c) {
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
	case f.CloudConfig != "":
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

// secretFile is a file that a flag names; an API key or secret key is read to its place.
type secretFile struct {
	flag, path string
	to         *string
}

// keyFiles are the files with keys that are given.
func (f *Given) keyFiles(c *CredentialOptions) []secretFile {
	return slices.DeleteFunc([]secretFile{
		{"--admin-api-key-file", f.AdminAPIKeyFile, &c.AdminKeys.APIKey},
		{"--admin-secret-key-file", f.AdminSecretKeyFile, &c.AdminKeys.SecretKey},
		{"--api-key-file", f.APIKeyFile, &c.Keys.APIKey},
		{"--secret-key-file", f.SecretKeyFile, &c.Keys.SecretKey},
	}, func(file secretFile) bool { return file.path == "" })
}

// cmkPath is the file that the flags name, or cmk's own.
func (f *Given) cmkPath() string {
	return cmp.Or(f.CMKConfig, filepath.Join(f.Getenv("HOME"), ".cmk", "config"))
}

// readCMK fills what the flags name; what was given by other flags stays.
func (f *Given) readCMK(c *CredentialOptions) error {
	switch {
	case f.CMKProfile != "" && f.AdminCMKProfile != "":
		return report.Usage("--cmk-profile and --admin-cmk-profile are both given; give one", "")
	case f.CMKProfile == "" && f.AdminCMKProfile == "":
		if f.CMKConfig != "" {
			return report.Usage("--cmk-config needs --admin-cmk-profile or --cmk-profile", "")
		}
		return nil
	}
	path := f.cmkPath()
	p, err := credentials.ReadCMK(path, cmp.Or(f.AdminCMKProfile, f.CMKProfile))
	if err != nil {
		return err
	}
	c.APIURL = cmp.Or(c.APIURL, p.URL)
	whole := p.Keys.APIKey != "" && p.Keys.SecretKey != ""
	switch {
	case f.CMKProfile != "" && !whole:
		return report.Usage(fmt.Sprintf("profile %q of %s has no keys; cmk sync or cmk set apikey, secretkey make them, or use --admin-cmk-profile", p.Name, path), "")
	case f.CMKProfile != "":
		c.Keys = p.Keys
	case whole:
		c.AdminKeys = p.Keys
	case p.Username == "" || p.Password == "":
		return report.Usage(fmt.Sprintf("profile %q of %s has neither keys nor a login", p.Name, path), "")
	default:
		c.AdminUser, c.AdminPassword = p.Username, p.Password
		c.AdminDomain = cmp.Or(c.AdminDomain, p.Domain)
	}
	return nil
}

// Warn names the files with secrets that other users of this machine may read.
func (f *Given) Warn(w io.Writer) {
	files := append([]secretFile{{flag: "--admin-password-file", path: f.AdminPasswordFile}}, f.keyFiles(&CredentialOptions{})...)
	files = append(files, secretFile{flag: "--cloud-config", path: f.CloudConfig})
	if f.CMKProfile != "" || f.AdminCMKProfile != "" {
		files = append(files, secretFile{flag: "--cmk-config", path: f.cmkPath()})
	}
	for _, file := range files {
		if mode, exposed := credentials.ExposedMode(file.path); exposed {
			_, _ = fmt.Fprintf(w, "warning: other users may read %s (%s, mode %04o)\n  fix: chmod 600 %s\n",
				file.path, file.flag, mode, report.ShellLine(file.path))
		}
	}
}

// checkLogin refuses what cannot become a login.
func (c *CredentialOptions) checkLogin(apiURL string) error {
	if (c.AdminKeys.APIKey == "") != (c.AdminKeys.SecretKey == "") {
		return report.Usage("only one of the administrator's two keys is given", "give both --admin-api-key-file and --admin-secret-key-file")
	}
	return credentials.RefusePlainLogin(apiURL, c.AllowHTTP)
}

// Session is LogIn of a run.
func (c *CredentialOptions) Session(e *engine.Env) func(context.Context, *cloudstack.Config) (*cloudapi.Client, func(), error) {
	return func(ctx context.Context, cfg *cloudstack.Config) (*cloudapi.Client, func(), error) {
		return c.LogIn(ctx, e, cfg)
	}
}

// LogIn opens the session of an administrator at cfg's API, or works with an administrator's keys, after asking for what
// is missing; somebody at the terminal is asked again for what CloudStack refuses. The password is forgotten.
func (c *CredentialOptions) LogIn(ctx context.Context, e *engine.Env, cfg *cloudstack.Config) (*cloudapi.Client, func(), error) {
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
func (c *CredentialOptions) askLogin(ctx context.Context, e *engine.Env, askDomain bool) (domain string, asked bool, err error) {
	if c.AdminUser == "" {
		asked = true
		if c.AdminUser, err = e.Prompt.Input(ctx, prompt.Question{
			Message: "CloudStack administrator", Default: "admin", Validate: notEmpty,
			Flag: "--admin-user USER with --admin-password-file FILE (or --admin-api-key-file and --admin-secret-key-file)",
		}); err != nil {
			return "", asked, err
		}
	}
	domain = cmp.Or(c.AdminDomain, credentials.DefaultDomain)
	if c.AdminDomain == "" && e.Interactive && askDomain {
		asked = true
		if domain, err = e.Prompt.Input(ctx, prompt.Question{
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
		c.AdminPassword, err = e.Prompt.Secret(ctx, prompt.Question{Message: "Password of " + c.AdminUser, Flag: passwordFlags, Validate: notEmpty})
	}
	return domain, asked, err
}

// Reach returns CloudStack with the credentials that Read has read, for commands that work without a Kubernetes cluster:
// those of a cloud-config, a login or keys. Without any it returns what secret finds.
func (f *Given) Reach(ctx context.Context, e *engine.Env, o *Options, secret func(context.Context) (*cloud.Cloud, error)) (*cloud.Cloud, error) {
	c := &o.Credentials
	admin := c.AdminUser != "" || c.AdminPassword != "" || c.AdminKeys != (credentials.Keys{})
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
	if err := c.completeURL(ctx, e.Prompt, "", checkURL); err != nil {
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

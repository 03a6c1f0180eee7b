// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/cloud/login"
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

	unverified string   // name of the profile, where it has verifycert = false
	notes      []string // about the keys that were read
}

// Read reads passwords and keys; none of them comes from argv.
func (f *Given) Read(o *Options) error {
	c := &o.Credentials
	if f.AdminPasswordFile != "" && f.AdminPasswordStdin {
		return report.Usage("--admin-password-file and --admin-password-stdin are both given; give one", "")
	}
	if f.CloudConfig != "" && (f.APIKeyFile != "" || f.SecretKeyFile != "") {
		return report.Usage("--cloud-config and key files are both given; give one", "")
	}
	if err := f.readCMK(c); err != nil {
		return err
	}
	admin := c.AdminUser != "" || c.AdminKeys.APIKey != "" || f.AdminAPIKeyFile != "" || f.AdminSecretKeyFile != ""
	existing := c.Keys.APIKey != "" || f.CloudConfig != "" || f.APIKeyFile != "" || f.SecretKeyFile != ""
	if admin && existing {
		return report.Usage("credentials of an administrator and keys of the controller are both given; give one", "")
	}
	if c.FromPredecessor && (admin || existing) {
		return report.Usage("--from-predecessor and other credentials are both given; give one", "")
	}
	var err error
	if f.AdminPasswordFile != "" {
		if c.AdminPassword, err = credentials.ReadSecretFile("--admin-password-file", f.AdminPasswordFile); err != nil {
			return err
		}
		c.Origin = append(c.Origin, "--admin-password-file", f.AdminPasswordFile)
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
		if file.path == "" {
			continue
		}
		var note string
		if *file.to, note, err = credentials.ReadKeyFile(file.flag, file.path); err != nil {
			return err
		}
		f.note(note)
		c.Origin = append(c.Origin, file.flag, file.path)
	}
	switch {
	case f.AdminPasswordStdin && !f.Interactive:
		if c.AdminPassword, err = credentials.ReadSecretFrom("--admin-password-stdin", f.In); err != nil {
			return err
		}
		c.Origin = append(c.Origin, "--admin-password-stdin")
	case c.AdminPassword == "" && c.AdminUser != "":
		c.AdminPassword = f.Getenv("CSCCM_ADMIN_PASSWORD")
	}
	if f.CloudConfig != "" {
		return f.readCloudConfig(o)
	}
	if !admin && !c.FromPredecessor {
		f.keyFromEnv("CLOUDSTACK_API_KEY", &c.Keys.APIKey)
		f.keyFromEnv("CLOUDSTACK_SECRET_KEY", &c.Keys.SecretKey)
	}
	return nil
}

// keyFromEnv reads a key that no flag has given.
func (f *Given) keyFromEnv(name string, to *string) {
	if *to != "" {
		return
	}
	var note string
	*to, note = credentials.TrimKey(name, f.Getenv(name))
	f.note(note)
}

// note keeps a hint about the input until it is known that the command runs: completion reads secrets too.
func (f *Given) note(text string) {
	if text != "" {
		f.notes = append(f.notes, text)
	}
}

// readCloudConfig takes a cloud-config's settings; flags go over them.
func (f *Given) readCloudConfig(o *Options) error {
	file, err := os.Open(f.CloudConfig)
	if err != nil {
		return &report.Error{What: "--cloud-config", Err: err, Fix: "name a file that exists and that you may read", Code: report.ExitUsage}
	}
	defer file.Close() //nolint:errcheck // read only
	cfg, err := cloudconfig.Parse(file)
	if err != nil {
		return &report.Error{What: fmt.Sprintf("--cloud-config %s", f.CloudConfig), Err: err, Fix: "correct the file; README.md shows one", Code: report.ExitUsage}
	}
	c := &o.Credentials
	c.Keys.APIKey, c.Keys.SecretKey = cfg.APIKey, cfg.SecretKey
	c.Origin = []string{"--cloud-config", f.CloudConfig}
	c.SSLNoVerify = c.SSLNoVerify || cfg.SSLNoVerify
	for _, s := range []struct {
		to   *string
		from string
	}{
		{&c.APIURL, cfg.APIURL}, {&c.CAFile, cfg.CAFile}, {&o.Project, cfg.ProjectID},
		{&o.Zone, cfg.Zone}, {&o.Region, cfg.Region}, {&o.ClusterID, cfg.ClusterID},
	} {
		if *s.to == "" {
			*s.to = s.from
		}
	}
	return nil
}

// cmkPath is the file that the flags name, or cmk's own.
func (f *Given) cmkPath() string {
	if f.CMKConfig != "" {
		return f.CMKConfig
	}
	return filepath.Join(f.Getenv("HOME"), ".cmk", "config")
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
	flag, name := "--cmk-profile", f.CMKProfile
	if f.AdminCMKProfile != "" {
		flag, name = "--admin-cmk-profile", f.AdminCMKProfile
	}
	p, err := credentials.ReadCMK(path, name)
	if err != nil {
		return err
	}
	c.Origin = []string{flag + "=" + p.Name}
	if f.CMKConfig != "" {
		c.Origin = append(c.Origin, "--cmk-config", f.CMKConfig)
	}
	if c.APIURL == "" {
		c.APIURL = p.URL
	}
	if p.SSLNoVerify {
		f.unverified = p.Name
	}
	keys := Keys{APIKey: p.Keys.APIKey, SecretKey: p.Keys.SecretKey}
	whole := keys.APIKey != "" && keys.SecretKey != ""
	switch {
	case f.CMKProfile != "" && !whole:
		return report.Usage(fmt.Sprintf("profile %q of %s has no keys; cmk sync or cmk set apikey, secretkey make them, or use --admin-cmk-profile", p.Name, path), "")
	case f.CMKProfile != "":
		c.Keys = keys
	case whole:
		c.AdminKeys = keys
	case p.Username == "" || p.Password == "":
		return report.Usage(fmt.Sprintf("profile %q of %s has neither keys nor a login", p.Name, path), "")
	default:
		c.AdminUser, c.AdminPassword = p.Username, p.Password
		if c.AdminDomain == "" {
			c.AdminDomain = p.Domain
		}
	}
	return nil
}

// Warn writes what an operator should know about the secrets that were read.
func (f *Given) Warn(w io.Writer) {
	for _, note := range f.notes {
		_, _ = fmt.Fprintf(w, "note: %s\n", note)
	}
	f.warnExposed(w)
}

// warnExposed warns about files with passwords or keys that other users of this machine may read.
func (f *Given) warnExposed(w io.Writer) {
	cmkConfig := ""
	if f.CMKProfile != "" || f.AdminCMKProfile != "" {
		cmkConfig = f.cmkPath()
	}
	for _, file := range []struct{ flag, path string }{
		{"--admin-password-file", f.AdminPasswordFile},
		{"--admin-api-key-file", f.AdminAPIKeyFile},
		{"--admin-secret-key-file", f.AdminSecretKeyFile},
		{"--api-key-file", f.APIKeyFile},
		{"--secret-key-file", f.SecretKeyFile},
		{"--cloud-config", f.CloudConfig},
		{"--cmk-config", cmkConfig},
	} {
		if file.path == "" {
			continue
		}
		if mode, exposed := credentials.ExposedMode(file.path); exposed {
			_, _ = fmt.Fprintf(w, "warning: other users may read %s (%s, mode %04o)\n  fix: chmod 600 %s\n",
				file.path, file.flag, mode, report.ShellLine(file.path))
		}
	}
}

// Unverified decides whether a profile's verifycert = false is taken over. It is asked, or needs --ssl-no-verify: a
// setting in a file of another program is no consent to hand the controller's traffic to whoever answers.
func (f *Given) Unverified(ctx context.Context, c *CredentialOptions, p prompt.Prompter) error {
	if f.unverified == "" || c.SSLNoVerify || c.CAFile != "" {
		return nil
	}
	what := fmt.Sprintf("profile %q of cmk has verifycert = false", f.unverified)
	if f.Interactive {
		var err error
		c.SSLNoVerify, err = p.Confirm(ctx, prompt.Question{
			Message: strings.ToUpper(what[:1]) + what[1:] + "; trust any certificate of the API here too", Flag: "--ssl-no-verify", Default: "no",
			Help: "without a trusted certificate anybody between the cluster and CloudStack can read and change the calls; --ca-file names the certificate to trust",
		})
		return err
	}
	return report.Usage(fmt.Sprintf("%s, which is not taken over without being asked for", what), "add --ca-file FILE with the certificate that signs the API's, or --ssl-no-verify to trust any")
}

// Session logs the administrator in, after asking for what is missing.
func (f *Given) Session(ctx context.Context, e *engine.Env, c *CredentialOptions, cfg *cloudstack.Config) (*cloudstack.Client, func(), error) {
	if err := credentials.RefusePlainLogin(cfg.APIURL, c.AllowHTTP); err != nil {
		return nil, nil, err
	}
	cfg.APIKey, cfg.SecretKey = c.AdminKeys.APIKey, c.AdminKeys.SecretKey
	if (cfg.APIKey == "") != (cfg.SecretKey == "") {
		return nil, nil, report.Usage("only one of --admin-api-key-file and --admin-secret-key-file is given; give both", "")
	}
	var client *cloudstack.Client
	open := func(ctx context.Context, user, password, domain string) (credentials.Administrators, error) {
		var err error
		if cfg.APIKey != "" {
			client, err = cloudstack.NewClient(cfg)
		} else {
			client, err = cloudstack.Login(ctx, cfg, user, password, domain)
		}
		return client, err
	}
	if cfg.APIKey != "" {
		if _, err := open(ctx, "", "", ""); err != nil {
			return nil, nil, err
		}
	} else {
		l := &login.Login{
			Prompt: e.Prompt, Progress: e.Progress, Again: f.Interactive, APIURL: cfg.APIURL,
			User: c.AdminUser, Password: c.AdminPassword, Domain: c.AdminDomain, Do: open,
		}
		err := l.Run(ctx)
		c.AdminPassword = "" // not needed again
		if err != nil {
			return nil, nil, err
		}
	}
	return client, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = client.Logout(ctx) // the session ends by itself otherwise
	}, nil
}

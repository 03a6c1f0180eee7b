// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"strings"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// CredentialOptions says where the controller's keys come from. At most one of
// the sources Admin..., Keys... and existing Secret is used; Source tells which.
type CredentialOptions struct {
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

	// SourceKeys: the controller's own keys.
	Keys credentials.Keys

	// FromPredecessor takes the keys of the provider that the install replaces.
	FromPredecessor bool
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

const (
	adminFlags    = "--admin-user USER with --admin-password-file FILE or --admin-password-stdin (or --admin-api-key-file and --admin-secret-key-file)"
	keyFlags      = "--api-key-file FILE with --secret-key-file FILE"
	passwordFlags = "--admin-password-file FILE or --admin-password-stdin, or set CSCCM_ADMIN_PASSWORD"
)

// complete asks for what is missing. Without a terminal the first missing thing
// is an error that names its flag.
func (in *Installer) complete(ctx context.Context) error {
	c := &in.Credentials
	if err := in.completeSource(ctx); err != nil {
		return err
	}
	if err := in.uselessFlags(); err != nil {
		return err
	}
	if c.Source == SourceSecret {
		return nil
	}
	known := ""
	if in.existing.Config != nil {
		known = in.existing.Config.APIURL
	}
	// Somebody is asked until a CloudStack answers there.
	if err := c.completeURL(ctx, in.Prompt, known, func(s string) error { return in.probe(ctx, s) }); err != nil {
		return err
	}
	if c.Source == SourceKeys {
		return in.completeKeys(ctx)
	}
	return in.completeAdmin(ctx)
}

// completeURL asks for the API's URL where it is missing, and judges it.
func (c *CredentialOptions) completeURL(ctx context.Context, p prompt.Prompter, known string, validate func(string) error) (err error) {
	if c.APIURL == "" {
		if c.APIURL, err = p.Input(ctx, prompt.Question{
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

func (in *Installer) completeSource(ctx context.Context) error {
	c := &in.Credentials
	usable := in.existing.Exists && in.existing.Problem == nil
	switch {
	case c.Source != SourceUnset:
	case c.FromPredecessor:
		return in.usePredecessor(ctx)
	case c.Keys != (credentials.Keys{}):
		c.Source = SourceKeys
	case c.AdminUser != "" || c.AdminPassword != "" || c.AdminKeys != (credentials.Keys{}):
		c.Source = SourceAdmin
	case usable && c.APIURL == "":
		c.Source = SourceSecret
		in.Progress.Info("using the credentials in Secret %s/%s", in.existing.Namespace, in.existing.Name)
	case in.existing.Exists && in.existing.Problem != nil && c.APIURL == "" && !in.OverwriteSecret:
		return report.Usage(in.existing.Problem.Error(), "correct the Secret, or give credentials and --overwrite-secret")
	default:
		source, err := in.Prompt.Select(ctx, prompt.Question{
			Message: "Credentials for the controller", Default: string(SourceAdmin), Flag: adminFlags + ", or " + keyFlags,
			Help: "a login is used once to make a user with the rights that the controller needs, and is not kept",
		}, append([]prompt.Choice{
			{Value: string(SourceAdmin), Label: "Log in as a CloudStack administrator and make a user for the controller"},
			{Value: string(SourceKeys), Label: "Use API keys that exist already"},
		}, in.predecessorChoice(ctx)...))
		if err != nil {
			return err
		}
		if source == sourcePredecessor {
			return in.usePredecessor(ctx)
		}
		c.Source = Source(source)
	}
	return nil
}

// uselessFlags refuses flags about the user that an administrator makes where keys exist: nothing would come of them.
func (in *Installer) uselessFlags() error {
	c := &in.Credentials
	if c.Source == SourceAdmin {
		return nil
	}
	var given []string
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"--create-account", c.CreateAccount},
		{"--domain", c.Domain != ""},
		{"--user", c.User != ""},
		{"--role-name", c.Role != ""},
		{"--account", c.Account != "" && in.Project != ""},
	} {
		if f.given {
			given = append(given, f.flag)
		}
	}
	if len(given) == 0 {
		return nil
	}
	return report.Usage(strings.Join(given, ", ")+" is for the user that an administrator makes, and keys exist here",
		"leave it out, or give an administrator's login with "+adminFlags)
}

// askKey asks for a key, without the blanks that a paste may put around it.
func (in *Installer) askKey(ctx context.Context, q prompt.Question) (string, error) {
	q.Validate = func(s string) error {
		if err := notEmpty(s); err != nil {
			return err
		}
		return credentials.CheckKey(q.Message, credentials.TrimKey(s))
	}
	answer, err := in.Prompt.Secret(ctx, q)
	return credentials.TrimKey(answer), err
}

// completeAdmin refuses what cannot become a login. On a terminal the rest is asked for as CloudStack knows more.
func (in *Installer) completeAdmin(ctx context.Context) error {
	c := &in.Credentials
	if err := c.checkLogin(c.APIURL); err != nil || in.Interactive || c.Account != "" || in.Project != "" {
		return err
	}
	return in.askAccount(ctx, notEmpty)
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

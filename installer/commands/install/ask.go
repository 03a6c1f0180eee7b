// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/cloudstack"
)

const (
	adminFlags    = "--admin-user USER with --admin-password-file FILE or --admin-password-stdin (or --admin-api-key-file and --admin-secret-key-file)"
	keyFlags      = "--api-key-file FILE with --secret-key-file FILE"
	passwordFlags = "--admin-password-file FILE or --admin-password-stdin, or set CSCCM_ADMIN_PASSWORD"
)

// A wrong answer asks the question again: each question's Validate asks CloudStack, which changes nothing. Without a terminal the
// first missing thing is an error that names its flag.

// askCredentials asks where the keys come from, for the URL of the API, and for keys that exist.
func (c *Config) askCredentials(ctx context.Context, e *engine.Env, f *facts) error {
	k := &c.Credentials
	if err := c.askSource(ctx, e, f); err != nil {
		return err
	}
	if err := c.uselessFlags(); err != nil || k.Source == SourceSecret {
		return err
	}
	known := ""
	if f.secret.Config != nil {
		known = f.secret.Config.APIURL
	}
	if err := k.askURL(ctx, e.Prompt, known, func(url string) error { return c.probe(ctx, f, url) }); err != nil || k.Source != SourceKeys {
		return err
	}
	return c.askKeys(ctx, e, f)
}

// askSource decides where the keys come from.
func (c *Config) askSource(ctx context.Context, e *engine.Env, f *facts) error {
	k := &c.Credentials
	switch {
	case k.Source != SourceUnset:
	case k.FromPredecessor:
		cfg, from, err := takeover.FindCredentials(ctx, e.Cluster.Kube, f.controllers.Predecessors)
		if err != nil {
			return e.Cluster.Explain(err)
		}
		c.usePredecessor(e, cfg, from)
	case k.Keys != (credentials.Keys{}):
		k.Source = SourceKeys
	case k.admin():
		k.Source = SourceAdmin
	case f.secret.Exists && k.APIURL == "" && (f.secret.Problem == nil || !c.OverwriteSecret):
		k.Source = SourceSecret
		e.Progress.Info("using the credentials in Secret %s/%s", f.secret.Namespace, f.secret.Name)
	default:
		choices := []prompt.Choice{
			{Value: string(SourceAdmin), Label: "Log in as a CloudStack administrator and make a user for the controller"},
			{Value: string(SourceKeys), Label: "Use API keys that exist already"},
		}
		const predecessor = "predecessor"
		cfg, from, err := takeover.FindCredentials(ctx, e.Cluster.Kube, f.controllers.Predecessors)
		if err == nil {
			choices = append(choices, prompt.Choice{Value: predecessor, Label: fmt.Sprintf("Use the keys of the other provider (%s)", from)})
		}
		source, err := e.Prompt.Ask(ctx, prompt.Question{
			Message: "Credentials for the controller", Default: string(SourceAdmin), Choices: choices, Flag: adminFlags + ", or " + keyFlags,
			Help: "a login is used once to make a user with the rights that the controller needs, and is not kept",
		})
		switch {
		case err != nil:
			return err
		case source == predecessor:
			c.usePredecessor(e, cfg, from)
			return nil
		}
		k.Source = Source(source)
	}
	return nil
}

// usePredecessor takes the other provider's keys, and its settings where no flag says otherwise. They are verified as
// other keys are.
func (c *Config) usePredecessor(e *engine.Env, cfg *cloudstack.Config, from string) {
	e.Progress.Info("credentials of the other provider: %s", from)
	c.Credentials.Source, c.Credentials.FromPredecessor = SourceKeys, true
	c.fill(cfg)
	if cfg.CAFile != "" && c.Credentials.CAFile == "" {
		e.Progress.Warn("the other provider trusts the certificates in %s of its Pod; give them with --ca-file", cfg.CAFile)
	}
}

// uselessFlags refuses flags about the user that an administrator makes where keys exist: nothing would come of them.
func (c *Config) uselessFlags() error {
	k := &c.Credentials
	var given []string
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"--create-account", k.CreateAccount}, {"--domain", k.Domain != ""}, {"--user", k.User != ""},
		{"--role-name", k.Role != ""}, {"--account", k.Account != ""},
	} {
		if f.given {
			given = append(given, f.flag)
		}
	}
	if len(given) == 0 || k.Source == SourceAdmin {
		return nil
	}
	return report.Usage(strings.Join(given, ", ")+" is for the user that an administrator makes, and keys exist here",
		"leave it out, or give an administrator's login with "+adminFlags)
}

// probe says what answers at a URL that is no CloudStack.
func (c *Config) probe(ctx context.Context, f *facts, url string) error {
	if err := checkURL(url); err != nil {
		return err
	}
	there := Config{Credentials: Credentials{APIURL: url, CAFile: c.Credentials.CAFile, SSLNoVerify: c.Credentials.SSLNoVerify}}
	api, err := cloudapi.NewClient(there.cloudConfig(f, credentials.ProbeKeys))
	if err != nil {
		return err
	}
	return credentials.Probe(ctx, url, api)
}

// askKeys asks for the controller's keys until CloudStack takes them.
func (c *Config) askKeys(ctx context.Context, e *engine.Env, f *facts) error {
	k := &c.Credentials.Keys
	for given := *k; ; *k = given {
		for _, q := range []struct {
			to         *string
			name, flag string
		}{
			{&k.APIKey, "API key", "--api-key-file FILE, or set CLOUDSTACK_API_KEY"},
			{&k.SecretKey, "Secret key", "--secret-key-file FILE, or set CLOUDSTACK_SECRET_KEY"},
		} {
			if *q.to != "" {
				continue
			}
			answer, err := e.Prompt.Ask(ctx, prompt.Question{Message: q.name, Secret: true, Flag: q.flag, Validate: func(s string) error {
				if err := notEmpty(s); err != nil {
					return err
				}
				return credentials.CheckKey(q.name, credentials.TrimKey(s))
			}})
			if err != nil {
				return err
			}
			*q.to = credentials.TrimKey(answer)
		}
		if !e.Interactive || given == *k {
			return nil
		}
		api, err := cloudapi.NewClient(c.cloudConfig(f, *k))
		if err == nil {
			err = credentials.CheckKeys(ctx, c.Credentials.APIURL, api)
		}
		switch {
		case err == nil:
			return c.askZone(ctx, e, api)
		case !cloudstack.IsKind(err, cloudstack.KindAuth):
			return err
		}
		e.Progress.Warn("%v", err)
	}
}

// askOwner asks for the account or project that owns the VMs. validate judges the configuration with an answer.
func (c *Config) askOwner(ctx context.Context, e *engine.Env, owner string, validate func(*Config) error) error {
	var broken error // no other answer would mend it
	answer, err := e.Prompt.Ask(ctx, prompt.Question{
		Message: "Account that owns the cluster's VMs", Flag: "--account NAME, or --project NAME for a cluster in a project", Default: owner,
		Help: "the controller's user is made in this account, since nobody else sees its VMs; for VMs in a project type project/NAME, " +
			"for an account of another domain the domain's path too, as in ROOT/shop/NAME",
		Validate: func(answer string) error {
			if err := notEmpty(answer); err != nil {
				return err
			}
			trial := *c
			trial.ownedBy(answer)
			err := validate(&trial)
			var known *report.Error
			switch {
			case err == nil:
				return nil
			case !errors.As(err, &known) || known.ExitCode() == report.ExitFailure:
				broken = err
				return nil
			case known.Fix != "":
				return fmt.Errorf("%w (%s)", err, known.Fix)
			}
			return err
		},
	})
	c.ownedBy(answer)
	return errors.Join(err, broken)
}

// ownedBy reads NAME of an account, DOMAIN/NAME, or project/NAME.
func (c *Config) ownedBy(answer string) {
	if name, ok := strings.CutPrefix(answer, "project/"); ok {
		c.Project = name
		return
	}
	c.Credentials.Account = answer
	if i := strings.LastIndex(answer, "/"); i > 0 {
		c.Credentials.Domain, c.Credentials.Account = answer[:i], answer[i+1:]
	}
}

// ownerOf returns the account or project that owns the VMs of the nodes, as ownedBy reads it; "" if none does.
func ownerOf(ctx context.Context, f *facts, admin *cloudapi.Client, zone string) string {
	if len(f.nodes) == 0 {
		return ""
	}
	places := credentials.AdminPlaces(ctx, admin)
	i := slices.IndexFunc(places, func(p credentials.Place) bool {
		_, owns := check.Misplaced(f.nodes, p.VMs, p, zone, func() []credentials.Place { return nil })
		return owns
	})
	switch {
	case i < 0:
		return ""
	case places[i].Project != "":
		return "project/" + places[i].Project
	}
	return places[i].Domain + "/" + places[i].Account
}

// askZone offers the zones where there is a choice.
func (c *Config) askZone(ctx context.Context, e *engine.Env, api *cloudapi.Client) error {
	if c.Zone != "" || !e.Interactive {
		return nil
	}
	zones, err := api.ListZones(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil // its VMs show it
	}
	if err != nil || len(zones) < 2 {
		return err
	}
	choices := []prompt.Choice{{Value: "", Label: "any zone"}}
	for i := range zones {
		choices = append(choices, prompt.Choice{Value: zones[i].Name})
	}
	c.Zone, err = e.Prompt.Ask(ctx, prompt.Question{
		Message: "Zone of the cluster's VMs", Choices: choices, Flag: "--zone NAME", Help: "the controller looks for the nodes' VMs there; any zone where the cluster is in several",
	})
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

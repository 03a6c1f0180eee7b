// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
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
func (r *run) askCredentials(ctx context.Context) error {
	k := &r.Credentials
	if err := r.askSource(ctx); err != nil {
		return err
	}
	if k.Source != SourceAdmin && (k.CreateAccount || k.Domain+k.User+k.Role+k.Account != "") {
		return report.Usage("--account, --create-account, --domain, --user and --role-name are for the user that an administrator makes, and keys exist here",
			"leave them out, or give an administrator's login with "+adminFlags)
	}
	if k.Source == SourceSecret {
		return nil
	}
	err := k.askURL(ctx, r.Prompt, func(url string) error { // says what answers at a URL that is no CloudStack
		if err := checkURL(url); err != nil {
			return err
		}
		there := run{Env: r.Env, Config: &Config{Credentials: Credentials{APIURL: url, CAFile: k.CAFile, SSLNoVerify: k.SSLNoVerify}}, facts: r.facts}
		api, err := cloudapi.NewClient(there.cloudConfig(credentials.Keys{APIKey: "probe", SecretKey: "probe"}))
		if err != nil {
			return err
		}
		return credentials.Probe(ctx, url, api)
	})
	if err != nil || k.Source != SourceKeys {
		return err
	}
	return r.askKeys(ctx)
}

// askSource decides where the keys come from.
func (r *run) askSource(ctx context.Context) error {
	k := &r.Credentials
	switch {
	case k.Source != SourceUnset:
		return nil
	case k.FromPredecessor:
	case k.Keys != (credentials.Keys{}):
		k.Source = SourceKeys
		return nil
	case k.admin():
		k.Source = SourceAdmin
		return nil
	case r.secret.Exists && k.APIURL == "" && (r.secret.Problem == nil || !r.OverwriteSecret):
		k.Source = SourceSecret
		r.Progress.Info("using the credentials in Secret %s/%s", r.secret.Namespace, r.secret.Name)
		return nil
	}
	cfg, from, err := takeover.FindCredentials(ctx, r.Cluster.Kube, r.controllers.Predecessors)
	if !k.FromPredecessor {
		choices := []prompt.Choice{
			{Value: string(SourceAdmin), Label: "Log in as a CloudStack administrator and make a user for the controller"},
			{Value: string(SourceKeys), Label: "Use API keys that exist already"},
		}
		const predecessor = "predecessor"
		if err == nil {
			choices = append(choices, prompt.Choice{Value: predecessor, Label: fmt.Sprintf("Use the keys of the other provider (%s)", from)})
		}
		source, err := r.Prompt.Ask(ctx, prompt.Question{
			Message: "Credentials for the controller", Default: string(SourceAdmin), Choices: choices, Flag: adminFlags + ", or " + keyFlags,
			Help: "a login is used once to make a user with the rights that the controller needs, and is not kept",
		})
		if err != nil || source != predecessor {
			k.Source = Source(source)
			return err
		}
	}
	if err != nil {
		return r.Cluster.Explain(err)
	}
	// Its settings count where no flag says otherwise. The keys are verified as other keys are.
	r.Progress.Info("credentials of the other provider: %s", from)
	k.Source, k.FromPredecessor = SourceKeys, true
	r.fill(cfg)
	return nil
}

// askKeys asks for the controller's keys until CloudStack takes them.
func (r *run) askKeys(ctx context.Context) error {
	k := &r.Credentials.Keys
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
			answer, err := r.Prompt.Ask(ctx, prompt.Question{Message: q.name, Secret: true, Flag: q.flag, Validate: func(s string) error {
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
		if !r.Interactive || given == *k {
			return nil
		}
		api, err := cloudapi.NewClient(r.cloudConfig(*k))
		if err == nil {
			err = credentials.CheckKeys(ctx, r.Credentials.APIURL, api)
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

// askOwner asks for the account or project that owns the VMs: NAME of an account, DOMAIN/NAME, or project/NAME. The answer is judged
// by the plan of the user there.
func (r *run) askOwner(ctx context.Context, owner string) error {
	project, domain := r.Project, r.Credentials.Domain
	_, err := r.Prompt.Ask(ctx, prompt.Question{
		Message: "Account that owns the cluster's VMs", Flag: "--account NAME, or --project NAME for a cluster in a project", Default: owner,
		Help: "the controller's user is made in this account, since nobody else sees its VMs; for VMs in a project type project/NAME, " +
			"for an account of another domain the domain's path too, as in ROOT/shop/NAME",
		Validate: func(answer string) error {
			if err := notEmpty(answer); err != nil {
				return err
			}
			r.Project, r.Credentials.Domain, r.Credentials.Account = project, domain, ""
			if name, ok := strings.CutPrefix(answer, "project/"); ok {
				r.Project = name
			} else if i := strings.LastIndex(answer, "/"); i > 0 {
				r.Credentials.Domain, r.Credentials.Account = answer[:i], answer[i+1:]
			} else {
				r.Credentials.Account = answer
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

// ownerOfNodes returns the account or project that owns the VMs of the nodes, as askOwner reads it; "" if none does.
func (r *run) ownerOfNodes(ctx context.Context) string {
	for _, p := range credentials.AdminPlaces(ctx, r.admin) {
		if _, owns := check.Misplaced(r.nodes, p.VMs, p, r.Zone, func() []credentials.Place { return nil }); len(r.nodes) == 0 || !owns {
			continue
		}
		if p.Project != "" {
			return "project/" + p.Project
		}
		return p.Domain + "/" + p.Account
	}
	return ""
}

// askZone offers the zones where there is a choice.
func (r *run) askZone(ctx context.Context, api *cloudapi.Client) error {
	if r.Zone != "" || !r.Interactive {
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
	r.Zone, err = r.Prompt.Ask(ctx, prompt.Question{
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

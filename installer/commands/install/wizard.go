// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// A wrong answer asks the question again: each question's Validate asks CloudStack, which changes nothing.

// probe says what answers at a URL that is no CloudStack.
func (in *Installer) probe(ctx context.Context, apiURL string) error {
	if err := checkURL(apiURL); err != nil {
		return err
	}
	cfg := cloudconfig.Default()
	c := &in.Credentials
	cfg.APIURL, cfg.CAFile, cfg.SSLNoVerify = apiURL, c.CAFile, c.SSLNoVerify
	cfg.APIKey, cfg.SecretKey = credentials.ProbeKeys.APIKey, credentials.ProbeKeys.SecretKey
	api, err := cloudapi.NewClient(&cfg)
	if err != nil {
		return err
	}
	return credentials.Probe(ctx, apiURL, api)
}

// completeKeys asks for the controller's keys until CloudStack takes them.
func (in *Installer) completeKeys(ctx context.Context) error {
	k := &in.Credentials.Keys
	given := *k
	for {
		var err error
		if k.APIKey == "" {
			if k.APIKey, err = in.askKey(ctx, prompt.Question{Message: "API key", Flag: "--api-key-file FILE, or set CLOUDSTACK_API_KEY"}); err != nil {
				return err
			}
		}
		if k.SecretKey == "" {
			if k.SecretKey, err = in.askKey(ctx, prompt.Question{Message: "Secret key", Flag: "--secret-key-file FILE, or set CLOUDSTACK_SECRET_KEY"}); err != nil {
				return err
			}
		}
		if !in.Interactive || given == *k {
			return nil
		}
		cfg := in.newConfig()
		cfg.APIKey, cfg.SecretKey = k.APIKey, k.SecretKey
		api, err := cloudapi.NewClient(cfg)
		if err == nil {
			err = credentials.CheckKeys(ctx, cfg.APIURL, api)
		}
		switch {
		case err == nil:
			return in.askZone(ctx, api)
		case !cloudstack.IsKind(err, cloudstack.KindAuth):
			return err
		}
		in.Progress.Warn("%v", err)
		*k = given
	}
}

// askPlace asks for the account or project that owns the VMs, and for the zone.
func (in *Installer) askPlace(ctx context.Context) error {
	c := &in.Credentials
	if c.Account == "" && in.Project == "" {
		var broken error // no other answer would mend it
		err := in.askAccount(ctx, func(answer string) error {
			if err := notEmpty(answer); err != nil {
				return err
			}
			r := in.request()
			ownerOf(answer, &r.Domain, &r.Account, &r.Project)
			_, err := credentials.Plan(ctx, in.admin, r)
			return again(err, &broken)
		})
		if err != nil || broken != nil {
			return errors.Join(err, broken)
		}
	}
	return in.askZone(ctx, in.admin)
}

// again is the error to ask again for; another one ends the questions.
func again(err error, broken *error) error {
	var known *report.Error
	if err == nil || errors.As(err, &known) && known.ExitCode() == report.ExitUsage {
		if known != nil && known.Fix != "" {
			return fmt.Errorf("%w (%s)", err, known.Fix)
		}
		return err
	}
	*broken = err
	return nil
}

func (in *Installer) askAccount(ctx context.Context, validate func(string) error) error {
	c := &in.Credentials
	answer, err := in.Prompt.Input(ctx, prompt.Question{
		Message: "Account that owns the cluster's VMs", Flag: "--account NAME, or --project NAME for a cluster in a project",
		Help: "the controller's user is made in this account, since nobody else sees its VMs; for VMs in a project type project/NAME, " +
			"for an account of another domain the domain's path too, as in ROOT/shop/NAME",
		Validate: validate,
	})
	if err == nil {
		ownerOf(answer, &c.Domain, &c.Account, &in.Project)
	}
	return err
}

// askOwner offers the accounts and projects that own the VMs of the nodes, in place of one that does not.
func (in *Installer) askOwner(ctx context.Context, why string, places []credentials.Place) (chosen bool, err error) {
	var choices []prompt.Choice
	for i := range places {
		_, owns := check.Misplaced(in.facts.nodes, places[i].VMs, places[i], in.newConfig().Zone, func() []credentials.Place { return nil })
		if owns {
			choices = append(choices, prompt.Choice{Value: strconv.Itoa(i), Label: places[i].String()})
		}
	}
	if len(choices) == 0 {
		return false, nil
	}
	in.Progress.Warn("%s", why)
	answer, err := in.Prompt.Select(ctx, prompt.Question{
		Message: "Owner of the cluster's VMs", Flag: "--account NAME with --domain PATH, or --project NAME", Help: "the controller's user is made there",
	}, append(choices, prompt.Choice{Label: "stop here"}))
	if err != nil || answer == "" {
		return false, err
	}
	i, err := strconv.Atoi(answer)
	in.Project, in.Credentials.Account, in.Credentials.Domain = places[i].Project, places[i].Account, places[i].Domain
	return err == nil, err
}

// ownerOf reads NAME of an account, DOMAIN/NAME, or project/NAME.
func ownerOf(answer string, domain, account, project *string) {
	if name, ok := strings.CutPrefix(answer, "project/"); ok {
		*project = name
		return
	}
	*account = answer
	if i := strings.LastIndex(answer, "/"); i > 0 {
		*domain, *account = answer[:i], answer[i+1:]
	}
}

// askZone offers the zones where there is a choice.
func (in *Installer) askZone(ctx context.Context, api *cloudapi.Client) error {
	if in.Zone != "" {
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
	in.Zone, err = in.Prompt.Select(ctx, prompt.Question{
		Message: "Zone of the cluster's VMs", Flag: "--zone NAME", Help: "the controller looks for the nodes' VMs there; any zone where the cluster is in several",
	}, choices)
	return err
}

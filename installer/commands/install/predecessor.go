// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"

	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// sourcePredecessor is the answer of the person at the terminal; the keys are then given ones.
const sourcePredecessor = "predecessor"

// predecessorChoice offers the credentials of the provider that is found, if there are any.
func (in *Installer) predecessorChoice(ctx context.Context) []prompt.Choice {
	found, err := takeover.FindCredentials(ctx, in.Cluster.Kube, in.facts.controllers.Predecessors)
	if err != nil {
		return nil
	}
	return []prompt.Choice{{Value: sourcePredecessor, Label: fmt.Sprintf("Use the keys of the other provider (%s%s)", found, in.userOf(ctx, found.Config))}}
}

// usePredecessor takes the other provider's keys, and its settings where no flag says otherwise. They are verified as
// other keys are.
func (in *Installer) usePredecessor(ctx context.Context) error {
	c := &in.Options.Credentials
	found, err := takeover.FindCredentials(ctx, in.Cluster.Kube, in.facts.controllers.Predecessors)
	if err != nil {
		return in.Cluster.Explain(err)
	}
	cfg := found.Config
	in.Progress.Info("credentials of the other provider: %s%s", found, in.userOf(ctx, cfg))
	c.Source, c.FromPredecessor = SourceKeys, true
	c.Keys = Keys{APIKey: cfg.APIKey, SecretKey: cfg.SecretKey}
	c.SSLNoVerify = c.SSLNoVerify || cfg.SSLNoVerify
	if cfg.CAFile != "" && c.CAFile == "" {
		in.Progress.Warn("the other provider trusts the certificates in %s of its Pod; give them with --ca-file", cfg.CAFile)
	}
	for _, s := range []struct {
		to   *string
		from string
	}{
		{&c.APIURL, cfg.APIURL}, {&in.Options.Project, cfg.ProjectID}, {&in.Options.Zone, cfg.Zone},
		{&in.Options.Region, cfg.Region}, {&in.Options.ClusterID, cfg.ClusterID},
	} {
		if *s.to == "" {
			*s.to = s.from
		}
	}
	return nil
}

// userOf says whose keys these are, if they say so.
func (in *Installer) userOf(ctx context.Context, cfg *cloudstack.Config) string {
	local := *cfg
	local.CAFile = in.Options.Credentials.CAFile
	api, err := in.Connect(&local)
	if err != nil {
		return ""
	}
	users, err := api.ListUsers(ctx, "", "", "")
	if err != nil {
		return "" // verification says what is wrong
	}
	i := slices.IndexFunc(users, func(u cloudstack.User) bool { return u.APIKey == cfg.APIKey })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(", user %s of account %s", users[i].Username, users[i].Account)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
)

// confirm shows the plan and asks.
func (in *Installer) confirm(ctx context.Context) error {
	if refusal := in.overwrites(); refusal != nil {
		if in.Options.Yes {
			return refusal // --yes agrees to the plan, not to the loss of somebody's credentials
		}
		differences := strings.Join(in.plan.Secret.Differences, "; ")
		if err := in.agreed(ctx, fmt.Sprintf("Overwrite Secret %s/%s (%s)", in.plan.Secret.Namespace, in.plan.Secret.Name, differences)); err != nil {
			var missing interface{ ExitCode() int }
			if errors.As(err, &missing) && missing.ExitCode() == report.ExitUsage {
				return refusal
			}
			return err
		}
	}
	if in.Options.Yes {
		if in.taker != nil && !in.env.Structured() {
			if err := in.printTakeover(in.ErrOut); err != nil { // what changes is shown, agreed to or not
				return err
			}
		}
		return in.consent(ctx)
	}
	if err := in.printText(in.ErrOut); err != nil {
		return err
	}
	if err := in.consent(ctx); err != nil {
		return err
	}
	return in.agreed(ctx, "Go on")
}

// overwrites is the refusal to overwrite somebody's credentials unasked; nil where that is not planned, or agreed to.
func (in *Installer) overwrites() error {
	if in.plan.secret == nil || in.plan.secret.Action != credentials.SecretOverwrite || in.Options.OverwriteSecret {
		return nil
	}
	return in.keepsSecret(strings.Join(in.plan.Secret.Differences, "; "))
}

// overwritesLater is overwrites before there are keys: those of a new user are not in the Secret that is there.
func (in *Installer) overwritesLater() error {
	if in.provision == nil || !in.provision.NewKeys() || !in.existing.Exists || in.Options.OverwriteSecret {
		return nil
	}
	return in.keepsSecret("it would hold the new user's keys")
}

// keepsSecret is the refusal to overwrite somebody's credentials unasked.
func (in *Installer) keepsSecret(differences string) error {
	return report.Usage(fmt.Sprintf("Secret %s/%s exists and differs: %s", in.existing.Namespace, in.existing.Name, differences),
		"add --overwrite-secret, or leave out the credential flags to use the Secret as it is")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/selftest"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
)

// selfTestTime bounds the self-test: an API that does not answer ends it.
const selfTestTime = time.Minute

// selfTest proves with the cloud-config's keys what the controller will need of CloudStack: the API
// answers here, takes the keys, allows each command, and shows project, zone, VMs and a network
// that can balance load. It changes nothing. The chart's test Pod runs it.
func selfTest(ctx context.Context, out io.Writer, configFile, caBundle string) error {
	ctx, cancel := context.WithTimeout(ctx, selfTestTime)
	defer cancel()
	f, err := openConfig(configFile)
	if err != nil {
		return err
	}
	cfg, err := cloudconfig.Parse(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	cfg.CABundle = caBundle
	client, err := cloudstack.NewClient(cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	required := slices.DeleteFunc(slices.Clone(provider.RequiredCommands), func(c string) bool { return slices.Contains(provider.OptionalCommands, c) })
	proof, err := credentials.Verify(ctx, client, credentials.Want{
		APIURL: cfg.APIURL, Project: cfg.ProjectID, Zone: cfg.Zone, Required: required, Optional: provider.OptionalCommands,
	})
	for _, finding := range proof.Findings {
		if werr := selftest.Write(out, selftest.Finding{OK: finding.OK, Subject: finding.Subject, Text: finding.Text}); werr != nil {
			return werr
		}
	}
	if err == nil {
		return nil
	}
	fix := ""
	var explained *credentials.Error
	if errors.As(err, &explained) {
		fix = explained.Fix
	}
	return errors.Join(selftest.WriteFailure(out, err.Error(), fix), fmt.Errorf("self-test: %w", err))
}

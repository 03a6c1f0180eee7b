// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"

	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// planUpgrade decides about an upgrade.
func planUpgrade(k *cloudstack.KubernetesCluster, to *cloudstack.KubernetesVersion) (*Plan, error) {
	if err := managed(k, "upgrade"); err != nil {
		return nil, err
	}
	p := newPlan("upgrade", k)
	p.change("version", k.Version, to.Name)
	if err := p.running(k, "Upgrading"); err != nil || p.Action == ActionFollow {
		return p, err
	}
	if k.VersionID == to.ID {
		p.none("it has version " + to.Name)
	}
	return p, nil
}

// Upgrade upgrades a cluster to a version by its name, semantic version or id.
func (s *Service) Upgrade(ctx context.Context, name, version string, ignore []string) error {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}
	if err := managed(k, "upgrade"); err != nil {
		return err
	}
	versions, err := s.versions(ctx, k.ZoneID)
	if err != nil {
		return err
	}
	to, err := pick("version", "--version", version, versions, nameOfVersion)
	if err != nil {
		return err
	}
	p, err := planUpgrade(k, to)
	if err != nil {
		return err
	}
	if p.Action == ActionChange {
		f, err := s.reader(ctx, k).Upgrade(ctx, k)
		if err != nil {
			return explain("look at what the upgrade needs", err)
		}
		p.Findings = append(p.Findings, preflight.Upgrade(f, to.ID)...)
	}
	return s.run(ctx, &task{
		plan: p, ignore: ignore,
		goal: func(k *cloudstack.KubernetesCluster) bool {
			return k != nil && k.State == stateRunning && k.VersionID == to.ID
		},
		submit: func(ctx context.Context) (cloudstack.Submitted, error) {
			return s.API.UpgradeKubernetesCluster(ctx, k.ID, to.ID)
		},
	})
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade brings an installed release to another version of the chart,
// and back. Values that were given stay, over the new chart's defaults.
package upgrade

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/helm"
)

// change is what an upgrade or a rollback would do with the release.
type change struct {
	*engine.Env
	action   string // upgrade, downgrade, change, keep, restore, rollback
	was      *helm.Release
	to       string // the chart, or revision and chart, and its controller
	values   map[string]any
	manifest string
	tenants  []tenants.Refusal // what the policy for tenants refuses
	objects  []diff.Change
	now      *helm.Release // as it is after the steps
}

// direction compares chart versions: -1 is a downgrade.
func direction(from, to string) int {
	f, ferr := semver.NewVersion(from)
	t, terr := semver.NewVersion(to)
	if ferr != nil || terr != nil {
		return strings.Compare(to, from)
	}
	return t.Compare(f)
}

// plan is the change for people and programs. It holds no secret.
func (c *change) plan() *engine.Plan {
	p := c.NewPlan()
	p.Add("Helm", fmt.Sprintf("%s release %s/%s:", c.action, c.Cluster.Namespace, c.Release), c.values,
		fmt.Sprintf("from  revision %d, chart %s, controller %s", c.was.Revision, c.was.ChartVersion, c.was.AppVersion), "to    "+c.to)
	p.Add("Objects", diff.Summary(c.objects), c.objects, diff.Text(c.objects, c.Verbose)...)
	for i := range c.tenants {
		p.Warnings = append(p.Warnings, c.tenants[i].String())
	}
	return p
}

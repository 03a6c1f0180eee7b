// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"time"
)

// Release is one revision of a release.
type Release struct {
	Name, Namespace string
	// Revision starts at 1.
	Revision int
	// Status is Helm's status: deployed, failed, superseded, uninstalling, uninstalled, pending-install,
	// pending-upgrade, pending-rollback.
	Status                   string
	ChartVersion, AppVersion string
	// Manifest is the rendered YAML, without hooks.
	Manifest string
	// Tests are the manifests of the chart's tests, which helm test runs.
	Tests []string
	Notes string
	// Updated is when an action last wrote the revision.
	Updated time.Time
	// Values are the user's values, without the chart's defaults.
	Values map[string]any
}

// Deployed reports whether this revision is deployed.
func (r *Release) Deployed() bool { return r.Status == statusDeployed.String() }

func toRelease(rel *revision) *Release {
	if rel == nil {
		return nil
	}
	out := &Release{
		Name:      rel.Name,
		Namespace: rel.Namespace,
		Revision:  rel.Version,
		Manifest:  rel.Manifest,
		Values:    rel.Config,
	}
	for _, hook := range rel.Hooks {
		if slices.Contains(hook.Events, hookTest) {
			out.Tests = append(out.Tests, hook.Manifest)
		}
	}
	if rel.Info != nil {
		out.Status = rel.Info.Status.String()
		out.Notes = rel.Info.Notes
		out.Updated = rel.Info.LastDeployed.Time
	}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		out.ChartVersion = rel.Chart.Metadata.Version
		out.AppVersion = rel.Chart.Metadata.AppVersion
	}
	return out
}

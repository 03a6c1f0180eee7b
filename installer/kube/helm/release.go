// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
)

// Release is one revision of a release.
type Release struct {
	Name, Namespace string
	// Revision starts at 1.
	Revision int
	// Status is Helm's status: deployed, failed, superseded, uninstalling, uninstalled, pending-install,
	// pending-upgrade, pending-rollback.
	Status string
	// Description is Helm's description of the operation, or why it failed.
	Description              string
	ChartName                string
	ChartVersion, AppVersion string
	// Manifest is the rendered YAML, without hooks.
	Manifest string
	// Tests are the manifests of the chart's tests, which helm test runs.
	Tests []string
	Notes string
	// Values are the user's values, without the chart's defaults.
	Values map[string]any
	// Updated is when the operation on the revision started.
	Updated time.Time
}

// Deployed reports whether this revision is deployed.
func (r *Release) Deployed() bool { return r.Status == release.StatusDeployed.String() }

// Pending reports whether an operation on this revision has started and not ended.
func (r *Release) Pending() bool { return strings.HasPrefix(r.Status, "pending-") }

func toRelease(rel *release.Release) *Release {
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
		if slices.Contains(hook.Events, release.HookTest) {
			out.Tests = append(out.Tests, hook.Manifest)
		}
	}
	if rel.Info != nil {
		out.Status = rel.Info.Status.String()
		out.Description = rel.Info.Description
		out.Notes = rel.Info.Notes
		out.Updated = rel.Info.LastDeployed.Time
	}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		out.ChartName = rel.Chart.Metadata.Name
		out.ChartVersion = rel.Chart.Metadata.Version
		out.AppVersion = rel.Chart.Metadata.AppVersion
	}
	return out
}

func newestFirst(revisions []*release.Release) []*release.Release {
	sorted := slices.Clone(revisions)
	slices.SortFunc(sorted, func(a, b *release.Release) int { return cmp.Compare(b.Version, a.Version) })
	return sorted
}

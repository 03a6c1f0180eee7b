// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
)

// Release is one revision of a release.
type Release struct {
	Name      string `json:"-"`
	Namespace string `json:"-"`
	// Revision starts at 1.
	Revision int `json:"revision"`
	// Status is Helm's status: deployed, failed, superseded, uninstalling, uninstalled, pending-install,
	// pending-upgrade, pending-rollback.
	Status       string `json:"status"`
	ChartVersion string `json:"chartVersion"`
	AppVersion   string `json:"appVersion"`
	// Manifest is the rendered YAML, without hooks.
	Manifest string `json:"-"`
	// Tests are the manifests of the chart's tests, which helm test runs.
	Tests []string `json:"-"`
	Notes string   `json:"-"`
	// Updated is when an action last wrote the revision.
	Updated time.Time `json:"-"`
	// Values are the user's values, without the chart's defaults.
	Values map[string]any `json:"-"`
}

// Deployed reports whether this revision is deployed.
func (r *Release) Deployed() bool { return r.Status == release.StatusDeployed.String() }

// releases converts revisions as Helm stores them.
func releases(stored []*release.Release) []Release {
	out := make([]Release, 0, len(stored))
	for _, rel := range stored {
		r := Release{
			Name: rel.Name, Namespace: rel.Namespace, Revision: rel.Version, Manifest: rel.Manifest, Values: rel.Config,
			Status: rel.Info.Status.String(), Notes: rel.Info.Notes, Updated: rel.Info.LastDeployed.Time,
		}
		for _, hook := range rel.Hooks {
			if slices.Contains(hook.Events, release.HookTest) {
				r.Tests = append(r.Tests, hook.Manifest)
			}
		}
		if rel.Chart != nil && rel.Chart.Metadata != nil {
			r.ChartVersion, r.AppVersion = rel.Chart.Metadata.Version, rel.Chart.Metadata.AppVersion
		}
		out = append(out, r)
	}
	return out
}

// Values returns the values that a change of a release starts from: those of the newest revision that is deployed. The values
// of one that never was may be the cause of its failure. history is that of the release, the newest first.
func Values(history []Release) map[string]any {
	for i := range history {
		if history[i].Deployed() {
			return history[i].Values
		}
	}
	return nil
}

// UpToDate reports whether applying the chart with these values, which render to the manifest, would change nothing.
func (r *Release) UpToDate(c *Chart, values map[string]any, manifest string) bool {
	return r.Deployed() && r.ChartVersion == c.Version() && r.AppVersion == c.AppVersion() &&
		strings.HasPrefix(manifest, strings.TrimSpace(r.Manifest)) && sameValues(r.Values, values)
}

// sameValues compares values as JSON: numbers of flags and of a stored release have different Go types.
func sameValues(a, b map[string]any) bool {
	was, err := json.Marshal(a)
	is, ierr := json.Marshal(b)
	return err == nil && ierr == nil && (len(a)+len(b) == 0 || bytes.Equal(was, is))
}

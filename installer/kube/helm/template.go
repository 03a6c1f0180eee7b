// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/release"
)

// ApplyRequest is the desired state of a release.
type ApplyRequest struct {
	// Name of the release.
	Name  string
	Chart *Chart
	// Values override the chart's defaults. Those of the release do not count: see Values.
	Values map[string]any
	// Description is stored with the revision; empty means Helm's default description.
	Description string
	// KubeVersion is the version that Template renders for (v1.37.1). Apply uses the cluster's version.
	KubeVersion string
	// Tests has Template render the chart's tests too, as helm template does.
	Tests bool
}

// Template is the function Template for the client's namespace.
func (c *Client) Template(ctx context.Context, req ApplyRequest) (string, error) {
	return Template(ctx, c.namespace, req)
}

// Template renders a release's manifest. It does not need a cluster. req.KubeVersion is required:
// charts depend on it, and Helm's default is a version that is out of support.
func Template(ctx context.Context, namespace string, req ApplyRequest) (string, error) {
	wanted, err := chartutil.ParseKubeVersion(req.KubeVersion)
	if err != nil {
		return "", fmt.Errorf("kubernetes version %q: want a version such as v1.37.1", req.KubeVersion)
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName, install.Namespace, install.KubeVersion = req.Name, namespace, wanted
	install.DryRun, install.DryRunOption, install.ClientOnly, install.Replace = true, "client", true, true
	rel, err := install.RunWithContext(ctx, req.Chart.copy(), copyValues(req.Values))
	if err != nil {
		return "", explain(req.Name, namespace, err, req.Chart.chart.Schema)
	}
	var out strings.Builder
	out.WriteString(strings.TrimSpace(rel.Manifest) + "\n")
	for _, hook := range rel.Hooks {
		if !req.Tests && slices.Contains(hook.Events, release.HookTest) {
			continue // helm test runs it, not the installation
		}
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, strings.TrimSpace(hook.Manifest))
	}
	return out.String(), nil
}

// ParseValues parses values as helm's flags do: files (-f) first, then set
// (--set, with type detection), then setString (--set-string); later ones override earlier ones.
func ParseValues(files, set, setString []string) (map[string]any, error) {
	parsed, err := (&values.Options{ValueFiles: files, Values: set, StringValues: setString}).MergeValues(nil)
	if err != nil {
		return nil, fmt.Errorf("chart values: %w", err)
	}
	return parsed, nil
}

// MergeValues returns base with the values of over merged into it, mapping by mapping; neither is changed. A null
// in over is kept, so that it removes a chart's default as with helm.
func MergeValues(base, over map[string]any) map[string]any {
	return chartutil.MergeTables(copyValues(over), copyValues(base))
}

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
	"helm.sh/helm/v3/pkg/release"
)

// Template is the function Template for the client's namespace.
func (c *Client) Template(ctx context.Context, req ApplyRequest) (string, error) {
	return Template(ctx, c.namespace, req)
}

// Template renders a release's manifest. It does not need a cluster. req.KubeVersion is required:
// charts depend on it, and Helm's default is a version that is out of support.
func Template(ctx context.Context, namespace string, req ApplyRequest) (string, error) {
	if err := req.check(); err != nil {
		return "", err
	}
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
	out.WriteString(strings.TrimSpace(rel.Manifest))
	out.WriteString("\n")
	for _, hook := range rel.Hooks {
		if !req.Tests && slices.Contains(hook.Events, release.HookTest) {
			continue // helm test runs it, not the installation
		}
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, strings.TrimSpace(hook.Manifest))
	}
	return out.String(), nil
}

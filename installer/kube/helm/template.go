// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Template renders the release's manifest as it would be installed, without changing the cluster. With
// req.KubeVersion it makes no API call.
func (c *Client) Template(ctx context.Context, req ApplyRequest) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if req.KubeVersion == "" {
		cfg, err := c.configuration()
		if err != nil {
			return "", err
		}
		if req.KubeVersion, err = clusterVersion(cfg); err != nil {
			return "", err
		}
	}
	return Template(ctx, c.namespace, req)
}

func clusterVersion(cfg *actionConfig) (string, error) {
	if cfg.Capabilities != nil {
		return cfg.Capabilities.KubeVersion.Version, nil
	}
	discovery, err := cfg.RESTClientGetter.ToDiscoveryClient()
	if err != nil {
		return "", fmt.Errorf("discovery: %w", err)
	}
	info, err := discovery.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("version of the API server: %w", err)
	}
	return info.GitVersion, nil
}

// Template renders a release's manifest without its tests. It does not need a cluster. req.KubeVersion is required:
// charts depend on it, and Helm's default is a version that is out of support.
func Template(ctx context.Context, namespace string, req ApplyRequest) (string, error) {
	return render(ctx, namespace, req, false)
}

// TemplateWithTests is Template with the chart's tests, as helm template prints it.
func TemplateWithTests(ctx context.Context, namespace string, req ApplyRequest) (string, error) {
	return render(ctx, namespace, req, true)
}

func render(ctx context.Context, namespace string, req ApplyRequest, tests bool) (string, error) {
	if err := req.check(); err != nil {
		return "", err
	}
	wanted, err := parseKubeVersion(req.KubeVersion)
	if err != nil {
		return "", fmt.Errorf("kubernetes version %q: want a version such as v1.37.1", req.KubeVersion)
	}
	defer redirectStdLog(func(string, ...any) {})()
	rel, err := runTemplate(ctx, namespace, wanted, req)
	if err != nil {
		return "", inWords(explain(req.Name, namespace, err), req.Chart.chart.Schema)
	}
	var out strings.Builder
	out.WriteString(strings.TrimSpace(rel.Manifest))
	out.WriteString("\n")
	for _, hook := range rel.Hooks {
		if !tests && slices.Contains(hook.Events, hookTest) {
			continue // helm test runs it, not the installation
		}
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, strings.TrimSpace(hook.Manifest))
	}
	return out.String(), nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/installer/kube/helm"
)

// chartFlags choose a chart and its values; commands that render or apply one share them.
type chartFlags struct {
	chart, chartVersion string
	plainHTTP           bool
	valueFiles          []string
	set, setString      []string
}

func (f *chartFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.chart, "chart", "", "chart folder, .tgz, oci:// or repository URL (default the chart that csccm carries)")
	flags.StringVar(&f.chartVersion, "version", "", "version of --chart, where it has several")
	flags.BoolVar(&f.plainHTTP, "plain-http", false, "the registry of --chart has no TLS")
	flags.StringArrayVarP(&f.valueFiles, "values", "f", nil, "file with chart values; may be repeated")
	flags.StringArrayVar(&f.set, "set", nil, "chart value, name=value; may be repeated")
	flags.StringArrayVar(&f.setString, "set-string", nil, "chart value that is a string, name=value; may be repeated")
}

// load reads the chart and the values.
func (f *chartFlags) load(ctx context.Context) (*helm.Chart, map[string]any, error) {
	values, err := helm.ParseValues(f.valueFiles, f.set, f.setString)
	if err != nil {
		return nil, nil, usage(err)
	}
	if f.plainHTTP && !strings.HasPrefix(f.chart, "oci://") {
		return nil, nil, usagef("--plain-http needs --chart oci://...")
	}
	if f.chart == "" {
		if f.chartVersion != "" {
			return nil, nil, usagef("--version needs --chart; the chart that csccm carries has one version")
		}
		chart, err := helm.Embedded()
		return chart, values, err
	}
	chart, err := helm.LoadContext(ctx, f.chart, f.chartVersion, f.plainHTTP)
	return chart, values, err
}

// typed are the flags as given, for the line that repeats the command.
func (f *chartFlags) typed() []string {
	var out []string
	for _, group := range []struct {
		flag   string
		values []string
	}{{"--values", f.valueFiles}, {"--set", f.set}, {"--set-string", f.setString}} {
		for _, v := range group.values {
			out = append(out, group.flag, v)
		}
	}
	if f.chartVersion != "" {
		out = append(out, "--version", f.chartVersion)
	}
	if f.plainHTTP {
		out = append(out, "--plain-http")
	}
	return out
}

// kubeVersion renders for a version without asking a cluster.
type kubeVersion string

func (k *kubeVersion) add(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(k), "kube-version", "", "render for this Kubernetes version (default the cluster's)")
	completeFlag(cmd, "kube-version", cobra.NoFileCompletions)
}

// get is the flag's version, or the cluster's.
func (k *kubeVersion) get(ctx context.Context, g *globals) (string, error) {
	if *k != "" {
		if _, err := semver.NewVersion(string(*k)); err != nil {
			return "", usagef("--kube-version %q: want a version such as v1.37.1", string(*k))
		}
		return string(*k), nil
	}
	c, err := g.cluster(ctx)
	if err != nil {
		return "", err
	}
	info, err := c.Ping(ctx)
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

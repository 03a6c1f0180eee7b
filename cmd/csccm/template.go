// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// chartFlags choose a chart and its values; commands that render or apply one share them.
type chartFlags struct {
	chart, chartVersion string
	plainHTTP           bool
	valueFiles          []string
	set, setString      []string
}

func (f *chartFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.chart, "chart", "",
		"chart folder, .tgz, oci:// or repository URL (default the chart that csccm carries)")
	flags.StringVar(&f.chartVersion, "version", "", "version of --chart, if it has several")
	flags.BoolVar(&f.plainHTTP, "plain-http", false, "the registry of --chart has no TLS")
	flags.StringArrayVarP(&f.valueFiles, "values", "f", nil, "file with chart values; may be repeated")
	flags.StringArrayVar(&f.set, "set", nil, "chart value, name=value; may be repeated")
	flags.StringArrayVar(&f.setString, "set-string", nil, "chart value that is a string, name=value; may be repeated")
}

// load reads the chart and the values.
func (f *chartFlags) load(ctx context.Context) (*helm.Chart, map[string]any, error) {
	values, err := helm.ParseValues(f.valueFiles, f.set, f.setString)
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	if f.plainHTTP && !strings.HasPrefix(f.chart, "oci://") {
		return nil, nil, cli.Usagef("--plain-http needs --chart oci://...")
	}
	if f.chart == "" {
		if f.chartVersion != "" {
			return nil, nil, cli.Usagef("--version needs --chart; the chart that csccm carries has one version")
		}
		chart, err := helm.Embedded()
		return chart, values, err
	}
	chart, err := helm.Load(ctx, f.chart, f.chartVersion, f.plainHTTP)
	return chart, values, err
}

// rendering completes a command that renders the chart and changes nothing.
func rendering(g *cli.Globals, cmd *cobra.Command, body func(chart *helm.Chart, manifest string) error) *cobra.Command {
	f, kube := &chartFlags{}, "" // empty means the cluster's version
	g.Command(cmd, cli.FlagRelease, func(ctx context.Context, _ []string) error {
		chart, values, err := f.load(ctx)
		if err != nil {
			return err
		}

		if _, err := semver.NewVersion(kube); err != nil && kube != "" {
			return cli.Usagef("--kube-version %q: want a version such as v1.37.1", kube)
		}

		manifest := ""
		if kube == "" {
			err = g.OnRelease(ctx, func(e *engine.Env) (err error) {
				manifest, err = install.Manifest(ctx, e, chart, values)
				return err
			})
		} else {
			manifest, err = helm.Template(ctx, *g.Kube.Namespace,
				helm.ApplyRequest{Name: g.Release, Chart: chart, Values: values, KubeVersion: kube})
		}

		if err != nil {
			return err
		}

		return body(chart, manifest)
	})

	f.add(cmd.Flags())
	cmd.Flags().StringVar(&kube, "kube-version", "", "render for this Kubernetes version (default the cluster's)")
	return cmd
}

func newTemplateCommand(g *cli.Globals) *cobra.Command {
	return rendering(g, &cobra.Command{
		Use:         "template",
		Short:       "Print the manifest that install would apply",
		Annotations: cli.Outputs("yaml"),
	}, func(_ *helm.Chart, manifest string) error {
		// The manifest is meant to be applied, so passwords in URLs are not redacted.
		_, err := io.WriteString(terminal.Raw(g.Out), terminal.Plain(manifest))
		return err
	})
}

// imageList is the output of csccm images.
type imageList struct {
	SchemaVersion int          `json:"schemaVersion"`
	Chart         string       `json:"chart"`
	Controller    string       `json:"controller"`
	Images        []helm.Image `json:"images"`
}

func newImagesCommand(g *cli.Globals) *cobra.Command {
	mirror := ""
	cmd := rendering(g, &cobra.Command{
		Use:   "images",
		Short: "List the container images, for a mirror",
	}, func(chart *helm.Chart, manifest string) error {
		list, err := helm.Images(manifest, mirror)
		if err != nil {
			return err
		}
		return g.Show(imageList{1, chart.Version(), chart.AppVersion(), list}, func(w io.Writer) error {
			text := ""
			for _, image := range list {
				text += strings.TrimSpace(image.Image+" "+image.Mirror) + "\n"
			}
			_, err := io.WriteString(w, text)
			return err
		})
	})

	cmd.Flags().StringVar(&mirror, "registry", "", "registry of a mirror, with a path if it has one")
	return cmd
}

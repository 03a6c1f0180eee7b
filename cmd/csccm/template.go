// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/commands/images"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// renderFlags are those of the commands that render the chart and change nothing.
type renderFlags struct {
	chartFlags
	release string
	kube    kubeVersion
}

func (f *renderFlags) add(cmd *cobra.Command) {
	f.chartFlags.add(cmd.Flags())
	cmd.Flags().StringVar(&f.release, "release", engine.DefaultRelease, "name of the Helm release")
	f.kube.add(cmd)
}

func (f *renderFlags) render(ctx context.Context, g *globals) (*helm.Chart, string, error) {
	chart, values, err := f.load(ctx)
	if err != nil {
		return nil, "", err
	}
	version, err := f.kube.get(ctx, g)
	if err != nil {
		return nil, "", err
	}
	manifest, err := helm.Template(ctx, *g.kube.Namespace, helm.ApplyRequest{Name: f.release, Chart: chart, Values: values, KubeVersion: version})
	return chart, manifest, err
}

func newTemplateCommand(g *globals) *cobra.Command {
	f := &renderFlags{}
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Print the manifest that install would apply",
		Long: `Render the chart and print its objects. Nothing is changed. With --kube-version no
cluster is needed. The Secret with the credentials is not part of the chart.`,
		Example: `  csccm template --kube-version v1.37.1 > cloudstack-ccm.yaml
  csccm template --set replicaCount=1 | kubectl diff -f -`,
		Args:        noArgs,
		Annotations: outputs("yaml"),
	}
	f.add(cmd)
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error {
		if _, err := g.wantOutput("yaml"); err != nil {
			return err
		}
		_, manifest, err := f.render(ctx, g)
		if err != nil {
			return err
		}
		_, err = io.WriteString(g.out, manifest)
		return err
	})
	return cmd
}

// imageList is what csccm images says.
type imageList struct {
	SchemaVersion int            `json:"schemaVersion"`
	Chart         string         `json:"chart"`
	Controller    string         `json:"controller"`
	Images        []images.Image `json:"images"`
}

func newImagesCommand(g *globals) *cobra.Command {
	f := &renderFlags{}
	var mirror string
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List the container images, for a mirror",
		Long: `List the images that the chart needs, one a line. With --registry each line has the
image's name in a mirror too, in the form that copying tools read: SOURCE TARGET.
save and load carry a whole release to a site without internet, signatures included.`,
		Example: `  csccm images --kube-version v1.37.1
  csccm images --registry mirror.example.org/k8s | xargs -n 2 crane copy`,
		Args:        noArgs,
		Annotations: outputs("text", "json", "yaml"),
	}
	f.add(cmd)
	cmd.AddCommand(newImagesSaveCommand(g), newImagesLoadCommand(g))
	cmd.Flags().StringVar(&mirror, "registry", "", "registry of a mirror, with a path if it has one")
	completeFlag(cmd, "registry", cobra.NoFileCompletions)
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error {
		format, err := g.wantOutput("text", "json", "yaml")
		if err != nil {
			return err
		}
		chart, manifest, err := f.render(ctx, g)
		if err != nil {
			return err
		}
		list, err := images.List(manifest, mirror)
		if err != nil {
			return err
		}
		if format == "text" {
			_, err = io.WriteString(g.out, images.Lines(list))
			return err
		}
		return report.Encode(g.out, format, imageList{1, chart.Version(), chart.AppVersion(), list})
	})
	return cmd
}

func newChartCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chart",
		Short: "The Helm chart that csccm carries",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newChartSaveCommand(g))
	return cmd
}

func newChartSaveCommand(g *globals) *cobra.Command {
	f := &renderFlags{}
	var mirror string
	cmd := &cobra.Command{
		Use:   "save [FOLDER]",
		Short: "Write the chart and its list of images to a folder, for a cluster without internet",
		Long: `Write the chart as .tgz and images.txt with its images; with --registry also
values-mirror.yaml, which makes the chart use the mirror. The same csccm writes the
same bytes each time. It needs no cluster.`,
		Example: `  csccm chart save ./airgap --registry mirror.example.org/k8s
  csccm install --chart ./airgap/cloudstack-ccm-1.2.0.tgz --values ./airgap/values-mirror.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("chart save takes one folder")
			}
			return nil
		},
		Annotations: outputs("text", "json", "yaml"),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&mirror, "registry", "", "registry of a mirror, with a path if it has one")
	completeFlag(cmd, "registry", cobra.NoFileCompletions)
	cmd.RunE = g.runE(func(ctx context.Context, args []string) error {
		dir := "."
		if len(args) == 1 {
			dir = args[0]
		}
		format, err := g.wantOutput("text", "json", "yaml")
		if err != nil {
			return err
		}
		if f.kube == "" {
			f.kube = "v1.37.0" // the images do not depend on it
		}
		chart, manifest, err := f.render(ctx, g)
		if err != nil {
			return err
		}
		saved, err := images.SaveChart(dir, chart, manifest, mirror)
		if err != nil {
			return err
		}
		if format != "text" {
			return report.Encode(g.out, format, saved)
		}
		_, err = fmt.Fprint(g.out, strings.TrimSpace(strings.Join([]string{saved.Chart, saved.Images, saved.Values}, "\n"))+"\n")
		return err
	})
	return cmd
}

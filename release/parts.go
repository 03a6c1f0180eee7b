// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/release/internal/image"
)

// newPartCommand completes a command that makes a part of a release, of any tree.
func newPartCommand(s *settings, o *makeSettings, cmd *cobra.Command, steps func(m *maker) []step) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.prepare(cmd, s, func(m *maker) error {
			if err := os.MkdirAll(m.output, 0o755); err != nil { //nolint:gosec // public artefacts
				return err
			}
			return runSteps(cmd.Context(), cmd.OutOrStdout(), false, steps(m))
		})
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "dist", "directory to write to")
	return cmd
}

func newImageCommand(s *settings) *cobra.Command {
	var o makeSettings
	cmd := newPartCommand(s, &o, &cobra.Command{
		Use:   "image",
		Short: "Build container images without a container engine",
		Long: "Build container images from scratch, without a container engine: root certificates and one binary each, for\n" +
			"several platforms. They are archives in the OCI layout, which podman, skopeo, containerd and Docker (25 and\n" +
			"later) can load.",
	}, (*maker).imageSteps)
	cmd.Flags().StringVar(&o.registry, "registry", defaultRegistry, "registry and path in the images' names")
	o.addFlags(cmd.Flags())
	return cmd
}

func newChartCommand(s *settings) *cobra.Command {
	return newPartCommand(s, &makeSettings{}, &cobra.Command{Use: "chart", Short: "Package the Helm chart"}, func(m *maker) []step {
		return []step{{"package " + charts.Name + "-" + m.tree.Version + ".tgz", m.makeChart}}
	})
}

func newManifestCommand(s *settings) *cobra.Command {
	return newPartCommand(s, &makeSettings{}, &cobra.Command{
		Use: "manifest", Short: "Render the chart with its default values for users without Helm",
	}, func(m *maker) []step { return []step{{"render " + helm.ManifestFile, m.makeManifest}} })
}

func newCertificatesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "certificates FILE",
		Short: "Write the root certificates of the images (for the Dockerfile)",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			certificates, err := image.Certificates()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(args[0]), 0o755); err != nil { //nolint:gosec // public certificates
				return err
			}
			return os.WriteFile(args[0], certificates, 0o644) //nolint:gosec // public certificates
		},
	}
}

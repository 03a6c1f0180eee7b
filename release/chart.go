// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/release/internal/chartpkg"
)

func newChartCommand(s *settings) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "chart",
		Short: "Package the Helm chart",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pkg, err := s.packChart(cmd.Context())
			if err != nil {
				return err
			}
			file, err := pkg.Write(output)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  sha256:%x\n", file, sha256.Sum256(pkg.Data))
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "dist", "directory to write to")
	return cmd
}

// packChart packages the chart of the tree.
func (s *settings) packChart(ctx context.Context) (*chartpkg.Package, error) {
	tree, err := s.tree(ctx)
	if err != nil {
		return nil, err
	}
	return chartpkg.Pack(filepath.Join(s.root, "charts", charts.Name), tree, chartpkg.Annotations{})
}

func newManifestCommand(s *settings) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Render the chart with its default values for users without Helm",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pkg, err := s.packChart(cmd.Context())
			if err != nil {
				return err
			}
			work, err := os.MkdirTemp("", "csccm-manifest-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(work) //nolint:errcheck // a temporary directory
			file, err := pkg.Write(work)
			if err != nil {
				return err
			}
			packed, err := helm.Load(file, "")
			if err != nil {
				return err
			}
			manifest, err := helm.Manifest(cmd.Context(), packed, "v"+supported.Built+".0")
			if err != nil {
				return err
			}
			if err := os.MkdirAll(output, 0o755); err != nil { //nolint:gosec // a public artefact
				return err
			}
			file = filepath.Join(output, helm.ManifestFile)
			if err := writePublic(file, manifest); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "dist", "directory to write to")
	return cmd
}

func newIndexCommand(s *settings) *cobra.Command {
	var dir, url, merge, output string
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Write index.yaml of a chart repository",
		Long: "Write index.yaml of a chart repository for the packages (*.tgz) in a directory, merged with the published\n" +
			"index. A published version cannot be replaced.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := s.tree(cmd.Context())
			if err != nil {
				return err
			}
			if merge != "" {
				if _, err := os.Stat(merge); err != nil {
					return fmt.Errorf("--merge: %w", err)
				}
			}
			packages, err := filepath.Glob(filepath.Join(dir, "*.tgz")) // sorted
			if err != nil {
				return err
			}
			if len(packages) == 0 {
				return fmt.Errorf("%s contains no .tgz file", dir)
			}
			index, err := chartpkg.Index(packages, url, merge, tree.Time)
			if err != nil {
				return err
			}
			if output == "" {
				output = filepath.Join(dir, "index.yaml")
			}
			if err := os.WriteFile(output, index, 0o644); err != nil { //nolint:gosec // a public artefact
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), output)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "dist", "directory with the packages")
	cmd.Flags().StringVar(&url, "url", "", "URL of that directory (default: relative to index.yaml)")
	cmd.Flags().StringVar(&merge, "merge", "", "the published index.yaml")
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write (default: index.yaml in the directory)")
	return cmd
}

func newPushChartCommand(s *settings) *cobra.Command {
	var plainHTTP bool
	cmd := &cobra.Command{
		Use:     "push-chart PACKAGE.tgz oci://HOST/PATH",
		Short:   "Push a packaged chart to an OCI registry",
		Example: "  release push-chart dist/cloudstack-ccm-1.2.3.tgz oci://ghcr.io/csccm/charts",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("want a package and a registry: PACKAGE.tgz oci://HOST/PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, err := s.tree(cmd.Context())
			if err != nil {
				return err
			}
			pushed, err := chartpkg.Push(cmd.Context(), args[0], args[1], plainHTTP, tree.Time)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), pushed)
			return err
		},
	}
	cmd.Flags().BoolVar(&plainHTTP, "plain-http", false, "the registry has no TLS")
	return cmd
}

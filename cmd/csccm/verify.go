// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/release/verify"
)

func newVerifyCommand(g *cli.Globals) *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify images, charts and files of a release by its public key",
		Long: `Verify what a release was signed with: container images and charts in a
registry, and downloaded files. It needs the release's public key and asks
nobody but the registry. What it does not find, or another key signed, does not
pass (exit code 3). cosign verifies the same signatures.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&keyFile, "public-key-file", "", "the release's public key (cosign.pub)")
	key := func() (*verify.Key, error) {
		if keyFile == "" {
			return nil, cli.Usagef("--public-key-file names the key to verify with")
		}
		text, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, cli.Usagef("--public-key-file: %w", err)
		}
		parsed, err := verify.ParseKey(text)
		if err != nil {
			return nil, cli.Usagef("--public-key-file %s: %w", keyFile, err)
		}
		return parsed, nil
	}
	cmd.AddCommand(newVerifyImageCommand(g, key), newVerifyFilesCommand(g, key))
	return cmd
}

// evidenceKinds are what a release attaches to each image.
var evidenceKinds = []string{"signature", "provenance", "sbom"}

func newVerifyImageCommand(g *cli.Globals, key func() (*verify.Key, error)) *cobra.Command {
	var o verify.ImageOptions
	cmd := g.Command(&cobra.Command{
		Use:   "image REFERENCE...",
		Short: "Verify images or charts in a registry",
		Example: `  csccm verify image --public-key-file cosign.pub ghcr.io/csccm/cloudstack-ccm:v1.2.3
  csccm verify image --public-key-file cosign.pub oci://ghcr.io/csccm/charts/cloudstack-ccm:1.2.3`,
		Args: cli.WantArgs("name at least one image, such as ghcr.io/csccm/cloudstack-ccm:v1.2.3"),
	}, 0, func(ctx context.Context, args []string) (err error) {
		for _, kind := range o.Require {
			if !slices.Contains(evidenceKinds, kind) {
				return cli.Usagef("--require %q is none of %s", kind, strings.Join(evidenceKinds, ", "))
			}
		}
		if o.Key, err = key(); err != nil {
			return err
		}
		var reports []*verify.ImageReport
		for _, ref := range args {
			found, err := verify.Image(ctx, ref, o)
			if err != nil {
				return verdict(err)
			}
			reports = append(reports, found)
		}
		return g.Show(reports, func(w io.Writer) error { return verify.ImageTable(reports).Write(w, g.Style(w)) })
	})
	cmd.Flags().StringSliceVar(&o.Require, "require", []string{"signature", "provenance"}, "evidence that must be there: "+strings.Join(evidenceKinds, ", "))
	cli.CompleteFlag(cmd, "require", cli.OneOf(evidenceKinds...))
	cmd.Flags().BoolVar(&o.PlainHTTP, "plain-http", false, "the registry has no TLS")
	return cmd
}

func newVerifyFilesCommand(g *cli.Globals, key func() (*verify.Key, error)) *cobra.Command {
	return g.Command(&cobra.Command{
		Use:   "files SHA256SUMS [FILE...]",
		Short: "Verify downloaded files; without names, all that are beside SHA256SUMS",
		Long: `Verify downloaded files of a release. Beside SHA256SUMS must be its signature
(SHA256SUMS.sigstore.json or SHA256SUMS.sig); provenance.sigstore.json is
checked if it is there.`,
		Example: "  csccm verify files --public-key-file cosign.pub SHA256SUMS csccm_1.2.3_linux_amd64.tar.gz",
		Args:    cli.WantArgs("name the file SHA256SUMS"),
	}, 0, func(_ context.Context, args []string) error {
		with, err := key()
		if err != nil {
			return err
		}
		found, err := verify.Files(args[0], args[1:], with)
		if err != nil {
			return verdict(err)
		}
		return g.Show(found, func(w io.Writer) error {
			return found.Table().Write(w, g.Style(w))
		})
	})
}

// verdict gives what does not pass the exit code of a failed check; files and registries that cannot be read
// are errors.
func verdict(err error) error {
	var missing *verify.MissingError
	if errors.As(err, &missing) || errors.Is(err, verify.ErrSignature) || errors.Is(err, verify.ErrContent) ||
		errors.Is(err, verify.ErrVersion) || errors.Is(err, verify.ErrUnsigned) {
		return &report.ExitError{Code: report.ExitCheckFailed, Err: err}
	}
	return report.Remedied(err, "check the name of the file or the image, the registry, and the login (docker login)")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/release/mirror"
)

func newMirrorCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mirror",
		Short: "Copy a release to another registry with an archive",
		Args:  cobra.NoArgs,
	}
	var o mirror.Options
	cmd.PersistentFlags().BoolVar(&o.PlainHTTP, "plain-http", false, "the registry has no TLS")
	options := func(cmd *cobra.Command) mirror.Options {
		with := o
		with.Progress = func(text string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), text) }
		return with
	}
	var registry string
	save := &cobra.Command{
		Use:     "save FILE.tar",
		Short:   "Write all images and the chart of a release, including signatures, to an archive",
		Example: "  release mirror save csccm.tar --version v1.2.3",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, err := s.tree(cmd.Context())
			if err != nil {
				return err
			}
			return mirror.Save(cmd.Context(), registry, mirror.Images(tree.Version), args[0], options(cmd))
		},
	}
	save.Flags().StringVar(&registry, "registry", "ghcr.io/csccm", "registry and path to read from")
	load := &cobra.Command{
		Use:     "load FILE.tar REGISTRY/PATH",
		Short:   "Push the archive's content to a registry and print the references",
		Example: "  release mirror load csccm.tar registry.example.org/csccm",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := mirror.Load(cmd.Context(), args[0], args[1], options(cmd))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(loaded, "\n"))
			return err
		},
	}
	cmd.AddCommand(save, load)
	return cmd
}

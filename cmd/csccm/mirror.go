// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/version"
	"github.com/csccm/csccm/release/mirror"
)

// carried is what csccm images save and load say.
type carried struct {
	SchemaVersion int    `json:"schemaVersion"`
	File          string `json:"file"`
	// Images are references, with tag; those that were loaded have a digest too.
	Images []string `json:"images"`
}

func newImagesSaveCommand(g *cli.Globals) *cobra.Command {
	var from, tag string
	var o mirror.Options
	cmd := g.Command(&cobra.Command{
		Use:   "save FILE.tar",
		Short: "Write a release's images and chart, signatures included, into one archive",
		Long: `Write all images of a release, its chart, and what is attached to them (signatures,
provenance, bills of materials) into one archive, for csccm images load. It needs
no cluster. Logins are those of docker login and of helm registry login.`,
		Example: `  csccm images save csccm.tar
  csccm images save csccm.tar --version v1.2.3`,
		Args: cli.WantOne("name one file to write, such as csccm.tar"),
	}, 0, func(ctx context.Context, args []string) error {
		release, err := mirror.ReleaseVersion(tag)
		if err != nil {
			return cli.Usagef("--version %w", err)
		}
		o.Progress = told(g)
		items := mirror.Images(release)
		if err := mirror.Save(ctx, from, items, args[0], o); err != nil {
			return report.Remedied(err, mirrorRemedy)
		}
		for i := range items {
			items[i] = strings.TrimSuffix(from, "/") + "/" + items[i]
		}
		return showCarried(g, carried{1, args[0], items})
	})
	cmd.Flags().StringVar(&from, "from", version.Registry, "registry and path to read from")
	cmd.Flags().StringVar(&tag, "version", "", "version of the release (default: that of this csccm)")
	cmd.Flags().BoolVar(&o.PlainHTTP, "plain-http", false, "the registry has no TLS")
	return cmd
}

func newImagesLoadCommand(g *cli.Globals) *cobra.Command {
	var o mirror.Options
	cmd := g.Command(&cobra.Command{
		Use:   "load FILE.tar REGISTRY/PATH",
		Short: "Fill a registry from such an archive, and print what it has now",
		Long: `Push what csccm images save wrote into another registry. Digests stay, so the same key
verifies the images there. It needs no cluster. Logins are those of docker login and of
helm registry login.`,
		Example: `  csccm images load csccm.tar registry.example.org/csccm
  csccm verify image --public-key-file cosign.pub registry.example.org/csccm/cloudstack-ccm:v1.2.3
  csccm install --chart oci://registry.example.org/csccm/charts/cloudstack-ccm --set image.repository=registry.example.org/csccm/cloudstack-ccm`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usagef("name a file and a registry: csccm.tar registry.example.org/csccm")
			}
			return nil
		},
	}, 0, func(ctx context.Context, args []string) error {
		o.Progress = told(g)
		loaded, err := mirror.Load(ctx, args[0], args[1], o)
		if err != nil {
			return report.Remedied(err, mirrorRemedy)
		}
		return showCarried(g, carried{1, args[0], loaded})
	})
	cmd.Flags().BoolVar(&o.PlainHTTP, "plain-http", false, "the registry has no TLS")
	return cmd
}

const mirrorRemedy = "check the name of the file, the registry and its path, the version, and the login (docker login)"

// told returns a function that shows an item on stderr.
func told(g *cli.Globals) func(text string) {
	return func(text string) { _, _ = fmt.Fprintln(g.ErrOut, text) }
}

func showCarried(g *cli.Globals, c carried) error {
	return g.Show(c, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, strings.Join(c.Images, "\n"))
		return err
	})
}

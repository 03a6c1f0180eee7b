// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/cks/iso"
	"github.com/csccm/csccm/installer/report"
)

func newCKSISOCommand(g *cli.Globals) *cobra.Command {
	f, o := &chartFlags{}, &iso.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "iso FILE.iso --from UPSTREAM.iso --image IMAGE.tar",
		Short: "Write an ISO for clusters with csccm's controller",
		Args:  cli.OneArgument("file to write, such as csccm-v1.33.1.iso"),
	}, 0, func(ctx context.Context, args []string) (err error) {
		if o.From == "" || o.Image == "" {
			return cli.Usagef("--from names the ISO to start from, --image the archive of the controller's image")
		}

		if o.Chart, o.Values, err = f.load(ctx); err != nil {
			return err
		}

		o.To = args[0]
		image, err := iso.Make(ctx, o)
		if err != nil {
			return err
		}

		return g.Show(image, func(w io.Writer) error {
			add := report.ShellLine("cmk", "add", "kubernetessupportedversion",
				"semanticversion="+strings.TrimPrefix(image.Kubernetes, "v"),
				"url=http://WEB-SERVER/"+filepath.Base(args[0]),
				"checksum="+image.Checksum, "mincpunumber=2", "minmemory=2048")
			_, err := fmt.Fprintf(w,
				"%s: Kubernetes %s, chart %s\nchecksum: %s\nnext: put the file on a web server that CloudStack "+
					"reaches, then, as an administrator\n  %s\n",
				image.File, image.Kubernetes, image.Chart, image.Checksum, add)
			return err
		})
	})

	f.add(cmd.Flags())
	cmd.Flags().StringVar(&o.From, "from", "", "ISO that CloudStack's script made, or folder of its layout")
	cmd.Flags().StringVar(&o.Image, "image", "", "archive of the controller's image")
	return cmd
}

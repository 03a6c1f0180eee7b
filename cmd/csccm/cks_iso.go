// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/cks/iso"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/release/mirror"
)

func newCKSISOCommand(g *cli.Globals) *cobra.Command {
	f := &chartFlags{}
	o := &iso.Options{}
	var archive string
	cmd := g.Command(&cobra.Command{
		Use:   "iso FILE.iso --from UPSTREAM.iso",
		Short: "Write an ISO with which CKS makes clusters that have csccm's controller",
		Long: `Write a Kubernetes binaries ISO for CloudStack Kubernetes Service (CKS) in which
provider.yaml is csccm's controller and docker/ holds its image. All other files come
from an ISO that create-kubernetes-binaries-iso.sh of CloudStack made, or from a folder
of its layout. The same input gives the same bytes. It needs no cluster.

The controller uses the Secret that CKS makes, and initialises the nodes although their
kubelets run without --cloud-provider=external (chart value adoptNodes). With
--external-kubelets they run with it: then the Pods of network and dashboard are made to
tolerate nodes that are not initialised, because CKS applies the provider last.

The checksum that it prints is for addKubernetesSupportedVersion. Images come from their
registry (logins are those of docker login) or from an archive of csccm images save.
--dry-run says what would be in the file, with the same checksum.` + cli.ServerIsClient,
		Example: `  csccm cks iso csccm-v1.33.1.iso --from setup-v1.33.1-x86_64.iso
  csccm cks iso csccm-v1.33.1.iso --from ./iso --kubernetes-version v1.33.1 --images csccm.tar
  csccm cks iso csccm-v1.33.1.iso --from setup-v1.33.1-x86_64.iso --dry-run -o json`,
		Args: cli.WantOne("name one file to write, such as csccm-v1.33.1.iso"),
	}, cli.FlagDryRun, func(ctx context.Context, args []string) (err error) {
		if o.From == "" {
			return cli.Usagef("--from names the ISO to start from, or a folder of its layout")
		}
		if *g.Kube.Namespace != metav1.NamespaceSystem {
			return cli.Usagef("-n %s: CKS makes the Secret of the controller in kube-system", *g.Kube.Namespace)
		}
		if o.Chart, o.Values, err = f.load(ctx); err != nil {
			return err
		}
		source, err := mirror.OpenSource(archive)
		if err != nil {
			return report.Remedied(fmt.Errorf("--images: %w", err), "name an archive that csccm images save wrote")
		}
		defer func() { err = errors.Join(err, source.Close()) }()
		o.To, o.Images, o.DryRun, o.Progress = args[0], source, g.Dry, told(g)
		made, err := iso.Make(ctx, o)
		if err != nil {
			return err
		}
		return g.Show(made, func(w io.Writer) error { return showISO(w, g.Style(w), made) })
	})
	f.add(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&o.From, "from", "", "ISO that CloudStack's script made, or folder of its layout")
	flags.StringVar(&o.Kubernetes, "kubernetes-version", "", "version of Kubernetes that --from must have")
	flags.StringVar(&archive, "images", "", "archive of csccm images save with the image (default: its registry)")
	flags.BoolVar(&o.External, "external-kubelets", false, "start kubelets with --cloud-provider=external")
	cli.CompleteFlag(cmd, "kubernetes-version", cobra.NoFileCompletions)
	return cmd
}

func showISO(w io.Writer, style report.Style, r *iso.Result) error {
	t := report.Table{Header: []string{"FILE", "CHANGE", "BYTES", "SHA-256"}}
	for _, f := range r.Files {
		t.Add(f.Path, f.Action, strconv.FormatInt(f.Size, 10), f.SHA256)
	}
	if err := t.Write(w, style); err != nil {
		return err
	}
	var b strings.Builder
	for _, image := range r.Images {
		fmt.Fprintf(&b, "image: %s, %s\n", image.Image, image.Digest)
	}
	for _, note := range r.Notes {
		b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, note))
	}
	verb := "written"
	if r.DryRun {
		verb = "nothing written (dry run)"
	}
	fmt.Fprintf(&b, "%s: %d bytes, Kubernetes %s, %s, chart %s, %d files unchanged: %s\nchecksum: %s\n",
		r.File, r.Size, r.Kubernetes, r.Arch, r.Chart, r.Unchanged, verb, r.Checksum)
	if !r.DryRun {
		fmt.Fprintf(&b, "next: put the file on a web server that CloudStack reaches, then\n  %s\n",
			report.ShellLine("csccm", "cks", "versions", "add", "--url", r.URL(), "--checksum", r.Checksum))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

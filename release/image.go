// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/csccm/csccm/release/internal/image"
	"github.com/csccm/csccm/release/internal/source"
)

type imageSettings struct {
	output    string
	registry  string
	push      bool
	dir       bool
	platforms []string
	only      []string
}

func newImageCommand(s *settings) *cobra.Command {
	var o imageSettings
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build container images without a container engine",
		Long: "Build container images from scratch, without a container engine: root certificates and one binary each, for\n" +
			"several platforms. Write them as archives in the OCI layout, which podman, skopeo, containerd and Docker (25\n" +
			"and later) can load, or push them to a registry.",
		Example: "  release image --output dist\n  release image --push --registry registry.example.org/csccm",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := s.tree(cmd.Context())
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), s.root, tree, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "dist", "directory to write to, unless --push")
	flags.StringVar(&o.registry, "registry", "ghcr.io/csccm", "registry and path in the images' names")
	flags.BoolVar(&o.push, "push", false, "push to the registry instead of writing archives")
	flags.BoolVar(&o.dir, "dir", false, "write directories (OCI layout) instead of archives")
	flags.StringSliceVar(&o.platforms, "platform", []string{"linux/amd64", "linux/arm64"}, "platforms")
	flags.StringSliceVar(&o.only, "only", nil, "names of images to build (default: all)")
	return cmd
}

func (o *imageSettings) run(ctx context.Context, root string, tree source.Tree, out, progress io.Writer) (err error) {
	chosen, err := o.selection()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "csccm-release-")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(work))
	}()
	b := newBuilder(root, work, tree, progress)
	for _, p := range chosen {
		ref, err := imageTag(o.registry, p.Name, tree)
		if err != nil {
			return err
		}
		index, err := b.image(ctx, p.Spec, p.platforms)
		if err != nil {
			return err
		}
		target, err := o.deliver(ctx, work, p.Spec, index, ref, tree)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s  %s@%s\n", target, ref.Name(), digest); err != nil {
			return err
		}
	}
	return nil
}

// imageTag returns the name and tag of an image in a registry (HOST/PATH).
func imageTag(registry, image string, tree source.Tree) (name.Tag, error) {
	ref, err := name.NewTag(fmt.Sprintf("%s/%s:%s", strings.TrimSuffix(registry, "/"), image, tree.ImageTag()))
	if err != nil {
		return ref, fmt.Errorf("--registry: %w", err)
	}
	return ref, nil
}

// selection returns the products to build. Images exist only for linux.
func (o *imageSettings) selection() ([]product, error) {
	if len(o.platforms) == 0 {
		return nil, errors.New("--platform: want at least one")
	}
	for _, platform := range o.platforms {
		if strings.Contains(platform, "/") && !strings.HasPrefix(platform, "linux/") {
			return nil, fmt.Errorf("--platform: images are for linux, not for %s", platform)
		}
	}
	return selection{only: o.only, platforms: o.platforms}.choose()
}

// deliver pushes an image and returns "pushed", or writes it to a file and returns the file's name.
func (o *imageSettings) deliver(ctx context.Context, work string, spec image.Spec, index v1.ImageIndex, ref name.Tag, tree source.Tree) (string, error) {
	if o.push {
		return "pushed", image.Push(ctx, index, ref, nil)
	}
	if err := os.MkdirAll(o.output, 0o755); err != nil { //nolint:gosec // a public artefact
		return "", err
	}
	base := filepath.Join(o.output, spec.Name+"_"+tree.ImageTag()+".oci")
	if o.dir {
		return base, image.Layout(base, index, ref)
	}
	layout := filepath.Join(work, "layout")
	if err := image.Layout(layout, index, ref); err != nil {
		return "", err
	}
	return base + ".tar", image.Archive(layout, base+".tar", tree.Time)
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

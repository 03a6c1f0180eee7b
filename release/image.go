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
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/image"
	"github.com/csccm/csccm/release/internal/source"
)

// images are those that a release has; each is named after its binary in cmd/.
var images = []image.Spec{
	{
		Name:        "cloudstack-ccm",
		Title:       "cloudstack-ccm",
		Description: "Cloud controller manager for Apache CloudStack",
		Port:        10258,
	},
	{
		Name:        "csccm",
		Title:       "csccm",
		Description: "Installs and checks cloudstack-ccm",
	},
	{
		Name:        "cloudstack-sim",
		Title:       "cloudstack-sim",
		Description: "A simulated Apache CloudStack management server, for tests",
		Args:        []string{"--listen", "0.0.0.0:8080"},
		Port:        8080,
	},
}

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
		Short: "Build container images, without an engine",
		Long: "Build container images from scratch, without an engine: root certificates and one binary each, for several\n" +
			"platforms. They are written as archives in the OCI layout, which podman, skopeo, containerd and Docker (25\n" +
			"and later) load, or pushed to a registry.",
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
	flags.StringVarP(&o.output, "output", "o", "dist", "folder to write to, unless --push")
	flags.StringVar(&o.registry, "registry", "ghcr.io/csccm", "registry and path of the images' names")
	flags.BoolVar(&o.push, "push", false, "push to the registry instead of writing archives")
	flags.BoolVar(&o.dir, "dir", false, "write folders (OCI layout) instead of archives")
	flags.StringSliceVar(&o.platforms, "platform", []string{"linux/amd64", "linux/arm64"}, "platforms")
	flags.StringSliceVar(&o.only, "only", nil, "names of images to build (default: all)")
	return cmd
}

func (o *imageSettings) run(ctx context.Context, root string, tree source.Tree, out, progress io.Writer) (err error) {
	platforms, specs, err := o.selection()
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
	for _, spec := range specs {
		ref, err := name.NewTag(fmt.Sprintf("%s/%s:%s", strings.TrimSuffix(o.registry, "/"), spec.Name, tree.ImageTag()))
		if err != nil {
			return fmt.Errorf("--registry: %w", err)
		}
		index, err := build(ctx, root, work, spec, platforms, tree, progress)
		if err != nil {
			return err
		}
		target, err := o.deliver(ctx, work, spec, index, ref, tree)
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

func (o *imageSettings) selection() ([]gobuild.Platform, []image.Spec, error) {
	var platforms []gobuild.Platform
	for _, text := range o.platforms {
		platform, err := gobuild.ParsePlatform(text)
		if err != nil {
			return nil, nil, fmt.Errorf("--platform: %w", err)
		}
		platforms = append(platforms, platform)
	}
	if len(platforms) == 0 {
		return nil, nil, errors.New("--platform: want at least one")
	}
	var specs []image.Spec
	for _, spec := range images {
		if len(o.only) == 0 || slices.Contains(o.only, spec.Name) {
			specs = append(specs, spec)
		}
	}
	for _, only := range o.only {
		if !slices.ContainsFunc(images, func(s image.Spec) bool { return s.Name == only }) {
			return nil, nil, fmt.Errorf("--only: there is no image %s", only)
		}
	}
	return platforms, specs, nil
}

func build(ctx context.Context, root, work string, spec image.Spec, platforms []gobuild.Platform, tree source.Tree, progress io.Writer) (v1.ImageIndex, error) {
	built := make([]v1.Image, 0, len(platforms))
	for _, platform := range platforms {
		if _, err := fmt.Fprintf(progress, "build %s for %s\n", spec.Name, platform); err != nil {
			return nil, err
		}
		file := filepath.Join(work, spec.Name)
		if err := gobuild.Build(ctx, root, "./cmd/"+spec.Name, platform, tree, file); err != nil {
			return nil, err
		}
		binary, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		img, err := image.One(spec, platform, binary, tree)
		if err != nil {
			return nil, fmt.Errorf("image %s for %s: %w", spec.Name, platform, err)
		}
		built = append(built, img)
	}
	return image.Many(spec, tree, platforms, built), nil
}

// deliver pushes or writes an image and returns where it is.
func (o *imageSettings) deliver(ctx context.Context, work string, spec image.Spec, index v1.ImageIndex, ref name.Tag, tree source.Tree) (string, error) {
	if o.push {
		return "pushed", image.Push(ctx, index, ref)
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
		Short: "Write the root certificates that the images have (for the Dockerfile)",
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

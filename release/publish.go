// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/csccm/csccm/release/internal/attach"
	"github.com/csccm/csccm/release/internal/chartpkg"
	"github.com/csccm/csccm/release/internal/image"
	"github.com/csccm/csccm/release/internal/provenance"
	"github.com/csccm/csccm/release/internal/sign"
	"github.com/csccm/csccm/release/internal/source"
	"github.com/csccm/csccm/release/verify"
)

type publishSettings struct {
	signing
	dir       string
	registry  string
	charts    string
	site      string
	chartURL  string
	builder   string
	plainHTTP bool
	dryRun    bool
}

func newPublishCommand(s *settings) *cobra.Command {
	var o publishSettings
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish a release: push and sign images and chart, write the chart repository",
		Long: "Publish the output of `release make`: push the images and the chart to a registry, attach SBOMs and provenance,\n" +
			"sign them, and write the files and the chart repository to the directory of a web site. A published version is\n" +
			"never replaced by different content, which is checked before anything is pushed; publishing the same release\n" +
			"again changes nothing. Images and chart get their tags only after they are signed.",
		Example: "  COSIGN_PASSWORD=... release publish --key cosign.key --registry ghcr.io/csccm --site ../gh-pages",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), s, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "dist", "directory of the release")
	flags.StringVar(&o.registry, "registry", "", "registry and path of the images, such as ghcr.io/csccm (default: push nothing)")
	flags.StringVar(&o.charts, "chart-registry", "", "registry and path of the chart (default: that of the images plus /charts)")
	flags.StringVar(&o.site, "site", "", "directory of a web site: files are written to releases/TAG, the chart repository to charts (default: none)")
	flags.StringVar(&o.chartURL, "chart-url", "", "URL of charts/ on the web (default: relative to index.yaml)")
	flags.StringVar(&o.builder, "builder", provenance.DefaultBuilder, "URI of the builder, for the provenance")
	flags.BoolVar(&o.plainHTTP, "plain-http", false, "the registry has no TLS")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check and print what would be done, and change nothing")
	o.addKey(flags)
	return cmd
}

// publisher publishes one release.
type publisher struct {
	publishSettings
	contents *releaseContents
	tree     source.Tree
	root     string
	key      *sign.Key
	work     string
}

func (o publishSettings) run(ctx context.Context, s *settings, out io.Writer) (err error) {
	if o.registry == "" && o.site == "" {
		return errors.New("no target to publish to: want --registry, --site or both")
	}
	if o.registry == "" && o.charts != "" {
		return errors.New("--chart-registry needs --registry")
	}
	o.registry = strings.TrimSuffix(o.registry, "/")
	if o.charts == "" {
		o.charts = o.registry + "/charts"
	}
	p := &publisher{publishSettings: o, root: s.root}
	if p.contents, err = readContents(o.dir); err != nil {
		return err
	}
	if p.contents.Tag == "" {
		return errors.New("this is a snapshot: run release make without --snapshot")
	}
	if p.tree, err = source.Read(ctx, s.root, p.contents.Tag); err != nil {
		return err
	}
	if p.tree.Revision != p.contents.Commit {
		return fmt.Errorf("the release was built from commit %.12s, but the tree is at %.12s", p.contents.Commit, p.tree.Revision)
	}
	if p.key, err = o.open(); err != nil {
		return err
	}
	if err := p.signedByKey(); err != nil {
		return err
	}
	if p.work, err = os.MkdirTemp("", "csccm-publish-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.work)) }()
	// A dry run also checks this.
	if err := p.unpublished(ctx); err != nil {
		return err
	}
	return runSteps(ctx, out, o.dryRun, p.steps())
}

// signedByKey returns an error unless the files are signed with the key that signs the images.
func (p *publisher) signedByKey() error {
	if p.key == nil {
		return nil
	}
	_, err := verify.Files(filepath.Join(p.dir, verify.SumsFile), nil, p.key.Public())
	if err != nil {
		return fmt.Errorf("the release was not signed with this key: %w", err)
	}
	return nil
}

func (p *publisher) steps() []step {
	var steps []step
	signed := ""
	if p.key != nil {
		signed = ", attach bills of materials and provenance, sign"
	}
	if p.registry != "" {
		for _, i := range p.contents.Images {
			steps = append(steps, step{
				fmt.Sprintf("push %s/%s:%s@%s%s", p.registry, i.Name, p.tree.ImageTag(), i.Digest, signed),
				func(ctx context.Context) error { return p.image(ctx, i) },
			})
		}
		if p.key != nil {
			signed = ", attach provenance, sign"
		}
		steps = append(steps, step{fmt.Sprintf("push %s to oci://%s%s", p.contents.Chart, p.charts, signed), p.chart})
	}
	if p.site != "" {
		steps = append(steps,
			step{"copy the files to " + filepath.Join(p.site, "releases", p.contents.Tag), p.files},
			step{"add " + p.contents.Chart + " to " + filepath.Join(p.site, "charts", "index.yaml"), p.repository},
		)
	}
	return steps
}

func (p *publisher) image(ctx context.Context, i releasedImage) error {
	layout := filepath.Join(p.work, i.Name)
	if err := os.Mkdir(layout, 0o700); err != nil {
		return err
	}
	if err := image.Extract(filepath.Join(p.dir, i.File), layout); err != nil {
		return err
	}
	index, err := image.Read(layout)
	if err != nil {
		return err
	}
	if digest, err := index.Digest(); err != nil || digest.String() != i.Digest {
		return errors.Join(fmt.Errorf("%s has digest %s, but the digest in %s is %s", i.File, digest, contentsFile, i.Digest), err)
	}
	tag, err := p.imageTag(i)
	if err != nil {
		return err
	}
	if err := image.Push(ctx, index, tag.Digest(i.Digest), nil); err != nil {
		return err
	}
	for _, platform := range i.Platforms {
		bill, err := os.ReadFile(filepath.Join(p.dir, platform.SBOM))
		if err != nil {
			return err
		}
		child := tag.Digest(platform.Digest)
		if err := attach.Referrer(ctx, child, verify.SBOMMediaType, bill, nil); err != nil {
			return err
		}
		if p.key == nil {
			continue
		}
		if err := attach.Attest(ctx, p.key, child, verify.PredicateSBOM, json.RawMessage(bill)); err != nil {
			return err
		}
		if err := attach.Sign(ctx, p.key, child); err != nil {
			return err
		}
	}
	if err := p.signAndAttest(ctx, tag.Digest(i.Digest)); err != nil {
		return err
	}
	// Push the tag last, so that it always refers to a signed image, even if publishing is interrupted.
	return image.Tag(ctx, index, tag, nil)
}

// signAndAttest signs an image or chart and attaches its provenance.
func (p *publisher) signAndAttest(ctx context.Context, image name.Digest) error {
	if p.key == nil {
		return nil
	}
	predicate, err := provenance.Of(p.root, p.tree, p.builder)
	if err != nil {
		return err
	}
	if err := attach.Attest(ctx, p.key, image, verify.PredicateProvenance, predicate); err != nil {
		return err
	}
	return attach.Sign(ctx, p.key, image)
}

func (p *publisher) chart(ctx context.Context) error {
	tag, err := p.chartTag()
	if err != nil {
		return err
	}
	artifact, err := chartpkg.Artifact(ctx, filepath.Join(p.dir, p.contents.Chart), p.tree.Time)
	if err != nil {
		return err
	}
	digest, err := artifact.Digest()
	if err != nil {
		return err
	}
	pushed := tag.Digest(digest.String())
	if err := image.Push(ctx, artifact, pushed, nil); err != nil {
		return err
	}
	if err := p.signAndAttest(ctx, pushed); err != nil {
		return err
	}
	return image.Tag(ctx, artifact, tag, nil)
}

func (p *publisher) files(context.Context) error {
	for _, name := range p.contents.files {
		if err := publishFile(filepath.Join(p.dir, name), p.released()); err != nil {
			return err
		}
	}
	return nil
}

func (p *publisher) repository(context.Context) error {
	merged, err := p.index()
	if err != nil {
		return err
	}
	// Write the index last, so that all files in it exist.
	for _, file := range p.chartFiles() {
		if err := publishFile(file, filepath.Join(p.site, "charts")); err != nil {
			return err
		}
	}
	return writePublic(p.indexFile(), merged)
}

// publishFile copies a file to a directory, which it creates. A different file with the same name is an error.
func publishFile(file, dir string) error {
	published, err := publishedFile(file, dir)
	if err != nil || published {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a public artefact
		return err
	}
	return writePublic(filepath.Join(dir, filepath.Base(file)), data)
}

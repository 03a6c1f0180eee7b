// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"

	"github.com/csccm/csccm/release/internal/chartpkg"
	"github.com/csccm/csccm/release/internal/oci"
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
	flags.StringVar(&o.builder, "builder", defaultBuilder, "URI of the builder, for the provenance")
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
	uploads  []upload
}

// upload is an image or the chart, which is pushed to the registry.
type upload struct {
	tag       name.Tag
	digest    v1.Hash
	platforms []releasedPlatform
	open      func() (remote.Taggable, error)
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
	if p.key != nil {
		if err := isPublished(s.root, p.key.Public()); err != nil {
			return err
		}
		if _, err := verify.Files(filepath.Join(p.dir, verify.SumsFile), nil, p.key.Public()); err != nil {
			return fmt.Errorf("the release was not signed with this key: %w", err)
		}
	}
	if p.work, err = os.MkdirTemp("", "csccm-publish-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.work)) }()
	if p.registry != "" {
		if err := p.findUploads(ctx); err != nil {
			return err
		}
	}
	// A dry run also checks this.
	if err := p.unpublished(ctx); err != nil {
		return err
	}
	return runSteps(ctx, out, o.dryRun, p.steps())
}

// findUploads sets uploads: the images, and then the chart.
func (p *publisher) findUploads(ctx context.Context) error {
	for _, i := range p.contents.Images {
		tag, err := name.NewTag(p.registry+"/"+i.Name+":"+p.tree.ImageTag(), oci.Names(p.plainHTTP)...)
		if err != nil {
			return fmt.Errorf("--registry: want HOST/PATH, such as ghcr.io/csccm: %w", err)
		}
		digest, err := v1.NewHash(i.Digest)
		if err != nil {
			return fmt.Errorf("%s: %w", contentsFile, err)
		}
		p.uploads = append(p.uploads, upload{tag, digest, i.Platforms, func() (remote.Taggable, error) {
			layout := filepath.Join(p.work, i.Name)
			if err := os.Mkdir(layout, 0o700); err != nil {
				return nil, err
			}
			all, err := oci.Extract(filepath.Join(p.dir, i.File), layout)
			if err != nil {
				return nil, err
			}
			return all.ImageIndex(digest)
		}})
	}
	chart := strings.TrimSuffix(p.contents.Chart, "-"+p.contents.Version+".tgz")
	tag, err := name.NewTag(p.charts+"/"+chart+":"+strings.ReplaceAll(p.tree.Version, "+", "_"), oci.Names(p.plainHTTP)...)
	if err != nil {
		return fmt.Errorf("--chart-registry: want HOST/PATH, such as ghcr.io/csccm/charts: %w", err)
	}
	artifact, err := chartpkg.Artifact(ctx, p.chartFiles()[0], p.tree.Time)
	if err != nil {
		return err
	}
	digest, err := artifact.Digest()
	p.uploads = append(p.uploads, upload{tag, digest, nil, func() (remote.Taggable, error) { return artifact, nil }})
	return err
}

// unpublished returns an error if anything different is already published under this version. It checks all targets
// before anything is published, so that a release is not published partly.
func (p *publisher) unpublished(ctx context.Context) error {
	for _, u := range p.uploads {
		if err := oci.Unpublished(ctx, u.tag, u.digest); err != nil {
			return err
		}
	}
	if p.site == "" {
		return nil
	}
	for _, file := range p.contents.files {
		if _, err := publishedFile(filepath.Join(p.dir, file), p.released()); err != nil {
			return err
		}
	}
	_, err := p.index()
	return err
}

func (p *publisher) steps() []step {
	signed := ""
	if p.key != nil {
		signed = ", attach bills of materials and provenance, sign"
	}
	var steps []step
	for _, u := range p.uploads {
		steps = append(steps, step{fmt.Sprintf("push %s@%s%s", u.tag, u.digest, signed), func(ctx context.Context) error { return p.push(ctx, u) }})
	}
	if p.site != "" {
		steps = append(steps,
			step{"copy the files to " + p.released(), func(context.Context) error {
				for _, file := range p.contents.files {
					if err := publishFile(filepath.Join(p.dir, file), p.released()); err != nil {
						return err
					}
				}
				return nil
			}},
			step{"add " + p.contents.Chart + " to " + p.indexFile(), p.repository},
		)
	}
	return steps
}

// push pushes an upload with its SBOMs, and its signatures and provenance if there is a key.
func (p *publisher) push(ctx context.Context, u upload) error {
	content, err := u.open()
	if err != nil {
		return err
	}
	pushed := u.tag.Digest(u.digest.String())
	if err := oci.Push(ctx, content, pushed); err != nil {
		return err
	}
	for _, platform := range u.platforms {
		bill, err := os.ReadFile(filepath.Join(p.dir, platform.SBOM))
		if err != nil {
			return err
		}
		child := u.tag.Digest(platform.Digest)
		if err := sign.Attach(ctx, child, verify.SBOMMediaType, bill, nil); err != nil {
			return err
		}
		if err := p.sign(ctx, child, verify.PredicateSBOM, json.RawMessage(bill)); err != nil {
			return err
		}
	}
	predicate, err := slsaProvenance(p.root, p.tree, p.builder)
	if err != nil {
		return err
	}
	if err := p.sign(ctx, pushed, verify.PredicateProvenance, predicate); err != nil {
		return err
	}
	// Push the tag last, so that it always refers to a signed image, even if publishing is interrupted.
	return oci.Tag(ctx, content, u.tag)
}

// sign signs an image and a statement about it, if there is a key.
func (p *publisher) sign(ctx context.Context, image name.Digest, predicateType string, predicate any) error {
	if p.key == nil {
		return nil
	}
	if err := p.key.AttestImage(ctx, image, predicateType, predicate); err != nil {
		return err
	}
	return p.key.SignImage(ctx, image)
}

func (p *publisher) repository(context.Context) error {
	merged, err := p.index()
	if err != nil {
		return err
	}
	// What Artifact Hub knows of the repository may change with each release.
	switch hub, err := os.ReadFile(filepath.Join(p.root, "charts", hubFile)); {
	case err == nil:
		if err := os.MkdirAll(filepath.Dir(p.indexFile()), 0o755); err != nil { //nolint:gosec // a public artefact
			return err
		}
		if err := writePublic(filepath.Join(filepath.Dir(p.indexFile()), hubFile), hub); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// Write the index last, so that all files in it exist.
	for _, file := range p.chartFiles() {
		if err := publishFile(file, filepath.Dir(p.indexFile())); err != nil {
			return err
		}
	}
	return writePublic(p.indexFile(), merged)
}

// hubFile is Artifact Hub's description of a chart repository.
const hubFile = "artifacthub-repo.yml"

// released returns the directory of the release's files in the web site.
func (p *publisher) released() string { return filepath.Join(p.site, "releases", p.contents.Tag) }

// chartFiles returns the packaged chart and its provenance file, if there is one.
func (p *publisher) chartFiles() []string {
	files := []string{filepath.Join(p.dir, p.contents.Chart)}
	if slices.Contains(p.contents.files, p.contents.Chart+".prov") {
		files = append(files, files[0]+".prov")
	}
	return files
}

func (p *publisher) indexFile() string { return filepath.Join(p.site, "charts", "index.yaml") }

// index returns the chart repository's index with this release's chart added. A different chart with the same version
// is an error.
func (p *publisher) index() ([]byte, error) {
	return chartpkg.Index(p.chartFiles()[0], p.chartURL, p.indexFile(), p.tree.Time)
}

// publishedFile reports whether a file is already in a directory. A different file with the same name is an error.
func publishedFile(file, dir string) (bool, error) {
	target := filepath.Join(dir, filepath.Base(file))
	have, err := os.ReadFile(target)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	want, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	if !bytes.Equal(have, want) {
		return false, fmt.Errorf("%s is published and differs: a published version does not change", target)
	}
	return true, nil
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/csccm/csccm/release/internal/access"
	"github.com/csccm/csccm/release/internal/attach"
	"github.com/csccm/csccm/release/internal/chartpkg"
)

// unpublished returns an error if anything different is already published under this version. It checks all targets
// before anything is published, so that a release is not published partly.
func (p *publisher) unpublished(ctx context.Context) error {
	if p.registry != "" {
		for _, i := range p.contents.Images {
			tag, err := p.imageTag(i)
			if err != nil {
				return err
			}
			if err := attach.Unpublished(ctx, tag, i.Digest); err != nil {
				return err
			}
		}
		if err := p.unpublishedChart(ctx); err != nil {
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

func (p *publisher) unpublishedChart(ctx context.Context) error {
	tag, err := p.chartTag()
	if err != nil {
		return err
	}
	artifact, err := chartpkg.Artifact(ctx, p.chartFiles()[0], p.tree.Time)
	if err != nil {
		return err
	}
	digest, err := artifact.Digest()
	if err != nil {
		return err
	}
	return attach.Unpublished(ctx, tag, digest.String())
}

func (p *publisher) imageTag(i releasedImage) (name.Tag, error) {
	tag, err := name.NewTag(p.registry+"/"+i.Name+":"+p.tree.ImageTag(), access.Names(p.plainHTTP)...)
	if err != nil {
		return tag, fmt.Errorf("--registry: want HOST/PATH, such as ghcr.io/csccm: %w", err)
	}
	return tag, nil
}

func (p *publisher) chartTag() (name.Tag, error) {
	chart := strings.TrimSuffix(p.contents.Chart, "-"+p.contents.Version+".tgz")
	tag, err := name.NewTag(p.charts+"/"+chart+":"+strings.ReplaceAll(p.tree.Version, "+", "_"), access.Names(p.plainHTTP)...)
	if err != nil {
		return tag, fmt.Errorf("--chart-registry: want HOST/PATH, such as ghcr.io/csccm/charts: %w", err)
	}
	return tag, nil
}

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
	return chartpkg.Index(p.chartFiles()[:1], p.chartURL, p.indexFile(), p.tree.Time)
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Unpublished is an error if the tag is there with another digest (sha256:HEX).
func Unpublished(ctx context.Context, tag name.Tag, digest string) error {
	have, err := remote.Head(tag, options(ctx)...)
	switch {
	case err != nil && notFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", tag, err)
	case have.Digest.String() != digest:
		return fmt.Errorf("%s is published with digest %s: a published version does not change", tag, have.Digest)
	}
	return nil
}

// UnpublishedLayer is an error if the tag is there without a layer of that digest, as a chart's package is one.
func UnpublishedLayer(ctx context.Context, tag name.Tag, digest string) error {
	have, err := remote.Image(tag, options(ctx)...)
	if err != nil {
		if notFound(err) {
			return nil
		}
		return fmt.Errorf("%s: %w", tag, err)
	}
	manifest, err := have.Manifest()
	if err != nil {
		return fmt.Errorf("%s: %w", tag, err)
	}
	if !slices.ContainsFunc(manifest.Layers, func(l v1.Descriptor) bool { return l.Digest.String() == digest }) {
		return fmt.Errorf("%s is published with other content: a published version does not change", tag)
	}
	return nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/csccm/csccm/release/internal/access"
)

// Unpublished returns an error if the tag already exists with another digest (sha256:HEX).
func Unpublished(ctx context.Context, tag name.Tag, digest string) error {
	have, err := remote.Head(tag, access.Options(ctx, nil)...)
	switch {
	case err != nil && notFound(err):
		return nil
	case err != nil:
		return unanswered(tag, err)
	case have.Digest.String() != digest:
		return fmt.Errorf("%s is published with digest %s: a published version does not change", tag, have.Digest)
	}
	return nil
}

// unanswered wraps an error of the registry. If credentials are missing or wrong, the message explains how to log in.
func unanswered(tag name.Tag, err error) error {
	var answer *transport.Error
	if errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden) {
		return fmt.Errorf("%s: the registry answers %s: run docker login %s, or set DOCKER_CONFIG to a directory with a config.json",
			tag, http.StatusText(answer.StatusCode), tag.RegistryStr())
	}
	return fmt.Errorf("%s: %w", tag, err)
}

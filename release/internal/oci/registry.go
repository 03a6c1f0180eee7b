// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oci reads and writes container registries, and archives of what they contain.
package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/docker/cli/cli/config"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/csccm/csccm/installer/kube/helm"
)

// Names returns the options for parsing references.
func Names(plainHTTP bool) []name.Option {
	if plainHTTP {
		return []name.Option{name.Insecure}
	}
	return nil
}

// Options returns the options for calls to a registry, with the credentials of `docker login`, `podman login` or
// `helm registry login`.
func Options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain)}
}

// Push pushes an image, an index or a chart to a registry, by tag or only by digest.
func Push(ctx context.Context, what remote.Taggable, ref name.Reference) error {
	if err := remote.Push(ref, what, Options(ctx)...); err != nil {
		return fmt.Errorf("push %s: %w", ref.Name(), err)
	}
	return nil
}

// Tag adds a tag to an image, index or chart that has been pushed.
func Tag(ctx context.Context, what remote.Taggable, tag name.Tag) error {
	if err := remote.Tag(tag, what, Options(ctx)...); err != nil {
		return fmt.Errorf("tag %s: %w", tag.Name(), err)
	}
	return nil
}

// NotFound reports whether the registry does not have what was asked for.
func NotFound(err error) bool { return status(err) == http.StatusNotFound }

// Unpublished returns an error if the tag already exists with another digest. If credentials are missing or wrong, the
// message explains how to log in.
func Unpublished(ctx context.Context, tag name.Tag, digest v1.Hash) error {
	have, err := remote.Head(tag, Options(ctx)...)
	switch code := status(err); {
	case code == http.StatusNotFound:
		return nil
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%s: the registry answers %s: run docker login %s, or set DOCKER_CONFIG to a directory with a config.json",
			tag, http.StatusText(code), tag.RegistryStr())
	case err != nil:
		return fmt.Errorf("%s: %w", tag, err)
	case have.Digest != digest:
		return fmt.Errorf("%s is published with digest %s: a published version does not change", tag, have.Digest)
	}
	return nil
}

// status returns the status code of a registry's refusal; 0 for any other error.
func status(err error) int {
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return answer.StatusCode
	}
	return 0
}

var keychain = authn.NewMultiKeychain(authn.DefaultKeychain, helmKeychain{})

// helmKeychain provides the credentials of `helm registry login`, which are in a separate file.
type helmKeychain struct{}

func (helmKeychain) Resolve(target authn.Resource) (_ authn.Authenticator, err error) {
	file, err := os.Open(helm.RegistryConfig())
	if os.IsNotExist(err) {
		return authn.Anonymous, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	logins, err := config.LoadFromReader(file)
	if err != nil {
		return nil, err
	}
	key := target.RegistryStr()
	if key == name.DefaultRegistry {
		key = authn.DefaultAuthKey
	}
	login, err := logins.GetAuthConfig(key)
	if err != nil {
		return nil, err
	}
	with := authn.AuthConfig{
		Username: login.Username, Password: login.Password, Auth: login.Auth,
		IdentityToken: login.IdentityToken, RegistryToken: login.RegistryToken,
	}
	if with == (authn.AuthConfig{}) {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(with), nil
}

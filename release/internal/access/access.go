// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access provides the options for access to container registries: credentials, transport and TLS.
package access

import (
	"context"
	"net/http"
	"os"

	"github.com/docker/cli/cli/config"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

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
// `helm registry login`. A nil transport means the default transport.
func Options(ctx context.Context, transport http.RoundTripper) []remote.Option {
	all := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain)}
	if transport != nil {
		all = append(all, remote.WithTransport(transport))
	}
	return all
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lego makes no clients.
package lego

import (
	"crypto/x509"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/challenge/tlsalpn01"
	"github.com/go-acme/lego/v5/registration"
)

// DirectoryURLLetsEncrypt is the default of Traefik's configuration.
const DirectoryURLLetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// Client would talk to a certificate authority.
type Client struct {
	Certificate  *certificate.Certifier
	Challenge    *SolverManager
	Registration *registration.Registrar
}

// Config is the configuration of a client.
type Config struct {
	CADirURL, UserAgent string
	HTTPClient          *http.Client
	Certificate         CertificateConfig
}

// CertificateConfig is the part of the configuration for certificates.
type CertificateConfig struct{ Timeout time.Duration }

// NewConfig returns an empty configuration.
func NewConfig(registration.User) *Config { return &Config{} }

// NewClient returns acme.ErrLeftOut.
func NewClient(*Config) (*Client, error) { return nil, acme.ErrLeftOut }

// CreateCertPool returns acme.ErrLeftOut.
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, acme.ErrLeftOut }

// SolverManager would choose what answers challenges.
type SolverManager struct{}

// SetDNS01Provider returns acme.ErrLeftOut.
func (*SolverManager) SetDNS01Provider(challenge.Provider, ...dns01.ChallengeOption) error {
	return acme.ErrLeftOut
}

// SetHTTP01Provider returns acme.ErrLeftOut.
func (*SolverManager) SetHTTP01Provider(challenge.Provider, ...http01.ChallengeOption) error {
	return acme.ErrLeftOut
}

// SetTLSALPN01Provider returns acme.ErrLeftOut.
func (*SolverManager) SetTLSALPN01Provider(challenge.Provider, ...tlsalpn01.ChallengeOption) error {
	return acme.ErrLeftOut
}

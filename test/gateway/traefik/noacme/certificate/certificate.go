// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificate obtains no certificates.
package certificate

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
)

// Resource is a certificate.
type Resource struct {
	ID                      string
	Domains                 []string
	PrivateKey, Certificate []byte
}

// ObtainRequest describes a certificate that is wanted.
type ObtainRequest struct {
	Domains, EmailAddresses  []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
	KeyType                  certcrypto.KeyType
}

// RenewOptions describes a certificate that is renewed.
type RenewOptions struct {
	EmailAddresses           []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
}

// Certifier would obtain certificates.
type Certifier struct{}

// Obtain returns acme.ErrLeftOut.
func (*Certifier) Obtain(context.Context, ObtainRequest) (*Resource, error) {
	return nil, acme.ErrLeftOut
}

// Renew returns acme.ErrLeftOut.
func (*Certifier) Renew(context.Context, Resource, *RenewOptions) (*Resource, error) {
	return nil, acme.ErrLeftOut
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration registers no accounts.
package registration

import (
	"context"
	"crypto"

	"github.com/go-acme/lego/v5/acme"
)

// User is whose account it is.
type User interface {
	GetEmail() string
	GetRegistration() *acme.ExtendedAccount
	GetPrivateKey() crypto.Signer
}

// RegisterOptions describes a new account.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions describes a new account that is bound to another.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}

// Registrar would register accounts.
type Registrar struct{}

// Register returns acme.ErrLeftOut.
func (*Registrar) Register(context.Context, RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrLeftOut
}

// RegisterWithExternalAccountBinding returns acme.ErrLeftOut.
func (*Registrar) RegisterWithExternalAccountBinding(context.Context, RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrLeftOut
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package acme takes the place of an ACME library in the Traefik of the tests, which needs no certificates of a
// certificate authority: that library depends on the SDKs of some hundred DNS services. What Traefik calls returns
// ErrLeftOut.
package acme

import "errors"

// ErrLeftOut is returned by what would talk to a certificate authority.
var ErrLeftOut = errors.New("this Traefik is built for tests, without ACME")

// Account is the state of an account.
type Account struct{}

// ExtendedAccount is an account and its URL.
type ExtendedAccount struct {
	Account
	Location string
}

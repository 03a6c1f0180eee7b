// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package challenge names what answers a certificate authority.
package challenge

import "context"

// Provider publishes and withdraws the answer to a challenge.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}

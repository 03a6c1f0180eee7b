// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dns knows no DNS services.
package dns

import (
	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/challenge"
)

// NewDNSChallengeProviderByName returns acme.ErrLeftOut.
func NewDNSChallengeProviderByName(string) (challenge.Provider, error) { return nil, acme.ErrLeftOut }

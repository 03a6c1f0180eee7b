// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tlsalpn01 has the option of TLS challenges, without effect.
package tlsalpn01

import (
	"time"

	"github.com/go-acme/lego/v5/acme"
)

// ACMETLS1Protocol is the ALPN protocol of TLS challenges (RFC 8737).
const ACMETLS1Protocol = "acme-tls/1"

// ChallengeOption is an option of a challenge.
type ChallengeOption struct{}

// SetDelay returns an option without effect.
func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }

// ChallengeBlocks returns acme.ErrLeftOut.
func ChallengeBlocks(string, string) (cert, key []byte, err error) { return nil, nil, acme.ErrLeftOut }

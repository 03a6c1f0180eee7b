// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package http01 has the option of HTTP challenges, without effect.
package http01

import "time"

// PathPrefix is where a certificate authority looks for answers (RFC 8555, section 8.3).
const PathPrefix = "/.well-known/acme-challenge/"

// ChallengeOption is an option of a challenge.
type ChallengeOption struct{}

// SetDelay returns an option without effect.
func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }

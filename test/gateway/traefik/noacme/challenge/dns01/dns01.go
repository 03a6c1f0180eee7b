// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dns01 has the options of DNS challenges, without effect.
package dns01

import (
	"strings"
	"time"
)

// Options are the options of a client.
type Options struct{ RecursiveNameservers []string }

// Client would ask name servers.
type Client struct{}

// ChallengeOption is an option of a challenge.
type ChallengeOption struct{}

// NewClient returns a client that does nothing.
func NewClient(*Options) *Client { return &Client{} }

// SetDefaultClient does nothing.
func SetDefaultClient(*Client) {}

// CondOptions returns an option without effect.
func CondOptions(bool, ...ChallengeOption) ChallengeOption { return ChallengeOption{} }

// DisableAuthoritativeNssPropagationRequirement returns an option without effect.
func DisableAuthoritativeNssPropagationRequirement() ChallengeOption { return ChallengeOption{} }

// DisableRecursiveNSsPropagationRequirement returns an option without effect.
func DisableRecursiveNSsPropagationRequirement() ChallengeOption { return ChallengeOption{} }

// PropagationWait returns an option without effect.
func PropagationWait(time.Duration, bool) ChallengeOption { return ChallengeOption{} }

// UnFqdn returns a domain name without the dot at its end. Traefik uses it for all certificates.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certcrypto names types of keys.
package certcrypto

// KeyType is a type of keys.
type KeyType string

// The types that Traefik's configuration takes.
const (
	EC256   KeyType = "P256"
	EC384   KeyType = "P384"
	RSA2048 KeyType = "2048"
	RSA4096 KeyType = "4096"
	RSA8192 KeyType = "8192"
)

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// ErrSignature means that a signature was not made with the key.
var ErrSignature = errors.New("signature does not match the key")

// Key is a public key (ECDSA on P-256 with SHA-256, as cosign generates it).
type Key struct {
	public *ecdsa.PublicKey
	der    []byte
}

// NewKey wraps a public key.
func NewKey(public *ecdsa.PublicKey) (*Key, error) {
	if public.Curve != elliptic.P256() {
		return nil, fmt.Errorf("public key is on curve %s, want P-256", public.Curve.Params().Name)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	return &Key{public, der}, nil
}

// ParseKey parses a public key in PEM format, such as cosign.pub.
func ParseKey(text []byte) (*Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("public key: no PEM")
	}
	if block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("public key: PEM of type %q, want PUBLIC KEY", block.Type)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	public, ok := parsed.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("public key is a %T, want ECDSA on P-256", parsed)
	}
	return NewKey(public)
}

// PEM returns the key in PEM format.
func (k *Key) PEM() []byte { return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: k.der}) }

// Hint returns the identifier of the key in bundles: the SHA-256 of its DER encoding, in base64.
func (k *Key) Hint() string {
	sum := sha256.Sum256(k.der)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Verify returns ErrSignature unless signature (ASN.1) is a signature of message by the key.
func (k *Key) Verify(message, signature []byte) error {
	sum := sha256.Sum256(message)
	if !ecdsa.VerifyASN1(k.public, sum[:], signature) {
		return ErrSignature
	}
	return nil
}

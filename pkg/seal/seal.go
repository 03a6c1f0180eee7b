// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seal signs what the controller writes where others can write too, such as the records in a Service's
// annotations. The signing key is derived from CloudStack's secret key: whoever has no CloudStack keys cannot forge a
// record, and nothing new has to be stored. It is pure.
package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
)

// purpose separates this use of the secret key from every other one (RFC 5869, info).
const purpose = "csccm record signing key v1"

// Keys returns the signing key that belongs to a CloudStack secret key, followed by the keys of earlier ones, which verify
// only. Empty and repeated keys are left out.
func Keys(secret string, earlier ...string) []string {
	keys := []string{DeriveKey(secret)}
	for _, key := range earlier {
		if key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// DeriveKey returns the signing key that belongs to a CloudStack secret key, as base64. It does not reveal the secret.
func DeriveKey(secret string) string {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, purpose, sha256.Size)
	if err != nil { // only for a length that HKDF does not have
		panic(err)
	}
	return base64.RawStdEncoding.EncodeToString(key)
}

// Sealer signs with the current key and accepts signatures of the previous ones.
type Sealer struct {
	keys func() []string
}

// New returns a Sealer. keys returns derived keys, the current one first; it is asked each time, so that keys can be
// replaced while the process runs.
func New(keys func() []string) *Sealer { return &Sealer{keys: keys} }

// Sign returns the signature of the parts under the current key; empty without a key.
func (s *Sealer) Sign(parts ...string) string {
	if s == nil {
		return ""
	}
	keys := s.keys()
	if len(keys) == 0 {
		return ""
	}
	return sum(keys[0], parts)
}

// Verify reports whether one of the keys signed the parts.
func (s *Sealer) Verify(signature string, parts ...string) bool {
	if s == nil || signature == "" {
		return false
	}
	for _, key := range s.keys() {
		if hmac.Equal([]byte(sum(key, parts)), []byte(signature)) {
			return true
		}
	}
	return false
}

// sum is HMAC-SHA-256 over the parts, each with its length, so that no two lists of parts read the same.
func sum(key string, parts []string) string {
	mac := hmac.New(sha256.New, []byte(key))
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		mac.Write(length[:])
		mac.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

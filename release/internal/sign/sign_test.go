// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/verify"
)

func generate(t *testing.T) *Key {
	t.Helper()
	key, err := Generate()
	require.NoError(t, err)
	return key
}

func TestEncryptAndDecryptKey(t *testing.T) {
	t.Parallel()
	key := generate(t)
	text, err := key.Encrypt([]byte("geheim"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----")
	again, err := Decrypt(text, []byte("geheim"))
	require.NoError(t, err)
	assert.True(t, key.private.Equal(again.private))
	public, err := verify.ParseKey(key.Public().PEM())
	require.NoError(t, err)
	assert.Equal(t, key.Public().Hint(), public.Hint())
	assert.Equal(t, public.Hint(), again.Public().Hint())

	_, err = Decrypt(text, []byte("other"))
	require.EqualError(t, err, "private key: wrong password")
	assert.NotContains(t, err.Error(), "other")
}

func TestDecryptRefuses(t *testing.T) {
	t.Parallel()
	armour := func(kind, text string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(text)}))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":   {"", "no PEM"},
		"plain key": {armour("EC PRIVATE KEY", "x"), `PEM of type "EC PRIVATE KEY"`},
		"no JSON":   {armour(pemTypes[0], "x"), "not in cosign's form"},
		"other KDF": {armour(pemTypes[1], `{"kdf":{"name":"x"}}`), "not cosign's"},
		"long scrypt": {
			armour(pemTypes[0], `{"kdf":{"name":"scrypt","params":{"N":1073741824,"r":8,"p":1}},"cipher":{"name":"nacl/secretbox","nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}`),
			"not cosign's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Decrypt([]byte(tc.text), nil)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	key, other := generate(t), generate(t)
	message := []byte("message")
	signature, err := key.Sign(message)
	require.NoError(t, err)
	again, err := key.Sign(message)
	require.NoError(t, err)
	assert.Equal(t, signature, again)
	require.NoError(t, key.Public().Verify(message, signature))
	require.ErrorIs(t, key.Public().Verify([]byte("Message"), signature), verify.ErrSignature)
	require.ErrorIs(t, other.Public().Verify(message, signature), verify.ErrSignature)
	require.ErrorIs(t, key.Public().Verify(message, nil), verify.ErrSignature)
}

func TestStatement(t *testing.T) {
	t.Parallel()
	key, other := generate(t), generate(t)
	raw, err := key.Attest(verify.PredicateSignature, map[string]any{}, verify.Subject{Name: "x", Digest: map[string]string{"sha256": "aa"}})
	require.NoError(t, err)
	var bundle verify.Bundle
	require.NoError(t, json.Unmarshal(raw, &bundle))
	read, err := bundle.Statement(key.Public())
	require.NoError(t, err)
	assert.True(t, read.About("aa"))
	assert.False(t, read.About("bb"))
	assert.False(t, read.About(""))
	_, err = bundle.Statement(other.Public())
	require.ErrorIs(t, err, verify.ErrSignature)

	changed := bundle
	envelope := *bundle.DSSEEnvelope
	envelope.Payload = bytes.Replace(envelope.Payload, []byte("aa"), []byte("bb"), 1)
	changed.DSSEEnvelope = &envelope
	_, err = changed.Statement(key.Public())
	require.ErrorIs(t, err, verify.ErrSignature)

	envelope.Signatures = nil
	_, err = changed.Statement(key.Public())
	require.EqualError(t, err, "the bundle holds no signature")
	envelope.PayloadType = "text/plain"
	_, err = changed.Statement(key.Public())
	require.ErrorContains(t, err, `payload is of type "text/plain"`)
	changed.DSSEEnvelope = nil
	_, err = changed.Statement(key.Public())
	require.EqualError(t, err, "the bundle holds no statement")
}

func TestBlob(t *testing.T) {
	t.Parallel()
	key := generate(t)
	signature, raw, err := key.Blob([]byte("file"))
	require.NoError(t, err)
	require.NoError(t, key.Public().Verify([]byte("file"), signature))
	var bundle verify.Bundle
	require.NoError(t, json.Unmarshal(raw, &bundle))
	assert.Equal(t, signature, bundle.MessageSignature.Signature)
	assert.Contains(t, string(raw), `"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"`)
}

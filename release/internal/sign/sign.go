// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sign signs releases with a key pair, in the formats of cosign, and attaches signatures to images.
package sign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"

	"github.com/csccm/csccm/release/verify"
)

// Attest signs an in-toto statement about subjects, with a predicate that is encoded as JSON, and returns a Sigstore
// bundle.
func (k *Key) Attest(predicateType string, predicate any, subjects ...verify.Subject) ([]byte, error) {
	raw, err := json.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(verify.Statement{
		Type: verify.StatementType, Subject: subjects, PredicateType: predicateType, Predicate: raw,
	})
	if err != nil {
		return nil, err
	}
	signature, err := k.Sign(verify.SignedBytes(verify.StatementPayload, payload))
	if err != nil {
		return nil, err
	}
	bundle := k.bundle()
	bundle.DSSEEnvelope = &verify.Envelope{
		Payload: payload, PayloadType: verify.StatementPayload, Signatures: []verify.EnvelopeSignature{{Sig: signature}},
	}
	return json.Marshal(bundle)
}

// Blob signs a file. It returns the plain signature (ASN.1) and a Sigstore bundle that contains it.
func (k *Key) Blob(data []byte) (signature, bundle []byte, err error) {
	signature, err = k.Sign(data)
	if err != nil {
		return nil, nil, err
	}
	b := k.bundle()
	b.MessageSignature = &verify.MessageSignature{Signature: signature}
	sum := sha256.Sum256(data)
	b.MessageSignature.MessageDigest.Algorithm = "SHA2_256"
	b.MessageSignature.MessageDigest.Digest = sum[:]
	bundle, err = json.Marshal(b)
	return signature, bundle, err
}

func (k *Key) bundle() verify.Bundle {
	b := verify.Bundle{MediaType: verify.BundleMediaType}
	b.VerificationMaterial.PublicKey.Hint = k.public.Hint()
	return b
}

// Key is a private key.
type Key struct {
	private *ecdsa.PrivateKey
	public  *verify.Key
}

// Generate returns a new key.
func Generate() (*Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return newKey(private)
}

func newKey(private *ecdsa.PrivateKey) (*Key, error) {
	public, err := verify.NewKey(&private.PublicKey)
	if err != nil {
		return nil, err
	}
	return &Key{private, public}, nil
}

// Public returns the public key.
func (k *Key) Public() *verify.Key { return k.public }

// Sign signs a message. The same message always has the same signature (RFC 6979), so that signatures of a release
// are reproducible too.
func (k *Key) Sign(message []byte) ([]byte, error) {
	sum := sha256.Sum256(message)
	return k.private.Sign(nil, sum[:], crypto.SHA256)
}

// pemTypes are the PEM types of an encrypted key: that of current versions of cosign, and that of older versions.
var pemTypes = []string{"ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY"}

// encrypted is the JSON inside the PEM block. scrypt derives a key from the password, with which NaCl's secretbox
// encrypts the private key in PKCS #8 format.
type encrypted struct {
	KDF struct {
		Name   string       `json:"name"`
		Params scryptParams `json:"params"`
		Salt   []byte       `json:"salt"`
	} `json:"kdf"`
	Cipher struct {
		Name  string `json:"name"`
		Nonce []byte `json:"nonce"`
	} `json:"cipher"`
	Ciphertext []byte `json:"ciphertext"`
}

type scryptParams struct {
	N int `json:"N"`
	R int `json:"r"`
	P int `json:"p"`
}

// knownParams are the scrypt parameters that cosign accepts. Others are rejected, because a file must not cause
// unlimited work.
var knownParams = []scryptParams{{1 << 16, 8, 1}, {1 << 15, 8, 1}, {1 << 17, 8, 1}}

const (
	kdfName    = "scrypt"
	cipherName = "nacl/secretbox"
	keySize    = 32
	nonceSize  = 24
)

// Encrypt returns the encrypted key in the format of cosign.key.
func (k *Key) Encrypt(password []byte) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, err
	}
	var e encrypted
	e.KDF.Name, e.KDF.Params, e.KDF.Salt = kdfName, knownParams[0], make([]byte, keySize)
	e.Cipher.Name, e.Cipher.Nonce = cipherName, make([]byte, nonceSize)
	for _, b := range [][]byte{e.KDF.Salt, e.Cipher.Nonce} {
		if _, err := rand.Read(b); err != nil {
			return nil, err
		}
	}
	box, err := e.box(password)
	if err != nil {
		return nil, err
	}
	e.Ciphertext = secretbox.Seal(nil, der, (*[nonceSize]byte)(e.Cipher.Nonce), box)
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemTypes[0], Bytes: data}), nil
}

func (e *encrypted) box(password []byte) (*[keySize]byte, error) {
	key, err := scrypt.Key(password, e.KDF.Salt, e.KDF.Params.N, e.KDF.Params.R, e.KDF.Params.P, keySize)
	if err != nil {
		return nil, err
	}
	return (*[keySize]byte)(key), nil
}

// Decrypt decrypts a key that Encrypt or cosign wrote.
func Decrypt(text, password []byte) (*Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("private key: no PEM")
	}
	if !slices.Contains(pemTypes, block.Type) {
		return nil, fmt.Errorf("private key: PEM of type %q, want %q (cosign import-key-pair makes it)", block.Type, pemTypes[0])
	}
	var e encrypted
	if err := json.Unmarshal(block.Bytes, &e); err != nil {
		return nil, errors.New("private key: not in cosign's form")
	}
	if e.KDF.Name != kdfName || e.Cipher.Name != cipherName || len(e.Cipher.Nonce) != nonceSize || !slices.Contains(knownParams, e.KDF.Params) {
		return nil, errors.New("private key: encrypted in a way that is not cosign's")
	}
	box, err := e.box(password)
	if err != nil {
		return nil, err
	}
	der, ok := secretbox.Open(nil, e.Ciphertext, (*[nonceSize]byte)(e.Cipher.Nonce), box)
	if !ok {
		return nil, errors.New("private key: wrong password")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("private key: not PKCS #8")
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("private key is a %T, want ECDSA on P-256", parsed)
	}
	return newKey(private)
}

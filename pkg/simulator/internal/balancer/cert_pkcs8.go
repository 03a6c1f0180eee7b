// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des" //nolint:gosec // old clients encrypted their keys with it
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"hash"
)

// EncryptedKeyInfo is EncryptedPrivateKeyInfo of RFC 5958.
type EncryptedKeyInfo struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

// Pbes2Params are the parameters of PBES2 (RFC 8018).
type Pbes2Params struct {
	KeyDerivation, Encryption pkix.AlgorithmIdentifier
}

// Pbkdf2Params are the parameters of PBKDF2 (RFC 8018).
type Pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

// maxIterations limits the work of one upload.
const maxIterations = 1_000_000

var (
	errCipher = errors.New("unknown encryption algorithm")
	errFinal  = errors.New("Error finalising cipher") //nolint:staticcheck // the text of CloudStack

	prfs = map[string]func() hash.Hash{
		"": sha1.New, "1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New, "1.2.840.113549.2.10": sha512.New384,
		"1.2.840.113549.2.11": sha512.New,
	}
	blockCiphers = map[string]struct {
		size  int
		block func([]byte) (cipher.Block, error)
	}{
		"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
		"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
		"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
		"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	}
)

// decryptPKCS8 decrypts a PKCS#8 key that is encrypted with PBES2 (the default of openssl): PBKDF2 with AES or triple
// DES in CBC mode.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var info EncryptedKeyInfo
	var scheme Pbes2Params
	var kdf Pbkdf2Params
	var iv []byte
	for _, step := range []struct {
		der  func() []byte
		into any
	}{
		{func() []byte { return der }, &info},
		{func() []byte { return info.Algorithm.Parameters.FullBytes }, &scheme},
		{func() []byte { return scheme.KeyDerivation.Parameters.FullBytes }, &kdf},
		{func() []byte { return scheme.Encryption.Parameters.FullBytes }, &iv},
	} {
		if _, err := asn1.Unmarshal(step.der(), step.into); err != nil {
			return nil, errCipher
		}
	}
	prf, known := prfs[kdf.PRF.Algorithm.String()]
	enc, supported := blockCiphers[scheme.Encryption.Algorithm.String()]
	if !known || !supported || kdf.Iterations < 1 || kdf.Iterations > maxIterations {
		return nil, errCipher
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, enc.size)
	if err != nil {
		return nil, errCipher
	}
	block, err := enc.block(key)
	if err != nil || len(iv) != block.BlockSize() || len(info.Data) == 0 || len(info.Data)%block.BlockSize() != 0 {
		return nil, errCipher
	}
	plain := make([]byte, len(info.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, info.Data)
	pad := int(plain[len(plain)-1])
	if pad < 1 || pad > block.BlockSize() {
		return nil, errFinal
	}
	for _, b := range plain[len(plain)-pad:] {
		if int(b) != pad {
			return nil, errFinal
		}
	}
	return plain[:len(plain)-pad], nil
}

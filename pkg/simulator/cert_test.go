// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/balancer"
)

// newCert returns a self-signed certificate.
func newCert(t *testing.T, key crypto.Signer, from, to time.Time) string {
	t.Helper()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "www.example.com"},
		NotBefore:    from,
		NotAfter:     to,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	require.NoError(t, err)
	return pemBlock("CERTIFICATE", der)
}

func pemBlock(typ string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}))
}

func newRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return k
}

func pkcs8(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return der
}

func TestCheckCertificate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	from, to := now.Add(-time.Hour), now.Add(time.Hour)
	rsaKey := newRSA(t)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := newCert(t, rsaKey, from, to)
	key := pemBlock("PRIVATE KEY", pkcs8(t, rsaKey))
	const algorithms = "Public and private key have different algorithms"
	for name, tc := range map[string]struct {
		certificate, key string
		text             string // "": accepted; null: refused without a text
	}{
		"pkcs8":           {leaf, key, ""},
		"pkcs1":           {leaf, pemBlock("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), ""},
		"no PEM":          {"not a certificate", key, "null"},
		"no certificate":  {pemBlock("CERTIFICATE", []byte("x")), key, "Parsing certificate/key failed: "},
		"no key":          {leaf, "x", "Parsing certificate/key failed: "},
		"other key":       {leaf, pemBlock("PRIVATE KEY", pkcs8(t, newRSA(t))), "Bad public-private key"},
		"other algorithm": {leaf, pemBlock("PRIVATE KEY", pkcs8(t, ecKey)), algorithms},
		"elliptic curve":  {newCert(t, ecKey, from, to), pemBlock("PRIVATE KEY", pkcs8(t, ecKey)), algorithms},
		"expired": {newCert(t, rsaKey, from.Add(-time.Hour), from), key,
			"Parsing certificate/key failed: NotAfter: Fri Jan 02 02:04:05 UTC 2026"},
		"not yet": {newCert(t, rsaKey, to, to.Add(time.Hour)), key,
			"Parsing certificate/key failed: NotBefore: Fri Jan 02 04:04:05 UTC 2026"},
	} {
		fingerprint, _, err := balancer.CheckCertificate(tc.certificate, tc.key, now)
		switch tc.text {
		case "":
			require.NoError(t, err, name)
			require.Regexp(t, `^([0-9A-F]{2}:){31}[0-9A-F]{2}$`, fingerprint)
		case "null":
			require.EqualError(t, err, "", name)
		default:
			require.ErrorContains(t, err, tc.text, name)
		}
	}
}

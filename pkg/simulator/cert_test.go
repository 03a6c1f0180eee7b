// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/balancer"
)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  string
}

// newPair makes a certificate around the time of the tests' clock; ca nil: signed by itself.
func newPair(t *testing.T, key crypto.Signer, ca *pair, from, to time.Time) pair {
	t.Helper()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "www.example.com"}, NotBefore: from, NotAfter: to, IsCA: ca == nil, BasicConstraintsValid: true,
	}
	parent, signer := tmpl, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	} else {
		tmpl.Subject.CommonName = "Example CA"
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return pair{cert, key, pemBlock("CERTIFICATE", der)}
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

// encryptPKCS8 is what openssl pkcs8 -topk8 -v2 aes256 writes.
func encryptPKCS8(t *testing.T, der []byte, password string) []byte {
	t.Helper()
	salt, iv := make([]byte, 16), make([]byte, 16)
	key, err := pbkdf2.Key(sha256.New, password, salt, 2048, 32)
	require.NoError(t, err)
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	pad := 16 - len(der)%16
	for range pad {
		der = append(der, byte(pad))
	}
	data := make([]byte, len(der))
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(data, der)
	raw := func(v any) asn1.RawValue {
		b, err := asn1.Marshal(v)
		require.NoError(t, err)
		return asn1.RawValue{FullBytes: b}
	}
	out, err := asn1.Marshal(balancer.EncryptedKeyInfo{
		Algorithm: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}, Parameters: raw(balancer.Pbes2Params{
			KeyDerivation: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}, Parameters: raw(balancer.Pbkdf2Params{
				Salt: salt, Iterations: 2048, PRF: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}, Parameters: asn1.NullRawValue},
			})},
			Encryption: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, Parameters: raw(iv)},
		})},
		Data: data,
	})
	require.NoError(t, err)
	return out
}

func TestCheckCertificate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	from, to := now.Add(-time.Hour), now.Add(time.Hour)
	rsaKey := newRSA(t)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca := newPair(t, newRSA(t), nil, from, to)
	leaf := newPair(t, rsaKey, &ca, from, to)
	self := newPair(t, rsaKey, nil, from, to)
	key := pemBlock("PRIVATE KEY", pkcs8(t, rsaKey))
	old, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), []byte("pw"), x509.PEMCipherAES256) //nolint:staticcheck // what old clients send
	require.NoError(t, err)
	sealed := pemBlock("ENCRYPTED PRIVATE KEY", encryptPKCS8(t, pkcs8(t, rsaKey), "pw"))

	for name, tc := range map[string]struct {
		u    balancer.CertUpload
		text string // "": accepted; null: refused without a text
	}{
		"pkcs8":                {balancer.CertUpload{Certificate: leaf.pem, Key: key}, ""},
		"pkcs1":                {balancer.CertUpload{Certificate: leaf.pem, Key: pemBlock("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))}, ""},
		"encrypted":            {balancer.CertUpload{Certificate: leaf.pem, Key: sealed, Password: "pw", HasPassword: true}, ""},
		"old encryption":       {balancer.CertUpload{Certificate: leaf.pem, Key: string(pem.EncodeToMemory(old)), Password: "pw", HasPassword: true}, ""},
		"chain":                {balancer.CertUpload{Certificate: leaf.pem, Key: key, Chain: ca.pem, HasChain: true}, ""},
		"self signed, chain":   {balancer.CertUpload{Certificate: self.pem, Key: key, Chain: ca.pem, HasChain: true}, ""},
		"wrong chain":          {balancer.CertUpload{Certificate: leaf.pem, Key: key, Chain: self.pem, HasChain: true}, "Invalid certificate chain"},
		"revocation":           {balancer.CertUpload{Certificate: leaf.pem, Key: key, Chain: ca.pem, HasChain: true, Revocation: true}, "Invalid certificate chain"},
		"revocation, no chain": {balancer.CertUpload{Certificate: leaf.pem, Key: key, Revocation: true}, ""},
		"chain is text":        {balancer.CertUpload{Certificate: leaf.pem, Key: key, Chain: "x", HasChain: true}, "null"},
		"chain is no cert":     {balancer.CertUpload{Certificate: leaf.pem, Key: key, Chain: pemBlock("CERTIFICATE", []byte("x")), HasChain: true}, "Unable to decode certificate chain"},
		"no PEM":               {balancer.CertUpload{Certificate: "not a certificate", Key: key}, "null"},
		"no certificate": {balancer.CertUpload{Certificate: pemBlock("CERTIFICATE", []byte("x")), Key: key},
			"Invalid Certificate format. Expected X509 certificate. Failed due to Could not parse certificate: java.io.IOException: Empty input"},
		"cut off": {balancer.CertUpload{Certificate: leaf.pem[:200], Key: key},
			"Invalid Certificate format. Expected X509 certificate. Failed due to -----END CERTIFICATE not found"},
		"no key":           {balancer.CertUpload{Certificate: leaf.pem, Key: "x"}, "Cannot parse private key"},
		"key is a cert":    {balancer.CertUpload{Certificate: leaf.pem, Key: leaf.pem}, "Unsupported PEM object: class org.bouncycastle.cert.X509CertificateHolder"},
		"unknown PEM":      {balancer.CertUpload{Certificate: leaf.pem, Key: pemBlock("FOO", []byte("x"))}, "Parsing certificate/key failed: unrecognised object: FOO"},
		"other key":        {balancer.CertUpload{Certificate: leaf.pem, Key: pemBlock("PRIVATE KEY", pkcs8(t, newRSA(t)))}, "Bad public-private key"},
		"other algorithm":  {balancer.CertUpload{Certificate: leaf.pem, Key: pemBlock("PRIVATE KEY", pkcs8(t, ecKey))}, "Public and private key have different algorithms"},
		"elliptic curve":   {balancer.CertUpload{Certificate: newPair(t, ecKey, nil, from, to).pem, Key: pemBlock("PRIVATE KEY", pkcs8(t, ecKey))}, "Public and private key have different algorithms"},
		"password missing": {balancer.CertUpload{Certificate: leaf.pem, Key: sealed}, "Key is encrypted by PKCS#8 but password is null"},
		"password wrong":   {balancer.CertUpload{Certificate: leaf.pem, Key: sealed, Password: "no", HasPassword: true}, "Parsing certificate/key failed: "},
		"old, no password": {balancer.CertUpload{Certificate: leaf.pem, Key: string(pem.EncodeToMemory(old))}, "Key is encrypted but password is null"},
		"expired": {balancer.CertUpload{Certificate: newPair(t, rsaKey, nil, from.Add(-time.Hour), from).pem, Key: key},
			"Parsing certificate/key failed: NotAfter: Fri Jan 02 02:04:05 UTC 2026"},
		"not yet": {balancer.CertUpload{Certificate: newPair(t, rsaKey, nil, to, to.Add(time.Hour)).pem, Key: key},
			"Parsing certificate/key failed: NotBefore: Fri Jan 02 04:04:05 UTC 2026"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fingerprint, _, err := balancer.CheckCertificate(tc.u, now)
			switch tc.text {
			case "":
				require.NoError(t, err)
				require.Regexp(t, `^([0-9A-F]{2}:){31}[0-9A-F]{2}$`, fingerprint)
			case "null":
				require.EqualError(t, err, "")
			default:
				require.ErrorContains(t, err, tc.text)
			}
		})
	}
}

func TestCertificateLife(t *testing.T) {
	t.Parallel()
	h := startLB(t)
	rsaKey := newRSA(t)
	cert := newPair(t, rsaKey, nil, h.clock.Now().Add(-time.Hour), h.clock.Now().Add(time.Hour))
	account, ok := h.sim.st.AccountIn(h.sim.st.Domains.Rows[1], "a")
	require.True(t, ok)
	h.set("cert", cert.pem, "key", pemBlock("PRIVATE KEY", pkcs8(t, rsaKey)), "d", h.idOf("domains", "d"), "p", h.idOf("projects", "p"),
		"a", account.UUID, "ssl", h.rule("443", "protocol", "ssl"), "none", h.rule("81"))
	h.play(`
		d/a uploadSslCert name=web certificate={cert} privatekey={key} \
			=> account=a certchain=- loadbalancerrulelist=- privatekey=- certificate~BEGIN > web
		+ name=web2 > second
		+ projectid={p} => project=p
		+ certificate=x => 530
		+ account=b domainid={d} => 530
		admin uploadSslCert name=b account=b domainid={d} certificate={cert} privatekey={key} > foreign

		# Only a rule with protocol ssl takes a certificate, and only one.
		d/a assignCertToLoadBalancer lbruleid={rule} certid={web} => job 431 Bad LB protocol: Expected ssl got tcp
		+ lbruleid={none} => job 431 Bad LB protocol: Expected ssl got null
		+ lbruleid={ssl} certid={foreign} => job 431 Access denied for account
		d/b assignCertToLoadBalancer lbruleid={ssl} certid={web} => job 530 {denied}
		d/a assignCertToLoadBalancer lbruleid={ssl} certid={web}
		d/a assignCertToLoadBalancer lbruleid={ssl} certid={second} => job 431 Another certificate is already bound to the LB

		d/a listSslCerts certid={web} => loadbalancerrulelist=[{ssl}]
		d/a listSslCerts lbruleid={ssl} => count 1
		d/a listSslCerts lbruleid={rule} => count 0
		d/a listSslCerts accountid={a} => count 2
		d/a listSslCerts projectid={p} => count 1
		d/a listSslCerts => 530/0 {internal}
		d/b listSslCerts certid={web} => 530/0 {internal}
		d/a deleteSslCert id={web} => 530/0 {internal}
		admin deleteSslCert id={web} => 530/0 Certificate in use by a loadbalancer(s) lb-443

		d/a assignCertToLoadBalancer lbruleid={ssl} certid={second} forced=true
		d/a deleteSslCert id={web}
		d/a deleteSslCert id={web} => 431/9999 entity does not exist
		d/a updateLoadBalancerRule id={ssl} protocol=tcp
		d/a listSslCerts lbruleid={ssl} => count 0  # another protocol unbinds the certificate
		d/a updateLoadBalancerRule id={ssl} protocol=ssl
		d/a assignCertToLoadBalancer lbruleid={ssl} certid={second}
		d/a deleteLoadBalancerRule id={ssl}
		d/a deleteSslCert id={second}
	`)
}

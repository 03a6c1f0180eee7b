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
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
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
	h := lbHarness(t)
	const u = "d/a"
	from, to := h.clock.Now().Add(-time.Hour), h.clock.Now().Add(time.Hour)
	rsaKey := newRSA(t)
	cert := newPair(t, rsaKey, nil, from, to)
	key := pemBlock("PRIVATE KEY", pkcs8(t, rsaKey))
	upload := func(user, name string, pairs ...string) answer {
		return h.post(user, "uploadSslCert", append([]string{"name", name, "certificate", cert.pem, "privatekey", key}, pairs...)...)
	}
	got := h.ok(upload(u, "web")).body["sslcert"].(map[string]any)
	require.Equal(t, cert.pem, got["certificate"])
	require.Equal(t, "a", got["account"])
	require.NotContains(t, got, "certchain")
	require.NotContains(t, got, "loadbalancerrulelist")
	require.NotContains(t, got, "privatekey")
	second := h.ok(upload(u, "web2")).body["sslcert"].(map[string]any)
	project := h.ok(upload(u, "proj", "projectid", h.sim.st.Projects.Rows[0].UUID)).body["sslcert"].(map[string]any)
	require.Equal(t, "p", project["project"])
	for name, a := range map[string]answer{
		"no PEM":        h.post(u, "uploadSslCert", "name", "bad", "certificate", "x", "privatekey", key),
		"other account": upload(u, "x", "account", "b", "domainid", h.sim.st.Domains.Rows[1].UUID),
	} {
		require.Equal(t, 530, a.status, name)
		require.EqualValues(t, wire.CSGeneric, a.body["cserrorcode"], name)
	}
	foreign := id(h.ok(upload("root", "b", "account", "b", "domainid", h.sim.st.Domains.Rows[1].UUID)).body["sslcert"].(map[string]any))

	// Only a rule with protocol ssl takes a certificate, and only one.
	plain, rule := h.rule("80", "protocol", "tcp"), h.rule("443", "protocol", "ssl")
	assign := func(user, rule string, cert any, pairs ...string) answer {
		return h.call(user, "assignCertToLoadBalancer", append([]string{"lbruleid", rule, "certid", cert.(string)}, pairs...)...)
	}
	h.broken(u, assign(u, plain, got["id"]), 431, "Bad LB protocol: Expected ssl got tcp")
	h.broken(u, assign(u, h.rule("81"), got["id"]), 431, "Bad LB protocol: Expected ssl got null")
	h.broken(u, assign(u, rule, foreign), 431, "Access denied for account ")
	h.broken("d/b", assign("d/b", rule, got["id"]), 530, wire.NoAccessText)
	h.broken(u, h.call(u, "removeCertFromLoadBalancer", "lbruleid", rule), 431, "No certificate is bound to lb with id: ")
	h.done(u, assign(u, rule, got["id"]))
	h.broken(u, assign(u, rule, second["id"]), 431, "Another certificate is already bound to the LB")

	list := func(user string, pairs ...string) []map[string]any {
		t.Helper()
		return h.ok(h.call(user, "listSslCerts", pairs...)).items("sslcert")
	}
	require.Equal(t, []any{rule}, list(u, "certid", id(got))[0]["loadbalancerrulelist"])
	require.Len(t, list(u, "lbruleid", rule), 1)
	require.Empty(t, list(u, "lbruleid", plain))
	account, ok := h.sim.st.AccountIn(h.sim.st.Domains.Rows[1], "a")
	require.True(t, ok)
	require.Len(t, list(u, "accountid", account.UUID), 2)
	require.Len(t, list(u, "projectid", h.sim.st.Projects.Rows[0].UUID), 1)
	for name, a := range map[string]answer{
		"no filter": h.call(u, "listSslCerts"), "foreign": h.call("d/b", "listSslCerts", "certid", id(got)), "in use": h.call(u, "deleteSslCert", "id", id(got)),
	} {
		require.Equal(t, 530, a.status, name)
		require.EqualValues(t, 0, a.body["cserrorcode"], name)
		require.Equal(t, wire.InternalErrorText, a.body["errortext"], name)
	}
	require.Contains(t, h.call("root", "deleteSslCert", "id", id(got)).str("errortext"), "Certificate in use by a loadbalancer(s) lb-443 ")

	h.done(u, assign(u, rule, second["id"], "forced", "true"))
	h.ok(h.call(u, "deleteSslCert", "id", id(got)))
	h.fails(h.call(u, "deleteSslCert", "id", id(got)), 431, wire.CSGeneric, "entity does not exist")
	h.done(u, h.call(u, "removeCertFromLoadBalancer", "lbruleid", rule))
	h.done(u, assign(u, rule, second["id"]))
	h.done(u, h.call(u, "updateLoadBalancerRule", "id", rule, "protocol", "tcp"))
	require.Empty(t, list(u, "lbruleid", rule), "another protocol unbinds the certificate")
	h.done(u, h.call(u, "updateLoadBalancerRule", "id", rule, "protocol", "ssl"))
	h.done(u, assign(u, rule, second["id"]))
	h.done(u, h.call(u, "deleteLoadBalancerRule", "id", rule))
	h.ok(h.call(u, "deleteSslCert", "id", id(second)))
}

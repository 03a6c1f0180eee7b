// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificate is one for a name with its key, both as PEM.
func certificate(t *testing.T, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	require.NoError(t, err)
	pool = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool.AddCert(parsed)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})), pool
}

func TestTLS(t *testing.T) {
	t.Parallel()
	b := newBed(t, Options{})
	text, key, pool := certificate(t, "web.example.com")
	owner := b.id("account", "listAccounts", "name", "k8s")
	domain := b.id("domain", "listDomains", "name", "ROOT")
	require.NotEmpty(t, owner)
	cert := b.call("uploadSslCert", "name", "web", "certificate", text, "privatekey", key, "account", "k8s", "domainid", domain)["sslcert"].(map[string]any)["id"].(string)
	id := b.rule("80")
	b.api(true, "updateLoadBalancerRule", "id", id, "algorithm", "roundrobin", "protocol", "ssl")
	b.eventually("HAProxy does not take it without a certificate", func() bool { return len(b.path.Status().Refused) == 1 })
	name, err := b.visit(web, me)
	require.NoError(t, err, "what was there before stays")
	require.NotEmpty(t, name)
	b.api(true, "assignCertToLoadBalancer", "lbruleid", id, "certid", cert)
	b.eventually("TLS ends at the balancer", func() bool { return len(b.path.Status().Refused) == 0 })

	s, err := b.open(web, me)
	require.NoError(t, err)
	c := tls.Client(s.Conn, &tls.Config{RootCAs: pool, ServerName: "web.example.com", MinVersion: tls.VersionTLS12})
	defer func() { _ = c.Close() }()
	s = &session{c, bufio.NewReader(c)}
	name, err = s.line()
	require.NoError(t, err)
	require.NotEmpty(t, name)
	_, err = fmt.Fprintln(c, "hello")
	require.NoError(t, err)
	got, err := s.line()
	require.NoError(t, err)
	require.Equal(t, "hello", got)
}

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
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificate returns a new certificate for a name with its key, both as PEM.
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
	b := newHTTPEnv(t)
	text, key, pool := certificate(t, "web.example.com")
	owner := b.id("account", "listAccounts", "name", "k8s")
	domain := b.id("domain", "listDomains", "name", "ROOT")
	require.NotEmpty(t, owner)
	cert := b.call("uploadSslCert", "name", "web", "certificate", text, "privatekey", key, "account", "k8s", "domainid", domain)["sslcert"].(map[string]any)["id"].(string)
	id := b.rule("80")
	b.api(true, "updateLoadBalancerRule", "id", id, "algorithm", "roundrobin", "protocol", "ssl")
	b.eventually("the rule is refused without a certificate", func() bool { return len(b.path.Status().Refused) == 1 })
	resp, _ := b.get(site, "/")
	require.NotEmpty(t, resp.Header.Get("X-Member"), "the previous configuration stays in force")
	b.api(true, "assignCertToLoadBalancer", "lbruleid", id, "certid", cert)
	b.eventually("the rule with TLS is in force", func() bool { return len(b.path.Status().Refused) == 0 })

	forwarded := make(chan http.Header, 1)
	for _, member := range []string{"10.1.1.21:30080", "10.1.1.22:30080"} {
		b.script(member, func(c net.Conn) {
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			forwarded <- req.Header
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		})
	}
	s, err := b.open(site, me)
	require.NoError(t, err)
	c := tls.Client(s.Conn, &tls.Config{RootCAs: pool, ServerName: "web.example.com", MinVersion: tls.VersionTLS12})
	defer func() { _ = c.Close() }()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: web.example.com\r\n\r\n")
	require.NoError(t, err)
	resp, err = http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "hi", string(body))
	h := <-forwarded
	require.Equal(t, []string{me}, h["X-Forwarded-For"])
	require.Equal(t, []string{"https"}, h["X-Forwarded-Proto"])

	plain, err := b.open(site, me)
	require.NoError(t, err)
	defer func() { _ = plain.Close() }()
	_, err = io.WriteString(plain, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	_, err = plain.line()
	require.Error(t, err, "a client that does not speak TLS is closed")
}

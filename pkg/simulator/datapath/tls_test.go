// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	b := newHTTPEnv(t)
	certified := httptest.NewTLSServer(nil) // has a certificate of example.com
	t.Cleanup(certified.Close)
	private, err := x509.MarshalPKCS8PrivateKey(certified.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	cert := b.call("uploadSslCert", "name", "web", "account", "k8s", "domainid",
		b.id("domain", "listDomains", "name", "ROOT"),
		"certificate", text("CERTIFICATE", certified.Certificate().Raw), "privatekey", text("PRIVATE KEY", private))
	id := b.rule("80")
	b.api(true, "updateLoadBalancerRule", "id", id, "algorithm", "roundrobin", "protocol", "ssl")
	b.eventually("the rule is refused without a certificate", func() bool { return len(b.path.Status().Refused) == 1 })
	resp, _ := b.get(site, "/")
	require.NotEmpty(t, resp.Header.Get("X-Member"), "the previous configuration stays in force")
	b.api(true, "assignCertToLoadBalancer", "lbruleid", id, "certid", cert["sslcert"].(map[string]any)["id"].(string))
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
	pool := x509.NewCertPool()
	pool.AddCert(certified.Certificate())
	c := tls.Client(b.connect(site, me).Conn,
		&tls.Config{RootCAs: pool, ServerName: "example.com", MinVersion: tls.VersionTLS12})
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	require.NoError(t, err)
	resp, err = http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "hi", string(body))
	h := <-forwarded
	require.Equal(t, []string{me}, h["X-Forwarded-For"])
	require.Equal(t, []string{"https"}, h["X-Forwarded-Proto"])

	plain := b.connect(site, me)
	plain.write("GET / HTTP/1.1\r\n\r\n")
	_, err = plain.line()
	require.Error(t, err, "a client that does not speak TLS is closed")
}

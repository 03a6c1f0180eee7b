// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/check/ckscheck"
)

// issued is when kubeadm made the certificates, which are good for a year.
var issued = time.Date(2026, 1, 10, 8, 22, 0, 0, time.UTC)

func newCertificate(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: issued, NotAfter: issued.AddDate(1, 0, 0), DNSNames: []string{"kubernetes.default"}}
	for _, n := range names {
		c.IPAddresses = append(c.IPAddresses, net.ParseIP(n))
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve shows a certificate to whoever dials.
func serve(t *testing.T, c tls.Certificate) ckscheck.Dial {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Read(make([]byte, 1)) // the handshake
				_ = conn.Close()
			}()
		}
	}()
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
	}
}

// TestIssue9418 is a cluster whose certificates end: CloudStack never renews them.
func TestIssue9418(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	k := e.create(e.request())
	reader := e.reader()
	reader.Dial = serve(t, newCertificate(t, "10.96.0.1", k.IPAddress))
	at := func(now time.Time) []ckscheck.Finding {
		reader.Clock = clocktesting.NewFakePassiveClock(now)
		f, err := reader.Upgrade(t.Context(), k)
		require.NoError(t, err)
		require.WithinDuration(t, now, f.Now, time.Minute, "CloudStack's clock is this machine's")
		return ckscheck.Upgrade(f, e.version("1.32.4"))
	}
	end := issued.AddDate(1, 0, 0)
	require.Empty(t, problems(at(end.AddDate(0, 0, -31))))
	require.Equal(t, []string{"warning certificate-expires"}, problems(at(end.AddDate(0, 0, -10))))
	f := only(t, at(end.AddDate(0, 0, 1)), "certificate-expired")
	require.Equal(t, ckscheck.Error, f.Severity)
	require.Equal(t, "it expired on 2027-01-10", f.What)
	require.Contains(t, f.Remedy, "ssh -p 2222 cloud@"+k.IPAddress)
	require.Contains(t, f.Remedy, "sudo kubeadm certs renew all")
	require.Equal(t, "https://github.com/apache/cloudstack/issues/9418", f.Reference)
}

func TestServing(t *testing.T) {
	t.Parallel()
	c, err := ckscheck.Serving(t.Context(), serve(t, newCertificate(t, "203.0.113.10")), "https://KUBERNETES.default/")
	require.NoError(t, err)
	require.Equal(t, &ckscheck.Certificate{NotBefore: issued, NotAfter: issued.AddDate(1, 0, 0)}, c)
	for endpoint, want := range map[string]string{
		"": "has no endpoint", "c1": "has no endpoint", "https://203.0.113.10:6443/": "the API server at 203.0.113.10:6443 does not answer", "https://[2001:db8::1]/": "at [2001:db8::1]:443 does not answer",
	} {
		_, err := ckscheck.Serving(t.Context(), func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }, endpoint)
		require.ErrorContains(t, err, want)
	}
	_, err = ckscheck.Serving(t.Context(), func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		_ = b.Close()
		return a, nil
	}, "https://203.0.113.10:6443/")
	require.ErrorContains(t, err, "refuses TLS")
}

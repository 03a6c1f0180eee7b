// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"
)

// access is where calls go and what proves the two sides to each other. It is replaced as a whole, so that
// no call is signed with one key and sent by another's transport.
type access struct {
	endpoint          *url.URL // bare: no query, no user info
	apiKey, secretKey string
	base              http.RoundTripper
	ownBase           bool // base is our http.Transport, whose connection events can be trusted
}

// Adopt takes over endpoint, keys and transport of another client of the same CloudStack, one that has been
// found to work. Calls that are under way end with the old ones; all later tries use the new ones. The other
// client can be forgotten. Neither may be a client of a session.
func (c *Client) Adopt(other *Client) {
	taken, old := other.access.Load(), c.access.Load()
	c.mu.Lock()
	for _, k := range []string{old.apiKey, old.secretKey} {
		if k != "" && !slices.Contains(c.retired, k) {
			c.retired = append(c.retired, k) // errors of calls under way may still have it in them
		}
	}
	c.mu.Unlock()
	c.access.Store(taken)
	if old.base != taken.base {
		closeIdle(old.base)
	}
}

func closeIdle(rt http.RoundTripper) {
	type closer interface{ CloseIdleConnections() }
	if t, ok := rt.(closer); ok {
		t.CloseIdleConnections()
	}
}

// newTransport is the one pool of connections of a client.
func newTransport(cfg *Config) (*http.Transport, error) {
	tlsConfig := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: cfg.SSLNoVerify, //nolint:gosec // the user's own ssl-no-verify, off by default
	}
	var err error
	if tlsConfig.RootCAs, err = trusted(cfg); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxConnsPerHost:       maxConnsPerHost,
		MaxIdleConnsPerHost:   maxConnsPerHost,
		MaxIdleConns:          maxConnsPerHost,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}, nil
}

// trusted are the system's certificates and those of ca-file and CABundle; nil, which means the system's,
// when there are no others.
func trusted(cfg *Config) (*x509.CertPool, error) {
	var pool *x509.CertPool
	for _, f := range []struct{ key, name string }{{"ca-file", cfg.CAFile}, {"CA bundle", cfg.CABundle}} {
		if f.name == "" {
			continue
		}
		pem, err := os.ReadFile(f.name)
		if err != nil {
			return nil, fmt.Errorf("cloudstack: %s: %w", f.key, err)
		}
		if pool == nil {
			if pool, err = x509.SystemCertPool(); err != nil {
				pool = x509.NewCertPool()
			}
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cloudstack: %s %s holds no PEM certificate", f.key, f.name)
		}
	}
	return pool, nil
}

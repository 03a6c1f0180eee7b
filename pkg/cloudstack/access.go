// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// access is the endpoint, the credentials and the transport of calls. It is replaced as a whole, so that no call is
// signed with the new key and sent over the old transport.
type access struct {
	endpoint *url.URL // bare: no query, no user info
	proof    Proof
	base     http.RoundTripper
	ownBase  bool // base is our http.Transport, whose connection events can be trusted
}

// Proof authenticates calls to CloudStack: API keys, or a session.
type Proof interface {
	// Sign adds the proof to the form of a call.
	Sign(form url.Values, now time.Time)
	// Secrets returns the strings that must not appear in any text.
	Secrets() []string
}

// keys are the API keys of a user.
type keys struct{ api, secret string }

// expiresAfter is less than the 15 minutes that a strict server allows, so that a clock may be up to five minutes ahead
// or ten behind.
const expiresAfter = 10 * time.Minute

// Sign implements Proof.
func (k keys) Sign(form url.Values, now time.Time) {
	form.Set("apiKey", k.api)
	form.Set("signatureversion", "3")
	form.Set("expires", now.UTC().Add(expiresAfter).Format(time.RFC3339))
	form.Set(paramSignature, signatureOf(form, k.secret))
}

// Secrets implements Proof.
func (k keys) Secrets() []string { return []string{k.api, k.secret} }

// javaForm converts Go's form encoding to Java's, with blanks as %20. They differ in ~ and * too: the server refuses a
// value with either with 401 if it was signed with Go's encoding.
var javaForm = strings.NewReplacer("+", "%20", "%2A", "*", "~", "%7E")

// signatureOf returns the signature of a form: parameters sorted by raw name, values percent-encoded as by javaForm,
// the whole in lower case, HMAC-SHA1, base64. A parameter named signature is left out.
func signatureOf(form url.Values, secret string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if name == paramSignature {
			continue
		}
		for _, v := range form[name] {
			parts = append(parts, name+"="+javaForm.Replace(url.QueryEscape(v)))
		}
	}
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(strings.ToLower(strings.Join(parts, "&"))))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Adopt takes over endpoint, keys and transport of another client of the same CloudStack, which has been tested. Calls
// in progress end with the old ones; all later tries use the new ones. The other client must not be used any more.
func (c *Client) Adopt(other *Client) {
	taken, old := other.access.Load(), c.access.Load()
	c.mu.Lock()
	for _, k := range old.proof.Secrets() {
		if !slices.Contains(c.retired, k) {
			c.retired = append(c.retired, k) // errors of calls in progress may still contain it
		}
	}
	c.mu.Unlock()
	c.access.Store(taken)
	c.Role().Reset() // the new keys may be another user's
	if old.base != taken.base {
		closeIdle(old.base)
	}
}

func closeIdle(rt http.RoundTripper) { (&http.Client{Transport: rt}).CloseIdleConnections() }

// newTransport returns the transport of a client, with a connection pool of its own.
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

// trusted returns the system's certificates and those of ca-file and CABundle. If both files are unset it returns nil,
// which means the system's certificates.
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
			return nil, fmt.Errorf("cloudstack: %s %s contains no PEM certificate", f.key, f.name)
		}
	}

	return pool, nil
}

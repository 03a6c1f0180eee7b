// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/version"
)

const (
	defaultTimeout    = 60 * time.Second
	defaultJobTimeout = 10 * time.Minute
	defaultRateLimit  = 20
	defaultRateBurst  = 40
	maxConnsPerHost   = 16
)

// Client calls one CloudStack API as one user. It is safe for concurrent use.
type Client struct {
	endpoint   *url.URL // bare: no query, no user info
	apiKey     string
	secretKey  string
	timeout    time.Duration // of one HTTP call
	jobTimeout time.Duration
	userAgent  string
	noKeys     bool // send neither keys nor session (integration port)

	base     http.RoundTripper
	ownBase  bool // base is our http.Transport, whose connection events can be trusted
	clock    clock.Clock
	jitter   func(limit time.Duration) time.Duration // in [0, limit]
	limiter  *rate.Limiter
	observer func(Observation)

	lanes    sync.Pool // of *lane
	session  *session  // nil for key clients
	jobs     *JobWaiter
	pageSize atomic.Int64 // the server's maximum, when smaller than ours

	clockOffset atomic.Pointer[time.Duration] // see ClockOffset

	mu          sync.Mutex
	pausedUntil time.Time // no call before it: the server has said so (429)
}

// Option changes a Client.
type Option func(*Client)

// WithTransport replaces the HTTP transport (for tests). TLS and proxy settings
// of the configuration then have no effect.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *Client) { c.base, c.ownBase = rt, false }
}

// WithUserAgent replaces the User-Agent header, csccm/VERSION by default.
func WithUserAgent(ua string) Option { return func(c *Client) { c.userAgent = ua } }

// WithClock replaces the clock that retries, rate limit and job polls go by.
func WithClock(cl clock.Clock) Option { return func(c *Client) { c.clock = cl } }

// WithObserver calls f after every HTTP exchange. f must be fast and safe for concurrent use.
func WithObserver(f func(Observation)) Option { return func(c *Client) { c.observer = f } }

// WithoutCredentials makes a client that sends no credentials: for CloudStack's
// integration port, which serves everything as root to whoever reaches it.
func WithoutCredentials() Option { return func(c *Client) { c.noKeys = true } }

// WithJitter replaces the random part of retry delays: f returns a duration in [0, limit].
func WithJitter(f func(limit time.Duration) time.Duration) Option {
	return func(c *Client) { c.jitter = f }
}

// Observation is one HTTP exchange as WithObserver's function sees it.
type Observation struct {
	Command  string
	Code     int // HTTP status; 0 when no answer came
	Kind     Kind
	OK       bool
	Try      int // 1 for the first try of a call
	Duration time.Duration
}

// NewClient makes a client that signs with cfg's keys. It makes no call. It
// fails when api-url, keys or ca-file are not usable.
func NewClient(cfg *Config, opts ...Option) (*Client, error) {
	c, err := newClient(cfg, opts)
	if err != nil {
		return nil, err
	}
	if !c.noKeys {
		if err := cfg.requireKeys(); err != nil {
			return nil, err
		}
		c.apiKey, c.secretKey = cfg.APIKey, cfg.SecretKey
	}
	return c, nil
}

// newClient makes a client without credentials.
func newClient(cfg *Config, opts []Option) (*Client, error) {
	if cfg == nil {
		return nil, errors.New("cloudstack: no configuration")
	}
	endpoint, err := checkURL(cfg.APIURL)
	if err != nil {
		return nil, fmt.Errorf("cloudstack: api-url: %w", err)
	}
	c := &Client{
		endpoint:   endpoint,
		timeout:    cfg.Timeout,
		jobTimeout: cfg.JobTimeout,
		userAgent:  "csccm/" + version.Version,
		ownBase:    true,
		clock:      clock.RealClock{},
		jitter:     randomJitter,
	}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	if c.jobTimeout <= 0 {
		c.jobTimeout = defaultJobTimeout
	}
	if cfg.RateLimit > 0 {
		burst := cfg.RateBurst
		if burst <= 0 {
			burst = max(1, int(2*cfg.RateLimit))
		}
		c.limiter = rate.NewLimiter(rate.Limit(cfg.RateLimit), burst)
	}
	for _, o := range opts {
		o(c)
	}
	if c.base == nil {
		t, err := newTransport(cfg)
		if err != nil {
			return nil, err
		}
		c.base = t
	}
	c.lanes.New = func() any { return newLane(c) }
	c.jobs = newJobWaiter(c, c.clock, c.jobTimeout)
	registerMetrics()
	return c, nil
}

// newTransport is the one pool of connections of a client.
func newTransport(cfg *Config) (*http.Transport, error) {
	tlsConfig := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: cfg.SSLNoVerify, //nolint:gosec // the user's own ssl-no-verify, off by default
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cloudstack: ca-file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cloudstack: ca-file %s holds no PEM certificate", cfg.CAFile)
		}
		tlsConfig.RootCAs = pool
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

func randomJitter(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return rand.N(limit + 1) //nolint:gosec // jitter needs no secrecy
}

// Endpoint is the URL that calls go to, without query or user info.
func (c *Client) Endpoint() string { return c.endpoint.String() }

// Jobs is the client's one job waiter.
func (c *Client) Jobs() *JobWaiter { return c.jobs }

// CloseIdleConnections closes connections that no call uses.
func (c *Client) CloseIdleConnections() {
	type closer interface{ CloseIdleConnections() }
	if t, ok := c.base.(closer); ok {
		t.CloseIdleConnections()
	}
}

// String names the endpoint and nothing secret.
func (c *Client) String() string {
	if c == nil {
		return "<nil>"
	}
	return "cloudstack.Client(" + c.endpoint.String() + ")"
}

// GoString is String: %#v must not show keys.
func (c *Client) GoString() string { return c.String() }

// Format writes String for every verb, so that none shows keys.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

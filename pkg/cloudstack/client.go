// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

const (
	apiPath         = cloudconfig.APIPath
	maxConnsPerHost = 16
)

// Config is the cloud-config.
type Config = cloudconfig.Config

// Client calls one CloudStack API as one user. It is safe for concurrent use.
type Client struct {
	access    atomic.Pointer[access]
	timeout   time.Duration // of one HTTP call
	readLimit time.Duration // of a read with all its tries; 0 for none

	base     http.RoundTripper // of WithTransport; access has the one in use
	clock    clock.Clock
	jitter   func(limit time.Duration) time.Duration // in [0, limit]
	limiter  *limiter                                // nil without a limit
	said     func(limit string)
	observer func(Observation)
	gate     func() (leave func(), err error)
	proof    Proof // of WithProof, nil before NewClient has read the keys
	wrap     func(http.RoundTripper) http.RoundTripper

	jobs     *JobWaiter
	pageSize atomic.Int64 // the server's maximum, when smaller than ours

	clockOffset atomic.Pointer[time.Duration] // see ClockOffset

	mu          sync.Mutex
	pausedUntil time.Time // earliest time of the next call, from a 429
	retired     []string  // keys that Adopt has replaced
}

// Option changes a Client.
type Option func(*Client)

// WithTransport replaces the HTTP transport, for tests. The TLS and proxy settings of the configuration then have no
// effect.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *Client) { c.base = rt }
}

// WithProof replaces the keys of the configuration; wrap returns a transport that sends what else the proof needs.
func WithProof(p Proof, wrap func(http.RoundTripper) http.RoundTripper) Option {
	return func(c *Client) { c.proof, c.wrap = p, wrap }
}

// WithReadLimit limits the duration of a read including its retries, for callers for which a user waits.
func WithReadLimit(d time.Duration) Option { return func(c *Client) { c.readLimit = d } }

// WithClock replaces the clock of retries, rate limit and job polls.
func WithClock(cl clock.Clock) Option { return func(c *Client) { c.clock = cl } }

// WithObserver calls f after every HTTP exchange. f must be fast and safe for concurrent use.
func WithObserver(f func(Observation)) Option { return func(c *Client) { c.observer = f } }

// WithWriteGate makes the client call gate before every try of a call that changes something. If gate returns an error,
// the call is not sent; otherwise leave is called after the answer.
func WithWriteGate(gate func() (leave func(), err error)) Option {
	return func(c *Client) { c.gate = gate }
}

// WithJitter replaces the random part of retry delays: f returns a duration in [0, limit].
func WithJitter(f func(limit time.Duration) time.Duration) Option {
	return func(c *Client) { c.jitter = f }
}

// Observation describes one HTTP exchange for the function of WithObserver.
type Observation struct {
	Code   int  // HTTP status; 0 when no answer came
	Silent bool // no answer came, and the caller had not given up
}

// NewClient returns a client that signs with cfg's keys. It makes no call. It fails if api-url, keys or ca-file are not
// usable.
func NewClient(cfg *Config, opts ...Option) (*Client, error) {
	if cfg == nil {
		return nil, &cloudconfig.Error{Err: errors.New("cloudstack: no configuration")}
	}

	endpoint, err := cfg.Endpoint()
	if err != nil {
		return nil, &cloudconfig.Error{Err: fmt.Errorf("cloudstack: %w", err)}
	}

	c := &Client{
		timeout: cmp.Or(cfg.Timeout, cloudconfig.DefaultTimeout),
		clock:   clock.RealClock{},
		jitter:  randomJitter,
	}

	for _, o := range opts {
		o(c)
	}

	if c.proof == nil {
		if err := cfg.ValidateKeys(); err != nil {
			return nil, err
		}
		c.proof = keys{cfg.APIKey, cfg.SecretKey}
	}

	c.limiter = newLimiter(cfg, c.clock)
	a := &access{endpoint: endpoint, proof: c.proof, base: c.base}
	if c.base == nil {
		if a.base, err = newTransport(cfg); err != nil {
			return nil, &cloudconfig.Error{Err: err}
		}
		a.ownBase = true
	}

	c.access.Store(a)
	c.jobs = newJobWaiter(c.QueryJob, c.runningJobs, c.clock, cmp.Or(cfg.JobTimeout, cloudconfig.DefaultJobTimeout))
	return c, nil
}

func randomJitter(limit time.Duration) time.Duration {
	return rand.N(limit + 1) //nolint:gosec // jitter needs no secrecy
}

// Endpoint returns the URL of the API, without query or user info.
func (c *Client) Endpoint() string { return c.access.Load().endpoint.String() }

// Jobs returns the client's job waiter.
func (c *Client) Jobs() *JobWaiter { return c.jobs }

// Role returns what is known about the role of the client's user.
func (c *Client) Role() *Role { return c.jobs.role }

// CloseIdleConnections closes connections that no call uses at present.
func (c *Client) CloseIdleConnections() { closeIdle(c.access.Load().base) }

// String returns the endpoint and nothing secret.
func (c *Client) String() string {
	if c == nil {
		return "<nil>"
	}
	return "cloudstack.Client(" + c.Endpoint() + ")"
}

// Format writes String for every verb, so that none shows keys.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

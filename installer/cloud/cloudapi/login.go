// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloudapi has the calls of the CloudStack API that csccm makes and the controller does not: accounts, roles
// and keys, and CloudStack Kubernetes Service.
package cloudapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// Client is a client of the CloudStack API with the calls of this package.
type Client struct {
	*cloudstack.Client
	session *session // set by Login; nil with keys
}

// readLimit limits each read of CloudStack. A longer timeout in the cloud-config replaces it.
const readLimit = 15 * time.Second

// NewClient is cloudstack.NewClient with a time limit for reads.
func NewClient(cfg *cloudstack.Config, opts ...cloudstack.Option) (*Client, error) {
	limit := readLimit
	if cfg.Timeout > cloudconfig.DefaultTimeout {
		limit = cfg.Timeout
	}
	c, err := cloudstack.NewClient(cfg, append([]cloudstack.Option{cloudstack.WithReadLimit(limit)}, opts...)...)
	if err != nil {
		return nil, err
	}
	return &Client{Client: c}, nil
}

// Answers returns an error if CloudStack does not answer. A refusal is an answer: it matters only to the call that is
// refused.
func (c *Client) Answers(ctx context.Context) error {
	_, err := c.Capabilities(ctx)
	if cloudstack.IsKind(err, cloudstack.KindAuth) ||
		cloudstack.IsKind(err, cloudstack.KindNotPermitted) ||
		cloudstack.IsKind(err, cloudstack.KindThrottled) {
		return nil
	}
	return err
}

// session is a login: a session key that must be sent with the session's cookies.
type session struct {
	key atomic.Pointer[string] // nil before the login and after the logout
}

// cookies is the transport that sends and stores the cookies of a session.
type cookies struct {
	jar  http.CookieJar
	next http.RoundTripper
}

// Sign adds the session key to a form.
func (s *session) Sign(form url.Values, _ time.Time) {
	if key := s.key.Load(); key != nil {
		form.Set("sessionkey", *key)
	}
}

// Secrets returns the session key.
func (s *session) Secrets() []string {
	if key := s.key.Load(); key != nil {
		return []string{*key}
	}
	return nil
}

// RoundTrip sends a request with the cookies of the session, and stores those of the response.
func (s cookies) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for _, cookie := range s.jar.Cookies(req.URL) {
		req.AddCookie(cookie)
	}
	resp, err := s.next.RoundTrip(req)
	if err == nil {
		s.jar.SetCookies(req.URL, resp.Cookies())
	}
	return resp, err
}

// Login returns a client that uses a session of a user with a password. domain is a path such as ROOT/a/b, a/b or /a/b;
// "" and "ROOT" mean ROOT itself. The keys of cfg are not used. The error is KindAuth if the password is wrong or the
// user has two-factor authentication.
func Login(
	ctx context.Context, cfg *cloudstack.Config, username, password, domain string, opts ...cloudstack.Option,
) (*Client, error) {
	const command = "login"
	if username == "" || password == "" {
		return nil, errors.New("cloudstack login: user name and password are both needed")
	}

	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}

	s := &session{}
	c, err := NewClient(cfg,
		append(slices.Clone(opts), cloudstack.WithProof(s, func(next http.RoundTripper) http.RoundTripper {
			return cookies{jar, next}
		}))...)
	if err != nil {
		return nil, err
	}

	c.session = s

	var answer struct {
		SessionKey    string `json:"sessionkey"`
		TwoFAEnabled  bool   `json:"is2faenabled"`
		TwoFAVerified bool   `json:"is2faverified"`
	}

	params := cloudstack.Params{"username": username, "password": password}.Set("domain", BelowRoot(domain))
	if err := c.Call(ctx, command, params, &answer); err != nil {
		return nil, err
	}

	if answer.SessionKey == "" {
		return nil, &cloudstack.Error{Command: command, HTTPCode: http.StatusOK, Text: "the answer has no session key"}
	}

	s.key.Store(&answer.SessionKey)
	if answer.TwoFAEnabled && !answer.TwoFAVerified {
		_ = c.Logout(ctx) // the session is of no use
		return nil, &cloudstack.Error{
			Kind:     cloudstack.KindAuth,
			Command:  command,
			HTTPCode: http.StatusNetworkAuthenticationRequired,
			Text:     cloudstack.TextTwoFactor,
		}
	}

	return c, nil
}

// BelowRoot returns the path of a domain below ROOT with a leading slash, as the login call expects it; "" for ROOT
// itself. The login call would take ROOT/a/b, the form of listDomains, as a domain ROOT below ROOT, and refuse it.
func BelowRoot(domain string) string {
	path := strings.Trim(strings.TrimSpace(domain), "/")
	if first, rest, _ := strings.Cut(path, "/"); strings.EqualFold(first, "ROOT") {
		path = strings.Trim(rest, "/")
	}
	if path == "" {
		return ""
	}
	return "/" + path
}

// Logout ends a session of Login. It does nothing for clients with keys.
func (c *Client) Logout(ctx context.Context) error {
	if c.session == nil || c.session.key.Load() == nil {
		return nil
	}
	defer c.session.key.Store(nil)
	return c.Call(ctx, "logout", nil, &struct{}{})
}

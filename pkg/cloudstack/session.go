// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// rootDomain is the name of the domain above all others.
const rootDomain = "ROOT"

// session is a login: cookies and the session key that must go with them.
type session struct {
	jar http.CookieJar
	key atomic.Value // string; "" before the login and after the logout
}

func (s *session) sessionKey() string {
	key, _ := s.key.Load().(string)
	return key
}

// sign adds the session key to a form.
func (s *session) sign(form url.Values) {
	if key := s.sessionKey(); key != "" {
		form.Set("sessionkey", key)
	}
}

func (s *session) addCookies(req *http.Request) {
	for _, ck := range s.jar.Cookies(req.URL) {
		req.AddCookie(ck)
	}
}

func (s *session) store(u *url.URL, resp *http.Response) {
	if cookies := resp.Cookies(); len(cookies) > 0 {
		s.jar.SetCookies(u, cookies)
	}
}

// Login makes a client that works in a session of a user with a password.
// domain is a path such as ROOT/a/b, a/b or /a/b; "" and "ROOT" mean ROOT itself. Of cfg the keys are not used.
// It fails with KindAuth when the password is wrong or the user has two-factor
// authentication on.
func Login(ctx context.Context, cfg *Config, username, password, domain string, opts ...Option) (*Client, error) {
	if username == "" || password == "" {
		return nil, errors.New("cloudstack login: user name and password are both needed")
	}
	c, err := newClient(cfg, opts)
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, &Error{Kind: KindUnknown, Command: commandLogin, Text: "cannot make a cookie jar", Err: err}
	}
	c.session = &session{jar: jar}
	params := map[string]string{"username": username, paramPassword: password}
	if path := loginPath(domain); path != "" {
		params["domain"] = path
	}
	var answer struct {
		SessionKey    string    `json:"sessionkey"`
		TwoFAEnabled  flex.Bool `json:"is2faenabled"`
		TwoFAVerified flex.Bool `json:"is2faverified"`
	}
	if err := c.call(ctx, commandLogin, params, &answer); err != nil {
		return nil, err
	}
	if answer.SessionKey == "" {
		return nil, &Error{Kind: KindUnknown, Command: commandLogin, HTTPCode: http.StatusOK, Text: "the answer has no session key"}
	}
	c.session.key.Store(answer.SessionKey)
	if answer.TwoFAEnabled && !answer.TwoFAVerified {
		// The session is of no use; end it as well as we can.
		_ = c.Logout(ctx)
		return nil, &Error{Kind: KindAuth, Command: commandLogin, HTTPCode: http.StatusNetworkAuthenticationRequired, Text: text2FA}
	}
	return c, nil
}

// loginPath returns the domain as the login call takes it: the path below ROOT with a leading slash, "" for ROOT itself.
// The server refuses the path that listDomains shows, ROOT/a/b, as that of a domain ROOT below ROOT.
func loginPath(domain string) string {
	path := strings.Trim(strings.TrimSpace(domain), "/")
	if first, rest, _ := strings.Cut(path, "/"); strings.EqualFold(first, rootDomain) {
		path = strings.Trim(rest, "/")
	}
	if path == "" {
		return ""
	}
	return "/" + path
}

// Logout ends a session made by Login; it does nothing for key clients.
func (c *Client) Logout(ctx context.Context) error {
	if c.session == nil || c.session.sessionKey() == "" {
		return nil
	}
	var answer struct {
		Description string `json:"description"`
	}
	err := c.call(ctx, "logout", nil, &answer)
	c.session.key.Store("")
	if err != nil {
		return err
	}
	if !strings.EqualFold(answer.Description, "success") {
		return &Error{Kind: KindUnknown, Command: "logout", HTTPCode: http.StatusOK, Text: "the server did not confirm the end of the session"}
	}
	return nil
}

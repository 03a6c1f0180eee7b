// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// reply is what the simulator answered.
type reply struct {
	status      int
	contentType string
	body        any
}

// sessionState is the login that the session cases work with.
type sessionState struct {
	cookies []*http.Cookie
	key     string
}

// query builds an unsigned query; pairs are name, value, name, value ...
func query(command, key string, pairs []string) url.Values {
	q := url.Values{"command": {command}, "response": {"json"}, "apikey": {key}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

func (s *scenario) keysOf(c *goldenCase) (string, string) {
	caller := c.Caller
	if caller == "other" {
		caller = "kubeadmin"
	}
	k, ok := s.keys[caller]
	if c.Case == "auth.old-key-after-reregister" {
		k, ok = s.oldKeys[caller]
	}
	if !ok {
		return "no-such-key", "no-such-secret"
	}
	return k[0], k[1]
}

// send replays the request of a case.
func (s *scenario) send(c *goldenCase) reply {
	if c.Command == "raw" {
		return s.raw(c)
	}
	q := url.Values{"command": {c.Command}, "response": {"json"}}
	for k, v := range c.Params {
		q.Set(k, s.ids.translate(fmt.Sprint(v)))
	}
	s.secrets(c, q)
	if c.Caller == "session" {
		return s.sendSession(c, q)
	}
	key, secret := s.keysOf(c)
	q.Set("apikey", key)
	s.stamp(c, q)
	var signature string
	switch {
	case c.Case == "auth.bad-signature":
		signature = "AAAAAAAAAAAAAAAAAAAAAAAAAAA="
	case strings.HasPrefix(c.Case, "auth.sigchar-go-"):
		signature = goSignature(secret, q)
	default:
		signature = wire.Sign(secret, toParams(q))
	}
	q.Set("signature", signature)
	post := strings.HasSuffix(c.Case, ".post") || strings.HasPrefix(c.Case, "postonly.post")
	return s.do(post, s.h.url, q, nil)
}

// stamp adds the version of the signature and its time of expiry where the case is about them.
func (s *scenario) stamp(c *goldenCase, q url.Values) {
	now := s.h.clock.Now()
	switch {
	case c.Case == "auth.empty-apikey":
		q.Set("apikey", "")
	case strings.HasPrefix(c.Case, "auth.v3-"):
		q.Set("signatureversion", "3")
		q.Set("expires", expiresOf(c.Case, now))
	case c.Case == "auth.v4":
		q.Set("signatureversion", "4")
	case strings.HasPrefix(c.Case, "postonly.") && !strings.HasSuffix(c.Case, "without-timestamp"):
		q.Set("signatureversion", "3")
		ahead := 10 * time.Minute
		if strings.HasSuffix(c.Case, "too-far") {
			ahead = time.Hour
		}
		q.Set("expires", now.Add(ahead).UTC().Format("2006-01-02T15:04:05-0700"))
	}
}

// secrets fills in what the recordings have redacted.
func (s *scenario) secrets(c *goldenCase, q url.Values) {
	if q.Has("password") {
		q.Set("password", "password")
		switch c.Case {
		case "createUser.short-password":
			q.Set("password", "")
		case "login.bad-password":
			q.Set("password", "wrong")
		}
	}
	if q.Has("userapikey") {
		q.Set("userapikey", s.keys["kubeadmin"][0])
		if c.Case == "getUser.admin-unknown" {
			q.Set("userapikey", "unknown")
		}
	}
}

func expiresOf(name string, now time.Time) string {
	switch strings.TrimPrefix(name, "auth.v3-") {
	case "expired":
		return now.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05-0700")
	case "bad-expires":
		return "tomorrow"
	case "expires-Z":
		return now.Add(time.Minute).UTC().Format("2006-01-02T15:04:05Z")
	case "expires-far-future":
		return now.AddDate(10, 0, 0).UTC().Format("2006-01-02T15:04:05-0700")
	}
	return now.Add(time.Minute).UTC().Format("2006-01-02T15:04:05-0700")
}

// goSignature signs with Go's way of escaping, which treats ~ and * differently.
func goSignature(secret string, q url.Values) string {
	var ps []wire.Param
	for k, v := range q {
		ps = append(ps, wire.Param{Name: k, Value: v[0]})
	}
	text := wire.StringToSign(ps)
	text = strings.ReplaceAll(strings.ReplaceAll(text, "%7e", "~"), "*", "%2a")
	return wire.HmacOf(secret, text)
}

func (s *scenario) raw(c *goldenCase) reply {
	query := fmt.Sprint(c.Params["query"])
	if strings.HasPrefix(query, "http") {
		return s.do(false, strings.TrimSuffix(s.h.url, "/api"), nil, nil)
	}
	key, _ := s.keysOf(c)
	target := s.h.url
	if c.Case == "auth.wrong-path" {
		target += "x"
	}
	q, err := url.ParseQuery(strings.ReplaceAll(query, "REDACTED", key))
	require.NoError(s.t, err)
	return s.do(false, target, q, nil)
}

func (s *scenario) sendSession(c *goldenCase, q url.Values) reply {
	if s.session.key == "" && c.Command != "login" {
		s.do(true, s.h.url, url.Values{"command": {"login"}, "username": {"admin"}, "password": {"password"}, "response": {"json"}}, nil)
	}
	if q.Has("sessionkey") {
		q.Set("sessionkey", s.session.key)
	}
	cookies := s.session.cookies
	if c.Command == "login" {
		cookies = nil
	}
	return s.do(c.Command == "login" && c.Case != "login.by-get", s.h.url, q, cookies)
}

func (s *scenario) do(post bool, target string, q url.Values, cookies []*http.Cookie) reply {
	method, body := http.MethodGet, io.Reader(nil)
	if post {
		method, body = http.MethodPost, strings.NewReader(q.Encode())
	} else if q != nil {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, target, body)
	require.NoError(s.t, err)
	if post {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, ck := range cookies {
		req.AddCookie(ck)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	out := reply{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type"), body: string(raw)}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if strings.HasPrefix(out.contentType, "application/json") && d.Decode(&v) == nil {
		out.body = v
	}
	if len(resp.Cookies()) > 0 {
		s.session.cookies = resp.Cookies()
		for _, ck := range resp.Cookies() {
			if ck.Name == "sessionkey" {
				s.session.key = ck.Value
			}
		}
	}
	return out
}

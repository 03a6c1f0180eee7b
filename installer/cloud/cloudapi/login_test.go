// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
)

const testSessionKey = "canary-session-key+/="

func (f *fakeAPI) login(t *testing.T, apiURL, password, domain string) (*Client, error) {
	t.Helper()
	return Login(t.Context(), &cloudstack.Config{APIURL: apiURL}, "admin", password, domain,
		cloudstack.WithTransport(f))
}

// sessionServer checks that cookies and session key belong together.
func sessionServer(t *testing.T, secondFactor bool) *fakeAPI {
	t.Helper()
	loggedOut := false
	return &fakeAPI{answer: func(r *http.Request) (http.Header, *fakeAPI) {
		switch r.PostForm.Get("command") {
		case "login":
			if r.PostForm.Get("password") != testPassword || r.PostForm.Get("domain") != "/a/b" {
				return nil, golden(t, "login.bad-password")
			}

			return http.Header{"Set-Cookie": {
					(&http.Cookie{Name: "JSESSIONID", Value: "jar", Path: "/client"}).String(),
					(&http.Cookie{Name: "sessionkey", Value: url.QueryEscape(testSessionKey), HttpOnly: true}).String(),
				}},
				always(fmt.Sprintf(`{"loginresponse":{"userid":"u","sessionkey":%q,"timeout":1800,"is2faenabled":"%t","is2faverified":"%t"}}`,
					testSessionKey, secondFactor, !secondFactor))

		case "logout":
			loggedOut = true
			return nil, golden(t, "logout.ok")
		}

		jar, _ := r.Cookie("JSESSIONID")
		key, _ := r.Cookie("sessionkey")
		if loggedOut ||
			r.PostForm.Get("sessionkey") != testSessionKey ||
			jar == nil ||
			jar.Value != "jar" ||
			key == nil ||
			key.Value != url.QueryEscape(testSessionKey) {
			return nil, golden(t, "login.session-without-sessionkey")
		}

		return nil, always(`{"listzonesresponse":{}}`)
	}}
}

const apiURL = "http://cloudstack.test/client/api"

func TestSession(t *testing.T) {
	t.Parallel()
	server := sessionServer(t, false)
	c, err := server.login(t, apiURL, testPassword, "/a/b")
	require.NoError(t, err)
	_, err = c.ListZones(t.Context())
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", c.Client, c.Client, c.Client), "canary")

	require.NoError(t, c.Logout(t.Context()))
	require.NoError(t, c.Logout(t.Context()), "a second time there is nothing to do")
	_, err = c.ListZones(t.Context())
	require.True(t, cloudstack.IsKind(err, cloudstack.KindAuth), "%v", err)
	require.NotContains(t, err.Error(), "canary")

	require.Len(t, server.calls, 4, "login, two lists, one logout")
	for _, r := range server.calls {
		require.Equal(t, "/client/api", r.URL.RequestURI())
		require.Equal(t, http.MethodPost, r.Method)
		require.Empty(t, r.PostForm.Get("signature"))
		require.Empty(t, r.PostForm.Get("apiKey"))
	}
}

func TestBelowRoot(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"": "", "/": "", " ": "", "ROOT": "", "root": "", "/ROOT": "", "ROOT/": "", "/ROOT/": "",
		"k8s":         "/k8s",
		"/k8s":        "/k8s",
		"/k8s/":       "/k8s",
		"K8S":         "/K8S",
		"ROOT/k8s":    "/k8s",
		"/ROOT/k8s/":  "/k8s",
		"root/k8s":    "/k8s",
		" ROOT/k8s\n": "/k8s", "a/b": "/a/b", "ROOT/a/b": "/a/b", "ROOT//a": "/a",
		"ROOTS": "/ROOTS", "a/ROOT": "/a/ROOT", "ROOT/ROOT": "/ROOT",
	} {
		require.Equal(t, want, BelowRoot(typed), "%q", typed)
	}
}

// Concurrent calls share a session, as when csccm searches many projects.
func TestSessionIsShared(t *testing.T) {
	t.Parallel()
	c, err := sessionServer(t, false).login(t, apiURL, testPassword, "/a/b")
	require.NoError(t, err)
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() { _ = c.Answers(t.Context()) })
	}
	calls.Wait()
}

func TestLoginFailures(t *testing.T) {
	t.Parallel()
	keyless, twoFactor := sessionServer(t, false), sessionServer(t, true)

	for name, tc := range map[string]struct {
		server                *fakeAPI
		url, password, domain string
		kind                  cloudstack.Kind
		want                  string
	}{
		"wrong password": {keyless, apiURL, "wrong-canary", "", cloudstack.KindAuth,
			"Failed to authenticate user admin"},
		"second factor":  {twoFactor, apiURL, testPassword, "/a/b", cloudstack.KindAuth, "two-factor authentication"},
		"no session key": {always(`{"loginresponse":{}}`), apiURL, "x", "", cloudstack.KindUnknown, "no session key"},
		"a later 511": {&fakeAPI{status: 511, body: `{"x":{"errorcode":511,"errortext":"2FA"}}`}, apiURL, "x", "",
			cloudstack.KindAuth, "use API keys"},
		"no password":      {url: apiURL, want: "both needed"},
		"unusable api-url": {url: "nonsense", password: "x", want: "api-url"},
	} {
		_, err := tc.server.login(t, tc.url, tc.password, tc.domain)
		require.ErrorContains(t, err, tc.want, name)
		require.NotContains(t, err.Error(), "canary")
		if tc.kind != cloudstack.KindUnknown {
			require.True(t, cloudstack.IsKind(err, tc.kind), "%s: %v", name, err)
		}
	}
}

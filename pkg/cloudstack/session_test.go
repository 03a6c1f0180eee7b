// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// sessionServer checks that cookies and session key belong together.
func sessionServer(t *testing.T, secondFactor bool) *fakeAPI {
	t.Helper()
	const key = "canary-session-key+/="
	var f *fakeAPI
	loggedOut := false
	f = newFakeAPI(func(n int, form url.Values) reply {
		switch form.Get("command") {
		case "login":
			if form.Get("password") != testPassword || form.Get("domain") != "/a/b" {
				return golden(t, "login.bad-password").reply()
			}
			return func(w http.ResponseWriter) {
				http.SetCookie(w, &http.Cookie{Name: "JSESSIONID", Value: "jar", Path: "/client"})
				http.SetCookie(w, &http.Cookie{Name: "sessionkey", Value: url.QueryEscape(key), HttpOnly: true})
				body := map[string]any{"loginresponse": map[string]any{
					"userid": "u", "sessionkey": key, "timeout": 1800,
					"is2faenabled": fmt.Sprint(secondFactor), "is2faverified": fmt.Sprint(!secondFactor),
				}}
				_ = json.NewEncoder(w).Encode(body)
			}
		case "logout":
			loggedOut = true
			return golden(t, "logout.ok").reply()
		}
		if secondFactor {
			return jsonReply(511, `{"x":{"errorcode":511,"errortext":"2FA"}}`)
		}
		calls := f.recorded()
		got := calls[n-1]
		if loggedOut || form.Get("sessionkey") != key || got.Cookies["JSESSIONID"] != "jar" || got.Cookies["sessionkey"] != url.QueryEscape(key) {
			return golden(t, "login.session-without-sessionkey").reply()
		}
		return jsonReply(200, emptyZones)
	})
	return f
}

// login makes a client in a session of the server.
func (f *fakeAPI) login(t *testing.T, password, domain string) (*Client, error) {
	t.Helper()
	return Login(t.Context(), &Config{APIURL: f.url}, "admin", password, domain, WithTransport(f), WithJitter(noJitter))
}

func TestSession(t *testing.T) {
	t.Parallel()
	f := sessionServer(t, false)
	c, err := f.login(t, testPassword, "/a/b")
	require.NoError(t, err)
	_, err = c.ListZones(t.Context())
	require.NoError(t, err)
	requireNoSecrets(t, fmt.Sprintf("%v %+v %#v", c, c, c))
	require.NoError(t, c.Logout(t.Context()))
	require.NoError(t, c.Logout(t.Context()), "a second time there is nothing to do")
	_, err = c.ListZones(t.Context())
	require.True(t, IsKind(err, KindAuth), "%v", err)
	requireNoSecrets(t, err.Error())
	for _, call := range f.recorded() {
		require.Equal(t, apiPath, call.URL)
		require.Equal(t, http.MethodPost, call.Method)
		require.Empty(t, call.Form.Get("signature"))
		require.Empty(t, call.Form.Get("apiKey"))
	}
	require.Equal(t, 1, f.count("logout"))
}

func TestLoginPath(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"": "", "/": "", " ": "", "ROOT": "", "root": "", "/ROOT": "", "ROOT/": "", "/ROOT/": "",
		"k8s": "/k8s", "/k8s": "/k8s", "/k8s/": "/k8s", "K8S": "/K8S", "ROOT/k8s": "/k8s", "/ROOT/k8s/": "/k8s", "root/k8s": "/k8s",
		" ROOT/k8s\n": "/k8s", "a/b": "/a/b", "ROOT/a/b": "/a/b", "ROOT//a": "/a",
		"ROOTS": "/ROOTS", "a/ROOT": "/a/ROOT", "ROOT/ROOT": "/ROOT",
	} {
		require.Equal(t, want, loginPath(typed), "%q", typed)
	}
}

func TestLoginFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server           *fakeAPI
		password, domain string
		kind             Kind
		want             string
	}{
		"wrong password":   {sessionServer(t, false), "wrong-canary", "", KindAuth, "Failed to authenticate user admin"},
		"second factor":    {sessionServer(t, true), testPassword, "/a/b", KindAuth, "two-factor authentication"},
		"no session key":   {always(jsonReply(200, `{"loginresponse":{}}`)), "x", "", KindUnknown, "no session key"},
		"a later 511":      {always(jsonReply(511, `{"x":{"errorcode":511,"errortext":"2FA"}}`)), "x", "", KindAuth, "use API keys"},
		"no password":      {server: always(nil), want: "both needed"},
		"unusable api-url": {server: &fakeAPI{url: "nonsense"}, password: "x", want: "api-url"},
	} {
		_, err := tc.server.login(t, tc.password, tc.domain)
		require.ErrorContains(t, err, tc.want, name)
		require.NotContains(t, err.Error(), "wrong-canary")
		requireNoSecrets(t, err.Error())
		if tc.kind != KindUnknown {
			require.True(t, IsKind(err, tc.kind), "%s: %v", name, err)
		}
	}
}

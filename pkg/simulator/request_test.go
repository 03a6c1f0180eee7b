// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// TestSignatureVersions has the cases that the recordings auth.v3-* and auth.v4 lack.
func TestSignatureVersions(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	at := func(d time.Duration, format int) string {
		return h.clock.Now().Add(d).UTC().Format(wire.ExpiresFormats[format])
	}
	h.set("past", at(-time.Hour, 0), "millis", at(time.Minute, 2)).play(`
		k8s-owner listZones expires={past}
		k8s-owner listZones signatureVersion=3 expires={millis}
		k8s-owner listZones signatureVersion=3 => 401
	`)
}

// TestOrderOfChecks has the cases that the recordings auth.* lack. The server checks the role before the signature,
// and both before the parameters.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	q := h.signed(owner, "createZone")
	q.Set("signature", "AAAA")
	a := h.get(h.url + "?" + q.Encode())
	h.fails(a, 432, wire.CSGeneric,
		"The API [createZone] does not exist or is not available for the account for user id [")
	require.Equal(t, "errorresponse", a.key)
	require.Contains(t, a.header.Get("X-Description"), "The API [createZone] does not exist")
	require.Equal(t, "errorresponse", h.call(owner, "listzones").key, "the value of command is case sensitive")
	// The real server knows this command, the simulator does not implement it.
	h.play("k8s-owner listBackups => 530/9999 the simulator does not implement the command listBackups")
}

func TestMergeOfQueryAndBody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ query, body, want string }{
		"query wins":             {"a=1", "a=2", "1"},
		"last wins in the query": {"a=1&a=2", "", "2"},
		"first wins in the body": {"", "a=1&a=2", "1"},
		"both are read":          {"b=7", "a=3", "3"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/client/api?"+tc.query,
			strings.NewReader(tc.body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req, apiErr := wire.ParseRequest(r)
		require.Nil(t, apiErr)
		require.Equal(t, tc.want, req.Values["a"], name)
	}
}

// TestRequests: commands by GET and POST, paths below /client/api, and requests that are too large.
func TestRequests(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	q, long := "?"+h.signed(owner, "listZones").Encode(), strings.Repeat("x", 9000)
	xml, signedXML := url.Values{"command": {"listZones"}}, "?"
	key, secret, _ := h.sim.Keys(owner)
	signedXML += sign(xml, key, secret).Encode()
	for _, tc := range []struct {
		method, path, body string
		status             int
		header             string
	}{
		{"GET", "/client/api" + q, "", 200, ""}, {"GET", "/client/api/" + q, "", 200, ""},
		{"GET", "/client/api/any/thing" + q, "", 200, ""},
		{"POST", "/client/api" + q, "", 200, ""}, {"HEAD", "/client/api" + q, "", 200, ""},
		{"GET", "/client", "", 200, ""},
		{"PUT", "/client/api" + q, "", 405, ""}, {"DELETE", "/client/api" + q, "", 405, ""}, {"GET", "/", "", 404, ""},
		{"GET", "/client/apix" + q, "", 404, ""}, {"GET", "/api" + q, "", 404, ""},
		{"GET", "/client/api" + q, "", http.StatusRequestHeaderFieldsTooLarge, long},
		{"GET", "/client/api" + q + "&keyword=" + long, "", http.StatusRequestURITooLong, ""},
		{"POST", "/client/api", h.signed(owner, "listZones", "bogus", long).Encode(), 200, ""},
		{"POST", "/client/api" + q, "bogus=" + strings.Repeat("x", 1<<20), 400, ""},
		{"POST", "/client/api" + q, strings.Repeat("&a=", wire.MaxKeys+1)[1:], 400, ""},
		{"GET", "/client/api" + signedXML, "", 530, ""},
	} {
		a := h.send(tc.method, strings.TrimSuffix(h.url, "/client/api")+tc.path, tc.body, "X-Long", tc.header)
		require.Equal(t, tc.status, a.status, "%s %.80s", tc.method, tc.path)
		want := "application/json;charset=utf-8"
		switch {
		case tc.status == 530:
			want = "text/xml; charset=UTF-8"
			require.Contains(t, a.raw, "<errortext>the simulator answers JSON only: send response=json</errortext>")
		case tc.path == "/client":
			want = "text/html"
		case tc.status != 200:
			want = "text/html;charset=iso-8859-1"
		}
		require.Equal(t, want, a.header.Get("Content-Type"), "%s %.80s", tc.method, tc.path)
	}

	nothing := h.root("")
	h.fails(nothing, 432, wire.CSGeneric, "Invalid request, no command sent")
	require.Equal(t, "errorresponse", nothing.key)
	h.sim.Close()
	require.Equal(t, 503, h.call(owner, "listZones").status)
}

func TestGzip(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	for accept, zipped := range map[string]bool{
		"gzip":                true,
		"deflate, GZIP;q=0.5": true,
		"":                    false,
		"identity":            false,
		"gzip;q=0":            false,
	} {
		a := h.send(http.MethodGet, h.url+"?"+h.signed(owner, "listZones").Encode(), "", "Accept-Encoding", accept)
		require.Equal(t, zipped, a.header.Get("Content-Encoding") == "gzip", accept)
		text := a.raw
		if zipped {
			gz, err := gzip.NewReader(strings.NewReader(a.raw))
			require.NoError(t, err)
			raw, err := io.ReadAll(gz)
			require.NoError(t, err)
			text = string(raw)
		}
		require.Contains(t, text, `{"listzonesresponse":{"count":1,"zone":[`)
	}

	refused := h.send(http.MethodGet, h.url+"?command=listZones&response=json&apikey=x&signature=y", "",
		"Accept-Encoding", "gzip")
	require.Equal(t, 401, refused.status)
	require.Equal(t, "gzip", refused.header.Get("Content-Encoding"))
}

// TestNamesOfParameters: the names command and response must be in lower case, all others may be in any case.
func TestNamesOfParameters(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	key, secret, _ := h.sim.Keys("k8s-owner")
	send := func(pairs ...string) answer {
		q := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		q.Set("sIgnAture", wire.Sign(secret, toParams(q)))
		return h.get(h.url + "?" + q.Encode())
	}

	h.ok(send("command", "listZones", "response", "JSON", "apIkEy", key))
	require.Equal(t, "null", send("Command", "listZones", "response", "json", "apikey", key).key)
	xml := send("command", "listZones", "Response", "json", "apikey", key)
	require.Equal(t, "text/xml; charset=UTF-8", xml.header.Get("Content-Type"))
	zone := id(h.first(send("command", "listZones", "response", "json", "apikey", key), "zone"))
	require.Len(t,
		h.ok(send("command", "listZones", "response", "json", "apikey", key, "ID",
			strings.ToUpper(zone))).items("zone"), 1)
	h.ok(send("command", "listZones", "response", "json", "apikey", key, "noSuchParameter", "~*!'()ü€[],:/= +%"))
}

// TestArrayNames: a malformed name of an array is an error for every command.
func TestArrayNames(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	for name, status := range map[string]int{
		"tags[7].value":         200,
		"TAGS[1].value":         200,
		"tags[0].key":           431,
		"noSuch[0].key":         200,
		"[0].key":               200,
		"tags":                  431,
		"noSuch":                200,
		"tags[x].key":           430,
		"tags[99999999999].key": 430,
		"tags[].key":            430,
		"tags[0]":               430,
		"tags[0]key":            430,
		"tags[0][1].key":        430,
		"tags[0].k]":            430,
		"noSuch[x].key":         430,
	} {
		a := h.call("k8s-owner", "listZones", name, "v")
		require.Equal(t, status, a.status, name)
		if status == wire.CodeMalformed {
			h.fails(a, wire.CodeMalformed, wire.CSGeneric,
				"Unable to decode parameter "+strings.ToLower(name)+
					"; if specifying an object array, please use parameter[index].field=XXX")
		}
	}
}

// TestSessionKeyPlaces: the session key must come both as a cookie and as a parameter. A call without it ends the
// session.
func TestSessionKeyPlaces(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	for name, tc := range map[string]struct {
		cookie, param string
		status        int
	}{
		"both": {"right", "right", 200}, "cookie alone": {"right", "", 401}, "parameter alone": {"", "right", 401},
		"wrong cookie": {"wrong", "right", 401}, "wrong parameter": {"right", "wrong", 401},
	} {
		login, _ := h.login("admin", "password", "")
		for _, c := range login.header["Set-Cookie"] {
			require.Contains(t, c, "HttpOnly")
		}

		key := login.str("sessionkey")
		list := func(cookie, param string) int {
			cookies := strings.ReplaceAll(login.cookies(), "sessionkey="+key,
				"sessionkey="+strings.Replace(cookie, "right", key, 1))
			q := form("listZones", "sessionkey", strings.Replace(param, "right", key, 1))
			return h.send(http.MethodGet, h.url+"?"+q.Encode(), "", "Cookie", cookies).status
		}

		require.Equal(t, tc.status, list(tc.cookie, tc.param), name)
		require.Equal(t, tc.status, list("right", "right"), name)
	}
}

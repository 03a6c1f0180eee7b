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

// TestSignatureVersions has what the recorded cases auth.v3-* and auth.v4 lack.
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

// TestOrderOfChecks has what the recorded cases auth.* lack: the role is looked at before the signature, both before the
// parameters.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	q := h.signed(owner, "createZone")
	q.Set("signature", "AAAA")
	a := h.get(h.url + "?" + q.Encode())
	h.fails(a, 432, wire.CSGeneric, "The API [createZone] does not exist or is not available for the account for user id [")
	require.Equal(t, "errorresponse", a.key)
	require.Contains(t, a.header.Get("X-Description"), "The API [createZone] does not exist")
	require.Equal(t, "errorresponse", h.call(owner, "listzones").key, "the value of command is case sensitive")
	// Known to the real server, but not to this one.
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
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/client/api?"+tc.query, strings.NewReader(tc.body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req, apiErr := wire.ParseRequest(r)
		require.Nil(t, apiErr)
		require.Equal(t, tc.want, req.Values["a"], name)
	}
}

func TestTransportLimits(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	long := h.call("k8s-owner", "listZones", "keyword", strings.Repeat("x", 9000))
	require.Equal(t, http.StatusRequestURITooLong, long.status)
	require.Contains(t, long.raw, "<html>")
	require.Equal(t, 200, h.post("k8s-owner", "listZones", "bogus", strings.Repeat("x", 9000)).status)
	require.Equal(t, 404, h.get(strings.Replace(h.url, "/client/api", "/api", 1)).status)
	require.Equal(t, 200, h.get(strings.TrimSuffix(h.url, "/api")).status)
	h.sim.Close()
	require.Equal(t, 503, h.call("k8s-owner", "listZones").status)
}

func TestXMLIsRefusedClearly(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	key, secret, _ := h.sim.Keys("k8s-owner")
	q := url.Values{"command": {"listZones"}, "apikey": {key}}
	q.Set("signature", wire.Sign(secret, toParams(q)))
	a := h.get(h.url + "?" + q.Encode())
	require.Equal(t, 530, a.status)
	require.Contains(t, a.raw, "<errortext>the simulator answers JSON only: send response=json</errortext>")
}

// do sends a request as it is, without the transport's own compression.
func (h *env) do(method, target, body string, header ...string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, target, strings.NewReader(body))
	require.NoError(h.t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}).Do(req)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestMethodsAndPaths: every command by GET and POST, and everything below /client/api.
func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	q := "?" + h.signed("k8s-owner", "listZones").Encode()
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/client/api", 200}, {http.MethodGet, "/client/api/", 200}, {http.MethodGet, "/client/api/any/thing", 200}, {http.MethodPost, "/client/api", 200},
		{http.MethodHead, "/client/api", 200}, {http.MethodPut, "/client/api", 405}, {http.MethodDelete, "/client/api", 405},
		{http.MethodGet, "/client/apix", 404}, {http.MethodGet, "/", 404},
	} {
		resp := h.do(tc.method, strings.TrimSuffix(h.url, "/client/api")+tc.path+q, "")
		require.Equal(t, tc.status, resp.StatusCode, "%s %s", tc.method, tc.path)
		want := "application/json;charset=utf-8"
		if tc.status != 200 {
			want = "text/html;charset=iso-8859-1"
		}
		require.Equal(t, want, resp.Header.Get("Content-Type"), "%s %s", tc.method, tc.path)
	}
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, h.do(http.MethodGet, h.url+q, "", "X-Long", strings.Repeat("x", 9000)).StatusCode)
	form := url.Values{"bogus": {strings.Repeat("x", 1<<20)}}.Encode()
	require.Equal(t, 400, h.do(http.MethodPost, h.url+q, form, "Content-Type", "application/x-www-form-urlencoded").StatusCode)
	keys := strings.TrimPrefix(strings.Repeat("&a=", wire.MaxKeys+1), "&")
	require.Equal(t, 400, h.do(http.MethodPost, h.url+q, keys, "Content-Type", "application/x-www-form-urlencoded").StatusCode)
}

func TestGzip(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	for accept, zipped := range map[string]bool{"gzip": true, "deflate, GZIP;q=0.5": true, "": false, "identity": false, "gzip;q=0": false} {
		resp := h.do(http.MethodGet, h.url+"?"+h.signed("k8s-owner", "listZones").Encode(), "", "Accept-Encoding", accept)
		require.Equal(t, zipped, resp.Header.Get("Content-Encoding") == "gzip", accept)
		var body io.Reader = resp.Body
		if zipped {
			gz, err := gzip.NewReader(resp.Body)
			require.NoError(t, err)
			body = gz
		}
		raw, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Contains(t, string(raw), `{"listzonesresponse":{"count":1,"zone":[`)
	}
	refused := h.do(http.MethodGet, h.url+"?command=listZones&response=json&apikey=x&signature=y", "", "Accept-Encoding", "gzip")
	require.Equal(t, 401, refused.StatusCode)
	require.Equal(t, "gzip", refused.Header.Get("Content-Encoding"))
}

// TestNamesOfParameters: command and response count in lower case only, all other names in any case.
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
	require.Len(t, h.ok(send("command", "listZones", "response", "json", "apikey", key, "ID", strings.ToUpper(zone))).items("zone"), 1)
	h.ok(send("command", "listZones", "response", "json", "apikey", key, "noSuchParameter", "~*!'()ü€[],:/= +%"))
}

// TestArrayNames: a malformed one is an error for every command.
func TestArrayNames(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	for name, status := range map[string]int{
		"tags[7].value": 200, "TAGS[1].value": 200, "tags[0].key": 431, "noSuch[0].key": 200, "[0].key": 200, "tags": 431, "noSuch": 200,
		"tags[x].key": 430, "tags[99999999999].key": 430, "tags[].key": 430, "tags[0]": 430, "tags[0]key": 430, "tags[0][1].key": 430, "tags[0].k]": 430, "noSuch[x].key": 430,
	} {
		a := h.call("k8s-owner", "listZones", name, "v")
		require.Equal(t, status, a.status, name)
		if status == wire.CodeMalformed {
			h.fails(a, wire.CodeMalformed, wire.CSGeneric, "Unable to decode parameter "+strings.ToLower(name)+"; if specifying an object array, please use parameter[index].field=XXX")
		}
	}
}

// TestSessionKeyPlaces: the key must come as cookie and as parameter, both the same.
func TestSessionKeyPlaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cookie, param string
		status        int
	}{
		"both": {"right", "right", 200}, "cookie alone": {"right", "", 401}, "parameter alone": {"", "right", 401},
		"wrong cookie": {"wrong", "right", 401}, "wrong parameter": {"right", "wrong", 401},
	} {
		h := start(t, Options{})
		resp := h.do(http.MethodPost, h.url, url.Values{"command": {"login"}, "username": {"admin"}, "password": {"password"}, "response": {"json"}}.Encode(),
			"Content-Type", "application/x-www-form-urlencoded")
		cookies := map[string]string{}
		for _, c := range resp.Cookies() {
			cookies[c.Name] = c.Value
			require.True(t, c.HttpOnly)
		}
		right := cookies["sessionkey"]
		pick := func(s string) string { return strings.ReplaceAll(s, "right", right) }
		q, cookie := url.Values{"command": {"listZones"}, "response": {"json"}}, "JSESSIONID="+cookies["JSESSIONID"]
		if tc.param != "" {
			q.Set("sessionkey", pick(tc.param))
		}
		if tc.cookie != "" {
			cookie += "; sessionkey=" + pick(tc.cookie)
		}
		got := h.do(http.MethodGet, h.url+"?"+q.Encode(), "", "Cookie", cookie)
		require.Equal(t, tc.status, got.StatusCode, name)
		if tc.status == 401 { // the session is gone, whatever comes then
			q.Set("sessionkey", right)
			again := h.do(http.MethodGet, h.url+"?"+q.Encode(), "", "Cookie", "JSESSIONID="+cookies["JSESSIONID"]+"; sessionkey="+right)
			require.Equal(t, 401, again.StatusCode, name)
		}
	}
}

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

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// do sends a request as it is, without the transport's own compression.
func (h *harness) do(method, target, body string, header ...string) *http.Response {
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

// TestNumbers are as large as Java's, and an empty one is none.
func TestNumbers(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	list := func(pairs ...string) answer { return h.call("k8s-owner", "listVirtualMachines", pairs...) }
	require.Len(t, h.ok(list("page", "", "pagesize", " ")).items("virtualmachine"), 3)
	for _, bad := range []string{"x", "1.5", "2147483648", "9223372036854775808"} {
		h.fails(list("page", bad, "pagesize", "1"), 431, wire.CSGeneric,
			"Unable to execute API command listvirtualmachines due to invalid value "+bad+" for parameter page")
	}
	require.Equal(t, map[string]any{"count": 3.0}, h.ok(list("page", "2147483647", "pagesize", "3")).body)
	require.Len(t, h.ok(list("page", "0", "pagesize", "2")).items("virtualmachine"), 2)
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

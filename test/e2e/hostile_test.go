// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/csccm/csccm/test/internal/must"
)

// forged is a line that csccm never prints itself: it can only come from texts of CloudStack or Kubernetes.
const forged = "FORGED: ALL OK"

// hostile are texts that control a terminal or deceive a reader.
var hostile = []string{
	"\x1b[2J\x1b[H", "\x1b]52;c;Zm9yZ2Vk\a", "\u009b31m", "\u0085" + forged, "\r" + forged, "\b\b\x7f", "\x00\x01\x1f",
	"\u202e\u2066", "\u2028" + forged,
	"\ufeff\u200b", "\U000e0041", "\t" + forged, "\n" + forged + "\n", "\n✓ " + forged + "\n", "</script><!--",
	"%s%d%!", "\ue000",
}

// notText are fields of CloudStack and Kubernetes that a command needs to find objects. If they were changed, the
// command would print no text.
var notText = []string{
	"apiVersion", "kind", "uid", "namespace", "id", "type", "status", "state", "phase", "effect", "providerID",
	"ipaddress", "address", "protocol", "virtualmachineid",
	"networkid", "publicipid", "zoneid", "jobstatus", "lastTimestamp", "release", "app.kubernetes.io/name",
	"app.kubernetes.io/instance", "cloudstackversion", "gitVersion",
}

// mangler changes the answers of a server.
type mangler struct {
	random *rand.Rand
	all    bool // changes every string with random bytes; otherwise only adds hostile texts to texts
}

func (m *mangler) text(s string) string {
	if !m.all {
		return s + hostile[m.random.IntN(len(hostile))] + hostile[m.random.IntN(len(hostile))]
	}
	if m.random.IntN(3) > 0 {
		return s
	}
	noise := make([]byte, m.random.IntN(24))
	for i := range noise {
		noise[i] = byte(m.random.IntN(256))
	}
	return s + string(noise) + hostile[m.random.IntN(len(hostile))]
}

func (m *mangler) value(key string, v any) any {
	switch v := v.(type) {
	case string:
		if !m.all && slices.Contains(notText, key) {
			return v
		}
		return m.text(v)
	case []any:
		for i := range v {
			v[i] = m.value(key, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = m.value(k, v[k])
		}
	}
	return v
}

// between starts a server that forwards requests to another server and changes the answers.
func between(
	t *testing.T, target string, transport http.RoundTripper, change func(*http.Response, []byte) []byte,
) string {
	t.Helper()
	to := must.Get(url.Parse(target))
	s := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host})
			r.Out.Header.Del("Accept-Encoding") // to read the answers
			r.Out.Header.Set("Accept", "application/json")
		},
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			body = change(r, body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return err
		},
	})

	t.Cleanup(s.Close)
	return s.URL
}

// mangle starts servers in front of the API server and CloudStack that change their answers: "texts" adds hostile texts
// to texts, "everything" adds random bytes to every string. The variable API and the file mangled name these servers.
func (s *scene) mangle(ts *testscript.TestScript, args []string) {
	change := func(r *http.Response, body []byte) []byte {
		// The same request must get the same answer, because informers and retries compare answers.
		seed := rand.NewPCG(uint64(len(body)), uint64(len(r.Request.URL.Path)))
		m := &mangler{rand.New(seed), args[0] == "everything"} // #nosec G404 -- noise
		var tree any
		if json.Unmarshal(body, &tree) != nil {
			return []byte(m.text(string(body))) // not JSON: a log
		}
		return must.Get(json.Marshal(m.value("", tree)))
	}
	ts.Setenv("API", between(s.t, s.url(), s.transport(), change))
	s.config(ts, []string{"mangled", "api-url=" + between(s.t, s.cloud.URL, nil, change) + "/client/api"})
}

// harmless is like exits, but accepts every exit code.
func (s *scene) harmless(ts *testscript.TestScript, args []string) {
	s.each(ts, anyCode, nil, strings.Split(strings.Trim(args[1], "{}"), ","), args[2:])
}

// harmful returns an error if the output of a command controls a terminal or contains a line of text from outside. Text
// that continues on the next line is indented.
func harmful(args []string, stdout, stderr string) error {
	for _, text := range []string{stdout, stderr} {
		at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) })
		if at >= 0 || !utf8.ValidString(text) {
			return fmt.Errorf("a raw control character at %d: %q", at, text[max(0, at-80):min(len(text), at+20)])
		}
	}

	lines := stderr
	if format := slices.Index(args, "-o") + 1; format == 0 || args[format] == "text" {
		lines += stdout
	} else if args[format] == "json" && stdout != "" && !json.Valid([]byte(stdout)) {
		return fmt.Errorf("this is no JSON: %s", stdout)
	}

	for line := range strings.Lines(lines) {
		if strings.HasPrefix(strings.TrimPrefix(line, "✓ "), forged) {
			return fmt.Errorf("a line of text from outside: %q", line)
		}
	}

	return nil
}

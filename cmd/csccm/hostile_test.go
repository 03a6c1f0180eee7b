// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// forged is a line that only text from outside writes.
const forged = "FORGED: ALL OK"

// hostile are texts that do something to a terminal or to a reader.
var hostile = []string{
	"\x1b[2J\x1b[H", "\x1b]52;c;Zm9yZ2Vk\a", "\u009b31m", "\u0085" + forged, "\r" + forged, "\b\b\x7f", "\x00\x01\x1f", "\u202e\u2066", "\u2028" + forged,
	"\ufeff\u200b", "\U000e0041", "\t" + forged, "\n" + forged + "\n", "\n✓ " + forged + "\n", "</script><!--", "%s%d%!", "\ue000",
}

// notText are the fields of CloudStack and Kubernetes without which a command would read nothing, so that no text is shown.
var notText = []string{
	"apiVersion", "kind", "uid", "namespace", "id", "type", "status", "state", "phase", "effect", "providerID", "ipaddress", "address", "protocol", "virtualmachineid",
	"networkid", "publicipid", "zoneid", "jobstatus", "lastTimestamp", "release", "app.kubernetes.io/name", "app.kubernetes.io/instance", "cloudstackversion", "gitVersion",
}

// mangler changes answers of a server.
type mangler struct {
	random *rand.Rand
	all    bool // every string, with random bytes; otherwise texts only, with what is hostile
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

// between is a server that hands on the answers of another, changed.
func between(t *testing.T, target string, all bool) string {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host})
			r.Out.Header.Del("Accept-Encoding") // to read the answers
		},
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			// The same answer to the same question: informers and retries compare.
			m := &mangler{rand.New(rand.NewPCG(uint64(len(body)), uint64(len(r.Request.URL.Path)))), all} // #nosec G404 -- noise
			var tree any
			if json.Unmarshal(body, &tree) == nil {
				body, err = json.Marshal(m.value("", tree))
			} else {
				body = []byte(m.text(string(body))) // a log
			}
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return err
		},
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL
}

// requireHarmless: nothing in a text controls a terminal.
func requireHarmless(t *testing.T, what, text string) {
	t.Helper()
	assert.True(t, utf8.ValidString(text), what)
	if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }); at >= 0 {
		assert.Fail(t, "a raw control character", "%s: %q", what, text[max(0, at-80):min(len(text), at+20)])
	}
	assert.NotContains(t, text, "goroutine ", what)
}

// requireNoForgedLine: no line is text from outside. What goes on from the line above is indented.
func requireNoForgedLine(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.False(t, strings.HasPrefix(strings.TrimPrefix(line, "✓ "), forged), "%s: %q\n%s", what, line, text)
	}
}

// Whatever CloudStack and the API server say, in whatever string: no command in any format prints a raw control character, and
// no line of its output for people is a text from outside.
func TestSecurityHostileRun(t *testing.T) {
	t.Parallel()
	args, _ := canaryCluster(t)
	api, file := args[1], args[3]
	config, err := os.ReadFile(file) // #nosec G304 -- of the test
	require.NoError(t, err)
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("password"), 0o600))
	for kind, all := range map[string]bool{"hostile texts": false, "random bytes in every string": true} {
		text := string(config)
		cloud := text[strings.Index(text, "http://"):strings.Index(text, "/client/api")]
		mangled := filepath.Join(t.TempDir(), "cloud-config")
		require.NoError(t, os.WriteFile(mangled, []byte(strings.ReplaceAll(text, cloud, between(t, cloud, all))), 0o600))
		base := []string{"--server", between(t, api, all), "--cloud-config", mangled, "--timeout", "1m"}
		for _, line := range []string{
			"doctor --skip NODE-004", "doctor -v --skip NODE-004", "status", "status -v", "plan", "plan -v", "migrate-rules", "takeover --dry-run", "adopt default/web", "taint --dry-run",
			"install --dry-run", "uninstall --dry-run --orphan-load-balancers", "upgrade --dry-run", "rollback --dry-run", "test --dry-run", "cks list", "version",
			"rotate-keys --dry-run --admin-user admin --admin-password-file " + password,
		} {
			for _, format := range []string{"text", "json", "yaml"} {
				what := kind + ": csccm " + line + " -o " + format
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					c := execute(t, slices.Concat(strings.Fields(line), []string{"-o", format}, base)...)
					requireHarmless(t, what, c.out+c.errOut)
					requireNoForgedLine(t, what, c.errOut)
					switch {
					case format == "text":
						requireNoForgedLine(t, what, c.out)
					case format == "json" && c.out != "":
						assert.True(t, json.Valid([]byte(c.out)), "%s: %s", what, c.out)
					}
				})
			}
		}
		t.Run(kind+": files", func(t *testing.T) {
			t.Parallel()
			page, bundle := filepath.Join(t.TempDir(), "page.html"), filepath.Join(t.TempDir(), "bundle.tar.gz")
			c := execute(t, slices.Concat([]string{"ui", "--export", page}, base)...)
			requireHarmless(t, "csccm ui", c.out+c.errOut)
			if raw, err := os.ReadFile(page); assert.NoError(t, err, c.errOut) { // #nosec G304 -- of the test
				requireHarmless(t, "the page", string(raw))
				assert.NotContains(t, string(raw), "<script")
			}
			c = execute(t, slices.Concat([]string{"support-bundle", "--keep-names", "--file", bundle}, base)...)
			requireHarmless(t, "csccm support-bundle", c.out+c.errOut)
			for name, body := range unpack(t, bundle) {
				requireHarmless(t, fmt.Sprintf("%s of the bundle", name), body)
				assert.True(t, !strings.HasSuffix(name, ".json") || json.Valid([]byte(body)), name)
				requireNoForgedLine(t, name, body)
			}
		})
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
)

// TestSelfTest runs the program against a simulated CloudStack: what is proven, what is missing, and that nothing is changed.
func TestSelfTest(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	key, secret, ok := sim.Keys("k8s-owner")
	require.True(t, ok)
	ini := func(key, more string) string {
		return file(t, fmt.Sprintf("[Global]\napi-url = %s/client/api\napi-key = %s\nsecret-key = %s\n%s", server.URL, key, secret, more))
	}
	for _, c := range []struct {
		name, config   string
		code           int
		stdout, stderr []string
	}{
		{name: "all is well", config: ini(key, "zone = zone-1\n"), stdout: []string{"ok       API", "takes the keys", "ok       zone      zone-1", "allows all", `ok       VMs       the API key's own account, zone "zone-1" (3 VMs)`, "possible in k8s-net"}},
		{name: "wrong key", config: ini("wrong", ""), code: 1, stdout: []string{"failed ", "fix                check both keys"}, stderr: []string{"self-test: ", "does not accept the API keys"}},
		{name: "no such zone", config: ini(key, "zone = mars\n"), code: 1, stdout: []string{"takes the keys", "fix ", "zone-1"}, stderr: []string{`there is no zone \"mars\"`}},
		{name: "no such project", config: ini(key, "project-id = x\n"), code: 1, stderr: []string{"project"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := run(t, "--self-test", "--cloud-config", c.config)
			assert.Equal(t, c.code, o.code, o.stderr)
			for _, want := range c.stdout {
				assert.Contains(t, o.stdout, want)
			}
			for _, want := range c.stderr {
				assert.Contains(t, o.stderr, want)
			}
			for _, text := range []string{secret, key} {
				assert.NotContains(t, o.stdout+o.stderr, text)
			}
		})
	}
	t.Cleanup(func() {
		for _, call := range sim.Ledger().Calls() {
			assert.Regexp(t, "^list", call.Command, "a self-test changes nothing")
		}
	})
	o := run(t, "--self-test")
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stderr, "no cloud-config: give its file with --cloud-config")
}

// What CloudStack says cannot control the terminal on which somebody reads the self-test, nor begin a line of it or of the log.
func TestSecuritySelfTestEscapes(t *testing.T) {
	t.Parallel()
	const hostile = `\u001b[2J\u009b1m\nok       API       all is well\n\nE1126 17:00:00.000000       1 x.go:1] forged\u202e`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("command") {
		case "listCapabilities":
			_, _ = fmt.Fprintf(w, `{"listcapabilitiesresponse":{"capability":{"cloudstackversion":"%s"}}}`, hostile)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"errorresponse":{"errorcode":401,"errortext":"%s"}}`, hostile)
		}
	}))
	t.Cleanup(server.Close)
	o := run(t, "--self-test", "--cloud-config", file(t, "[Global]\napi-url = "+server.URL+"/client/api\napi-key = "+apiKey+"\nsecret-key = "+secretKey+"\n"))
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stdout, `\u001b[2J`)
	assert.NotRegexp(t, `(?m)^(ok +API +all is well|E1126 17:00)`, o.stdout+o.stderr)
	assert.Equal(t, -1, strings.IndexFunc(o.stdout+o.stderr, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }), "%q", o.stdout+o.stderr)
}

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

// TestSelfTest runs the program against a simulated CloudStack. The tests of pkg/selftest cover the individual checks.
func TestSelfTest(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	key, secret, ok := sim.Keys("k8s-owner")
	require.True(t, ok)
	ini := fmt.Sprintf("[Global]\napi-url = %s/client/api\napi-key = %s\nsecret-key = %s\nzone = ", server.URL, key,
		secret)
	o := run(t, "--self-test", "--cloud-config", file(t, ini+"zone-1\n"))
	assert.Zero(t, o.code, o.stderr)
	for _, want := range []string{"accepts the keys", "ok       zone      zone-1", "allows all", "(3 VMs)",
		"possible in k8s-net"} {
		assert.Contains(t, o.stdout, want)
	}

	wrong := run(t, "--self-test", "--cloud-config", file(t, ini+"mars\n"))
	assert.Equal(t, 1, wrong.code)
	assert.Contains(t, wrong.stdout, "fix ")
	assert.Contains(t, wrong.stderr, `self-test: there is no zone \"mars\"`)
	for _, text := range []string{secret, key} {
		assert.NotContains(t, o.stdout+o.stderr+wrong.stdout+wrong.stderr, text)
	}

	for _, call := range sim.Ledger().Calls() {
		assert.Regexp(t, "^list", call.Command, "a self-test changes nothing")
	}

	none := run(t, "--self-test")
	assert.Equal(t, 1, none.code)
	assert.Contains(t, none.stderr, "no cloud-config: give its file with --cloud-config")
}

// Text from CloudStack cannot control the terminal on which the self-test is shown, and cannot forge a line of the
// self-test or of the log.
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
	o := run(t, "--self-test", "--cloud-config",
		file(t, "[Global]\napi-url = "+server.URL+"/client/api\napi-key = "+apiKey+"\nsecret-key = "+secretKey+"\n"))
	assert.Equal(t, 1, o.code)
	assert.Contains(t, o.stdout, `\u001b[2J`)
	assert.NotRegexp(t, `(?m)^(ok +API +all is well|E1126 17:00)`, o.stdout+o.stderr)
	assert.Equal(t, -1,
		strings.IndexFunc(o.stdout+o.stderr,
			func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }), "%q", o.stdout+o.stderr)
}

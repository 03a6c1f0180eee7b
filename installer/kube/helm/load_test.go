// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server without TLS that impersonates a registry gets no request and therefore no credentials, and cannot provide
// the chart.
//
//nolint:paralleltest // sets environment variables
func TestRegistryWithoutTLSIsRejected(t *testing.T) {
	var asked, logins atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if user, password, _ := r.BasicAuth(); user == "me" && password == "geheim" {
			logins.Add(1)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="other"`)
		http.Error(w, "{}", http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	// The unspecified address reaches this machine, but is not a loopback address.
	host := strings.Replace(strings.TrimPrefix(server.URL, "http://"), "127.0.0.1", "0.0.0.0", 1)
	config := filepath.Join(t.TempDir(), "config.json")
	login := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:geheim")))
	require.NoError(t, os.WriteFile(config, []byte(login), 0o600))
	t.Setenv("HELM_REGISTRY_CONFIG", config)

	for _, version := range []string{"1.2.3", ""} {
		_, err := Load(t.Context(), "oci://"+host+"/charts/cloudstack-ccm", version, false)
		require.ErrorContains(t, err, "server gave HTTP response to HTTPS client")
		assert.NotContains(t, err.Error(), "geheim")
	}
	assert.Zero(t, asked.Load())

	_, err := Load(t.Context(), "oci://"+host+"/charts/cloudstack-ccm", "1.2.3", true)
	require.ErrorContains(t, err, "401")
	assert.NotContains(t, err.Error(), "geheim")
	assert.NotZero(t, logins.Load(), "the login of HELM_REGISTRY_CONFIG")
}

// Helm knows no context: a download that hangs ends with the command all the same.
func TestDownloadEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	asked, hang := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(asked); <-hang }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	ctx, interrupt := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	go func() { <-asked; interrupt(why) }()
	_, err := Load(ctx, server.URL+"/cloudstack-ccm-0.1.0.tgz", "", false)
	require.ErrorIs(t, err, why)
}

func TestErrorOfAURLHasNoPassword(t *testing.T) {
	t.Parallel()
	_, err := Load(t.Context(), "https://me:geheim@example.org:port/charts", "", false)
	require.EqualError(t, err, "chart https://...: not a URL")
}

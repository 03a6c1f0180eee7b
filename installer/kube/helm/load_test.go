// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
	helmregistry "helm.sh/helm/v3/pkg/registry"
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

// A chart in a registry that requires a login is loaded after "helm registry login", and not without.
//
//nolint:paralleltest // sets environment variables
func TestPrivateRegistry(t *testing.T) {
	oci := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "geheim" {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, "{}", http.StatusUnauthorized)
			return
		}
		oci.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	archive, err := chartutil.Save(embedded(t).chart, t.TempDir())
	require.NoError(t, err)
	packed, err := os.ReadFile(archive) // #nosec G304 -- of the test
	require.NoError(t, err)
	helm, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(),
		helmregistry.ClientOptBasicAuth("me", "geheim"))
	require.NoError(t, err)
	meta := embedded(t).chart.Metadata
	_, err = helm.Push(packed, host+"/charts/"+meta.Name+":"+meta.Version)
	require.NoError(t, err)

	config := filepath.Join(t.TempDir(), "config.json")
	t.Setenv("HELM_REGISTRY_CONFIG", config)
	_, err = Load(t.Context(), "oci://"+host+"/charts/"+meta.Name, meta.Version, true)
	require.ErrorContains(t, err, "basic credential not found")
	login := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:geheim")))
	require.NoError(t, os.WriteFile(config, []byte(login), 0o600))
	c, err := Load(t.Context(), "oci://"+host+"/charts/"+meta.Name, meta.Version, true)
	require.NoError(t, err)
	assert.Equal(t, meta.Version, c.chart.Metadata.Version)
}

// Helm takes no context, but a download that hangs ends with the command.
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

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/helmpath"
	"helm.sh/helm/v3/pkg/registry"

	"github.com/csccm/csccm/charts"
)

// LoadContext loads a chart from
//
//   - a directory or a packaged chart (path/to/cloudstack-ccm, cloudstack-ccm-0.1.0.tgz),
//   - the URL of a packaged chart (https://host/path/cloudstack-ccm-0.1.0.tgz),
//   - a chart repository (https://host/charts: the chart cloudstack-ccm),
//   - an OCI registry (oci://host/path/cloudstack-ccm, with or without :TAG or @DIGEST).
//
// Helm downloads it. chartVersion is a version or a range (^0.1); empty means the latest release. plainHTTP is for an OCI
// registry without TLS.
func LoadContext(ctx context.Context, ref, chartVersion string, plainHTTP bool) (*Chart, error) {
	if ref == "" {
		return nil, errors.New("no chart: want a directory, a .tgz file, a URL or an oci:// reference")
	}
	scheme, _, remote := strings.Cut(ref, "://")
	if remote && scheme != "http" && scheme != "https" && scheme != "oci" {
		return nil, loadError(redact(ref), false, fmt.Errorf("scheme %s is none of http, https, oci", scheme))
	}
	path := ref
	var err error
	if remote {
		dir, derr := os.MkdirTemp("", "csccm-chart-*")
		if derr != nil {
			return nil, derr
		}
		defer func() { _ = os.RemoveAll(dir) }()
		path, err = download(ctx, dir, ref, chartVersion, plainHTTP)
	} else {
		_, err = os.Stat(ref)
	}
	var loaded *chart.Chart
	if err == nil {
		loaded, err = loader.Load(path)
	}
	if err == nil {
		err = validate(loaded)
	}
	if err != nil {
		return nil, loadError(redact(ref), remote, err)
	}
	return &Chart{chart: loaded, Source: redact(ref)}, nil
}

// redact hides a password in a URL.
func redact(ref string) string {
	u, err := url.Parse(ref)
	if err != nil || u.User == nil {
		return ref
	}
	return u.Redacted()
}

// download has Helm download a chart into a directory, and returns the file. Helm knows no context.
func download(ctx context.Context, dir, ref, chartVersion string, plainHTTP bool) (string, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return "", fmt.Errorf("not a URL: %w", err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.Version, install.PlainHTTP = strings.TrimPrefix(chartVersion, "v"), plainHTTP
	install.Username = u.User.Username()
	install.Password, _ = u.User.Password()
	u.User = nil
	name := u.String()
	if u.Scheme != "oci" && !strings.HasSuffix(u.Path, ".tgz") {
		install.RepoURL, name = name, charts.Name
	}
	client, err := registryClient(u.Hostname(), plainHTTP)
	if err != nil {
		return "", err
	}
	install.SetRegistryClient(client)
	settings := cli.New() // none of the paths is the user's
	settings.RepositoryCache, settings.RepositoryConfig = filepath.Join(dir, "cache"), filepath.Join(dir, "repositories.yaml")
	type answer struct {
		file string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		file, err := install.LocateChart(name, settings)
		done <- answer{file, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-done:
		if errors.Is(a.err, http.ErrSchemeMismatch) {
			return "", fmt.Errorf("%w (--plain-http is for a registry without TLS)", a.err)
		}
		return a.file, a.err
	}
}

// registryClient returns Helm's client for a registry, with the login of `helm registry login`.
func registryClient(host string, plainHTTP bool) (*registry.Client, error) {
	credentials := cmp.Or(os.Getenv("HELM_REGISTRY_CONFIG"), helmpath.ConfigPath(registry.CredentialsFileBasename))
	options := []registry.ClientOption{
		registry.ClientOptWriter(io.Discard), registry.ClientOptEnableCache(true), registry.ClientOptCredentialsFile(credentials),
	}
	ip := net.ParseIP(host)
	switch loopback := host == "localhost" || ip != nil && ip.IsLoopback(); {
	case plainHTTP:
		options = append(options, registry.ClientOptPlainHTTP())
	case !loopback:
		// Helm's default client tries again without TLS. Whoever impersonates the registry would get the login.
		options = append(options, registry.ClientOptHTTPClient(&http.Client{Transport: registry.NewTransport(false)}))
	}
	return registry.NewClient(options...)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

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
	var loaded *chartData
	if err == nil {
		loaded, err = loadPath(path)
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
	user := u.User
	u.User = nil
	r := remoteChart{name: u.String(), version: strings.TrimPrefix(chartVersion, "v"), plainHTTP: plainHTTP, cache: dir}
	if user != nil {
		r.user = user.Username()
		r.password, _ = user.Password()
	}
	if u.Scheme != "oci" && !strings.HasSuffix(u.Path, ".tgz") {
		r.repository, r.name = u.String(), charts.Name
	}
	type answer struct {
		file string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		file, err := locate(r)
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

// RegistryConfig returns the path of the file that `helm registry login` writes.
func RegistryConfig() string {
	if file := os.Getenv("HELM_REGISTRY_CONFIG"); file != "" {
		return file
	}
	return credentialsFile()
}

// cacheOf are the paths that Helm uses for a download: none of them is the user's.
func cacheOf(dir string) (cache, config string) {
	return filepath.Join(dir, "cache"), filepath.Join(dir, "repositories.yaml")
}

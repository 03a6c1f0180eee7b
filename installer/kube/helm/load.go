// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/pkg/version"
)

const (
	// loadTimeout limits Load.
	loadTimeout = 2 * time.Minute
	// downloadTimeout limits one download, including the response body.
	downloadTimeout = time.Minute
	// ociScheme is the scheme of a reference to an OCI registry.
	ociScheme = "oci"
	// maxDownload is the maximum size of a download, in bytes.
	maxDownload = 32 << 20
)

// Load is LoadContext with a time-out of two minutes, and with TLS.
func Load(ref, chartVersion string) (*Chart, error) {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	return LoadContext(ctx, ref, chartVersion, false)
}

// LoadContext loads a chart from
//
//   - a directory or a packaged chart (path/to/cloudstack-ccm, cloudstack-ccm-0.1.0.tgz),
//   - the URL of a packaged chart (https://host/path/cloudstack-ccm-0.1.0.tgz),
//   - a chart repository (https://host/charts: the chart cloudstack-ccm; https://host/charts/NAME: another),
//   - an OCI registry (oci://host/path/cloudstack-ccm, with or without :TAG or @DIGEST).
//
// chartVersion is a version or a range (^0.1); empty means the latest release. If a repository's index has a
// digest for the chart, LoadContext verifies it. plainHTTP is for an OCI registry without TLS.
func LoadContext(ctx context.Context, ref, chartVersion string, plainHTTP bool) (*Chart, error) {
	if ref == "" {
		return nil, errors.New("no chart: want a directory, a .tgz file, a URL or an oci:// reference")
	}
	var data []byte
	var loaded *chartData
	var err error
	scheme, _, remote := strings.Cut(ref, "://")
	switch {
	case !remote:
		if _, err = os.Stat(ref); err == nil {
			loaded, err = loadPath(ref)
		}
	case scheme == "http" || scheme == "https":
		data, err = download(ctx, ref, chartVersion)
	case scheme == ociScheme:
		data, err = pull(ctx, ref, chartVersion, plainHTTP)
	default:
		return nil, loadError(redact(ref), false, fmt.Errorf("scheme %s is none of http, https, oci", scheme))
	}
	if err == nil && remote {
		loaded, err = loadArchive(bytes.NewReader(data))
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

// errNotFound means HTTP status 404 or 410.
var errNotFound = errors.New("not found")

func download(ctx context.Context, ref, chartVersion string) ([]byte, error) {
	base, err := url.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("not a URL: %w", err)
	}
	if strings.HasSuffix(base.Path, ".tgz") {
		return get(ctx, base)
	}
	name := charts.Name
	index, err := get(ctx, base.JoinPath("index.yaml"))
	if errors.Is(err, errNotFound) && strings.Trim(base.Path, "/") != "" {
		// The last part may be the name of a chart instead of a part of the repository's URL.
		name = path.Base(base.Path)
		base = base.JoinPath("..")
		index, err = get(ctx, base.JoinPath("index.yaml"))
	}
	if err != nil {
		return nil, fmt.Errorf("no chart repository: %w", err)
	}
	entry, err := find(index, name, chartVersion)
	if err != nil {
		return nil, err
	}
	if len(entry.URLs) == 0 {
		return nil, fmt.Errorf("index.yaml has no URL for %s %s", name, entry.Version)
	}
	// An archive's URL may be relative to the repository's URL, which then needs a trailing slash.
	folder := *base
	folder.Path = strings.TrimSuffix(folder.Path, "/") + "/"
	archive, err := folder.Parse(entry.URLs[0])
	if err != nil {
		return nil, fmt.Errorf("index.yaml: URL of %s %s: %w", name, entry.Version, err)
	}
	if archive.Host == folder.Host {
		archive.User = folder.User
	}
	if folder.Scheme == "https" && archive.Scheme != "https" && entry.Digest == "" {
		return nil, fmt.Errorf("index.yaml: %s %s is at %s, without TLS and without a digest to check it by", name, entry.Version, archive.Redacted())
	}
	data, err := get(ctx, archive)
	if err != nil {
		return nil, err
	}
	if want := strings.TrimPrefix(entry.Digest, "sha256:"); want != "" {
		sum := sha256.Sum256(data)
		if have := hex.EncodeToString(sum[:]); have != want {
			return nil, fmt.Errorf("%s: sha256 is %s, index.yaml says %s", archive.Redacted(), have, want)
		}
	}
	return data, nil
}

func find(index []byte, name, chartVersion string) (*indexEntry, error) {
	parsed := new(indexFile)
	if err := yaml.Unmarshal(index, parsed); err != nil {
		return nil, fmt.Errorf("index.yaml: %w", err)
	}
	if len(parsed.Entries[name]) == 0 {
		return nil, fmt.Errorf("index.yaml has no chart %s", name)
	}
	parsed.SortEntries()
	entry, err := parsed.Get(name, chartVersion)
	if err != nil {
		if chartVersion == "" {
			return nil, fmt.Errorf("index.yaml has only pre-releases of %s; name a version", name)
		}
		return nil, fmt.Errorf("index.yaml has no version %s of %s", chartVersion, name)
	}
	return entry, nil
}

// downloads is the HTTP client for charts and repository indexes.
var downloads = &http.Client{Timeout: downloadTimeout, CheckRedirect: keepTLS}

// keepTLS rejects a redirect from https to http: without TLS, an attacker on the network could replace the chart.
func keepTLS(req *http.Request, via []*http.Request) error {
	const most = 10 // as net/http
	switch {
	case len(via) >= most:
		return fmt.Errorf("stopped after %d redirects", most)
	case req.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https":
		return fmt.Errorf("redirect from https to %s://%s is not followed", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

func get(ctx context.Context, from *url.URL) (_ []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "csccm/"+version.Version)
	res, err := downloads.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := res.Body.Close(); err == nil {
			err = closeErr
		}
	}()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil, fmt.Errorf("%s: %w", from.Redacted(), errNotFound)
	default:
		return nil, fmt.Errorf("%s: answer %s", from.Redacted(), res.Status)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxDownload+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.Redacted(), err)
	}
	if len(data) > maxDownload {
		return nil, fmt.Errorf("%s: more than %d MiB", from.Redacted(), maxDownload>>20)
	}
	return data, nil
}

// pull downloads a chart from an OCI registry, with the credentials of `helm registry login` or `docker login`.
func pull(ctx context.Context, ref, chartVersion string, plainHTTP bool) ([]byte, error) {
	host, _, _ := strings.Cut(strings.TrimPrefix(ref, ociScheme+"://"), "/")
	var web *http.Client
	if !plainHTTP && !loopback(host) {
		// Helm's default transport retries without TLS if the server does not support TLS. An attacker who impersonates
		// the registry would get the credentials and could replace the chart.
		web = &http.Client{Transport: registryTransport(), CheckRedirect: keepTLS}
	}
	client, err := newRegistryClient(RegistryConfig(), plainHTTP, web)
	if err != nil {
		return nil, err
	}
	// The registry client does not support a context, so it runs in a goroutine.
	type answer struct {
		data []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		data, err := pullWith(client, ref, chartVersion)
		done <- answer{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a := <-done:
		if errors.Is(a.err, http.ErrSchemeMismatch) {
			return nil, fmt.Errorf("%w (--plain-http is for a registry without TLS)", a.err)
		}
		return a.data, a.err
	}
}

func pullWith(client *registryClient, ref, chartVersion string) ([]byte, error) {
	name := strings.TrimPrefix(ref, ociScheme+"://")
	last := path.Base(name)
	if strings.ContainsAny(last, ":@") {
		if chartVersion != "" {
			return nil, fmt.Errorf("has a tag or digest and cannot be combined with version %s", chartVersion)
		}
	} else {
		tag, err := findTag(client, name, chartVersion)
		if err != nil {
			return nil, err
		}
		name += ":" + tag
	}
	result, err := client.Pull(name)
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	return result.Chart.Data, nil
}

// RegistryConfig returns the path of the file that `helm registry login` writes.
func RegistryConfig() string {
	if file := os.Getenv("HELM_REGISTRY_CONFIG"); file != "" {
		return file
	}
	return credentialsFile()
}

// findTag returns the registry's tag for a version. Only a range or an empty version needs the list of tags.
func findTag(client *registryClient, name, chartVersion string) (string, error) {
	if exact, err := semver.StrictNewVersion(strings.TrimPrefix(chartVersion, "v")); err == nil {
		// Tags cannot contain a plus sign; Helm replaces it by an underscore.
		return strings.ReplaceAll(exact.String(), "+", "_"), nil
	}
	tags, err := client.Tags(name)
	if err != nil {
		return "", fmt.Errorf("list tags: %w", err)
	}
	tag, err := matchTag(tags, chartVersion)
	if err != nil {
		if chartVersion == "" {
			return "", errors.New("the registry has no released version; name a version")
		}
		return "", fmt.Errorf("the registry has no version %s", chartVersion)
	}
	return strings.ReplaceAll(tag, "+", "_"), nil
}

// loopback reports whether a registry is on this machine, where plain HTTP is safe.
func loopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

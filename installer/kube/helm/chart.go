// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/mitchellh/copystructure"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/version"
)

// Chart is a loaded chart.
type Chart struct {
	chart *chart.Chart
	// Source is where the chart was loaded from: "embedded", a path or a URL.
	Source string
}

// Version returns the chart's version, without a leading v.
func (c *Chart) Version() string { return c.chart.Metadata.Version }

// AppVersion returns the version of the controller that the chart installs.
func (c *Chart) AppVersion() string { return c.chart.Metadata.AppVersion }

// copy returns a copy of the chart for one action: actions write the values into their chart.
func (c *Chart) copy() *chart.Chart {
	dup := *c.chart
	metadata := *c.chart.Metadata
	dup.Metadata = &metadata
	dup.Values = copyValues(c.chart.Values)
	return &dup
}

// copyValues returns a deep copy, which is never nil.
func copyValues(values map[string]any) map[string]any {
	dup, _ := copystructure.Copy(values) // fails only for locks and channels
	if out, _ := dup.(map[string]any); out != nil {
		return out
	}
	return map[string]any{}
}

// Embedded returns the chart embedded in this binary. If the binary's version is a semantic version, as in builds of
// releases and of commits after a tag, the chart gets that version, so that csccm installs the controller of its own
// version.
func Embedded() (*Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(charts.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(charts.FS(), path)
		files = append(files, &loader.BufferedFile{Name: path, Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}

	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("embedded chart: %w", err)
	}

	stamp(loaded, version.Version)
	return &Chart{loaded, "embedded"}, nil
}

// unstamped is the version of a binary that was built without a tag.
const unstamped = "v0.0.0-dev"

func stamp(c *chart.Chart, v string) {
	parsed, err := semver.StrictNewVersion(strings.TrimPrefix(v, "v"))
	if err != nil || v == unstamped {
		return
	}
	c.Metadata.Version = parsed.String()
	c.Metadata.AppVersion = "v" + parsed.String()
}

// Load loads a chart from
//
//   - a directory or a packaged chart (path/to/cloudstack-ccm, cloudstack-ccm-0.1.0.tgz),
//   - the URL of a packaged chart (https://host/path/cloudstack-ccm-0.1.0.tgz),
//   - a chart repository (https://host/charts: the chart cloudstack-ccm),
//   - an OCI registry (oci://host/path/cloudstack-ccm, with or without :TAG or @DIGEST).
//
// Helm downloads it. chartVersion is a version or a range (^0.1); empty means the latest release. plainHTTP is for an
// OCI registry without TLS.
func Load(ctx context.Context, ref, chartVersion string, plainHTTP bool) (*Chart, error) {
	var loaded *chart.Chart
	var err error
	scheme, _, remote := strings.Cut(ref, "://")
	if remote = remote && slices.Contains([]string{"http", "https", "oci"}, scheme); !remote {
		loaded, err = loader.Load(ref)
	} else if u, uerr := url.Parse(ref); uerr != nil {
		ref, err = scheme+"://...", errors.New("not a URL") // u and uerr may contain the password
	} else {
		ref = u.Redacted()
		loaded, err = download(ctx, u, chartVersion, plainHTTP)
	}

	if err == nil && loaded.Metadata.Type != "" && loaded.Metadata.Type != "application" {
		err = fmt.Errorf("it is of type %s and cannot be installed", loaded.Metadata.Type)
	}

	switch {
	case err == nil:
		return &Chart{loaded, ref}, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}

	e := report.Errorf(
		"name the chart's folder, its .tgz, an https:// or an oci:// reference with --chart; without it csccm "+
			"uses its embedded chart",
		"chart %s: %w", ref, err,
	)

	if remote {
		e.Fix = "correct --chart and --version, and check that this machine can reach the server; --plain-http is " +
			"for a registry without TLS"
	} else { // the command line is the only possible cause
		e.Code = report.ExitUsage
	}

	return nil, e
}

// download downloads a chart with Helm, and loads it. Helm takes no context, so it runs in a goroutine. Helm's paths
// are temporary, so that the user's Helm repositories have no effect; only the login of `helm registry login` is used.
func download(ctx context.Context, u *url.URL, chartVersion string, plainHTTP bool) (*chart.Chart, error) {
	dir, err := os.MkdirTemp("", "csccm-chart-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	settings := cli.New()
	settings.RepositoryCache, settings.RepositoryConfig =
		filepath.Join(dir, "cache"), filepath.Join(dir, "repositories.yaml")

	install := action.NewInstall(&action.Configuration{})
	install.Version, install.PlainHTTP = strings.TrimPrefix(chartVersion, "v"), plainHTTP
	install.Username = u.User.Username()
	install.Password, _ = u.User.Password()
	u.User = nil
	name := u.String()
	if u.Scheme != "oci" && !strings.HasSuffix(u.Path, ".tgz") {
		install.RepoURL, name = name, charts.Name
	}

	client, err := registryClient(u.Hostname(), settings.RegistryConfig, plainHTTP)
	if err != nil {
		return nil, err
	}

	install.SetRegistryClient(client)

	file, located := "", make(chan error, 1)
	go func() {
		var err error
		file, err = install.LocateChart(name, settings)
		located <- err
	}()

	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-located:
		if err != nil {
			return nil, err
		}
		return loader.Load(file)
	}
}

// registryClient returns Helm's client for a registry.
func registryClient(host, credentials string, plainHTTP bool) (*registry.Client, error) {
	options := []registry.ClientOption{
		registry.ClientOptWriter(io.Discard), registry.ClientOptEnableCache(true),
		registry.ClientOptCredentialsFile(credentials),
	}
	ip := net.ParseIP(host)
	switch loopback := host == "localhost" || ip != nil && ip.IsLoopback(); {
	case plainHTTP:
		options = append(options, registry.ClientOptPlainHTTP())
	case !loopback:
		// Helm's default client falls back to plain HTTP; an impersonator of the registry would get the login.
		options = append(options, registry.ClientOptHTTPClient(&http.Client{Transport: registry.NewTransport(false)}))
	}
	return registry.NewClient(options...)
}

// Image is one image of a manifest.
type Image struct {
	Image string `json:"image"`
	// Mirror is the image's name in the mirror; "" without a mirror.
	Mirror string `json:"mirror,omitempty"`
}

// Images returns the images of a manifest, for clusters that pull from a mirror. mirror is a registry, optionally with
// a path, that replaces the images' registry; "" means no mirror.
func Images(manifest, mirror string) (out []Image, err error) {
	objects, err := diff.Parse(manifest)
	if err != nil {
		return nil, fmt.Errorf("rendered manifest: %w", err)
	}

	names := map[string]bool{}
	for _, o := range objects {
		for _, spec := range [][]string{
			{"spec"},
			{"spec", "template", "spec"},
			{"spec", "jobTemplate", "spec", "template", "spec"},
		} {
			for _, field := range []string{"initContainers", "containers"} {
				list, _, _ := unstructured.NestedSlice(o.Object, append(slices.Clone(spec), field)...)
				for _, c := range list {
					container, _ := c.(map[string]any)
					if image, _ := container["image"].(string); image != "" {
						names[image] = true
					}
				}
			}
		}
	}

	mirror = strings.TrimSuffix(strings.TrimPrefix(mirror, "https://"), "/")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		image := Image{Image: name}
		if registry, rest, ok := strings.Cut(name, "/"); ok &&
			(strings.ContainsAny(registry, ".:") || registry == "localhost") {
			name = rest
		}
		if mirror != "" {
			image.Mirror = mirror + "/" + name
		}
		out = append(out, image)
	}

	return out, nil
}

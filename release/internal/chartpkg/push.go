// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/registry"

	"github.com/csccm/csccm/installer/helm"
)

// Pushed is where a chart went.
type Pushed struct {
	// Ref has the tag, Digest is the manifest's.
	Ref, Digest string
}

// Push puts a packaged chart, with the provenance file beside it if there is one, into an OCI registry at folder
// (oci://host/path), as folder/NAME:VERSION, with
// the credentials of `helm registry login` or `docker login`. plainHTTP is for registries without TLS; those on loopback
// are taken to have none, as for images.
func Push(file, folder string, plainHTTP bool, when time.Time) (Pushed, error) {
	base, isOCI := strings.CutPrefix(folder, registry.OCIScheme+"://")
	if !isOCI || base == "" {
		return Pushed{}, fmt.Errorf("%q: want oci://HOST/PATH", folder)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Pushed{}, err
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return Pushed{}, fmt.Errorf("%s: %w", file, err)
	}
	ref := fmt.Sprintf("%s/%s:%s", strings.TrimSuffix(base, "/"), loaded.Metadata.Name, strings.ReplaceAll(loaded.Metadata.Version, "+", "_"))
	host, _, _ := strings.Cut(base, "/")
	options := []registry.ClientOption{registry.ClientOptWriter(io.Discard)}
	if plainHTTP || helm.Loopback(host) {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return Pushed{}, err
	}
	pushing := []registry.PushOption{registry.PushOptCreationTime(when.UTC().Format(time.RFC3339))}
	switch signed, err := os.ReadFile(file + ".prov"); {
	case err == nil:
		pushing = append(pushing, registry.PushOptProvData(signed))
	case !errors.Is(err, fs.ErrNotExist):
		return Pushed{}, err
	}
	result, err := client.Push(data, ref, pushing...)
	if err != nil {
		return Pushed{}, fmt.Errorf("push %s: %w", ref, err)
	}
	return Pushed{Ref: result.Ref, Digest: result.Manifest.Digest}, nil
}

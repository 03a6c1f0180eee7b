// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ocireg "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csccm/csccm/installer/kube/helm"
)

// Artifact returns a packaged chart, with its provenance file if there is one, as the OCI artefact that Helm pushes.
// Helm's client can push only by tag. Therefore Artifact lets it push to an in-memory registry, and the caller pushes
// the result by digest.
func Artifact(ctx context.Context, file string, when time.Time) (v1.Image, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	signed, err := os.ReadFile(file + ".prov")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	inside := handler{ocireg.New(ocireg.Logger(log.New(io.Discard, "", 0)))}
	tag, err := name.NewTag("charts.invalid/chart:packaged")
	if err != nil {
		return nil, err
	}
	if err := helm.Push(&http.Client{Transport: inside}, tag.Name(), data, signed, when); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return remote.Image(tag, remote.WithContext(ctx), remote.WithTransport(inside))
}

// handler is an http.RoundTripper that calls an http.Handler without a network.
type handler struct{ http.Handler }

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer func() { _ = r.Body.Close() }()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	response := answer.Result()
	response.Request = r
	return response, nil
}

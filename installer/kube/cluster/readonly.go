// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// errWrites refuses a request of a read-only connection.
var errWrites = errors.New("this connection only reads")

// ReadOnly returns the same connection for a command that must not change anything: requests that would are refused
// before they are sent. Questions that the API server takes as a POST or PATCH and that change nothing pass: what the
// user may do, and dry runs.
func (c *Cluster) ReadOnly() (*Cluster, error) {
	out := *c
	if c.REST == nil { // in tests with a fake clientset
		return &out, nil
	}
	out.Flags = nil // Helm would make its own connection
	out.REST = rest.CopyConfig(c.REST)
	out.REST.Timeout = 0 // it watches
	out.REST.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	var err error
	out.Kube, err = kubernetes.NewForConfig(out.REST)
	return &out, err
}

type readOnly struct{ next http.RoundTripper }

func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if !reads(r) {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, errWrites)
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find what is below.
func (t readOnly) WrappedRoundTripper() http.RoundTripper { return t.next }

func reads(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	case http.MethodPost:
		return strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") && strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews")
	case http.MethodPatch:
		return slices.Equal(r.URL.Query()["dryRun"], []string{"All"})
	}
	return false
}

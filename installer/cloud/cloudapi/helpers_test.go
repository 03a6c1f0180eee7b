// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/testenv/recordings"
)

// fakeAPI is a server that is called without a socket. It gives the same answer to every call unless it has a function
// that answers.
type fakeAPI struct {
	status int
	body   string
	answer func(r *http.Request) (header http.Header, from *fakeAPI)

	mu    sync.Mutex
	calls []*http.Request
}

func always(body string) *fakeAPI { return &fakeAPI{status: http.StatusOK, body: body} }

// golden returns the answer of a recorded exchange.
func golden(t *testing.T, name string) *fakeAPI {
	t.Helper()
	g := recordings.Case(t, "../../../pkg/simulator/testdata", name)
	return &fakeAPI{status: g.HTTPStatus, body: string(g.Body())}
}

// RoundTrip records the call and answers it.
func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r)
	out, from := httptest.NewRecorder(), f
	if f.answer != nil {
		var header http.Header
		header, from = f.answer(r)
		maps.Copy(out.Header(), header)
	}
	out.WriteHeader(from.status)
	_, _ = io.WriteString(out, from.body)
	return out.Result(), nil
}

// form returns the form of the first call.
func (f *fakeAPI) form() url.Values {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[0].PostForm
}

func (f *fakeAPI) client(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(&cloudstack.Config{APIURL: "http://cloudstack.test/client/api", APIKey: "a", SecretKey: "s"},
		cloudstack.WithTransport(f))
	require.NoError(t, err)
	return c
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestReadOnly(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(s.Close)
	whole := NewForTest(nil, &rest.Config{Host: s.URL})
	c, err := whole.ReadOnly()
	require.NoError(t, err)
	client := c.Kube.CoreV1().RESTClient()
	passed := int32(0)
	for _, r := range []struct {
		verb, path string
		want       bool
	}{
		{http.MethodGet, "/api/v1/nodes", true},
		{http.MethodGet, "/api/v1/nodes/n/proxy/flagz", true},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
		{http.MethodPatch, "/api/v1/namespaces/a/configmaps/b?dryRun=All", true},
		{http.MethodPatch, "/api/v1/namespaces/a/configmaps/b", false},
		{http.MethodPatch, "/api/v1/namespaces/a/configmaps/b?dryRun=All&dryRun=", false},
		{http.MethodPost, "/api/v1/namespaces/a/services", false},
		{http.MethodPost, "/api/v1/namespaces/a/selfsubjectaccessreviews", false},
		{http.MethodPut, "/api/v1/namespaces/a/services/b?dryRun=All", false},
		{http.MethodDelete, "/api/v1/nodes/n", false},
	} {
		err := client.Verb(r.verb).RequestURI(r.path).Do(t.Context()).Error()
		if r.want {
			passed++
			require.NoError(t, err, r)
		} else {
			require.ErrorIs(t, err, errWrites, r)
		}
	}
	assert.Equal(t, passed, asked.Load(), "refused requests are not sent")
	assert.NotNil(t, whole.REST)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Environment variables of the helm command and the namespace of the kubeconfig have no effect.
//
//nolint:paralleltest // sets environment variables
func TestEnvironmentOfHelmHasNoEffect(t *testing.T) {
	t.Setenv("HELM_DRIVER", "memory")
	t.Setenv("HELM_NAMESPACE", "elsewhere")
	t.Setenv("HELM_KUBETOKEN", "leaked")

	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.Path+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"SecretList","items":[]}`)
	}))
	t.Cleanup(server.Close)

	flags := genericclioptions.NewConfigFlags(false)
	other, kubeconfig := "other", "/dev/null"
	flags.APIServer, flags.Namespace, flags.KubeConfig = &server.URL, &other, &kubeconfig
	_, err := New(flags, "kube-system", t.Logf).History(t.Context(), "cloudstack-ccm")
	require.ErrorIs(t, err, ErrReleaseNotFound)

	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []string{"GET /api/v1/namespaces/kube-system/secrets"}, slices.Compact(asked))
}

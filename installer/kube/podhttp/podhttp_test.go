// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package podhttp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A Pod could use a token that it is sent, and does not know who --as names: nothing is asked for either of them.
func TestNothingIsSentThatThePodCouldUse(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Error("asked for ", r.URL.Path) }))
	t.Cleanup(server.Close)
	for name, tc := range map[string]struct {
		config rest.Config
		says   string
	}{
		"a token":       {rest.Config{BearerToken: "token-canary"}, "no client certificate"},
		"a password":    {rest.Config{Username: "u", Password: "password-canary"}, "no client certificate"},
		"no login":      {rest.Config{}, "no client certificate"},
		"impersonation": {rest.Config{BearerToken: "token-canary", Impersonate: rest.ImpersonationConfig{UserName: "other"}}, "--as"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := tc.config
			config.Host, config.Insecure = server.URL, true
			kube, err := kubernetes.NewForConfig(&config)
			require.NoError(t, err)
			_, err = Get(t.Context(), kube, &config, &corev1.Pod{}, 10258, "metrics")
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "canary")
		})
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A takeover may use the credentials of the provider that is there; it names their Secret and shows no key.
func TestTakeoverFromPredecessor(t *testing.T) {
	t.Parallel()
	a, _, file := leftCluster(t)
	config, err := os.ReadFile(file) // #nosec G304 -- a file of the test
	require.NoError(t, err)
	base := []string{"takeover", "--server", a.url, "--dry-run", "--accept", "all"}
	c := execute(t, append(base, "--from-predecessor")...)
	require.Equal(t, 2, c.code, c.out+c.errOut)
	require.Contains(t, c.errOut, "no Secret of the other provider holds a cloud-config; looked at kube-system/cloud-config, kube-system/cloudstack-secret")

	body, err := json.Marshal(map[string]any{"kind": "Secret", "apiVersion": "v1", "data": map[string][]byte{"cloud-config": config}})
	require.NoError(t, err)
	a.set("/api/v1/namespaces/kube-system/secrets/cloud-config", string(body))
	c = execute(t, append(base, "--from-predecessor")...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.errOut, "Credentials: Secret kube-system/cloud-config of Deployment kube-system/cloud-controller-manager, API http://")
	require.NotContains(t, c.out+c.errOut, "secret-key")
	require.Equal(t, 2, execute(t, append(base, "--from-predecessor", "--cloud-config", file)...).code)
}

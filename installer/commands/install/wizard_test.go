// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/access"
)

// The wizard asks again for keys that CloudStack does not accept or that contain a space. It removes spaces around
// keys.
func TestWizardAsksForKeysAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	keys := e.keys(t)
	k := keys.Over(nil)
	e.Answers("2", e.cloud.URL, "api canary", "api-canary", "secret-canary", " "+k.APIKey, k.SecretKey+"\t", "yes")
	e.install(t, Config{})
	require.Contains(t, e.Stderr.String(), "API key has blanks or control characters in it")
	require.Contains(t, e.Stderr.String(), "does not accept the API keys")
	require.Equal(t, k.APIKey, e.config(t).APIKey)
	require.Equal(t, k.SecretKey, e.config(t).SecretKey)
	e.requireNoSecrets(t, "canary")
}

// An invalid flag ends the run with an error instead of a question.
func TestWizardLeavesFlagsAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Answers("", "", "password", "k8s")
	err := e.installer(t, Config{
		Source: SourceAdmin,
		Layers: access.Layers{Flags: access.Settings{"zone": "zone-9", "api-url": e.cloud.URL}},
	}).Run(t.Context())
	require.ErrorContains(t, err, `there is no zone "zone-9"`)
	require.Contains(t, e.Stderr.String(), "ok   Logging in to CloudStack at "+e.cloud.URL, "the login was a good one")
}

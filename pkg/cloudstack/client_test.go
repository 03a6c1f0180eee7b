// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

func TestNewClientRefusesBadConfigurations(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]*Config{
		"no configuration":   nil,
		"api-url":            {APIURL: "h"},
		"api-key is missing": {APIURL: "http://h/client/api"},
	} {
		_, err := NewClient(cfg)
		require.ErrorContains(t, err, want)
	}
	c, err := NewClient(&Config{APIURL: "http://h/client/api", APIKey: "a", SecretKey: "b", RateLimit: 3})
	require.NoError(t, err)
	require.Equal(t, "http://h/client/api", c.Endpoint())
	require.Equal(t, 6, c.limiter.burst)
	require.Equal(t, cloudconfig.DefaultTimeout, c.timeout)
	require.Equal(t, cloudconfig.DefaultJobTimeout, c.jobTimeout)
}

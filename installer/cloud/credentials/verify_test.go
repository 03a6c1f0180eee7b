// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/selftest"
)

func TestExplainLogin(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	cfg := e.config(credentials.Keys{})
	_, err := cloudapi.Login(t.Context(), cfg, "admin", "wrong-canary", "ROOT")
	require.Error(t, err)
	err = credentials.ExplainLogin(e.url, "admin", "ROOT", err)
	require.ErrorContains(t, err, `refuses the login of user "admin" in domain "ROOT"`)
	require.NotContains(t, err.Error(), "canary")
	_, err = cloudapi.Login(t.Context(), cfg, "admin", "password", "/none")
	err = credentials.ExplainLogin(e.url, "admin", "/none", err)
	require.ErrorContains(t, err, `refuses the login of user "admin" in domain "ROOT/none": `)
	// the domain's path in the form that listDomains returns
	_, err = cloudapi.Login(t.Context(), cfg, "twin-owner", "password", "ROOT/tenants")
	require.NoError(t, err)

	cfg.APIURL = "http://127.0.0.1:1/client/api" // no program listens on port 1
	_, err = cloudapi.Login(t.Context(), cfg, "admin", "wrong-canary", "ROOT")
	err = credentials.ExplainLogin(cfg.APIURL, "admin", "ROOT", err)
	require.ErrorContains(t, err, "no CloudStack API answers at "+cfg.APIURL)
	require.NotContains(t, err.Error(), "canary")
}

func TestVerify(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	tests := map[string]struct {
		user   string // "" means no valid keys
		change func(*cloudstack.Config)
		err    string
		remedy string
		notes  []string // subjects of findings that did not pass
	}{
		"fine": {user: "k8s-owner", change: func(c *cloudstack.Config) { c.Zone = "zone-1" }},
		"unknown zone": {
			user:   "k8s-owner",
			change: func(c *cloudstack.Config) { c.Zone = "zone-9" },
			err:    `there is no zone "zone-9"`,
			remedy: "zone-1",
		},
		"unknown project": {
			user:   "k8s-owner",
			change: func(c *cloudstack.Config) { c.ProjectID = "shop" },
			err:    `project "shop" not found`,
			remedy: "--project",
		},
		"wrong keys": {err: "does not accept the API keys", remedy: "check both keys"},
		"role too small": {
			user:   "poor-owner",
			err:    "the user's role does not allow assignToLoadBalancerRule, associateIpAddress",
			remedy: "allow them in the role",
		},
		"no machine": {user: "other-owner", err: "the user sees no virtual machine", remedy: "--account"},
		"role may not ask": {
			user:   "quiet-owner",
			change: func(c *cloudstack.Config) { c.Zone = "zone-1" },
			notes:  []string{"zone", "role"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := credentials.Keys{APIKey: "api-canary", SecretKey: "secret-canary"}
			if tc.user != "" {
				keys = e.keysOf(tc.user)
			}

			if tc.change == nil {
				tc.change = func(*cloudstack.Config) {}
			}

			_, says, err := e.verify(keys, tc.change)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				var told *report.Error
				require.ErrorAs(t, err, &told)
				require.Contains(t, told.Remedy(), tc.remedy)
				require.NotContains(t, err.Error()+told.Remedy(), "canary")
				return
			}

			require.NoError(t, err)
			var notes []string
			for line := range strings.SplitSeq(says, "\n") {
				if f := strings.Fields(line); len(f) > 1 && f[0] == selftest.MarkWarning {
					notes = append(notes, f[1])
				}
			}

			require.Equal(t, tc.notes, notes)
		})
	}

	t.Cleanup(func() { require.Zero(t, e.writes(), "verification changes nothing") })
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

const world = `
zones: [{name: z, publicRanges: [203.0.113.10-203.0.113.99]}]
roles:
  - {name: lists, type: User, rules: [{allow: "list*"}, {deny: "*"}]}
  - {name: quiet, type: User, rules: [{deny: listApis}, {deny: listCapabilities}, {deny: listZones}, {deny: listProjects}]}
accounts:
  - {name: owner, users: [{name: owner}]}
  - {name: empty, users: [{name: empty}]}
  - {name: lists, role: lists, users: [{name: lists}]}
  - {name: quiet, role: quiet, users: [{name: quiet}]}
projects: [{name: shop, owner: owner}]
networks:
  - {name: own, account: owner, cidr: 10.1.1.0/24}
  - {name: shop, project: shop, cidr: 10.1.2.0/24}
  - {name: quiet, account: quiet, cidr: 10.1.3.0/24}
virtualMachines:
  - {name: a, account: owner, nics: [{network: own}]}
  - {name: b, project: shop, nics: [{network: shop}]}
  - {name: c, account: quiet, nics: [{network: quiet}]}
`

func TestRun(t *testing.T) {
	t.Parallel()
	cloud := testenv.New(t, world, simulator.Options{})
	for name, tc := range map[string]struct {
		user, project, zone string
		says, fix           string // if fix is set, says is the failure
	}{
		"account": {user: "owner", zone: "Z", says: "ok       zone      z\n"},
		"project": {user: "owner", project: "shop", says: "load balancers are possible in shop"},
		"role that is too small": {
			user: "lists",
			says: "the user's role does not allow createLoadBalancerRule",
			fix:  "allow them in the role",
		},
		"role that may not ask": {user: "quiet", zone: "z", says: "warning  role      may not list its APIs"},
		"zone that is not listed": {
			user: "quiet",
			zone: "z",
			says: "warning  zone      z: the role may not list zones",
		},
		"project that is not found": {
			user:    "owner",
			project: "blog",
			says:    `project "blog" not found`,
			fix:     "set project-id",
		},
		"zone that does not exist": {
			user: "owner",
			zone: "x",
			says: `there is no zone "x"`,
			fix:  "one of these, or remove it: z",
		},
		"no VM": {
			user: "empty",
			says: "the user sees no virtual machine",
			fix:  "use keys of the account",
		},
		"unknown keys": {user: "", says: "does not accept the API keys", fix: "check both keys"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, secret, known := cloud.Keys(tc.user)
			if !known {
				key, secret = "api-canary", "secret-canary"
			}

			cfg := cloud.Config(key, secret)
			cfg.ProjectID, cfg.Zone = tc.project, tc.zone
			var out strings.Builder
			err := (&Test{
				Config:   cfg,
				Client:   cloud.Client(key, secret),
				Required: []string{"createTags", "createLoadBalancerRule"},
				Optional: []string{"createTags"},
				Out:      &out,
			}).Run(t.Context())

			require.Contains(t, out.String(), tc.says)
			require.NotContains(t, out.String(), "canary")
			if tc.fix == "" {
				require.NoError(t, err)
				return
			}

			require.ErrorContains(t, err, tc.says)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			require.True(t, strings.HasPrefix(lines[len(lines)-2], MarkFailed), out.String())
			require.True(t,
				strings.HasPrefix(lines[len(lines)-1], MarkFix) && strings.Contains(lines[len(lines)-1], tc.fix),
				out.String())
		})
	}
}

func TestRemedy(t *testing.T) {
	t.Parallel()
	for kind, want := range map[cloudstack.Kind]string{
		cloudstack.KindAuth:         "check both keys",
		cloudstack.KindNotPermitted: "a member of the project",
		cloudstack.KindTransient:    "if CloudStack is down",
		cloudstack.KindUnknown:      "check api-url",
	} {
		require.Contains(t, Remedy(&cloudstack.Error{Kind: kind, Command: "listVirtualMachines"}), want)
	}
	require.Contains(t, Remedy(errors.New("odd")), "see the error")
}

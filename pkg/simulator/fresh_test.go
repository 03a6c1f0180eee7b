// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFreshWorld builds all that a cluster needs from nothing, by calls alone.
func TestFreshWorld(t *testing.T) {
	t.Parallel()
	h := start(t, Options{World: FreshWorld()})
	require.Empty(t, h.withKeys(), "no user has keys")
	zone := h.first(h.root("listZones"), "zone")
	require.Equal(t, "Sandbox-simulator", zone["name"])
	require.Equal(t, "Enabled", zone["allocationstate"])
	login, _ := h.login("admin", "password", "")
	require.Equal(t, 200, login.status)
	var offerings []string
	for _, o := range h.ok(h.root("listServiceOfferings")).items("serviceoffering") {
		offerings = append(offerings, o["name"].(string))
	}
	require.Equal(t, []string{"Small Instance", "Medium Instance"}, offerings)
	require.NotEmpty(t, h.ok(h.root("listNetworkOfferings", "name", "DefaultIsolatedNetworkOfferingWithSourceNatService")).items("networkoffering"))
	require.EqualValues(t, 199, h.ok(h.root("listPublicIpAddresses", "allocatedonly", "false", "listall", "true")).body["count"])
	require.Empty(t, h.ok(h.root("listVirtualMachines", "listall", "true")).body)
	require.Empty(t, h.ok(h.root("listNetworks", "listall", "true")).body)

	user := h.first(h.root("listUsers", "username", "admin"), "user")
	keys := h.ok(h.root("registerUserKeys", "id", id(user))).body["userkeys"].(map[string]any)
	require.NotEmpty(t, keys["apikey"])
	h.ok(h.call("admin", "listZones"))
	require.NotContains(t, string(FreshYAML()), "apiKey")
}

// withKeys lists the users that have keys.
func (h *harness) withKeys() []UserInfo {
	var out []UserInfo
	for _, u := range h.sim.Users() {
		if u.APIKey != "" {
			out = append(out, u)
		}
	}
	return out
}

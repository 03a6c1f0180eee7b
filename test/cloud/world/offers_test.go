// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/testenv/recordings"
)

// recorded returns the objects of a recorded list.
func recorded(t *testing.T, name, object string) []Object {
	t.Helper()
	var answer map[string]Object
	require.NoError(t, json.Unmarshal(recordings.Case(t, "../../../pkg/simulator/testdata", name).Response, &answer))
	for _, content := range answer {
		return content.Objects(object)
	}
	return nil
}

// TestOfferings checks the choice among the 24 network offerings of a real server.
func TestOfferings(t *testing.T) {
	t.Parallel()
	all := recorded(t, "listNetworkOfferings.all", "networkoffering")
	name := func(id string) string {
		for _, o := range all {
			if o.Text("id") == id {
				return o.Text("name")
			}
		}
		return id
	}

	for _, c := range []struct {
		vpc                    bool
		provider, filter, want string
	}{
		{false, "VirtualRouter", "Firewall", "DefaultIsolatedNetworkOfferingWithSourceNatService"},
		{true, "VpcVirtualRouter", "NetworkACL", "DefaultIsolatedNetworkOfferingForVpcNetworks"},
		{true, "InternalLbVm", "NetworkACL", "DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB"},
		{false, "Netscaler", "Firewall", ""},
	} {
		assert.Equal(t, c.want, name(chooseNetwork(all, c.vpc, c.provider, c.filter)), c.provider)
	}

	if s := chooseService(recorded(t, "listServiceOfferings.all",
		"serviceoffering")); s.Text("name") != "Small Instance" {
		t.Errorf("service offering %v", s)
	}
}

// TestNamed: an object whose name merely starts with the run's prefix belongs to somebody else.
func TestNamed(t *testing.T) {
	t.Parallel()
	c := &Cleaner{Run: "a1b2c3"}
	for name, want := range map[string]bool{
		"csccm-cloud-a1b2c3":      true,
		"csccm-cloud-a1b2c3-role": true,
		"csccm-cloud-a1b2c3x":     false,
		"a1b2c3":                  false,
		"":                        false,
	} {
		assert.Equal(t, want, c.named(name), name)
	}
}

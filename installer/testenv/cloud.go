// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// Owner is the user in the example world whose account owns the VMs of the nodes.
const Owner = "k8s-owner"

// Cloud is a simulated CloudStack behind HTTP.
type Cloud struct {
	*simulator.Simulator
	URL string // of the API
}

// NewCloud starts a simulated CloudStack; nil means the example world.
func NewCloud(t *testing.T, world *simulator.World) *Cloud {
	t.Helper()
	if world == nil {
		world = simulator.ExampleWorld()
	}

	sim, err := simulator.New(simulator.Options{World: world})
	require.NoError(t, err)

	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { server.Close(); sim.Close() })
	return &Cloud{sim, server.URL + "/client/api"}
}

// Left starts a simulated CloudStack in a recorded state that another provider left.
func Left(t *testing.T, state string) (*Cloud, *leftby.State) {
	t.Helper()
	s, err := leftby.Load(state)
	require.NoError(t, err)
	world, err := s.World()
	require.NoError(t, err)
	return NewCloud(t, world), s
}

// Config returns the configuration of a user; "" means Owner.
func (c *Cloud) Config(t *testing.T, user string) *cloudstack.Config {
	t.Helper()
	if user == "" {
		user = Owner
	}

	config := cloudconfig.Default()
	config.APIURL, config.RateLimit = c.URL, 0 // no limit, because tests count calls

	var found bool
	config.APIKey, config.SecretKey, found = c.Keys(user)
	require.True(t, found)
	return &config
}

// Client returns a client with the keys of a user; "" means Owner.
func (c *Cloud) Client(t *testing.T, user string) *cloudapi.Client {
	t.Helper()
	client, err := cloudapi.NewClient(c.Config(t, user))
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// Admin returns a client with the session of an administrator.
func (c *Cloud) Admin(t *testing.T) *cloudapi.Client {
	t.Helper()
	client, err := cloudapi.Login(t.Context(), c.Config(t, "admin"), "admin", "password", "ROOT")
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// HandedOver returns the public addresses of a user's account that csccm's controller releases with their Services.
func (c *Cloud) HandedOver(t *testing.T, user string) (addresses []string) {
	t.Helper()
	list, err := c.Client(t, user).ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
	require.NoError(t, err)
	for _, a := range list {
		if a.Tags[plan.TagAllocatedBy] == plan.ManagedBy {
			addresses = append(addresses, a.Address)
		}
	}

	return addresses
}

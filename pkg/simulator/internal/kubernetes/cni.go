// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Configurations of network plugins: user data that CloudStack runs on the control nodes of a new cluster.

// cniConfigView is the API object cniconfig.
type cniConfigView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	wire.OwnerView
	Data           string `json:"userdata,omitempty"`
	Params         string `json:"params,omitempty"`
	HasAnnotations bool   `json:"hasannotations"`
}

func viewCNIConfig(n *store.CNIConfig) cniConfigView {
	return cniConfigView{ID: n.UUID, Name: n.Name, OwnerView: wire.ViewOwner(n.Owner), Data: n.Data, Params: n.Params}
}

// registerCNIConfiguration stores a configuration. CloudStack accepts a configuration without data (recorded).
func registerCNIConfiguration(c *wire.Call) (any, error) {
	owner, err := c.OwnerToUse()
	if err != nil {
		return nil, err
	}
	name := c.Str("name")
	taken := func(n *store.CNIConfig) bool { return n.Owner == owner && n.Name == name }
	if _, exists := c.St.CNIConfigs.Find(taken); exists {
		return nil, wire.Invalid("A userdata with name %s already exists for this account.", name)
	}
	n := c.St.CNIConfigs.Add(&store.CNIConfig{
		Entity: store.Entity{Created: c.Now},
		Name:   name,
		Owner:  owner,
		Data:   c.Str("cniconfig"),
		Params: c.Str("params"),
	})
	return wire.Object("cniconfig", viewCNIConfig(n)), nil
}

func listCNIConfigurations(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}
	return wire.List(c, "cniconfig", wire.Newest(c.St.CNIConfigs.Rows), func(n *store.CNIConfig) bool {
		return in(n.Owner) && c.Is("name", n.Name) && c.Like("keyword", n.Name)
	}, viewCNIConfig)
}

// deleteCNIConfiguration deletes a configuration by its id, for any caller (recorded: CloudStack does not check
// the owner).
func deleteCNIConfiguration(c *wire.Call) (any, error) {
	n := wire.Arg[*store.CNIConfig](c, "id")
	if n == nil || n.Removed {
		me := c.Caller.Account
		missing := wire.Invalid("A UserData with id '%d' does not exist for account %s in specified domain id",
			c.Refs["id"].ID, me.Name)
		missing.About = []wire.UUIDOf{{UUID: me.Domain.UUID, Description: "domainId"}}
		return nil, missing
	}
	users := func(k *store.KubernetesCluster) bool { return k.CNI == n }
	if slices.ContainsFunc(c.St.KubernetesClusters.Rows, users) {
		return nil, wire.Invalid("the simulator has no recording of the deletion of a CNI configuration that a " +
			"cluster was made with")
	}
	n.Removed = true
	return wire.Success{Success: true}, nil
}

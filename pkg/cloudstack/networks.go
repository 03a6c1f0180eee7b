// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// NetworkQuery filters listNetworks. As root admin even an ID needs ListAll.
type NetworkQuery struct {
	ID, ZoneID, ProjectID string
	ListAll               bool
}

type networkJSON struct {
	Network
	ConserveMode flex.Bool  `json:"networkofferingconservemode"`
	Egress       *flex.Bool `json:"egressdefaultpolicy"` // isolated networks outside of VPCs only
	Services     []struct {
		Name      string `json:"name"`
		Providers []struct {
			Name string `json:"name"`
		} `json:"provider"`
		Capabilities []struct {
			Name  string      `json:"name"`
			Value flex.String `json:"value"`
		} `json:"capability"`
	} `json:"service"`
}

func (n *networkJSON) toNetwork() Network {
	net := n.Network
	net.ConserveMode, net.EgressDenied = bool(n.ConserveMode), n.Egress != nil && !bool(*n.Egress)
	net.Services = make(map[string]map[string]string, len(n.Services))
	net.ServiceProviders = make(map[string][]string, len(n.Services))
	for _, s := range n.Services {
		capabilities := net.Services[s.Name]
		if capabilities == nil {
			capabilities = make(map[string]string, len(s.Capabilities))
			net.Services[s.Name] = capabilities
		}
		for _, capability := range s.Capabilities {
			capabilities[capability.Name] = string(capability.Value)
		}
		for _, p := range s.Providers {
			net.ServiceProviders[s.Name] = append(net.ServiceProviders[s.Name], p.Name)
		}
	}
	return net
}

// ListNetworks lists guest networks with their services.
func (c *Client) ListNetworks(ctx context.Context, q NetworkQuery) ([]Network, error) {
	f := filter{}.set("id", q.ID).set("zoneid", q.ZoneID).set("projectid", q.ProjectID).flag("listall", q.ListAll)
	return list(ctx, c, "listNetworks", "network", f, func(n *networkJSON) string { return n.ID }, (*networkJSON).toNetwork)
}

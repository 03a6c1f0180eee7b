// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Network is a guest network.
type Network struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	VPCID   string `json:"vpcid"`
	ACLID   string `json:"aclid"`
	ACLName string `json:"aclname"`
	CIDR    string `json:"cidr"` // of its IPv4 addresses
	ZoneID  string `json:"zoneid"`
	State   string `json:"state"` // Allocated until the first VM, then Implemented
	// RestartRequired means that CloudStack could not apply the last change to the network's router.
	RestartRequired bool `json:"restartrequired"`

	OfferingName string `json:"networkofferingname"`
	ConserveMode bool   `json:"networkofferingconservemode"`
	// Services maps a service name ("Lb", "Firewall", "NetworkACL", ...) to its capabilities.
	// Its providers are in ServiceProviders.
	Services         map[string]map[string]string `json:"-"`
	ServiceProviders map[string][]string          `json:"-"`
}

// HasService reports whether the network's offering has the named service.
func (n *Network) HasService(name string) bool { _, ok := n.Services[name]; return ok }

// UnmarshalJSONFrom reads an entry of listNetworks.
func (n *Network) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Network
	var entry struct {
		plain
		Services []struct {
			Name         string   `json:"name"`
			Providers    []string `json:"provider"` // names
			Capabilities []struct {
				Name  string `json:"name"`
				Value string `json:"value"`
			} `json:"capability"`
		} `json:"service"`
	}
	err := json.UnmarshalDecode(d, &entry)
	*n = Network(entry.plain)
	n.Services, n.ServiceProviders = map[string]map[string]string{}, map[string][]string{}

	for _, s := range entry.Services {
		if n.Services[s.Name] == nil {
			n.Services[s.Name] = make(map[string]string, len(s.Capabilities))
		}
		for _, capability := range s.Capabilities {
			n.Services[s.Name][capability.Name] = capability.Value
		}
		n.ServiceProviders[s.Name] = append(n.ServiceProviders[s.Name], s.Providers...)
	}
	return err
}

// NetworkQuery filters listNetworks. Root admins need ListAll even with an ID.
type NetworkQuery struct {
	ID, ZoneID, ProjectID string
	ListAll               bool
}

// ListNetworks lists guest networks with their services.
func (c *Client) ListNetworks(ctx context.Context, q NetworkQuery) ([]Network, error) {
	f := Params{}.Set("id", q.ID).Set("zoneid", q.ZoneID).Set("projectid", q.ProjectID).Flag("listall", q.ListAll)
	return List(ctx, c, "listNetworks", "network", f, func(n *Network) string { return n.ID })
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// InternalLoadBalancer is one port of an address of a VPC tier.
type InternalLoadBalancer struct {
	ID           string               `json:"id"`
	Name         string               `json:"name"`
	Algorithm    string               `json:"algorithm"`
	NetworkID    string               `json:"networkid"`
	Address      string               `json:"sourceipaddress"`
	Port         int                  `json:"-"`
	InstancePort int                  `json:"-"`
	State        string               `json:"-"`
	Members      []LoadBalancerMember `json:"-"`
	Tags         map[string]string    `json:"tags"`
}

// UnmarshalJSONFrom reads an entry of listLoadBalancers.
func (b *InternalLoadBalancer) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain InternalLoadBalancer
	var entry struct {
		plain
		Rules []struct {
			Source   int    `json:"sourceport"`
			Instance int    `json:"instanceport"`
			State    string `json:"state"`
		} `json:"loadbalancerrule"`
		Instances []struct {
			ID      string  `json:"id"`
			State   VMState `json:"state"`
			Address string  `json:"ipaddress"`
		} `json:"loadbalancerinstance"`
	}

	err := json.UnmarshalDecode(d, &entry)
	*b = InternalLoadBalancer(entry.plain)
	for _, r := range entry.Rules {
		b.Port, b.InstancePort, b.State = r.Source, r.Instance, r.State
	}

	for _, i := range entry.Instances {
		b.Members = append(b.Members, LoadBalancerMember{VMID: i.ID, State: i.State, Addresses: []string{i.Address}})
	}

	return err
}

// InternalLoadBalancerQuery filters listLoadBalancers. An unknown ID is KindNotFound.
type InternalLoadBalancerQuery struct {
	ID, NetworkID, ProjectID string
}

// ListInternalLoadBalancers lists internal load balancers of VPC tiers.
func (c *Client) ListInternalLoadBalancers(
	ctx context.Context, q InternalLoadBalancerQuery,
) ([]InternalLoadBalancer, error) {
	f := Params{"scheme": "Internal"}.Set("id", q.ID).Set("networkid", q.NetworkID).Set("projectid", q.ProjectID)
	return List(ctx, c, "listLoadBalancers", "loadbalancer", f, func(b *InternalLoadBalancer) string { return b.ID })
}

// CreateInternalLoadBalancerRequest describes a port of an address of a tier; an empty Address means any free one.
type CreateInternalLoadBalancerRequest struct {
	Name, Description, Algorithm string
	NetworkID, Address           string
	Port, InstancePort           int
}

// CreateInternalLoadBalancer creates an internal load balancer without members.
func (c *Client) CreateInternalLoadBalancer(
	ctx context.Context, r CreateInternalLoadBalancerRequest,
) (Submitted, error) {
	f := Params{
		"name":                     r.Name,
		"algorithm":                r.Algorithm,
		"networkid":                r.NetworkID,
		"sourceipaddressnetworkid": r.NetworkID,
		"scheme":                   "Internal",
		"sourceport":               strconv.Itoa(r.Port), "instanceport": strconv.Itoa(r.InstancePort),
	}.Set("description", r.Description).Set("sourceipaddress", r.Address)
	return c.Submit(ctx, "createLoadBalancer", f)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
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
}

// InternalLoadBalancerQuery filters listLoadBalancers. An unknown ID is KindNotFound.
type InternalLoadBalancerQuery struct {
	ID, NetworkID, ProjectID string
}

type internalJSON struct {
	InternalLoadBalancer
	Rules []struct {
		Source   flex.Int `json:"sourceport"`
		Instance flex.Int `json:"instanceport"`
		State    string   `json:"state"`
	} `json:"loadbalancerrule"`
	Instances []struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		State     string `json:"state"`
		IPAddress string `json:"ipaddress"`
	} `json:"loadbalancerinstance"`
}

func (j *internalJSON) toInternal() InternalLoadBalancer {
	out := j.InternalLoadBalancer
	for _, r := range j.Rules {
		out.Port, out.InstancePort, out.State = int(r.Source), int(r.Instance), r.State
	}
	for _, i := range j.Instances {
		out.Members = append(out.Members, LoadBalancerMember{VMID: i.ID, Name: i.Name, State: VMState(i.State), Addresses: []string{i.IPAddress}})
	}
	return out
}

// ListInternalLoadBalancers lists internal load balancers of VPC tiers.
func (c *Client) ListInternalLoadBalancers(ctx context.Context, q InternalLoadBalancerQuery) ([]InternalLoadBalancer, error) {
	f := filter{"scheme": "Internal"}.set("id", q.ID).set("networkid", q.NetworkID).set("projectid", q.ProjectID)
	return list(ctx, c, "listLoadBalancers", "loadbalancer", f, func(j *internalJSON) string { return j.ID }, (*internalJSON).toInternal)
}

// CreateInternalLoadBalancerRequest makes a port of an address of a tier; Address empty takes a free one.
type CreateInternalLoadBalancerRequest struct {
	Name, Description, Algorithm string
	NetworkID, Address           string
	Port, InstancePort           int
}

// CreateInternalLoadBalancer makes an internal load balancer without members.
func (c *Client) CreateInternalLoadBalancer(ctx context.Context, r CreateInternalLoadBalancerRequest) (Submitted, error) {
	f := filter{
		"name": r.Name, "algorithm": r.Algorithm, "networkid": r.NetworkID, "sourceipaddressnetworkid": r.NetworkID, "scheme": "Internal",
		"sourceport": strconv.Itoa(r.Port), "instanceport": strconv.Itoa(r.InstancePort),
	}.set("description", r.Description).set("sourceipaddress", r.Address)
	return c.submit(ctx, "createLoadBalancer", f)
}

// DeleteInternalLoadBalancer deletes one; one that is gone is KindNotFound.
func (c *Client) DeleteInternalLoadBalancer(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deleteLoadBalancer", filter{"id": id})
}

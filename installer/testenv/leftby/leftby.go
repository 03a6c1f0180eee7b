// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leftby holds recorded states that other providers left in a real CloudStack and a real API server, for tests
// of the takeover.
package leftby

import (
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/pkg/simulator"
)

//go:embed *.json
var files embed.FS

// The recorded states.
const (
	Apache   = "left-by-upstream-v1.2.0.json"
	Leaseweb = "left-by-leaseweb-v1.8.1.json"
)

// Account is the account, and its user, that owns everything in the World.
const Account = "kubeadmin"

// State is one recorded state.
type State struct {
	CloudStack struct {
		Network struct {
			ID, Name, CIDR, ZoneName string
		}
		PublicIPAddress []struct {
			ID, IPAddress string
			IsSourceNAT   bool
		}
		LoadBalancerRule []struct {
			ID, Name, PublicIPID, PublicPort, PrivatePort, Algorithm, Protocol string
			CIDRList                                                           *string
		}
		// LoadBalancerRuleInstances are the members by rule id, as names of VMs.
		LoadBalancerRuleInstances map[string][]string
		FirewallRule              []struct {
			ID, Protocol, IPAddressID, CIDRList string
			StartPort, EndPort                  int
		}
		VirtualMachine []struct {
			ID, Name, ServiceOfferingName string
			NIC                           []struct {
				ID, IPAddress, MACAddress string
			}
		}
	}
	Kubernetes struct {
		Services []corev1.Service
		Nodes    []corev1.Node
		Leases   []coordinationv1.Lease
	}
}

// Load reads a state.
func Load(name string) (*State, error) {
	body, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}

	s := &State{}
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	return s, nil
}

// World returns the CloudStack of the state, with the recorded ids.
func (s *State) World() (*simulator.World, error) {
	c := &s.CloudStack
	w := &simulator.World{
		Zones:    []simulator.Zone{{Name: c.Network.ZoneName, PublicRanges: []string{"192.168.2.2-192.168.2.200"}}},
		Accounts: []simulator.Account{{Name: Account, Role: "User", Users: []simulator.User{{Name: Account}}}},
		Networks: []simulator.Network{{ID: c.Network.ID, Name: c.Network.Name, CIDR: c.Network.CIDR, Account: Account}},
	}

	for _, v := range c.VirtualMachine {
		vm := simulator.VirtualMachine{ID: v.ID, Name: v.Name, Account: Account, Offering: v.ServiceOfferingName}
		for _, n := range v.NIC {
			vm.NICs = append(vm.NICs,
				simulator.NIC{ID: n.ID, Network: c.Network.Name, IP: n.IPAddress, MAC: n.MACAddress})
		}
		w.VirtualMachines = append(w.VirtualMachines, vm)
	}

	for _, a := range c.PublicIPAddress {
		if a.IsSourceNAT {
			w.Networks[0].SourceNAT = a.IPAddress
			continue
		}

		ip := simulator.PublicIP{ID: a.ID, Address: a.IPAddress, Network: c.Network.Name}
		for _, r := range c.LoadBalancerRule {
			if r.PublicIPID != a.ID {
				continue
			}

			rule := simulator.LoadBalancerRule{
				ID:        r.ID,
				Name:      r.Name,
				Protocol:  r.Protocol,
				Algorithm: r.Algorithm,
				Members:   c.LoadBalancerRuleInstances[r.ID],
			}

			var err error
			if rule.PublicPort, err = strconv.Atoi(r.PublicPort); err != nil {
				return nil, err
			}

			if rule.PrivatePort, err = strconv.Atoi(r.PrivatePort); err != nil {
				return nil, err
			}

			if r.CIDRList != nil {
				rule.CIDRs = strings.Fields(*r.CIDRList)
			}

			ip.LoadBalancerRules = append(ip.LoadBalancerRules, rule)
		}

		for _, f := range c.FirewallRule {
			if f.IPAddressID == a.ID {
				start, end := f.StartPort, f.EndPort
				ip.FirewallRules = append(ip.FirewallRules,
					simulator.FirewallRule{
						ID:        f.ID,
						Protocol:  f.Protocol,
						StartPort: &start,
						EndPort:   &end,
						CIDRs:     strings.Split(f.CIDRList, ","),
					})
			}
		}

		w.PublicIPs = append(w.PublicIPs, ip)
	}

	return w, nil
}

// Objects returns the Services, Nodes and Leases of the state.
func (s *State) Objects() []runtime.Object {
	var out []runtime.Object
	for _, svc := range s.Kubernetes.Services {
		out = append(out, &svc)
	}
	for _, n := range s.Kubernetes.Nodes {
		out = append(out, &n)
	}
	for _, lease := range s.Kubernetes.Leases {
		out = append(out, &lease)
	}
	return out
}

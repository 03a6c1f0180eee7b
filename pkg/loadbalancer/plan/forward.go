// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ForwardPort is a port that is wanted as a port forwarding. A Service may have one number for TCP and for UDP.
type ForwardPort struct {
	Protocol    string `json:"protocol"` // tcp or udp
	PublicPort  int    `json:"publicPort"`
	PrivatePort int    `json:"privatePort"`
}

func compareForwardPorts(a, b ForwardPort) int {
	return cmp.Or(cmp.Compare(a.PublicPort, b.PublicPort), cmp.Compare(a.Protocol, b.Protocol))
}

// portText writes a port with its protocol, as "53/udp".
func portText(protocol string, port int) string { return fmt.Sprintf("%d/%s", port, protocol) }

// Forward is a port forwarding found on an address.
type Forward struct {
	ID        string `json:"id"`
	Protocol  string `json:"protocol"`
	StartPort int    `json:"startPort"`
	EndPort   int    `json:"endPort"`
	VM        string `json:"vm,omitempty"` // its name, to be shown

	// Owner is Owned for the Service's own; it is empty for all others.
	Owner Ownership `json:"owner,omitempty"`
	// The rest is known of own ones.
	Member      string   `json:"member,omitempty"` // see MemberName
	PrivatePort int      `json:"privatePort,omitempty"`
	CIDRs       []string `json:"cidrs,omitempty"`
	State       string   `json:"state,omitempty"`
	Tagged      bool     `json:"tagged,omitempty"`

	// Sibling, Service, Near and Admits are as in ActualRule.
	Sibling bool   `json:"sibling,omitempty"`
	Service string `json:"service,omitempty"`
	Near    bool   `json:"near,omitempty"`
	Admits  bool   `json:"admits,omitempty"`
}

// has reports whether a public port is forwarded.
func (f *Forward) has(port int) bool { return f.StartPort <= port && port <= f.EndPort }

// bars reports whether a port forwarding of others keeps us from forwarding a port. CloudStack would take two on one
// port where their source ranges differ as texts.
func (f *Forward) bars(protocol string, port int) bool {
	return f.Owner != Owned && f.has(port) && cmp.Or(f.Protocol, protocol) == protocol
}

// OwnForwards returns the Service's own port forwardings on the address, sorted.
func (a *Address) OwnForwards() []Forward {
	var out []Forward
	for i := range a.Forwards {
		if a.Forwards[i].Owner == Owned {
			out = append(out, a.Forwards[i])
		}
	}
	slices.SortFunc(out, func(a, b Forward) int {
		return cmp.Or(cmp.Compare(a.StartPort, b.StartPort), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// untagged are the ids of own port forwardings without tags, for the record: nothing else proves them ours.
func (a *Address) untagged() string {
	var ids []string
	for _, f := range a.OwnForwards() {
		if !f.Tagged {
			ids = append(ids, f.ID)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// ForwardTies are what may prove a port forwarding the Service's, beside its tags.
type ForwardTies struct {
	IDs   []string // that the Service's record names
	Ports PortSet  // that its record names: they are written before the first creation
	// NodePort is the Service's own one for the port, and OnNode reports whether it leads to a VM of the cluster.
	NodePort, OnNode bool
}

// OwnsForward decides whose a port forwarding is: its tags say so, else the Service's record does: by its id, or by the
// port of one whose creation was not recorded, and that leads where only the Service's own would lead.
func OwnsForward(f *Forward, tags Ownership, ties ForwardTies) bool {
	switch {
	case f.StartPort != f.EndPort, tags == Foreign:
		return false
	case tags == Owned, slices.Contains(ties.IDs, f.ID):
		return true
	}
	return slices.Contains(ties.Ports[f.Protocol], f.StartPort) && ties.NodePort && ties.OnNode
}

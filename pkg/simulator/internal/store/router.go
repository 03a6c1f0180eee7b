// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// HostFor distributes VMs over the hosts of a zone.
func (st *State) HostFor(z *Zone, n int) *Host {
	var hosts []*Host
	for _, h := range st.Hosts.Rows {
		if h.Zone == z {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	return hosts[n%len(hosts)]
}

// Router is the virtual router of a network or of a VPC. It has no row of its own: it exists while its network is
// implemented or its VPC is started.
type Router struct {
	ID      string
	Name    string
	Network *Network // nil: the router of a VPC
	VPC     *VPC
	Zone    *Zone
	Owner   *Account
	Created time.Time
	Public  *PublicIP
}

// Routers returns all running virtual routers.
func (st *State) Routers() []Router {
	var out []Router
	for _, n := range st.Networks.Rows {
		running := n.State == NetImplemented || n.Typ == TypeShared && st.InUse(n)
		if n.Removed || n.VPC != nil || !running || !n.Offering.routed() {
			continue
		}
		r := Router{ID: StableID("router", n.UUID), Name: routerName(n.routerID, n.ID), Network: n, Zone: n.Zone, Owner: n.Owner, Created: n.Created, Public: n.SourceNATIP(st)}
		out = append(out, r)
	}
	for _, v := range st.VPCs.Rows {
		if !v.Removed && v.Started {
			out = append(out, Router{
				ID: StableID("router", v.UUID), Name: routerName(v.routerID, 100000+v.ID), VPC: v, Zone: v.Zone, Owner: v.Owner, Created: v.Created, Public: v.SourceNATIP(st),
			})
		}
	}
	return out
}

// routerName returns the name of the router with a number. Routers of networks in a world file have no number and use
// other.
func routerName(number, other int64) string {
	if number == 0 {
		number = other
	}
	return fmt.Sprintf("r-%d-VM", number)
}

// routed reports whether a virtual router provides a service of the offering.
func (o *NetworkOffering) routed() bool {
	return slices.ContainsFunc(o.Services, func(s serviceView) bool { return slices.Contains(s.Provider, NameView{"VirtualRouter"}) })
}

// routerFinder finds routers by id.
type routerFinder struct{ st *State }

func (f routerFinder) FindUUID(v string) (any, int64) {
	for _, r := range f.st.Routers() {
		if strings.EqualFold(r.ID, v) {
			return r, 0
		}
	}
	return nil, 0
}

func (routerFinder) findID(int64) any { return nil }

// Serves reports whether this is the router of the network.
func (r Router) Serves(n *Network) bool {
	return n != nil && (r.Network == n || r.VPC != nil && n.VPC == r.VPC)
}

// HostOf returns the host on which the router runs.
func (st *State) HostOf(r Router) *Host { return st.HostFor(r.Zone, int(r.Created.Unix()&0xff)) }

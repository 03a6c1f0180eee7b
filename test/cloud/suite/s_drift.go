// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
)

// upgrade changes chart values.
func (e *env) upgrade(values ...string) {
	args := []string{"upgrade", "--yes"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	e.csccm(args...)
}

// damage is one change by others, and what is right when it is repaired.
type damage struct {
	what     string
	do, well func()
}

// driftPorts are those of the Service: each has a damage of its own.
var driftPorts = []int32{80, 443, 8443, 9000}

// drift damages a served Service in all ways at once, then in what cannot be told apart from the others, and waits for the repair.
func drift(e *env) string {
	e.cleanup(func() { e.upgrade("driftPeriod=") })
	e.upgrade("driftPeriod=10s")
	ip := e.served("web", ports(driftPorts...))
	e.serves(ip, texts(driftPorts)...)
	var kinds []string
	for _, round := range e.damages(ip) {
		for _, d := range round {
			if err := must.Catch(d.do); err != nil {
				must.Fail("%s: %w", d.what, err)
			}
			kinds = append(kinds, d.what)
		}
		for _, d := range round {
			e.until("repair of: "+d.what, d.well)
		}
	}
	e.event("web", "DriftRepaired")
	e.remove("web")
	return "repaired within rounds of 10 s: " + strings.Join(kinds, ", ")
}

// damages are rounds of damages.
func (e *env) damages(ip string) [][]damage {
	// onRule makes a call about the rule of a port.
	onRule := func(what, port, command string, params api.Params) damage {
		return damage{what, func() {
			params["id"] = e.rules(ip)[port].ID
			e.do(command, params)
		}, func() {
			rules := e.rules(ip)
			complete(rules, texts(driftPorts), e.names())
			for port, r := range rules {
				must.Be(r.Algorithm == "roundrobin" && r.Protocol == "tcp", "port %s: algorithm %s, protocol %s", port, r.Algorithm, r.Protocol)
			}
		}}
	}
	all := []damage{
		onRule("rule deleted", "80", "deleteLoadBalancerRule", api.Params{}),
		onRule("member removed", "443", "removeFromLoadBalancerRule", api.Params{"virtualmachineids": e.vms[0].ID}),
		onRule("algorithm changed", "8443", "updateLoadBalancerRule", api.Params{"algorithm": "leastconn", "protocol": "tcp"}),
		onRule("protocol changed", "9000", "updateLoadBalancerRule", api.Params{"protocol": "tcp-proxy"}),
	}
	if e.vpcID != "" {
		return [][]damage{append(all, damage{"ACL item deleted", func() {
			items := e.acl(e.network.ACLID)
			must.Be(len(items) > 0, "no item lets anybody in")
			for _, item := range items {
				e.do("deleteNetworkACL", api.Params{"id": item.ID})
			}
		}, e.aclOpen}), {e.listReplaced()}, {e.addressReleased(ip)}}
	}
	return [][]damage{append(all, damage{"firewall rule deleted", func() {
		for _, f := range e.firewall(e.addresses()[ip]) {
			e.do("deleteFirewallRule", api.Params{"id": f.ID})
		}
	}, func() {
		list := e.firewall(e.addresses()[ip])
		must.Be(sources(list, "80") == everybody && sources(list, "443") == everybody, "the firewall is %v", list)
	}}), {e.addressReleased(ip)}}
}

// addressReleased releases the Service's address behind its back: it gets another one.
func (e *env) addressReleased(ip string) damage {
	return damage{"address released", func() { e.release(e.addresses()[ip]) }, func() {
		in, all := e.ingress("web"), e.addresses()
		must.Be(len(in) == 1 && all[in[0].IP] != "", "the Service is at %v, the account has %v", in, all)
		e.isServed("web", texts(driftPorts)...)
	}}
}

// aclOpen checks that the tier's list lets everybody reach the Service's ports.
func (e *env) aclOpen() {
	items := e.acl(e.network.ACLID)
	for _, p := range e.get("web").Spec.Ports {
		// CloudStack's ACL is for the public port or for the node port, as the controller has it: either is enough here.
		open := slices.ContainsFunc(items, func(i aclItem) bool { return covers(i.Ports, p.NodePort) || covers(i.Ports, p.Port) })
		must.Be(open, "no item for port %d (node port %d) in %v", p.Port, p.NodePort, items)
	}
}

// covers reports whether a range such as "80-443" has a port.
func covers(ports string, port int32) bool {
	var from, to int32
	_, err := fmt.Sscanf(ports, "%d-%d", &from, &to)
	return err == nil && from <= port && port <= to
}

// listReplaced replaces the tier's ACL list by another of the VPC.
func (e *env) listReplaced() damage {
	old := e.network.ACLID
	return damage{"ACL list replaced", func() {
		e.network.ACLID = must.Get(e.world.ACLList(e.ctx, "vpc-acl-2", e.vpcID))
		e.do("replaceNetworkACLList", api.Params{"aclid": e.network.ACLID, "networkid": e.network.ID})
	}, func() {
		e.aclOpen()
		left := e.acl(old)
		must.Be(len(left) == 0, "%d items are left in the list that is not used any more", len(left))
	}}
}

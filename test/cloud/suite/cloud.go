// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
)

// rule is a load balancer rule in CloudStack.
type rule struct {
	ID, Name, Port, PrivatePort, Protocol, Algorithm, CIDRs, AddressID string
	Members                                                            []string
}

// scope are the parameters that make a list show the place's objects.
func (p *place) scope(more api.Params) api.Params {
	params := api.Params{"listall": "true"}
	if p.projectID != "" {
		params = api.Params{"projectid": p.projectID}
	}
	maps.Copy(params, more)
	return params
}

// list are the place's objects of a kind, whose list command has the plural of its name.
func (e *env) list(command, object string, more api.Params) []api.Object {
	return must.Get(e.world.User.List(e.ctx, command, object, e.scope(more)))
}

// do makes a call as the user and waits for its job.
func (e *env) do(command string, params api.Params) api.Object {
	return must.Get(e.world.User.Do(e.ctx, command, params))
}

// rules are the load balancer rules at an address by port.
func (e *env) rules(ip string) map[string]rule {
	all := map[string]rule{}
	for _, o := range e.list("listLoadBalancerRules", "loadbalancerrule", nil) {
		if o.Text("publicip") == ip {
			all[o.Text("publicport")] = rule{
				ID: o.Text("id"), Name: o.Text("name"), Port: o.Text("publicport"), PrivatePort: o.Text("privateport"), Protocol: o.Text("protocol"),
				Algorithm: o.Text("algorithm"), CIDRs: cidrs(o.Text("cidrlist")), AddressID: o.Text("publicipid"), Members: e.members(o.Text("id")),
			}
		}
	}
	return all
}

// members are the names of a rule's VMs, sorted.
func (e *env) members(ruleID string) []string {
	var names []string
	for _, vm := range must.Get(e.world.User.Call(e.ctx, "listLoadBalancerRuleInstances", api.Params{"id": ruleID})).Objects("loadbalancerruleinstance") {
		names = append(names, vm.Text("name"))
	}
	slices.Sort(names)
	return names
}

// rulesAre waits until the rules at an address are as the check wants them.
func (e *env) rulesAre(ip, what string, check func(map[string]rule)) {
	e.until(what, func() { check(e.rules(ip)) })
}

// serves waits until the ports of an address have rules with all nodes as members.
func (e *env) serves(ip string, ports ...string) {
	e.rulesAre(ip, fmt.Sprintf("the rules at %s to be for ports %v with all nodes", ip, ports), func(rules map[string]rule) {
		complete(rules, ports, e.names())
	})
}

// complete checks that rules are for just these ports, with just these members.
func complete(rules map[string]rule, ports, members []string) {
	must.Be(len(rules) == len(ports), "there are rules for %d ports, want %v", len(rules), ports)
	for _, port := range ports {
		r, ok := rules[port]
		must.Be(ok, "no rule for port %s", port)
		must.Be(slices.Equal(r.Members, members), "the members of port %s are %v, want %v", port, r.Members, members)
	}
}

// fwRule is a firewall rule of an address.
type fwRule struct {
	ID, CIDRs string
	From, To  int
}

// firewall are the firewall rules of an address.
func (e *env) firewall(addressID string) []fwRule {
	var all []fwRule
	for _, o := range e.list("listFirewallRules", "firewallrule", api.Params{"ipaddressid": addressID}) {
		from, _ := o["startport"].(float64)
		to, _ := o["endport"].(float64)
		all = append(all, fwRule{o.Text("id"), cidrs(o.Text("cidrlist")), int(from), int(to)})
	}
	return all
}

// sources are the ranges from which a port can be reached.
func sources(all []fwRule, port string) string {
	n := must.Get(strconv.Atoi(port))
	var found []string
	for _, r := range all {
		if r.From <= n && n <= r.To {
			found = append(found, r.CIDRs)
		}
	}
	return cidrs(strings.Join(found, ","))
}

// aclItem is an item of a network ACL list.
type aclItem struct{ ID, Ports string }

// acl are the items of the tier's list that let TCP in.
func (e *env) acl(listID string) []aclItem {
	var all []aclItem
	for _, o := range e.list("listNetworkACLs", "networkacl", api.Params{"aclid": listID}) {
		if o.Text("traffictype") == "Ingress" && o.Text("action") == "Allow" {
			all = append(all, aclItem{o.Text("id"), o.Text("startport") + "-" + o.Text("endport")})
		}
	}
	return all
}

const everybody = "0.0.0.0/0"

// addresses are the public addresses in the place that are not for source NAT: id by address.
func (e *env) addresses() map[string]string {
	all := map[string]string{}
	for _, o := range e.list("listPublicIpAddresses", "publicipaddress", nil) {
		here := o.Text("associatednetworkid") == e.network.ID || e.vpcID != "" && o.Text("vpcid") == e.vpcID
		if here && !o.Flag("issourcenat") {
			all[o.Text("ipaddress")] = o.Text("id")
		}
	}
	return all
}

// released waits until the account does not have an address any more.
func (e *env) released(ips ...string) {
	e.until(fmt.Sprintf("%v to be released", ips), func() {
		left := e.addresses()
		for _, ip := range ips {
			must.Be(left[ip] == "", "%s is there", ip)
		}
	})
}

// acquire acquires an address by hand.
func (e *env) acquire() (ip, id string) {
	params := api.Params{"networkid": e.network.ID}
	if e.vpcID != "" {
		params = api.Params{"vpcid": e.vpcID}
	}
	if e.projectID != "" {
		params["projectid"] = e.projectID
	}
	o := e.do("associateIpAddress", params)
	return o.Text("ipaddress"), o.Text("id")
}

// release releases an address by hand.
func (e *env) release(id string) { e.do("disassociateIpAddress", api.Params{"id": id}) }

// acquireForNow acquires an address by hand, which is released at the end of the scenario.
func (e *env) acquireForNow() string {
	ip, id := e.acquire()
	e.cleanup(func() {
		if e.addresses()[ip] == id {
			e.release(id)
		}
	})
	return ip
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// rule is a load balancer rule with the names of its members, sorted.
type rule struct {
	cloudstack.LoadBalancerRule
	Members []string
}

// do makes a call as the user and waits for its job.
func (e *env) do(command string, params world.Params) world.Object {
	return e.world.User.Do(e.ctx, command, params)
}

// rules are the load balancer rules at an address by port, without what changes by itself.
func (e *env) rules(ip string) map[string]rule {
	all := map[string]rule{}
	for _, r := range must.Get(e.world.User.ListLoadBalancerRules(e.ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: e.projectID})) {
		if r.PublicIP == ip {
			r.State, r.Tags, r.CIDRs = "", nil, annotation.Canonical(r.CIDRs)
			all[fmt.Sprint(r.PublicPort)] = rule{r, e.members(r.ID)}
		}
	}
	return all
}

// members are the names of a rule's VMs, sorted.
func (e *env) members(ruleID string) (names []string) {
	for _, m := range must.Get(e.world.User.ListLoadBalancerMembers(e.ctx, ruleID)) {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// rulesAre waits until the rules at an address are as the check wants them.
func (e *env) rulesAre(ip, what string, check func(map[string]rule)) {
	e.until(what, func() { check(e.rules(ip)) })
}

// serves waits until the ports of an address have rules with all nodes as members.
func (e *env) serves(ip, ports string) {
	e.rulesAre(ip, "the rules at "+ip+" to be for ports "+ports+" with all nodes", func(rules map[string]rule) {
		complete(rules, ports, e.names())
	})
}

// complete checks that rules are for just these ports, as a Service of a scenario has them, with just these members.
func complete(rules map[string]rule, ports string, members []string) {
	must.Be(len(rules) == 1+strings.Count(ports, ","), "there are rules for %d ports, want %s", len(rules), ports)
	for port := range strings.SplitSeq(ports, ",") {
		r, ok := rules[port]
		must.Be(ok, "no rule for port %s", port)
		must.Be(slices.Equal(r.Members, members), "the members of port %s are %v, want %v", port, r.Members, members)
	}
}

// firewall are the firewall rules of an address.
func (e *env) firewall(addressID string) []cloudstack.FirewallRule {
	return must.Get(e.world.User.ListFirewallRules(e.ctx, cloudstack.FirewallRuleQuery{PublicIPID: addressID, ProjectID: e.projectID}))
}

// sources are the ranges from which a port can be reached. Two halves are the whole: the controller narrows 0.0.0.0/0 by opening
// 10.0.0.0/9 and 10.128.0.0/9 before it closes.
func sources(all []cloudstack.FirewallRule, port string) string {
	n := must.Get(strconv.Atoi(port))
	var found []string
	for _, r := range all {
		if r.StartPort <= n && n <= r.EndPort {
			found = append(found, r.CIDRs...)
		}
	}
	return strings.Join(annotation.Canonical(found), ",")
}

// acl are the items of a list that let somebody in.
func (e *env) acl(listID string) []cloudstack.NetworkACL {
	all := must.Get(e.world.User.ListNetworkACLs(e.ctx, cloudstack.NetworkACLQuery{ListID: listID, ProjectID: e.projectID}))
	return slices.DeleteFunc(all, func(a cloudstack.NetworkACL) bool { return !a.Ingress || !a.Allow })
}

// addresses are the public addresses in the place that are not for source NAT: id by address.
func (e *env) addresses() map[string]string {
	all := map[string]string{}
	for _, a := range must.Get(e.world.User.ListPublicIPs(e.ctx, cloudstack.PublicIPQuery{ProjectID: e.projectID})) {
		if here := a.AssociatedNetworkID == e.networkID || e.vpcID != "" && a.VPCID == e.vpcID; here && !a.SourceNAT {
			all[a.Address] = a.ID
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
	params := world.Params{"networkid": e.networkID}
	if e.vpcID != "" {
		params = world.Params{"vpcid": e.vpcID}
	}
	o := e.do("associateIpAddress", params.Set("projectid", e.projectID))
	return o.Text("ipaddress"), o.Text("id")
}

// release releases an address by hand.
func (e *env) release(id string) { e.do("disassociateIpAddress", world.Params{"id": id}) }

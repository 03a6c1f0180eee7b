// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/test/cloud/api"
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
	for k, v := range more {
		params[k] = v
	}
	return params
}

// rules are the load balancer rules at an address by port.
func (p *place) rules(ctx context.Context, ip string) (map[string]rule, error) {
	list, err := p.world.User.List(ctx, "listLoadBalancerRules", "loadbalancerrule", p.scope(nil))
	if err != nil {
		return nil, err
	}
	all := map[string]rule{}
	for _, o := range list {
		if o.Text("publicip") != ip {
			continue
		}
		r := rule{
			ID: o.Text("id"), Name: o.Text("name"), Port: o.Text("publicport"), PrivatePort: o.Text("privateport"), Protocol: o.Text("protocol"),
			Algorithm: o.Text("algorithm"), CIDRs: cidrs(o.Text("cidrlist")), AddressID: o.Text("publicipid"),
		}
		if r.Members, err = p.members(ctx, r.ID); err != nil {
			return nil, err
		}
		all[r.Port] = r
	}
	return all, nil
}

// members are the names of a rule's VMs, sorted.
func (p *place) members(ctx context.Context, ruleID string) ([]string, error) {
	list, err := p.world.User.Call(ctx, "listLoadBalancerRuleInstances", api.Params{"id": ruleID})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, vm := range list.Objects("loadbalancerruleinstance") {
		names = append(names, vm.Text("name"))
	}
	slices.Sort(names)
	return names, nil
}

// rulesAre waits until the rules at an address are as the check wants them.
func (p *place) rulesAre(ctx context.Context, ip, what string, check func(map[string]rule) error) error {
	return p.until(ctx, what, func(ctx context.Context) error {
		rules, err := p.rules(ctx, ip)
		if err != nil {
			return err
		}
		return check(rules)
	})
}

// serves waits until the ports of an address have rules with all nodes as members.
func (p *place) serves(ctx context.Context, ip string, ports ...string) error {
	return p.rulesAre(ctx, ip, fmt.Sprintf("the rules at %s to be for ports %v with all nodes", ip, ports), func(rules map[string]rule) error {
		return p.complete(rules, ports, p.names())
	})
}

// complete reports whether rules are for just these ports, with just these members.
func (p *place) complete(rules map[string]rule, ports, members []string) error {
	if len(rules) != len(ports) {
		return fmt.Errorf("there are rules for %d ports, want %v", len(rules), ports)
	}
	for _, port := range ports {
		r, ok := rules[port]
		if !ok {
			return fmt.Errorf("no rule for port %s", port)
		}
		if !slices.Equal(r.Members, members) {
			return fmt.Errorf("the members of port %s are %v, want %v", port, r.Members, members)
		}
	}
	return nil
}

// fwRule is a firewall rule of an address.
type fwRule struct {
	ID, Protocol, CIDRs string
	From, To            int
}

// firewall are the firewall rules of an address, by their first port.
func (p *place) firewall(ctx context.Context, addressID string) ([]fwRule, error) {
	list, err := p.world.User.List(ctx, "listFirewallRules", "firewallrule", p.scope(api.Params{"ipaddressid": addressID}))
	if err != nil {
		return nil, err
	}
	var all []fwRule
	for _, o := range list {
		from, _ := o["startport"].(float64)
		to, _ := o["endport"].(float64)
		all = append(all, fwRule{o.Text("id"), o.Text("protocol"), cidrs(o.Text("cidrlist")), int(from), int(to)})
	}
	slices.SortFunc(all, func(a, b fwRule) int { return a.From - b.From })
	return all, nil
}

// sources are the ranges from which a port can be reached.
func sources(all []fwRule, port string) string {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err.Error()
	}
	var found []string
	for _, r := range all {
		if r.From <= n && n <= r.To {
			found = append(found, r.CIDRs)
		}
	}
	return cidrs(strings.Join(found, ","))
}

// aclItem is an item of a network ACL list.
type aclItem struct{ ID, Ports, CIDRs, Reason string }

// acl are the items of the tier's list that let TCP in.
func (p *place) acl(ctx context.Context, listID string) ([]aclItem, error) {
	list, err := p.world.User.List(ctx, "listNetworkACLs", "networkacl", p.scope(api.Params{"aclid": listID}))
	if err != nil {
		return nil, err
	}
	var all []aclItem
	for _, o := range list {
		if o.Text("traffictype") == "Ingress" && o.Text("action") == "Allow" {
			all = append(all, aclItem{o.Text("id"), o.Text("startport") + "-" + o.Text("endport"), cidrs(o.Text("cidrlist")), o.Text("reason")})
		}
	}
	return all, nil
}

// filterIs waits until an address lets just these sources reach a port: by the firewall in a network, by rule and ACL list in a VPC.
func (p *place) filterIs(ctx context.Context, ip, port, want string) error {
	return p.rulesAre(ctx, ip, fmt.Sprintf("port %s at %s to be open to %q", port, ip, want), func(rules map[string]rule) error {
		r, ok := rules[port]
		if !ok {
			return errors.New("no rule")
		}
		if p.vpcID != "" {
			if got := cmp.Or(r.CIDRs, everybody); got != want {
				return fmt.Errorf("the rule says %q", got)
			}
			return nil
		}
		list, err := p.firewall(ctx, r.AddressID)
		if err != nil {
			return err
		}
		if got := sources(list, port); got != want {
			return fmt.Errorf("the firewall lets in %q", got)
		}
		return nil
	})
}

const everybody = "0.0.0.0/0"

// addresses are the public addresses in the place that are not for source NAT: id by address.
func (p *place) addresses(ctx context.Context) (map[string]string, error) {
	list, err := p.world.User.List(ctx, "listPublicIpAddresses", "publicipaddress", p.scope(nil))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, o := range list {
		here := o.Text("associatednetworkid") == p.network.ID || p.vpcID != "" && o.Text("vpcid") == p.vpcID
		if here && !o.Flag("issourcenat") {
			all[o.Text("ipaddress")] = o.Text("id")
		}
	}
	return all, nil
}

// acquire acquires an address by hand.
func (p *place) acquire(ctx context.Context) (ip, id string, err error) {
	params := api.Params{"networkid": p.network.ID}
	if p.vpcID != "" {
		params = api.Params{"vpcid": p.vpcID}
	}
	if p.projectID != "" {
		params["projectid"] = p.projectID
	}
	o, err := p.world.User.Do(ctx, "associateIpAddress", params)
	return o.Text("ipaddress"), o.Text("id"), err
}

// release releases an address by hand.
func (p *place) release(ctx context.Context, id string) error {
	_, err := p.world.User.Do(ctx, "disassociateIpAddress", api.Params{"id": id})
	return err
}

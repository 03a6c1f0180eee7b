// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/test/cloud/api"
)

// driftScenarios are about what others change in CloudStack.
func driftScenarios(at string) []scenario {
	return []scenario{{name: at + ": drift of each kind", at: at, run: drift}}
}

// withValues changes chart values by csccm upgrade, does something, and changes them back.
func (e *env) withValues(ctx context.Context, values, back []string, do func() error) error {
	upgrade := func(ctx context.Context, values []string) error {
		args := []string{"upgrade", "--yes"}
		for _, v := range values {
			args = append(args, "--set", v)
		}
		_, err := e.csccm(ctx, args...)
		return err
	}
	if err := upgrade(ctx, values); err != nil {
		return err
	}
	return errors.Join(do(), upgrade(context.WithoutCancel(ctx), back))
}

// damage is one change by others, and how the load balancer is right again.
type damage struct {
	what string
	do   func(context.Context) error
	// well reports what is not repaired yet.
	well func(context.Context) error
}

// driftPorts are those of the Service: each has a damage of its own.
var driftPorts = []int32{80, 443, 8443, 9000}

// drift damages a served Service in all ways at once, then in what cannot be told apart from the others, and waits for the repair.
func drift(ctx context.Context, e *env) (string, error) {
	var kinds []string
	err := e.withValues(ctx, []string{"driftPeriod=10s"}, []string{"driftPeriod="}, func() error {
		ip, err := e.served(ctx, "web", ports(driftPorts...))
		if err != nil {
			return err
		}
		if err := e.serves(ctx, ip, texts(driftPorts)...); err != nil {
			return err
		}
		for _, round := range e.damages(ip) {
			for _, d := range round {
				if err := d.do(ctx); err != nil {
					return fmt.Errorf("%s: %w", d.what, err)
				}
				kinds = append(kinds, d.what)
			}
			for _, d := range round {
				if err := e.until(ctx, "repair of: "+d.what, d.well); err != nil {
					return err
				}
			}
		}
		if _, err := e.event(ctx, "Service", "web", "DriftRepaired"); err != nil {
			return err
		}
		return e.remove(ctx, "web")
	})
	return "repaired within rounds of 10 s: " + strings.Join(kinds, ", "), err
}

// damages are rounds of damages.
func (e *env) damages(ip string) [][]damage {
	user := e.world.User
	complete := func(ctx context.Context) error {
		rules, err := e.rules(ctx, ip)
		if err != nil {
			return err
		}
		if err := e.complete(rules, texts(driftPorts), e.names()); err != nil {
			return err
		}
		for port, r := range rules {
			if r.Algorithm != "roundrobin" || r.Protocol != "tcp" {
				return fmt.Errorf("port %s: algorithm %s, protocol %s", port, r.Algorithm, r.Protocol)
			}
		}
		return nil
	}
	// onRule does something to the rule of a port.
	onRule := func(port, command string, params func(rule) api.Params) func(context.Context) error {
		return func(ctx context.Context) error {
			rules, err := e.rules(ctx, ip)
			if err != nil {
				return err
			}
			p := params(rules[port])
			p["id"] = rules[port].ID
			_, err = user.Do(ctx, command, p)
			return err
		}
	}
	all := []damage{
		{"rule deleted", onRule("80", "deleteLoadBalancerRule", func(rule) api.Params { return api.Params{} }), complete},
		{"member removed", onRule("443", "removeFromLoadBalancerRule", func(rule) api.Params { return api.Params{"virtualmachineids": e.vms[0].ID} }), complete},
		{"algorithm changed", onRule("8443", "updateLoadBalancerRule", func(r rule) api.Params { return api.Params{"algorithm": "leastconn", "protocol": r.Protocol} }), complete},
		{"protocol changed", onRule("9000", "updateLoadBalancerRule", func(rule) api.Params { return api.Params{"protocol": "tcp-proxy"} }), complete},
	}
	if e.vpcID != "" {
		return [][]damage{append(all, damage{"ACL item deleted", func(ctx context.Context) error {
			items, err := e.acl(ctx, e.network.ACLID)
			for _, item := range items {
				if _, derr := user.Do(ctx, "deleteNetworkACL", api.Params{"id": item.ID}); derr != nil {
					err = errors.Join(err, derr)
				}
			}
			if len(items) == 0 {
				err = errors.Join(err, errors.New("no item lets anybody in"))
			}
			return err
		}, func(ctx context.Context) error { return e.aclOpen(ctx, e.network.ACLID) }}), {e.listReplaced()}, {e.addressReleased(ip)}}
	}
	return [][]damage{append(all, damage{"firewall rule deleted", func(ctx context.Context) error {
		all, err := e.addresses(ctx)
		if err != nil {
			return err
		}
		list, err := e.firewall(ctx, all[ip])
		for _, f := range list {
			if _, derr := user.Do(ctx, "deleteFirewallRule", api.Params{"id": f.ID}); derr != nil {
				err = errors.Join(err, derr)
			}
		}
		return err
	}, func(ctx context.Context) error {
		all, err := e.addresses(ctx)
		if err != nil {
			return err
		}
		list, err := e.firewall(ctx, all[ip])
		if err == nil && (sources(list, "80") != everybody || sources(list, "443") != everybody) {
			err = fmt.Errorf("the firewall is %v", list)
		}
		return err
	}}), {e.addressReleased(ip)}}
}

// addressReleased releases the Service's address behind its back: it gets another one.
func (e *env) addressReleased(ip string) damage {
	return damage{"address released", func(ctx context.Context) error {
		all, err := e.addresses(ctx)
		if err != nil {
			return err
		}
		return e.release(ctx, all[ip])
	}, func(ctx context.Context) error {
		s, err := e.get(ctx, "web")
		if err != nil {
			return err
		}
		all, err := e.addresses(ctx)
		if err != nil {
			return err
		}
		in := s.Status.LoadBalancer.Ingress
		if len(in) != 1 || all[in[0].IP] == "" {
			return fmt.Errorf("the Service is at %v, the account has %v", in, all)
		}
		return e.isServed(ctx, "web", texts(driftPorts)...)
	}}
}

// aclOpen returns why a list does not let everybody reach the Service's node ports, or nil.
func (e *env) aclOpen(ctx context.Context, list string) error {
	s, err := e.get(ctx, "web")
	if err != nil {
		return err
	}
	items, err := e.acl(ctx, list)
	if err != nil {
		return err
	}
	for _, p := range s.Spec.Ports {
		// CloudStack's ACL is for the public port or for the node port, as the controller has it: either is enough here.
		if !slices.ContainsFunc(items, func(i aclItem) bool { return covers(i.Ports, p.NodePort) || covers(i.Ports, p.Port) }) {
			return fmt.Errorf("no item for port %d (node port %d) in %v", p.Port, p.NodePort, items)
		}
	}
	return nil
}

// covers reports whether a range such as "80-443" has a port.
func covers(ports string, port int32) bool {
	var from, to int32
	_, err := fmt.Sscanf(ports, "%d-%d", &from, &to)
	return err == nil && from <= port && port <= to
}

// listReplaced replaces the tier's ACL list by another of the VPC.
func (e *env) listReplaced() damage {
	other := ""
	return damage{"ACL list replaced", func(ctx context.Context) error {
		var err error
		if other, err = e.world.ACLList(ctx, "vpc-acl-2", e.vpcID); err != nil {
			return err
		}
		_, err = e.world.User.Do(ctx, "replaceNetworkACLList", api.Params{"aclid": other, "networkid": e.network.ID})
		if err == nil {
			e.network.ACLID, other = other, e.network.ACLID
		}
		return err
	}, func(ctx context.Context) error {
		if err := e.aclOpen(ctx, e.network.ACLID); err != nil {
			return err
		}
		left, err := e.acl(ctx, other)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d items are left in the list that is not used any more", len(left))
		}
		return err
	}}
}

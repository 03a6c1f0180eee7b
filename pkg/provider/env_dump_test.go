// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// account is a simulated CloudStack with an API server. It reads the account that has the load balancers of Services,
// like another user of that account.
type account struct {
	*testenv.Cloud
	apiServer
	inspect *cloudstack.Client
	project string
	vpc     bool // the world has a VPC
	// noForwards means that the role may not list port forwardings.
	noForwards bool
	tenants    bool // operators forward ports
}

// snapshot is the account as CloudStack lists it: addresses by ID.
type snapshot map[string]*addressSnapshot

// addressSnapshot is an address with everything on it.
type addressSnapshot struct {
	cloudstack.PublicIP
	rules    []cloudstack.LoadBalancerRule
	members  map[string][]string // names of VMs by rule id
	firewall []cloudstack.FirewallRule
	forwards []cloudstack.PortForwarding
}

// lines describes the address with everything on it. It includes IDs, so that a replaced rule counts
// as a change.
func (a *addressSnapshot) lines() []string {
	return append(a.contents(),
		fmt.Sprintf("address %s %s network %s static NAT %v %v", a.Address, a.State, a.AssociatedNetworkID, a.StaticNAT,
			a.tags()))
}

// contents is lines without the address itself.
func (a *addressSnapshot) contents() []string {
	return a.describe(func(id string) string { return id })
}

// describe describes everything on the address; name returns the name that replaces an id.
func (a *addressSnapshot) describe(name func(id string) string) []string {
	out := []string{} // never nil: an idle address has nothing on it
	for _, r := range a.rules {
		out = append(out,
			fmt.Sprintf("rule %s %s %d->%d %s %s %v %v", name(r.ID), r.Name, r.PublicPort, r.PrivatePort, r.Protocol,
				r.Algorithm, r.CIDRs, a.members[r.ID]))
	}
	for _, f := range a.firewall {
		out = append(out,
			fmt.Sprintf("firewall %s %s %d-%d %v", name(f.ID), f.Protocol, f.StartPort, f.EndPort, f.CIDRs))
	}
	for _, f := range a.forwards {
		out = append(out,
			fmt.Sprintf("forwarding %s %d/%s->%d %v %v %s", name(f.ID), f.StartPort, f.Protocol, f.PrivatePort, f.CIDRs,
				taggedFor(f.Tags), f.VMName))
	}
	slices.Sort(out)
	return out
}

// idOf returns the ID of the address, or of the rule, firewall rule or port forwarding of a port; empty if there is
// none.
func (a *addressSnapshot) idOf(kind string, port int) string {
	if kind == "address" {
		return a.ID
	}

	for i := range a.rules {
		if kind == "rule" && a.rules[i].PublicPort == port {
			return a.rules[i].ID
		}
	}

	for _, f := range a.firewall {
		if kind == "firewall" && f.StartPort <= port && port <= f.EndPort {
			return f.ID
		}
	}

	for i := range a.forwards {
		if kind == "forward" && a.forwards[i].StartPort == port {
			return a.forwards[i].ID
		}
	}

	return ""
}

// taggedFor returns the cluster and the Service that the tags of a port forwarding name.
func taggedFor(tags map[string]string) string {
	return tags[plan.TagCluster] + ":" + tags[plan.TagService]
}

func (a *addressSnapshot) tags() []string {
	out := []string{}
	for k, v := range a.Tags {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// tagsOfOthers returns the tags without those of the controller.
func (a *addressSnapshot) tagsOfOthers() []string {
	if a.Tags[plan.TagCluster] != "test" {
		return a.tags()
	}
	return slices.DeleteFunc(a.tags(), func(tag string) bool { return strings.HasPrefix(tag, "csccm-") })
}

// access returns which sources can reach a port.
func (a *addressSnapshot) access(port int) []string {
	var open []string
	for _, f := range a.firewall {
		if f.Protocol == plan.ProtocolTCP && f.StartPort <= port && port <= f.EndPort {
			open = append(open, f.CIDRs...)
		}
	}
	var out []string
	for _, r := range a.rules {
		if r.PublicPort == port && len(a.members[r.ID]) > 0 {
			allowed := r.CIDRs
			if len(allowed) == 0 {
				allowed = []string{annotation.Anyone}
			}
			out = append(out, intersection(allowed, open)...)
		}
	}
	return out
}

// routed returns the names of the VMs to which each rule on the router forwards, by ID of the rule.
func (env *account) routed() map[string][]string {
	out := map[string][]string{}
	for _, r := range env.Router().Rules {
		for _, m := range r.Members {
			out[r.ID] = append(out[r.ID], m.VM)
		}
		slices.Sort(out[r.ID])
	}
	return out
}

func (env *account) snapshot() snapshot {
	env.t.Helper()
	out, err := env.snapshotOf(env.project)
	require.NoError(env.t, err)
	return out
}

// snapshotOf returns the account, or one of its projects, as CloudStack lists it.
func (env *account) snapshotOf(project string) (snapshot, error) {
	ctx, c, all := env.t.Context(), env.inspect, false
	members := env.routed()
	out := snapshot{}
	for _, q := range []cloudstack.PublicIPQuery{{}, {State: "Allocating", AllocatedOnly: &all},
		{State: "Releasing", AllocatedOnly: &all}} {
		q.ProjectID = project
		ips, err := c.ListPublicIPs(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range ips {
			out[ips[i].ID] = &addressSnapshot{PublicIP: ips[i], members: members}
		}
	}

	firewall, err1 := c.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{ProjectID: project})
	for _, f := range firewall {
		if a := out[f.PublicIPID]; a != nil {
			a.firewall = append(a.firewall, f)
		}
	}

	rules, err2 := c.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project})
	for _, r := range rules {
		if a := out[r.PublicIPID]; a != nil {
			a.rules = append(a.rules, r)
		}
	}

	forwards, err3 := c.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
	if env.noForwards {
		err3 = nil
	}

	for _, f := range forwards {
		if a := out[f.PublicIPID]; a != nil {
			a.forwards = append(a.forwards, f)
		}
	}

	return out, errors.Join(err1, err2, err3)
}

// dump describes everything in the account without IDs: one line for each address, rule and firewall rule.
func (env *account) dump() []string {
	env.t.Helper()
	var out []string
	for _, a := range env.snapshot() {
		out = append(out, a.describe(func(string) string { return a.Address })...)
		out = append(out, fmt.Sprintf("address %s %s %v", a.Address, a.State, a.tags()))
		if a.StaticNAT {
			out = append(out, "static NAT "+a.Address)
		}
	}
	if env.vpc {
		out = append(out, env.dumpVPC()...)
	}
	slices.Sort(out)
	return out
}

// dumpVPC adds ACL items and internal load balancers to a dump.
func (env *account) dumpVPC() []string {
	env.t.Helper()
	var out []string
	items, err := env.inspect.ListNetworkACLs(env.t.Context(), cloudstack.NetworkACLQuery{ProjectID: env.project})
	require.NoError(env.t, err)
	for _, i := range items {
		action := "deny"
		if i.Allow {
			action = "allow"
		}
		out = append(out,
			fmt.Sprintf("acl %s %d %s %s %d-%d %v %q", i.ListName, i.Number, action, i.Protocol, i.StartPort, i.EndPort,
				i.CIDRs, i.Reason))
	}

	internal, err := env.inspect.ListInternalLoadBalancers(env.t.Context(),
		cloudstack.InternalLoadBalancerQuery{ProjectID: env.project})
	require.NoError(env.t, err)
	members := env.routed()
	for _, l := range internal {
		out = append(out,
			fmt.Sprintf("internal %s %s %d->%d %s %v", l.Address, l.Name, l.Port, l.InstancePort, l.Algorithm,
				members[l.ID]))
	}

	return out
}

// of returns the lines of a dump that concern an address.
func of(dump []string, ip string) []string {
	var out []string
	for _, line := range dump {
		if strings.Contains(line, " "+ip+" ") {
			out = append(out, strings.Replace(line, " "+ip, "", 1))
		}
	}
	return out
}

// intersection returns the sources that are in both lists.
func intersection(a, b []string) []string {
	x, _, errA := annotation.ParseRanges(a)
	y, _, errB := annotation.ParseRanges(b)
	if err := errors.Join(errA, errB); err != nil {
		panic(err) // CloudStack lists no other ranges
	}
	return annotation.Strings(annotation.Aggregate(annotation.Intersect(x, y)))
}

// did waits for a job that the test has submitted, and returns the ID of the job's object.
func (env *account) did(s cloudstack.Submitted, err error) string {
	env.t.Helper()
	require.NoError(env.t, err)
	_, err = env.inspect.Jobs().Wait(env.t.Context(), "test", s.JobID)
	require.NoError(env.t, err)
	return s.ID
}

// on returns an address of the account with everything on it.
func (env *account) on(ip string) *addressSnapshot {
	env.t.Helper()
	a := env.snapshot().at(ip)
	require.NotNil(env.t, a, ip)
	return a
}

// at returns an address, or nil.
func (s snapshot) at(ip string) *addressSnapshot {
	for _, a := range s {
		if a.Address == ip {
			return a
		}
	}
	return nil
}

// vm returns the ID of a VM.
func (env *account) vm(name string) string {
	env.t.Helper()
	vms, err := env.inspect.ListVirtualMachines(env.t.Context(), cloudstack.VMQuery{})
	require.NoError(env.t, err)
	i := slices.IndexFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name })
	require.GreaterOrEqual(env.t, i, 0, name)
	return vms[i].ID
}

func (env *account) net(name string) cloudstack.Network {
	env.t.Helper()
	networks, err := env.inspect.ListNetworks(env.t.Context(), cloudstack.NetworkQuery{})
	require.NoError(env.t, err)
	i := slices.IndexFunc(networks, func(n cloudstack.Network) bool { return n.Name == name })
	require.GreaterOrEqual(env.t, i, 0, name)
	return networks[i]
}

// ledTo returns the nodes that the port forwardings of an address send traffic to.
func (env *account) ledTo(ip string) (out []string) {
	env.t.Helper()
	forwards := env.on(ip).forwards
	for i := range forwards {
		out = append(out, forwards[i].VMName)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// snapshot is the account as CloudStack lists it.
type snapshot struct {
	addresses map[string]*addressSnapshot // by id
	names     map[string]string           // of VMs, by id
}

// addressSnapshot is an address with everything on it.
type addressSnapshot struct {
	cloudstack.PublicIP
	rules    []cloudstack.LoadBalancerRule
	members  map[string][]string // names of VMs by rule id
	firewall []cloudstack.FirewallRule
	forwards []string
}

// lines describe the address with everything on it. Ids are part of it: a rule that was replaced is not the same.
func (a *addressSnapshot) lines() []string {
	var tags []string
	for _, k := range slices.Sorted(maps.Keys(a.Tags)) {
		tags = append(tags, k+"="+a.Tags[k])
	}
	return append(a.contents(), fmt.Sprintf("address %s %s network %s static NAT %v %v", a.Address, a.State, a.AssociatedNetworkID, a.StaticNAT, tags))
}

// contents is lines without the address itself.
func (a *addressSnapshot) contents() []string {
	out := []string{} // never nil: an idle address has nothing on it
	for i := range a.rules {
		r := &a.rules[i]
		out = append(out, fmt.Sprintf("rule %s %s %d->%d %s %s %v %v", r.ID, r.Name, r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm, r.CIDRs, a.members[r.ID]))
	}
	for i := range a.firewall {
		f := &a.firewall[i]
		out = append(out, fmt.Sprintf("firewall %s %s %d-%d %v", f.ID, f.Protocol, f.StartPort, f.EndPort, f.CIDRs))
	}
	out = append(out, a.forwards...)
	slices.Sort(out)
	return out
}

// access returns who reaches a port.
func (a *addressSnapshot) access(port int) []string {
	var open []string
	for i := range a.firewall {
		if f := &a.firewall[i]; f.Protocol == plan.ProtocolTCP && f.StartPort <= port && port <= f.EndPort {
			open = append(open, f.CIDRs...)
		}
	}
	var out []string
	for i := range a.rules {
		if r := &a.rules[i]; r.PublicPort == port && len(a.members[r.ID]) > 0 {
			allowed := r.CIDRs
			if len(allowed) == 0 {
				allowed = []string{annotation.Anyone}
			}
			out = append(out, intersection(allowed, open)...)
		}
	}
	return out
}

func (env *serviceEnv) snapshot(last *snapshot) *snapshot {
	env.t.Helper()
	ctx := env.t.Context()
	out := &snapshot{addresses: map[string]*addressSnapshot{}}
	if last == nil {
		vms, err := env.inspect.ListVirtualMachines(ctx, cloudstack.VMQuery{})
		require.NoError(env.t, err)
		out.names = map[string]string{}
		for i := range vms {
			out.names[vms[i].ID] = vms[i].Name
		}
	} else {
		out.names = last.names
	}
	ips, err := env.inspect.ListPublicIPs(ctx, cloudstack.PublicIPQuery{})
	require.NoError(env.t, err)
	for i := range ips {
		out.addresses[ips[i].ID] = &addressSnapshot{PublicIP: ips[i], members: map[string][]string{}}
	}
	firewall, err := env.inspect.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{})
	require.NoError(env.t, err)
	for _, f := range firewall {
		if a := out.addresses[f.PublicIPID]; a != nil {
			a.firewall = append(a.firewall, f)
		}
	}
	rules, err := env.inspect.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{})
	require.NoError(env.t, err)
	byRule := map[string][]string{}
	for _, vm := range slices.Sorted(maps.Keys(out.names)) {
		of, err := env.inspect.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{VMID: vm})
		require.NoError(env.t, err)
		for i := range of {
			byRule[of[i].ID] = append(byRule[of[i].ID], out.names[vm])
		}
	}
	for _, r := range rules {
		if a := out.addresses[r.PublicIPID]; a != nil {
			a.rules = append(a.rules, r)
			slices.Sort(byRule[r.ID])
			a.members[r.ID] = byRule[r.ID]
		}
	}
	for _, f := range env.items("listPortForwardingRules", "portforwardingrule") {
		if a := out.addresses[fmt.Sprint(f["ipaddressid"])]; a != nil {
			a.forwards = append(a.forwards, fmt.Sprintf("forwarding %v %v->%v", f["id"], f["publicport"], f["privateport"]))
		}
	}
	return out
}

// violation is a state that a tenant must not cause.
type violation struct{ kind, text string }

func (v violation) String() string { return v.kind + ": " + v.text }

// guarded is what an attacker may not change: lines by the id of an address.
type guarded map[string][]string

// judge compares a snapshot with what must not change. On addresses in use, by port, there may be
// more than that, and the firewall rules of these ports may be other ones.
func judge(now *snapshot, protected guarded, used map[string]map[int]bool, what string) []violation {
	var out []violation
	for _, id := range slices.Sorted(maps.Keys(protected)) {
		a := now.addresses[id]
		var lines []string
		if a != nil {
			lines = a.lines()
		}
		diff := changes(protected[id], lines)
		if len(used[id]) > 0 {
			diff = slices.DeleteFunc(grep(diff, "- "), func(line string) bool { return governs(line[len("- "):], used[id]) })
		}
		if len(diff) > 0 {
			kind := what + " changed"
			switch {
			case a == nil:
				kind = what + " released"
			case len(changes(protected[id][:len(protected[id])-1], lines[:len(lines)-1])) == 0:
				kind = what + " tagged"
			}
			out = append(out, violation{kind, strings.Join(diff, "; ")})
		}
	}
	return out
}

// governs reports whether a line is a firewall rule that opens no other ports.
func governs(line string, ports map[int]bool) bool {
	var id, protocol string
	var first, last int
	if n, err := fmt.Sscanf(line, "firewall %s %s %d-%d", &id, &protocol, &first, &last); n != 4 || err != nil {
		return false
	}
	for port := first; port <= last; port++ {
		if !ports[port] {
			return false
		}
	}
	return true
}

// judgeIdle checks idle addresses of the account, on which tenants may have rules.
func judgeIdle(now *snapshot, idle guarded, used map[string]map[int]bool) []violation {
	var out []violation
	for _, id := range slices.Sorted(maps.Keys(idle)) {
		a := now.addresses[id]
		if a == nil {
			out = append(out, violation{"idle address released", id})
			continue
		}
		if a.Tags[plan.TagAllocatedBy] != "" {
			out = append(out, violation{"idle address tagged as acquired", a.Address})
		}
		contents := a.contents()
		for _, line := range idle[id] {
			if !slices.Contains(contents, line) && !governs(line, used[id]) {
				out = append(out, violation{"operator's firewall rule changed", a.Address + " " + line})
			}
		}
	}
	return out
}

// judgeService compares the address of a Service that was just synced with the Service itself.
func judgeService(now *snapshot, svc *corev1.Service, nodes []string, byHand bool) []violation {
	spec, err := annotation.Parse(svc)
	if err != nil || len(svc.Status.LoadBalancer.Ingress) == 0 {
		return []violation{{"victim not served", svc.Name}}
	}
	var a *addressSnapshot
	for _, x := range now.addresses {
		if x.Address == svc.Status.LoadBalancer.Ingress[0].IP {
			a = x
		}
	}
	if a == nil {
		return []violation{{"victim's address is gone", svc.Status.LoadBalancer.Ingress[0].IP}}
	}
	var out []violation
	if uid := a.Tags[plan.TagServiceUID]; !byHand && uid != string(svc.UID) {
		out = append(out, violation{"victim's address is not tagged", a.Address + " " + uid})
	}
	name := cloudprovider.DefaultLoadBalancerName(svc)
	count := 0
	for i := range a.rules {
		if strings.HasPrefix(a.rules[i].Name, name+"-") {
			count++
		}
	}
	if count != len(svc.Spec.Ports) {
		out = append(out, violation{"victim's rules", fmt.Sprintf("%d rules for %d ports", count, len(svc.Spec.Ports))})
	}
	for _, p := range svc.Spec.Ports {
		if got := a.access(int(p.Port)); !slices.Equal(got, spec.SourceRanges) {
			out = append(out, violation{"victim's access", fmt.Sprintf("port %d of %s: %v in place of %v", p.Port, a.Address, got, spec.SourceRanges)})
		}
		i := slices.IndexFunc(a.rules, func(r cloudstack.LoadBalancerRule) bool { return r.PublicPort == int(p.Port) })
		if i < 0 || a.rules[i].PrivatePort != int(p.NodePort) || !slices.Equal(a.members[a.rules[i].ID], nodes) {
			out = append(out, violation{"victim's rules", fmt.Sprintf("port %d of %s", p.Port, a.Address)})
		}
	}
	return out
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
)

var vmRefs = map[string]refKind{"id": refVM, "ids": refVM}

func listVirtualMachines(c *call) (any, error) {
	out, details, err := c.listedVMs()
	if err != nil {
		return nil, err
	}
	return page(c, "virtualmachine", out, func(v *vm) vmView { return c.viewVM(v, details) })
}

// listedVMs returns the VMs that listVirtualMachines and listVirtualMachinesMetrics answer.
func (c *call) listedVMs() ([]*vm, vmDetails, error) {
	if c.given("id") && len(c.lists["ids"]) > 0 {
		return nil, nil, invalid("Specify either id or ids but not both parameters")
	}
	details := vmDetails{}
	for _, d := range c.list("details") {
		if !slices.Contains(vmDetailNames, d) {
			return nil, nil, invalid("The details parameter contains a non permitted value. The allowed values are [%s]", strings.Join(vmDetailNames, ", "))
		}
		details[d] = true
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, nil, err
	}
	if h, ok := c.args["hypervisor"]; ok && !knownHypervisor(h) {
		return nil, nil, invalid("Invalid HypervisorType %s", h)
	}
	seesDestroyed := !c.caller.account.normal() || c.st.settings.UserViewDestroyed
	ids := map[*vm]bool{}
	for _, r := range c.lists["ids"] {
		if v, ok := r.obj.(*vm); ok {
			ids[v] = true
		}
	}
	tags := c.tagFilter()
	match := c.vmFilter()
	var out []*vm
	for _, v := range c.st.vms.rows {
		switch {
		case v.removed || !in(v.owner) || !matches(c, "id", v) || len(c.lists["ids"]) > 0 && !ids[v]:
		case (v.state == vmDestroyed || v.state == vmExpunging) && !seesDestroyed:
		case !c.visible("displayvm", v.hidden) || !v.hasTags(tags) || !match(v):
		default:
			out = append(out, v)
		}
	}
	return out, details, nil
}

// vmFilter returns the filters on attributes of the VM.
func (c *call) vmFilter() func(*vm) bool {
	var tests []func(*vm) bool
	add := func(param string, test func(v *vm, value string) bool) {
		if value, ok := c.args[param]; ok { // an empty value filters too
			tests = append(tests, func(v *vm) bool { return test(v, value) })
		}
	}
	add("name", func(v *vm, s string) bool { return strings.EqualFold(s, v.name) })
	add("hypervisor", func(v *vm, s string) bool { return strings.EqualFold(s, v.hypervisor) })
	add("keypair", func(v *vm, s string) bool { return slices.Contains(v.keypairs, s) })
	add("arch", func(_ *vm, s string) bool { return strings.EqualFold(s, templateArch) })
	add("state", func(v *vm, s string) bool {
		if strings.EqualFold(s, "Present") {
			return v.state != vmDestroyed && v.state != vmExpunging
		}
		return strings.EqualFold(s, v.state)
	})
	add("keyword", func(v *vm, k string) bool {
		return like(v.display, k) || like(v.name, k) || strings.EqualFold(v.state, k) || c.caller.rootAdmin() && like(v.instanceName(), k) ||
			slices.ContainsFunc(v.nics, func(n *nic) bool {
				return like(n.ip, k) || like(n.ip6, k) || n.staticNAT != nil && like(n.staticNAT.addr.String(), k)
			})
	})
	addBool := func(param string, test func(*vm) bool) {
		if b := c.optBool(param); b != nil {
			tests = append(tests, func(v *vm) bool { return test(v) == *b })
		}
	}
	addBool("haenable", func(v *vm) bool { return v.haEnabled })
	addBool("forvirtualnetwork", func(v *vm) bool {
		return slices.ContainsFunc(v.nics, func(n *nic) bool { return n.network.typ == typeIsolated })
	})
	for _, none := range []string{"isvnf", "leased", "gpuenabled"} {
		addBool(none, func(*vm) bool { return false })
	}
	tests = append(tests, c.vmRefFilter()...)
	return func(v *vm) bool {
		for _, test := range tests {
			if !test(v) {
				return false
			}
		}
		return true
	}
}

// vmRefFilter returns the filters by ids of other objects.
func (c *call) vmRefFilter() []func(*vm) bool {
	var tests []func(*vm) bool
	add := func(param string, test func(*vm) bool) {
		if c.given(param) {
			tests = append(tests, test)
		}
	}
	add("zoneid", func(v *vm) bool { return matches(c, "zoneid", v.zone) })
	add("templateid", func(v *vm) bool { return matches(c, "templateid", v.template) })
	add("serviceofferingid", func(v *vm) bool { return matches(c, "serviceofferingid", v.offering) })
	add("userid", func(v *vm) bool { return matches(c, "userid", v.user) })
	add("groupid", func(v *vm) bool { return matches(c, "groupid", v.group) })
	add("affinitygroupid", func(v *vm) bool { return slices.Contains(v.affinity, arg[*affinityGroup](c, "affinitygroupid")) })
	add("networkid", func(v *vm) bool {
		n := arg[*network](c, "networkid")
		return n != nil && v.nicIn(n) != nil
	})
	add("vpcid", func(v *vm) bool {
		p := arg[*vpc](c, "vpcid")
		return p != nil && slices.ContainsFunc(v.nics, func(n *nic) bool { return n.network.vpc == p })
	})
	if c.caller.rootAdmin() { // only the admin variant of the command has these parameters
		add("hostid", func(v *vm) bool { return matches(c, "hostid", v.host) })
		add("podid", func(v *vm) bool { return v.host != nil && matches(c, "podid", v.host.cluster.pod) })
		add("clusterid", func(v *vm) bool { return v.host != nil && matches(c, "clusterid", v.host.cluster) })
		add("storageid", func(v *vm) bool {
			return !v.unplaced && matches(c, "storageid", c.st.poolOf(v.zone))
		})
	}
	for _, none := range []string{"isoid", "securitygroupid", "autoscalevmgroupid", "backupofferingid", "userdataid", "extensionid"} {
		add(none, func(*vm) bool { return false })
	}
	return tests
}

// leaveRules removes a VM from all load balancer rules. The rules stay Active, as in CloudStack.
func (st *state) leaveRules(v *vm) {
	for _, r := range st.lbRules.rows {
		r.members = slices.DeleteFunc(r.members, func(m *lbMember) bool { return m.vm == v })
	}
}

// expunge expunges a VM: its row remains, marked as removed, and its addresses become free.
func (st *state) expunge(v *vm) {
	st.leaveRules(v)
	st.leaveForwards(v)
	v.removed, v.state, v.host = true, vmExpunging, nil
	for _, n := range v.nics {
		n.network.used = slices.DeleteFunc(n.network.used, func(o *nic) bool { return o == n })
		st.freeNIC(n)
	}
	for _, d := range v.volumes {
		d.expunge()
	}
	v.tags, v.affinity, v.group = nil, nil, nil
}

// accountText formats an account like CloudStack's exceptions.
func accountText(a *account) string {
	return fmt.Sprintf(`Account [{"accountName":"%s","id":%d,"uuid":"%s"}]`, a.name, a.id, a.uuid)
}

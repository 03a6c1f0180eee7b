// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func listVirtualMachines(c *wire.Call) (any, error) {
	out, details, err := listedVMs(c)
	if err != nil {
		return nil, err
	}
	return wire.Page(c, "virtualmachine", out, func(v *store.VM) view.VMView { return view.ViewVM(c, v, details) })
}

// listedVMs returns the VMs that listVirtualMachines and listVirtualMachinesMetrics answer.
func listedVMs(c *wire.Call) ([]*store.VM, view.VMDetails, error) {
	if c.Given("id") && len(c.Lists["ids"]) > 0 {
		return nil, nil, wire.Invalid("Specify either id or ids but not both parameters")
	}
	details := view.VMDetails{}
	for _, d := range c.List("details") {
		if !slices.Contains(view.VMDetailNames, d) {
			return nil, nil, wire.Invalid("The details parameter contains a non permitted value. The allowed values are [%s]", strings.Join(view.VMDetailNames, ", "))
		}
		details[d] = true
	}
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, nil, err
	}
	if h, ok := c.Args["hypervisor"]; ok && !knownHypervisor(h) {
		return nil, nil, wire.Invalid("Invalid HypervisorType %s", h)
	}
	seesDestroyed := !c.Caller.Account.Normal() || c.St.BoolSetting("allow.user.view.destroyed.vm")
	ids := map[*store.VM]bool{}
	for _, r := range c.Lists["ids"] {
		if v, ok := r.Obj.(*store.VM); ok {
			ids[v] = true
		}
	}
	tags := c.TagFilter()
	match := vmFilter(c)
	var out []*store.VM
	for _, v := range c.St.VMs.Rows {
		switch {
		case v.Removed || !in(v.Owner) || !wire.Matches(c, "id", v) || len(c.Lists["ids"]) > 0 && !ids[v]:
		case (v.State == store.VMDestroyed || v.State == store.VMExpunging) && !seesDestroyed:
		case c.Has("displayvm") && !c.Boolean("displayvm") || !v.HasTags(tags) || !match(v):
		default:
			out = append(out, v)
		}
	}
	return out, details, nil
}

// vmFilter returns the filters on attributes of the VM.
func vmFilter(c *wire.Call) func(*store.VM) bool {
	var tests []func(*store.VM) bool
	add := func(param string, test func(v *store.VM, value string) bool) {
		if value, ok := c.Args[param]; ok { // an empty value filters too
			tests = append(tests, func(v *store.VM) bool { return test(v, value) })
		}
	}
	add("name", func(v *store.VM, s string) bool { return strings.EqualFold(s, v.Name) })
	add("hypervisor", func(v *store.VM, s string) bool { return strings.EqualFold(s, v.Hypervisor) })
	add("keypair", func(*store.VM, string) bool { return false })
	add("arch", func(_ *store.VM, s string) bool { return strings.EqualFold(s, templateArch) })
	add("state", func(v *store.VM, s string) bool {
		if strings.EqualFold(s, "Present") {
			return v.State != store.VMDestroyed && v.State != store.VMExpunging
		}
		return strings.EqualFold(s, v.State)
	})
	add("keyword", func(v *store.VM, k string) bool {
		return store.Like(v.Display, k) || store.Like(v.Name, k) || strings.EqualFold(v.State, k) || c.Caller.RootAdmin() && store.Like(v.InstanceName(), k) ||
			slices.ContainsFunc(v.NICs, func(n *store.NIC) bool {
				return store.Like(n.IP, k) || store.Like(n.IP6, k) || n.StaticNAT != nil && store.Like(n.StaticNAT.Addr.String(), k)
			})
	})
	addBool := func(param string, test func(*store.VM) bool) {
		if b := c.OptBool(param); b != nil {
			tests = append(tests, func(v *store.VM) bool { return test(v) == *b })
		}
	}
	addBool("forvirtualnetwork", func(v *store.VM) bool {
		return slices.ContainsFunc(v.NICs, func(n *store.NIC) bool { return n.Network.Typ == store.TypeIsolated })
	})
	for _, none := range []string{"isvnf", "leased", "gpuenabled", "haenable"} {
		addBool(none, func(*store.VM) bool { return false })
	}
	tests = append(tests, vmRefFilter(c)...)
	return func(v *store.VM) bool {
		for _, test := range tests {
			if !test(v) {
				return false
			}
		}
		return true
	}
}

// vmRefFilter returns the filters by ids of other objects.
func vmRefFilter(c *wire.Call) []func(*store.VM) bool {
	var tests []func(*store.VM) bool
	add := func(param string, test func(*store.VM) bool) {
		if c.Given(param) {
			tests = append(tests, test)
		}
	}
	add("zoneid", func(v *store.VM) bool { return wire.Matches(c, "zoneid", v.Zone) })
	add("templateid", func(v *store.VM) bool { return wire.Matches(c, "templateid", v.Template) })
	add("serviceofferingid", func(v *store.VM) bool { return wire.Matches(c, "serviceofferingid", v.Offering) })
	add("userid", func(v *store.VM) bool { return wire.Matches(c, "userid", v.User) })
	add("networkid", func(v *store.VM) bool {
		n := wire.Arg[*store.Network](c, "networkid")
		return n != nil && v.NICIn(n) != nil
	})
	add("vpcid", func(v *store.VM) bool {
		p := wire.Arg[*store.VPC](c, "vpcid")
		return p != nil && slices.ContainsFunc(v.NICs, func(n *store.NIC) bool { return n.Network.VPC == p })
	})
	if c.Caller.RootAdmin() { // only the admin variant of the command has these parameters
		add("hostid", func(v *store.VM) bool { return wire.Matches(c, "hostid", v.Host) })
	}
	for _, none := range []string{"isoid", "securitygroupid", "autoscalevmgroupid", "backupofferingid", "userdataid", "extensionid"} {
		add(none, func(*store.VM) bool { return false })
	}
	return tests
}

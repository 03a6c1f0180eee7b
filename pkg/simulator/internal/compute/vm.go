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
	if c.Given("id") && len(c.Lists["ids"]) > 0 {
		return nil, wire.Invalid("Specify either id or ids but not both parameters")
	}

	details := view.VMDetails{}
	for _, d := range c.List("details") {
		if !slices.Contains(view.VMDetailNames, d) {
			return nil, wire.Invalid("The details parameter contains a non permitted value. The allowed values are "+
				"[%s]", strings.Join(view.VMDetailNames, ", "))
		}
		details[d] = true
	}

	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}

	if h, ok := c.Args["hypervisor"]; ok && !knownHypervisor(h) {
		return nil, wire.Invalid("Invalid HypervisorType %s", h)
	}

	seesDestroyed := !c.Caller.Account.Normal() || c.St.BoolSetting("allow.user.view.destroyed.vm")
	tags := c.TagFilter()
	return wire.List(c, "virtualmachine", c.St.VMs.Rows, func(v *store.VM) bool {
		return in(v.Owner) && (!destroyed(v) || seesDestroyed) && v.HasTags(tags) && vmMatches(c, v)
	}, func(v *store.VM) view.VMView { return view.ViewVM(c, v, details) })
}

func destroyed(v *store.VM) bool { return v.State == store.VMDestroyed || v.State == store.VMExpunging }

// vmMatches applies the filters on attributes of a VM. Filters with an empty value count, too.
func vmMatches(c *wire.Call, v *store.VM) bool {
	present := strings.EqualFold(c.Str("state"), "Present") && !destroyed(v)
	in := func(is func(*store.Network) bool) bool {
		return slices.ContainsFunc(v.NICs, func(n *store.NIC) bool { return is(n.Network) })
	}
	return c.Is("name", v.Name) &&
		c.Is("hypervisor", v.Hypervisor) &&
		(present || c.Is("state", v.State)) &&
		(!c.Has("keyword") || vmLike(c, v)) &&
		c.Flag("leased", false) &&
		c.Flag("haenable", false) &&
		(!c.Has("forvirtualnetwork") ||
			in(func(n *store.Network) bool { return n.Typ == store.TypeIsolated }) == c.Boolean("forvirtualnetwork")) &&
		wire.Matches(c, "zoneid", v.Zone) &&
		wire.Matches(c, "templateid", v.Template) &&
		wire.Matches(c, "serviceofferingid", v.Offering) &&
		(!c.Given("networkid") || in(func(n *store.Network) bool { return wire.Matches(c, "networkid", n) })) &&
		(!c.Given("vpcid") || in(func(n *store.Network) bool { return wire.MatchesIn(c, "vpcid", n.VPC) }))
}

// vmLike reports whether one of the fields that CloudStack searches contains the keyword.
func vmLike(c *wire.Call, v *store.VM) bool {
	k := c.Str("keyword")
	return c.Like("keyword", v.Display, v.Name) ||
		strings.EqualFold(v.State, k) ||
		c.Caller.RootAdmin() && store.Like(v.InstanceName(), k) ||
		slices.ContainsFunc(v.NICs, func(n *store.NIC) bool {
			return c.Like("keyword", n.IP, n.IP6) || n.StaticNAT != nil && store.Like(n.StaticNAT.Addr.String(), k)
		})
}

// hypervisorNames are the hypervisors that CloudStack knows in addition to those of its zones.
var hypervisorNames = []string{"Hyperv", "KVM", "XenServer", "VMware", "BareMetal", "Ovm", "LXC", "Ovm3", "External"}

// knownHypervisor reports whether CloudStack knows the hypervisor; it ignores filters for unknown ones.
func knownHypervisor(name string) bool {
	return strings.EqualFold(name, "Simulator") ||
		slices.ContainsFunc(hypervisorNames, func(s string) bool { return strings.EqualFold(s, name) })
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"context"
	"slices"

	"github.com/csccm/csccm/test/internal/must"
)

// Offers are the zone, offerings and template that a run uses. An empty id means that the cloud has none.
type Offers struct {
	Version                           string
	ZoneID, Zone                      string
	ServiceOffering, ServiceName      string
	Template, TemplateName            string
	Isolated, VPC, Tier, InternalTier string
}

// findOffers chooses a zone, the smallest service offering and template, and offerings with a virtual router as load
// balancer.
func findOffers(ctx context.Context, c Client, zone string) (o Offers) {
	o.Version = c.Do(ctx, "listCapabilities", nil).Text("cloudstackversion")
	z := chooseZone(c.List(ctx, "listZones", "zone", Params{"available": "true"}), zone)
	must.Be(z != nil || zone == "", "no zone %q: CLOUD_ZONE is a zone's name or id", zone)
	must.Be(z != nil, "no enabled advanced zone without security groups")
	o.ZoneID, o.Zone = z.Text("id"), z.Text("name")
	s := chooseService(c.List(ctx, "listServiceOfferings", "serviceoffering", Params{"zoneid": o.ZoneID}))
	o.ServiceOffering, o.ServiceName = s.Text("id"), s.Text("name")
	t := chooseTemplate(c.Ask(ctx, "listTemplates", Params{
		"templatefilter": "executable",
		"zoneid":         o.ZoneID,
	}).Objects("template"))

	o.Template, o.TemplateName = t.Text("id"), t.Text("name")
	networks := c.List(ctx, "listNetworkOfferings", "networkoffering", Params{"state": "Enabled", "zoneid": o.ZoneID})
	o.Isolated = chooseNetwork(networks, false, "VirtualRouter", "Firewall")
	o.Tier = chooseNetwork(networks, true, "VpcVirtualRouter", "NetworkACL")
	o.InternalTier = chooseNetwork(networks, true, "InternalLbVm", "NetworkACL")
	o.VPC = chooseVPC(c.List(ctx, "listVPCOfferings", "vpcoffering", Params{"state": "Enabled"}))
	return o
}

func chooseZone(zones []Object, want string) Object {
	for _, z := range zones {
		if want != "" && (z.Text("name") == want || z.Text("id") == want) {
			return z
		}
		if want == "" &&
			z.Text("networktype") == "Advanced" &&
			!z.Flag("securitygroupsenabled") &&
			z.Text("allocationstate") == "Enabled" {
			return z
		}
	}
	return nil
}

// chooseService returns the offering with the least memory that needs no further parameters.
func chooseService(all []Object) Object {
	all = slices.DeleteFunc(slices.Clone(all), func(o Object) bool {
		return o.Flag("iscustomized") || o.Flag("issystem") || number(o, "memory") < 256
	})
	return least(all, func(o Object) float64 {
		return number(o, "memory")*1000 + number(o, "cpunumber")*number(o, "cpuspeed")/1000
	})
}

func chooseTemplate(all []Object) Object {
	all = slices.DeleteFunc(slices.Clone(all),
		func(o Object) bool { return !o.Flag("isready") || o.Text("templatetype") == "SYSTEM" })
	return least(all, func(o Object) float64 { return number(o, "size") })
}

func least(all []Object, weight func(Object) float64) Object {
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b Object) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.Text("name"), b.Text("name")))
	})
}

func number(o Object, key string) float64 {
	n, _ := o[key].(float64)
	return n
}

// chooseNetwork returns the id of an isolated offering whose load balancers come from the provider. It prefers
// CloudStack's default offerings.
func chooseNetwork(all []Object, vpc bool, provider, filter string) string {
	return best(all, func(o Object) bool {
		return o.Text("guestiptype") == "Isolated" &&
			o.Flag("forvpc") == vpc &&
			!o.Flag("specifyvlan") &&
			serves(o, "Lb", provider) &&
			serves(o, filter, "") &&
			serves(o, "SourceNat", "")
	})
}

func chooseVPC(all []Object) string {
	return best(all, func(o Object) bool { return serves(o, "Lb", "VpcVirtualRouter") && !o.Flag("fornsx") })
}

// best returns the id of an offering that is not for routed networks. It prefers CloudStack's default offerings.
func best(all []Object, fits func(Object) bool) (id string) {
	for _, o := range all {
		switch {
		case o.Text("networkmode") == "ROUTED" || !fits(o):
		case o.Flag("isdefault"):
			return o.Text("id")
		case id == "":
			id = o.Text("id")
		}
	}
	return id
}

// serves reports whether an offering has a service, from the provider if one is named.
func serves(o Object, service, provider string) bool {
	for _, s := range o.Objects("service") {
		if s.Text("name") != service {
			continue
		}
		if provider == "" {
			return true
		}
		return slices.ContainsFunc(s.Objects("provider"), func(p Object) bool { return p.Text("name") == provider })
	}
	return false
}

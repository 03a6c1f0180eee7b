// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// newVPC makes a VPC of user d/a.
func (h *harness) newVPC(pairs ...string) map[string]any {
	h.t.Helper()
	is := h.ids()
	a := h.call("d/a", "createVPC", append([]string{"name", "v", "cidr", "10.2.0.0/16", "vpcofferingid", is.vpc, "zoneid", is.zone}, pairs...)...)
	require.NotEmpty(h.t, a.str("id"), a.raw)
	return h.done("d/a", a)["vpc"].(map[string]any)
}

func (h *harness) tier(v map[string]any, name, gateway string, pairs ...string) answer {
	h.t.Helper()
	is := h.ids()
	return h.call("d/a", "createNetwork", append([]string{
		"zoneid", is.zone, "name", name, "networkofferingid", is.tier, "vpcid", id(v), "gateway", gateway, "netmask", "255.255.255.0",
	}, pairs...)...)
}

func TestVPCLife(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const u = "d/a"
	v := h.newVPC("displaytext", "text")
	for k, want := range map[string]any{"state": "Enabled", "cidr": "10.2.0.0/16", "vpcofferingname": store.VPCOfferingName, "displaytext": "text", "account": "a"} {
		require.Equal(t, want, v[k], k)
	}
	nat := h.first(h.call(u, "listPublicIpAddresses", "vpcid", id(v)), "publicipaddress")
	require.Equal(t, true, nat["issourcenat"], "its source NAT address comes with it")
	one := h.ok(h.tier(v, "t1", "10.2.1.1")).body["network"].(map[string]any)
	require.Equal(t, "Allocated", one["state"])
	require.Equal(t, id(v), one["vpcid"])
	require.NotContains(t, one, "aclid")
	require.Len(t, h.first(h.call(u, "listVPCs", "id", id(v)), "vpc")["network"], 1)

	for text, a := range map[string]answer{
		"is not within vpc VPC {":                 h.tier(v, "x", "10.3.1.1"),
		"crosses other network cidr Network {":    h.tier(v, "x", "10.2.1.1"),
		"Network domain of the new network":       h.tier(v, "x", "10.2.9.1", "networkdomain", "other.example"),
		"Network offering can't be used for VPC":  h.tier(v, "x", "10.2.9.1", "networkofferingid", h.ids().isolated),
		"ACL [4] does not belong to the VPC [2].": h.tier(v, "x", "10.2.9.1", "aclid", h.otherList()),
	} {
		h.fails(a, 431, wire.CSInvalidValue, text)
	}
	h.ok(h.tier(v, "t2", "10.2.2.1"))
	h.ok(h.tier(v, "t3", "10.2.3.1"))
	h.fails(h.tier(v, "t4", "10.2.4.1"), 530, wire.CSRuntime, wire.InternalErrorText)

	h.broken(u, h.call(u, "deleteVPC", "id", id(v)), 431, "as its used by 3 networks")
	h.fails(h.call("d/b", "deleteVPC", "id", id(v)), 531, wire.CSPermission, wire.NoAccessText)
	require.Equal(t, "w", h.done(u, h.call(u, "updateVPC", "id", id(v), "name", "w"))["vpc"].(map[string]any)["name"])
	h.done(u, h.call(u, "restartVPC", "id", id(v), "cleanup", "true"))
	for _, n := range h.call(u, "listNetworks", "vpcid", id(v)).items("network") {
		h.done(u, h.call(u, "deleteNetwork", "id", id(n)))
	}
	h.done(u, h.call(u, "deleteVPC", "id", id(v)))
	require.Empty(t, h.ok(h.call(u, "listPublicIpAddresses", "id", id(nat))).items("publicipaddress"))
	require.Empty(t, h.ok(h.call(u, "listVPCs")).items("vpc"))
}

// otherList is an ACL list of a VPC of another account.
func (h *harness) otherList() string {
	h.t.Helper()
	is := h.ids()
	b := h.done("d/b", h.call("d/b", "createVPC", "name", "o", "cidr", "10.2.0.0/16", "vpcofferingid", is.vpc, "zoneid", is.zone))["vpc"].(map[string]any)
	h.done("d/b", h.call("d/b", "createNetworkACLList", "name", "first", "vpcid", id(b)))
	return id(h.done("d/b", h.call("d/b", "createNetworkACLList", "name", "l", "vpcid", id(b)))["networkacllist"].(map[string]any))
}

func TestCreateVPCRefused(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	is := h.ids()
	nsx := h.sim.st.VPCOffering("VPC offering with NSX - NAT Mode").UUID
	for _, c := range []struct {
		user, cidr, offering string
		more                 []string
		text                 string
	}{
		{"d/a", "", is.vpc, nil, "VPC cidr or cidr size must be specified"},
		{"d/a", "10.2.0.0/16", is.vpc, []string{"cidrsize", "24"}, "VPC cidr and cidr size are mutually exclusive"},
		{"d/a", "10.2.0.0", is.vpc, nil, "Invalid CIDR specified 10.2.0.0"},
		{"d/a", "8.8.0.0/16", is.vpc, nil, "Guest Cidr 8.8.0.0/16 is not RFC1918 compliant"},
		{"d/a", "10.2.0.0/16", nsx, nil, "should be enabled in at least one physical network"},
		{"d/few", "10.2.0.0/16", is.vpc, nil, "is exceeded"},
		{"d/a", "10.2.0.0/16", is.zone, nil, "entity does not exist"},
		{"d/a", "10.2.0.0/16", is.vpc, []string{"networkdomain", "a_b"}, "Invalid network domain."},
	} {
		pairs := append([]string{"name", "v", "vpcofferingid", c.offering, "zoneid", is.zone}, c.more...)
		if c.cidr != "" {
			pairs = append(pairs, "cidr", c.cidr)
		}
		a := h.call(c.user, "createVPC", pairs...)
		require.Contains(t, a.body["errortext"], c.text, a.raw)
	}
	require.Empty(t, h.ok(h.call("d/a", "listVPCs")).items("vpc"))
	require.Len(t, h.ok(h.call("d/a", "listVPCOfferings")).items("vpcoffering"), 7)
	o := h.first(h.call("d/a", "listVPCOfferings", "isdefault", "true"), "vpcoffering")
	require.Equal(t, store.VPCOfferingName, o["name"])

	later := h.newVPC("start", "false")
	require.Empty(t, h.ok(h.call("d/a", "listPublicIpAddresses", "vpcid", id(later))).items("publicipaddress"), "no router, no address")
	want := h.newVPC("sourcenatipaddress", "203.0.113.39")
	require.Equal(t, "203.0.113.39", h.first(h.call("d/a", "listPublicIpAddresses", "vpcid", id(want), "issourcenat", "true"), "publicipaddress")["ipaddress"])
}

func TestNetworkACLs(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const u = "d/a"
	v := h.newVPC()
	tier := id(h.ok(h.tier(v, "t1", "10.2.1.1")).body["network"].(map[string]any))
	l := h.done(u, h.call(u, "createNetworkACLList", "name", "l", "vpcid", id(v)))["networkacllist"].(map[string]any)
	h.fails(h.call(u, "createNetworkACLList", "name", "global"), 531, wire.CSPermission, "Only Root Admin can create global ACLs.")
	h.fails(h.call("d/b", "createNetworkACLList", "name", "l", "vpcid", id(v)), 531, wire.CSPermission, wire.NoAccessText)
	add := func(pairs ...string) answer {
		return h.call(u, "createNetworkACL", append([]string{"aclid", id(l)}, pairs...)...)
	}
	a := add("protocol", "tcp", "startport", "80")
	it := h.done(u, a)["networkacl"].(map[string]any)
	for k, want := range map[string]any{"endport": "80", "cidrlist": "0.0.0.0/0,::/0", "traffictype": "Ingress", "action": "Allow", "state": "Active", "number": 1.0} {
		require.Equal(t, want, it[k], k)
	}
	for text, a := range map[string]answer{
		"ACL item with number 1 already exists":                     add("protocol", "tcp", "number", "1"),
		"Invalid number [0]":                                        add("protocol", "tcp", "number", "0"),
		"Invalid protocol number: 300":                              add("protocol", "300"),
		"Invalid traffic type x":                                    add("protocol", "tcp", "traffictype", "x"),
		"start port and end port must be null if protocol = 'all'":  add("protocol", "all", "startport", "1"),
		"Start public port is an invalid value: 70000":              add("protocol", "tcp", "startport", "70000"),
		"Can specify icmpCode and icmpType for ICMP protocol only":  add("protocol", "tcp", "icmptype", "1"),
		"Can't specify start/end port when protocol is ICMP":        add("protocol", "1", "startport", "1"),
		"Cannot create Network ACL Item. ACL Id or network Id is r": h.call(u, "createNetworkACL", "protocol", "tcp"),
	} {
		h.fails(a, 431, wire.CSInvalidValue, text)
	}
	own := h.done(u, h.call(u, "createNetworkACL", "networkid", tier, "protocol", "icmp"))["networkacl"].(map[string]any)
	require.EqualValues(t, -1, own["icmptype"])
	require.Contains(t, own["aclname"], "VPC_v_Tier_t1_ACL_", "a tier without a list gets one")

	h.done(u, h.call(u, "replaceNetworkACLList", "aclid", id(l), "networkid", tier))
	h.broken(u, h.call(u, "deleteNetworkACLList", "id", id(l)), 530, "ACL is still associated with 1 tier(s)")
	deny := id(h.first(h.call(u, "listNetworkACLLists", "name", "default_deny"), "networkacllist"))
	h.done(u, h.call(u, "replaceNetworkACLList", "aclid", deny, "networkid", tier))
	h.fails(h.call(u, "createNetworkACL", "networkid", tier, "protocol", "tcp"), 431, wire.CSInvalidValue, "Default ACL cannot be modified")
	h.broken(u, h.call(u, "deleteNetworkACLList", "id", deny), 431, "Default ACL cannot be removed")
	h.broken(u, h.call(u, "replaceNetworkACLList", "aclid", id(l)), 530, "can't be null at the same time")

	up := h.call(u, "updateNetworkACLItem", "id", id(it), "cidrlist", "10.0.0.0/8", "action", "deny")
	require.Equal(t, "createnetworkaclresponse", up.key)
	got := h.done(u, up)["networkacl"].(map[string]any)
	require.Equal(t, []any{"Deny", "10.0.0.0/8", "Add", "80"}, []any{got["action"], got["cidrlist"], got["state"], got["startport"]})
	h.broken("d/b", h.call("d/b", "updateNetworkACLItem", "id", id(it), "action", "deny"), 530, wire.NoAccessText)

	second := h.done(u, add("protocol", "udp", "startport", "53"))["networkacl"].(map[string]any)
	h.done(u, h.call(u, "moveNetworkAclItem", "id", id(second), "nextaclruleid", id(it)))
	order := h.call(u, "listNetworkACLs", "aclid", id(l)).items("networkacl")
	require.Equal(t, []any{1.0, 2.0}, []any{order[0]["number"], order[1]["number"]}, "the newer item is the first now")

	h.done(u, h.call(u, "deleteNetworkACL", "id", id(it)))
	h.fails(h.call(u, "deleteNetworkACL", "id", id(it)), 431, wire.CSGeneric, "entity does not exist")
	h.done(u, h.call(u, "updateNetworkACLList", "id", id(l), "name", "m"))
	h.done(u, h.call(u, "deleteNetworkACLList", "id", id(l)))
	require.Empty(t, h.ok(h.call(u, "listNetworkACLLists", "name", "m")).items("networkacllist"))
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/dump"
	"github.com/csccm/csccm/pkg/simulator/internal/events"
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// zoneOf is what every owner's objects are made from.
type zoneOf struct{ zone, template, offering, isolated, tier, internal, vpc string }

func (h *harness) zoneParts() zoneOf {
	h.t.Helper()
	find := func(list, item string, pairs ...string) string {
		return id(h.first(h.root(list, append(pairs, "listall", "true")...), item))
	}
	return zoneOf{
		zone: find("listZones", "zone"), template: find("listTemplates", "template", "templatefilter", "all"),
		offering: find("listServiceOfferings", "serviceoffering", "name", "Small Instance"),
		isolated: find("listNetworkOfferings", "networkoffering", "name", "DefaultIsolatedNetworkOfferingWithSourceNatService"),
		tier:     find("listNetworkOfferings", "networkoffering", "name", "DefaultIsolatedNetworkOfferingForVpcNetworks"),
		internal: find("listNetworkOfferings", "networkoffering", "name", "DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB"),
		vpc:      find("listVPCOfferings", "vpcoffering", "name", "Default VPC offering"),
	}
}

// everything makes an object of every family for an owner, by calls of a root
// admin alone; owner are the parameters that name the owner.
func (h *harness) everything(name string, owner ...string) {
	h.t.Helper()
	z := h.zoneParts()
	call := func(command string, pairs ...string) answer {
		h.t.Helper()
		a := h.root(command, pairs...)
		require.Equal(h.t, 200, a.status, "%s: %s", command, a.raw)
		if job := a.str("jobid"); job != "" {
			h.clock.Step(time.Hour)
			j := h.root("queryAsyncJobResult", "jobid", job)
			require.EqualValues(h.t, store.JobDone, j.body["jobstatus"], "%s: %s", command, j.raw)
		}
		return a
	}
	owned := func(command string, pairs ...string) answer { return call(command, append(pairs, owner...)...) }
	inner := func(a answer) string {
		for _, v := range a.body {
			if o, ok := v.(map[string]any); ok && o["id"] != nil {
				return id(o)
			}
		}
		return a.str("id")
	}
	vm := func(name, network string, pairs ...string) string {
		return owned("deployVirtualMachine", append(pairs, "name", name, "zoneid", z.zone, "templateid", z.template, "serviceofferingid", z.offering, "networkids", network)...).str("id")
	}
	network := func(name string, pairs ...string) string {
		return inner(owned("createNetwork", append(pairs, "name", name, "displaytext", name, "zoneid", z.zone)...))
	}

	group := inner(owned("createAffinityGroup", "name", name+"-apart", "type", "host anti-affinity"))
	owned("createInstanceGroup", "name", name+"-group")
	owned("createSSHKeyPair", "name", name+"-key")
	net := network(name+"-net", "networkofferingid", z.isolated)
	first := vm(name+"-1", net, "affinitygroupids", group, "group", name+"-group", "diskofferingid", id(h.first(h.root("listDiskOfferings", "name", "Small"), "diskoffering")))
	second := vm(name+"-2", net)
	nic := id(h.first(h.root("listNics", "virtualmachineid", second), "nic"))
	call("addIpToNic", "nicid", nic)
	address := func(pairs ...string) string { return owned("associateIpAddress", pairs...).str("id") }
	ip, nat, held := address("networkid", net), address("networkid", net), address("networkid", net)
	rule := call("createLoadBalancerRule", "publicipid", ip, "name", name+"-rule", "algorithm", "source", "publicport", "80", "privateport", "8080", "cidrlist", "10.0.0.0/8").str("id")
	call("assignToLoadBalancerRule", "id", rule, "virtualmachineids", first)
	call("createLBStickinessPolicy", "lbruleid", rule, "methodname", "LbCookie", "name", name+"-sticky")
	call("createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "8000", "endport", "8001")
	call("createEgressFirewallRule", "networkid", net, "protocol", "tcp", "startport", "443", "endport", "443")
	call("createPortForwardingRule", "ipaddressid", ip, "protocol", "tcp", "publicport", "22", "privateport", "22", "virtualmachineid", first)
	call("enableStaticNat", "ipaddressid", nat, "virtualmachineid", second)
	call("createTags", "resourceids", held, "resourcetype", "PublicIpAddress", "tags[0].key", name, "tags[0].value", "v")

	v := owned("createVPC", "name", name+"-vpc", "displaytext", "v", "zoneid", z.zone, "cidr", "10.9.0.0/16", "vpcofferingid", z.vpc).str("id")
	list := call("createNetworkACLList", "name", name+"-acl", "vpcid", v).str("id")
	call("createNetworkACL", "aclid", list, "protocol", "tcp", "startport", "80", "endport", "90", "number", "3")
	tier := network(name+"-tier", "networkofferingid", z.tier, "vpcid", v, "gateway", "10.9.1.1", "netmask", "255.255.255.0", "aclid", list)
	other := network(name+"-inner", "networkofferingid", z.internal, "vpcid", v, "gateway", "10.9.2.1", "netmask", "255.255.255.0")
	third, fourth := vm(name+"-3", tier), vm(name+"-4", other)
	public := address("vpcid", v)
	rule = call("createLoadBalancerRule", "publicipid", public, "networkid", tier, "name", name+"-public", "algorithm", "roundrobin", "publicport", "80", "privateport", "80").str("id")
	call("assignToLoadBalancerRule", "id", rule, "virtualmachineids", third)
	rule = call("createLoadBalancer", "scheme", "Internal", "name", name+"-inner", "algorithm", "source", "sourceport", "53", "instanceport", "53", "networkid", other,
		"sourceipaddressnetworkid", other).str("id")
	call("assignToLoadBalancerRule", "id", rule, "virtualmachineids", fourth)
	cluster := owned("createKubernetesCluster", "clustertype", store.ExternalManaged, "name", name+"-cluster", "zoneid", z.zone, "size", "1", "description", "d").str("id")
	call("addVirtualMachinesToKubernetesCluster", "id", cluster, "virtualmachineids", first)
	key := newRSA(h.t)
	cert := newPair(h.t, key, nil, h.clock.Now().AddDate(-1, 0, 0), h.clock.Now().AddDate(1, 0, 0))
	owned("uploadSslCert", "name", name+"-cert", "certificate", cert.pem, "privatekey", pemBlock("PRIVATE KEY", pkcs8(h.t, key)))
}

// ownedIDs are the UUIDs of all rows that the account owns, by table; the account's own and its events and jobs are left out.
func (h *harness) ownedIDs(a *store.Account) map[string][]string {
	out := map[string][]string{}
	tables, names := dump.StateTables(h.sim.st)
	for _, name := range names {
		if name == "events" || name == "users" || name == "accounts" || name == "projects" {
			continue
		}
		tables[name].EachRow(func(row any, _ int64) {
			e := row.(interface{ Ent() *store.Entity }).Ent()
			if events.OwnerOf(row) == a && !e.Removed {
				out[name] = append(out[name], e.UUID)
			}
		})
	}
	return out
}

// ownedTables are the tables whose rows belong to accounts.
var ownedTables = []string{
	"networks", "vpcs", "aclLists", "aclItems", "vms", "nics", "secondary", "volumes", "affinity", "groups", "keypairs", "ips", "lbRules", "fwRules", "egress",
	"pfRules", "policies", "certs", "kubernetesClusters",
}

// rich starts a fresh world with room for many objects and tenants.
func rich(t *testing.T) *harness {
	t.Helper()
	w := FreshWorld()
	w.Settings.EndpointURL = "http://192.0.2.1:8080/client/api"
	h := start(t, Options{World: w})
	h.ok(h.root("registerUserKeys", "id", id(h.first(h.root("listUsers", "username", "admin"), "user"))))
	return h
}

// TestDeletionLeavesNothing deletes accounts, projects and domains that own an object of every family.
func TestDeletionLeavesNothing(t *testing.T) {
	t.Parallel()
	h := rich(t)
	free := h.ok(h.root("listPublicIpAddresses", "state", "Free", "allocatedonly", "false")).body["count"]
	owners := map[string]func() (owner []string, a *store.Account, remove func() answer){
		"account": func() ([]string, *store.Account, func() answer) {
			d, acc, _ := h.tenant("one", "gone")
			a, _ := h.sim.st.Accounts.Get(acc)
			return []string{"account", "gone", "domainid", d}, a, func() answer { return h.root("deleteAccount", "id", acc) }
		},
		"project": func() ([]string, *store.Account, func() answer) {
			d, _, _ := h.tenant("two", "lead")
			p := h.root("createProject", "name", "team", "account", "lead", "domainid", d).str("id")
			h.clock.Step(time.Hour)
			row, _ := h.sim.st.Projects.Get(p)
			return []string{"projectid", p}, row.Account, func() answer { return h.root("deleteProject", "id", p, "cleanup", "true") }
		},
		"domain": func() ([]string, *store.Account, func() answer) {
			d, acc, _ := h.tenant("three", "all")
			a, _ := h.sim.st.Accounts.Get(acc)
			return []string{"account", "all", "domainid", d}, a, func() answer { return h.root("deleteDomain", "id", d, "cleanup", "true") }
		},
	}
	for what, create := range owners {
		owner, a, remove := create()
		h.everything(strings.ToLower(what), owner...)
		got := h.ownedIDs(a)
		for _, table := range ownedTables {
			require.NotEmpty(t, got[table], "%s owns no %s", what, table)
		}
		job := remove()
		h.rootJob(job)
		require.Empty(t, h.ownedIDs(a), what)
		require.Equal(t, free, h.ok(h.root("listPublicIpAddresses", "state", "Free", "allocatedonly", "false")).body["count"], what)
		for _, n := range h.sim.st.Networks.Rows {
			require.True(t, n.Removed, n.Name)
			require.Empty(t, n.Used, n.Name)
		}
		for _, kind := range settings.LimitKinds {
			require.Zero(t, h.sim.st.Used(&kind, func(o *store.Account) bool { return o == a }), kind.Key)
		}
	}
}

// TestOwnedTables: whatever has a field named owner or account is among the tables that deletion is tested with.
func TestOwnedTables(t *testing.T) {
	t.Parallel()
	st := store.NewState()
	tables, names := dump.StateTables(st)
	for _, name := range names {
		typ := reflect.TypeOf(tables[name].NewRow()).Elem()
		for _, field := range []string{"owner", "account"} {
			f, ok := typ.FieldByName(field)
			if ok && f.Type == reflect.TypeFor[*store.Account]() && !strings.Contains("users accounts projects events", name) {
				require.Contains(t, ownedTables, name)
			}
		}
	}
}

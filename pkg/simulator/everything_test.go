// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/events"
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// everything creates an object of each family for an owner, using only calls of a root admin. owner are the parameters
// that name the owner.
func (h *env) everything(name string, owner ...string) {
	h.t.Helper()
	var of []string
	for i := 0; i < len(owner); i += 2 {
		of = append(of, owner[i]+"="+owner[i+1])
	}
	h.set("N", name).play(strings.ReplaceAll(`
		root listZones > zone
		root listTemplates templatefilter=all > template
		root listServiceOfferings name="Small Instance" > small
		root listVPCOfferings name="Default VPC offering" > vpcs
		root createNetwork name={N}-net zoneid={zone} networkofferingid={isolated} OWNER > net
		root deployVirtualMachine name={N}-1 zoneid={zone} templateid={template} serviceofferingid={small} networkids={net} OWNER > first
		root deployVirtualMachine name={N}-2 zoneid={zone} templateid={template} serviceofferingid={small} networkids={net} OWNER > second
		root associateIpAddress networkid={net} OWNER > ip
		root associateIpAddress networkid={net} OWNER > nat
		root associateIpAddress networkid={net} OWNER > held
		root createLoadBalancerRule publicipid={ip} name={N}-rule algorithm=source publicport=80 privateport=8080 cidrlist=10.0.0.0/8 > rule
		root assignToLoadBalancerRule id={rule} virtualmachineids={first}
		root createLBStickinessPolicy lbruleid={rule} methodname=LbCookie name={N}-sticky
		root createFirewallRule ipaddressid={ip} protocol=tcp startport=8000 endport=8001
		root createPortForwardingRule ipaddressid={ip} protocol=tcp publicport=22 privateport=22 virtualmachineid={first}
		root enableStaticNat ipaddressid={nat} virtualmachineid={second}
		root createTags resourceids={held} resourcetype=PublicIpAddress tags[0].key={N} tags[0].value=v

		root createVPC name={N}-vpc zoneid={zone} cidr=10.9.0.0/16 vpcofferingid={vpcs} OWNER > vpc
		root createNetworkACLList name={N}-acl vpcid={vpc} > list
		root createNetworkACL aclid={list} protocol=tcp startport=80 endport=90 number=3
		root createNetwork name={N}-tier zoneid={zone} networkofferingid={tier} vpcid={vpc} gateway=10.9.1.1 netmask=255.255.255.0 \
			aclid={list} OWNER > t1
		root createNetwork name={N}-inner zoneid={zone} networkofferingid={innertier} vpcid={vpc} gateway=10.9.2.1 netmask=255.255.255.0 \
			OWNER > t2
		root deployVirtualMachine name={N}-3 zoneid={zone} templateid={template} serviceofferingid={small} networkids={t1} OWNER > third
		root deployVirtualMachine name={N}-4 zoneid={zone} templateid={template} serviceofferingid={small} networkids={t2} OWNER > fourth
		root associateIpAddress vpcid={vpc} OWNER > public
		root createLoadBalancerRule publicipid={public} networkid={t1} name={N}-public algorithm=roundrobin publicport=80 privateport=80 > rule
		root assignToLoadBalancerRule id={rule} virtualmachineids={third}
		root createLoadBalancer scheme=Internal name={N}-inner algorithm=source sourceport=53 instanceport=53 networkid={t2}`+
		` sourceipaddressnetworkid={t2} > rule
		root assignToLoadBalancerRule id={rule} virtualmachineids={fourth}
		root createKubernetesCluster clustertype=ExternalManaged name={N}-cluster zoneid={zone} size=1 description=d OWNER > cluster
		root addVirtualMachinesToKubernetesCluster id={cluster} virtualmachineids={first}
		certificate
		root registerCniConfiguration name={N}-cni cniconfig=I2Nsb3VkLWNvbmZpZwo= OWNER
		root uploadSslCert name={N}-cert certificate={cert} privatekey={key} OWNER
	`, "OWNER", strings.Join(of, " ")))
}

// eachTable calls visit for each table of the store with the name of its field in lower case.
func eachTable(st *store.State, visit func(name string, rows reflect.Value)) {
	v := reflect.ValueOf(st).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && f.Type.Kind() == reflect.Pointer && strings.HasPrefix(f.Type.Elem().Name(), "Table[") {
			visit(strings.ToLower(f.Name), v.Field(i).Elem().FieldByName("Rows"))
		}
	}
}

// ownedIDs returns the UUIDs of all rows that the account owns, by table, without the account itself, its events and
// its jobs.
func (h *env) ownedIDs(a *store.Account) map[string][]string {
	out := map[string][]string{}
	eachTable(h.sim.st, func(name string, rows reflect.Value) {
		if name == "events" || name == "jobs" || name == "users" || name == "accounts" || name == "projects" {
			return
		}
		for i := range rows.Len() {
			row := rows.Index(i).Interface()
			e := row.(interface{ Ent() *store.Entity }).Ent()
			if events.OwnerOf(row) == a && !e.Removed {
				out[name] = append(out[name], e.UUID)
			}
		}
	})
	return out
}

// ownedTables are the tables whose rows belong to accounts.
var ownedTables = []string{
	"networks", "vpcs", "acllists", "aclitems", "vms", "nics", "ips", "lbrules", "fwrules", "pfrules", "policies",
	"certs", "kubernetesclusters",
	"cniconfigs",
}

// startFresh starts a fresh world with space for many objects and tenants.
func startFresh(t *testing.T) *env {
	t.Helper()
	w := FreshWorld()
	w.Settings = map[string]string{"endpoint.url": "http://192.0.2.1:8080/client/api"}
	h := start(t, Options{World: w})
	h.ok(h.root("registerUserKeys", "id", id(h.first(h.root("listUsers", "username", "admin"), "user"))))
	return h
}

// TestDeletionLeavesNothing deletes accounts, projects and domains that own an object of every family.
func TestDeletionLeavesNothing(t *testing.T) {
	t.Parallel()
	h := startFresh(t)
	free := h.ok(h.root("listPublicIpAddresses", "state", "Free", "allocatedonly", "false")).body["count"]
	owners := map[string]func() (owner []string, a *store.Account, remove func() answer){
		"account": func() ([]string, *store.Account, func() answer) {
			d, acc, _ := h.tenant("one", "gone")
			a, _ := h.sim.st.Accounts.Get(acc)
			return []string{"account", "gone", "domainid",
				d}, a, func() answer { return h.root("deleteAccount", "id", acc) }
		},
		"project": func() ([]string, *store.Account, func() answer) {
			d, _, _ := h.tenant("two", "lead")
			p := h.root("createProject", "name", "team", "account", "lead", "domainid", d).str("id")
			h.clock.Step(time.Hour)
			row, _ := h.sim.st.Projects.Get(p)
			return []string{"projectid", p}, row.Account, func() answer {
				return h.root("deleteProject", "id", p, "cleanup", "true")
			}
		},
		"domain": func() ([]string, *store.Account, func() answer) {
			d, acc, _ := h.tenant("three", "all")
			a, _ := h.sim.st.Accounts.Get(acc)
			return []string{"account", "all", "domainid",
				d}, a, func() answer { return h.root("deleteDomain", "id", d, "cleanup", "true") }
		},
	}

	for what, create := range owners {
		owner, a, remove := create()
		h.everything(strings.ToLower(what), owner...)
		got := h.ownedIDs(a)
		for _, table := range ownedTables {
			require.NotEmpty(t, got[table], "%s owns no %s", what, table)
		}
		h.done("admin", remove())
		require.Empty(t, h.ownedIDs(a), what)
		require.Equal(t, free,
			h.ok(h.root("listPublicIpAddresses", "state", "Free", "allocatedonly", "false")).body["count"], what)
		for _, n := range h.sim.st.Networks.Rows {
			require.True(t, n.Removed, n.Name)
			require.Empty(t, n.Used, n.Name)
		}
		for _, kind := range settings.LimitKinds {
			require.Zero(t, h.sim.st.Used(&kind, func(o *store.Account) bool { return o == a }), kind.Key)
		}
	}
}

// TestOwnedTables: every table with a field Owner or Account is in ownedTables, so that the tests of deletion cover it.
func TestOwnedTables(t *testing.T) {
	t.Parallel()
	eachTable(store.NewState(), func(name string, rows reflect.Value) {
		for _, field := range []string{"Owner", "Account"} {
			f, ok := rows.Type().Elem().Elem().FieldByName(field)
			if ok &&
				f.Type == reflect.TypeFor[*store.Account]() &&
				!strings.Contains("users accounts projects events", name) {
				require.Contains(t, ownedTables, name)
			}
		}
	})
}

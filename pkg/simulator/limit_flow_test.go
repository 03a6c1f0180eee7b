// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/identity"
	"github.com/csccm/csccm/pkg/simulator/internal/management"
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, _, _ := h.tenant("dev", "alice")
	alice := "dev/alice"
	set := func(kind, limit string, pairs ...string) answer {
		return h.root("updateResourceLimit", append([]string{"resourcetype", kind, "max", limit}, pairs...)...)
	}
	mine := []string{"account", "alice", "domainid", d}
	limit := h.obj(set("5", "1", mine...), "resourcelimit")
	require.Equal(t, "project", limit["resourcetypename"])
	require.EqualValues(t, 1, limit["max"])
	made := h.ok(h.call(alice, "createProject", "name", "p1"))
	pid := made.str("id")
	h.done(alice, made)
	h.fails(h.call(alice, "createProject", "name", "p2"), 535, wire.CSResourceAlloc, "Maximum amount of resources of Type = 'project', tag = 'null' for Account Name = alice in Domain Id = 2 is exceeded: "+
		"Account Resource Limit = 1, Current Account Resource Amount = 1, Current Account Resource Reservation = 0, Requested Resource Amount = 1.")
	h.ok(set("5", "-1", mine...))
	h.ok(set("5", "1", "domainid", d))
	h.fails(h.call(alice, "createProject", "name", "p2"), 535, wire.CSResourceAlloc, "Maximum domain resource limits of Type 'project' for Domain Id = "+d+" is exceeded: Domain Resource Limit = 1, ")

	for name, tc := range map[string]struct {
		a        answer
		code, cs int
		text     string
	}{
		"below -1":        {set("0", "-2", mine...), 431, wire.CSInvalidValue, "Please specify either '-1' for an infinite limit"},
		"no such type":    {set("99", "1", mine...), 431, wire.CSInvalidValue, "Please specify valid resource type"},
		"no domain":       {set("0", "1", "account", "alice"), 431, wire.CSInvalidValue, "Account must be specified with domainId parameter"},
		"no such account": {set("0", "1", "account", "x", "domainid", d), 431, wire.CSInvalidValue, "Unable to find account by name x in domain with specified id"},
		"nobody":          {set("0", "1"), 431, wire.CSInvalidValue, "AccountId or domainId have to be specified"},
		"root":            {set("0", "1", "domainid", id(h.first(h.root("listDomains", "level", "0"), "domain"))), 531, wire.CSPermission, "Cannot update resource limit for ROOT domain 1"},
		"root admin":      {set("0", "1", "account", "admin", "domainid", id(h.first(h.root("listDomains", "level", "0"), "domain"))), 431, wire.CSInvalidValue, "Only -1 limit is supported for Root Admin accounts"},
		"no type":         {h.root("updateResourceLimit", "max", "1"), 431, wire.CSGeneric, "missing parameter resourcetype"},
		"not a number":    {set("0", "many", mine...), 431, wire.CSGeneric, "invalid value many for parameter max"},
		"bad name":        {h.root("listResourceLimits", "resourcetypename", "x"), 431, wire.CSInvalidValue, "Please specify a valid resource type name."},
	} {
		t.Log(name)
		h.fails(tc.a, tc.code, tc.cs, tc.text)
	}
	sub := h.obj(h.root("createDomain", "name", "sub", "parentdomainid", d), "domain")
	h.ok(set("1", "5", "domainid", d))
	h.fails(set("1", "6", "domainid", id(sub)), 431, wire.CSInvalidValue, "Domain sub(id: 2) has maximum allowed resource limit 5 for public_ip")
	require.EqualValues(t, 5, h.first(h.root("listResourceLimits", "domainid", id(sub), "resourcetype", "1"), "resourcelimit")["max"])

	require.Len(t, h.call(alice, "listResourceLimits").items("resourcelimit"), 17)
	own := h.first(h.call(alice, "listResourceLimits", "resourcetypename", "secondary_storage", "account", "alice", "domainid", d), "resourcelimit")
	require.EqualValues(t, 400, own["max"])
	require.EqualValues(t, -1, h.first(h.root("listResourceLimits", "resourcetype", "0"), "resourcelimit")["max"], "root admins have no limits")
	require.EqualValues(t, 7, h.obj(set("0", "7", "projectid", pid), "resourcelimit")["max"])
	require.Equal(t, "7", h.first(h.call(alice, "listProjects"), "project")["vmlimit"])
	counts := h.root("updateResourceCount", "domainid", d, "account", "alice").items("resourcecount")
	require.Len(t, counts, 17)
	require.EqualValues(t, 1, counts[5]["resourcecount"])

	h.ok(h.root("updateConfiguration", "name", "max.account.user.vms", "value", "3"))
	require.Equal(t, "3", h.first(h.call(alice, "listAccounts"), "account")["vmlimit"])
}

func TestLimitTexts(t *testing.T) {
	t.Parallel()
	k := settings.LimitKindOf("primaryStorageGiB")
	for n, want := range map[int64]string{0: "0 (0 bytes)", 2: "2147483648 (2.00 GB)", 2048: "2199023255552 (2.0000 TB)"} {
		require.Equal(t, want, k.Text(n))
	}
	require.Equal(t, "5", settings.LimitKindOf("cpus").Text(5))
	for i := range settings.LimitKinds {
		require.Equal(t, strconv.Itoa(i), identity.Ordinal(&settings.LimitKinds[i]))
	}
}

func TestConfigurations(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	value := func(name string) string {
		return h.first(h.root("listConfigurations", "name", name), "configuration")["value"].(string)
	}
	set := func(name, v string, pairs ...string) answer {
		return h.root("updateConfiguration", append([]string{"name", name, "value", v}, pairs...)...)
	}
	require.Equal(t, "500", value("default.page.size"))
	h.ok(set("default.page.size", "2"))
	h.fails(h.root("listRoles", "page", "1", "pagesize", "3"), 431, wire.CSInvalidValue, "Page size can't exceed max allowed page size value: 2")
	h.ok(h.root("resetConfiguration", "name", "default.page.size"))
	h.fails(set("default.page.size", "many"), 431, wire.CSInvalidValue, "There was an error trying to parse the integer value for")
	h.fails(set("allow.user.create.projects", "perhaps"), 431, wire.CSInvalidValue, "Please enter either 'true' or 'false'.")
	h.fails(set("no.such.setting", "1"), 431, wire.CSInvalidValue, "Config parameter with name no.such.setting doesn't exist")
	h.tenant("dev", "alice")
	h.ok(set("allow.user.create.projects", "false"))
	h.fails(h.call("dev/alice", "createProject", "name", "p"), 531, wire.CSPermission, "Regular user is not permitted to create a project")
	require.Equal(t, false, h.obj(h.call("dev/alice", "listCapabilities"), "capability")["allowusercreateprojects"])
	h.ok(set("api.key.access", "false"))
	require.Equal(t, 401, h.call("dev/alice", "listZones").status)
	h.ok(set("api.key.access", "true"))
	h.ok(set("api.throttling.max", "2"))
	h.ok(set("api.throttling.enabled", "true"))
	limit := h.obj(h.call("dev/alice", "getApiLimit"), "apilimit")
	require.EqualValues(t, 1, limit["apiIssued"])
	require.EqualValues(t, 1, limit["apiAllowed"])
	h.ok(h.call("dev/alice", "listZones"))
	require.Equal(t, 429, h.call("dev/alice", "listZones").status)
	h.ok(h.root("resetApiLimit"))
	h.ok(h.call("dev/alice", "listZones"))
	zone := id(h.first(h.root("listZones"), "zone"))
	h.ok(set("guest.domain.suffix", "zone.example", "zoneid", zone))
	require.Equal(t, "cloud.internal", value("guest.domain.suffix"))
	require.Equal(t, "zone.example", h.first(h.root("listConfigurations", "name", "guest.domain.suffix", "zoneid", zone), "configuration")["value"])
	require.NotEmpty(t, h.root("listConfigurations", "keyword", "throttling").items("configuration"))
	require.Equal(t, 432, h.call("dev/alice", "listConfigurations").status)
	for i := range settings.ConfigList {
		require.Nil(t, management.Check(&settings.ConfigList[i], settings.ConfigList[i].Def), settings.ConfigList[i].Name)
	}
}

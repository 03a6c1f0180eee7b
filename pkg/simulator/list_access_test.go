// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// listCase is a query for objects of other owners.
type listCase struct {
	api  *catalogue.API
	args []string
}

// ownerless are lists of objects without an owner.
var ownerless = store.SetOf("listApis", "listNetworkOfferings", "listVPCOfferings", "listRolePermissions", "listZones")

// listCases returns all list commands with the filters that widen them, and with each id of the given objects that
// they accept.
func (h *env) listCases(objects map[store.RefKind][]string) []listCase {
	h.t.Helper()
	commands, err := loadCommands()
	require.NoError(h.t, err)
	var out []listCase
	for i := range commands.cat.APIs {
		a := &commands.cat.APIs[i]
		if commands.byName[a.Name] == nil || !strings.HasPrefix(a.Name, "list") || ownerless[a.Name] {
			continue
		}

		var required []string
		sets := [][]string{{"listall", "true"}, {"projectid", "-1", "listall", "true"}}
		for j := range a.Params {
			p, id := &a.Params[j], "x"
			if ids := objects[commands.byName[a.Name].Kind(p.Name)]; len(ids) > 0 {
				id = ids[0]
			}
			if p.Required {
				required = []string{p.Name, id}
			}
			if id != "x" && p.Name != "domainid" && p.Name != "projectid" {
				sets = append(sets, []string{p.Name, id, "listall", "true"})
			}
		}

		for _, s := range sets {
			out = append(out, listCase{a, slices.Concat(required, s)})
		}
	}

	return out
}

// objectsOf returns the ids of an account's objects by the kind of their parameters.
func (h *env) objectsOf(a *store.Account) map[store.RefKind][]string {
	kinds := map[string][]store.RefKind{
		"networks":           {store.RefNetwork},
		"vpcs":               {store.RefVPC},
		"acllists":           {store.RefACLList},
		"aclitems":           {store.RefACLItem},
		"vms":                {store.RefVM},
		"ips":                {store.RefIP},
		"lbrules":            {store.RefLBRule, store.RefRule},
		"fwrules":            {store.RefFWRule},
		"pfrules":            {store.RefPFRule},
		"policies":           {store.RefSticky},
		"certs":              {store.RefSSLCert},
		"kubernetesclusters": {store.RefKubernetesCluster},
	}

	out := map[store.RefKind][]string{}
	for table, ids := range h.ownedIDs(a) {
		for _, k := range kinds[table] {
			out[k] = ids
		}
	}

	return out
}

// TestListsKeepOwnersApart calls every list command in every way for the objects of an account and of a project, both
// as callers who may see them and as callers who may not.
func TestListsKeepOwnersApart(t *testing.T) {
	t.Parallel()
	h := startFresh(t)
	d, acc, _ := h.tenant("one", "mine")
	h.tenant("one", "next")
	h.tenant("one", "boss", "accounttype", "2")
	h.tenant("two", "far")
	h.tenant("two", "chief", "accounttype", "2")
	project := h.root("createProject", "name", "team", "account", "mine", "domainid", d).str("id")
	h.clock.Step(time.Hour)
	h.everything("mine", "account", "mine", "domainid", d)
	h.everything("team", "projectid", project)
	owner, _ := h.sim.st.Accounts.Get(acc)
	row, _ := h.sim.st.Projects.Get(project)

	for what, a := range map[string]*store.Account{"account": owner, "project": row.Account} {
		objects := h.objectsOf(a)
		var ids []string
		for _, l := range objects {
			ids = append(ids, l...)
		}
		seen := map[string]map[string]bool{} // by caller: the lists that show something
		for _, tc := range h.listCases(objects) {
			for _, caller := range []string{"one/next", "two/far", "two/chief", "one/mine", "one/boss", "admin"} {
				ans := h.call(caller, tc.api.Name, tc.args...)
				require.Less(t, ans.status, 600, "%s %v", tc.api.Name, tc.args)
				if ans.status != 200 {
					continue
				}
				for _, v := range ids {
					if !strings.Contains(ans.raw, v) {
						continue
					}
					if seen[caller] == nil {
						seen[caller] = map[string]bool{}
					}
					seen[caller][tc.api.Name] = true
					if slices.Contains([]string{"one/next", "two/far", "two/chief"}, caller) {
						t.Errorf("%s shows %s the %s's object: %v", tc.api.Name, caller, what, tc.args)
						break
					}
				}
			}
		}
		for _, caller := range []string{"one/mine", "one/boss", "admin"} {
			require.Greater(t, len(seen[caller]), 10, "%s: %s sees only %v", what, caller,
				slices.Sorted(maps.Keys(seen[caller])))
			for list := range seen["one/mine"] {
				if caller == "one/boss" && what == "project" {
					continue // outside of a project, a domain admin finds its objects only by ID
				}
				require.True(t, seen[caller][list], "%s does not see the %s's objects in %s", caller, what, list)
			}
		}
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// crashed is a cloud in which runs have made things and were killed, and in which others live.
type crashed struct {
	cloud *testenv.CloudStack
	o     Options
	log   bytes.Buffer
	runs  []string
	dirs  []string // on this machine
}

func newCrashed(t *testing.T, runs int) *crashed {
	t.Helper()
	c := &crashed{}
	var err error
	c.cloud, err = testenv.StartCloudStackWith(simulator.Options{World: simulator.FreshWorld()})
	require.NoError(t, err)
	t.Cleanup(c.cloud.Stop)
	c.o = Options{URL: c.cloud.URL, Who: simulatorLogin, JournalDir: t.TempDir(), Log: &c.log}
	for range runs {
		r, err := Start(t.Context(), c.o)
		require.NoError(t, err)
		for _, kind := range []string{vpc, project} {
			e := &env{place: &place{Run: r, kind: kind}, ctx: t.Context()}
			require.NoError(t, must.Catch(func() { e.makeNetwork(t.Context()); e.acquire() }))
		}
		// The process ends here, without Stop.
		require.NoError(t, r.proxy.Stop())
		c.runs, c.dirs = append(c.runs, r.id), append(c.dirs, r.dir)
		t.Cleanup(func() { _ = os.RemoveAll(r.dir) })
	}
	return c
}

// namesIn are the names of objects in a cloud, sorted.
func namesIn(t *testing.T, cloud *testenv.CloudStack) []string {
	t.Helper()
	var all []string
	for _, l := range []struct{ command, object, project string }{
		{"listVirtualMachines", "virtualmachine", ""}, {"listVirtualMachines", "virtualmachine", "-1"}, {"listNetworks", "network", ""},
		{"listNetworks", "network", "-1"}, {"listVPCs", "vpc", ""}, {"listProjects", "project", ""}, {"listDomains", "domain", ""},
	} {
		params := map[string]string{"listall": "true"}
		if l.project != "" {
			params["projectid"] = l.project
		}
		list, err := cloud.Admin(t.Context(), l.command, params)
		require.NoError(t, err)
		for _, o := range world.Object(list).Objects(l.object) {
			all = append(all, o.Text("name"))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// others makes a domain and a network whose names are like those of a run, but are not.
func (c *crashed) others(t *testing.T, names ...string) {
	t.Helper()
	require.NoError(t, must.Catch(func() {
		root := world.Connect(t.Context(), c.o.URL, c.o.Who)
		id := func(command, object string, params world.Params) string {
			return root.List(t.Context(), command, object, params)[0].Text("id")
		}
		for _, name := range names {
			root.Do(t.Context(), "createDomain", world.Params{"name": name})
			root.Do(t.Context(), "createNetwork", world.Params{
				"name": name + "-net", "displaytext": name, "account": "admin", "zoneid": id("listZones", "zone", nil),
				"domainid":          id("listDomains", "domain", world.Params{"name": "ROOT"}),
				"networkofferingid": id("listNetworkOfferings", "networkoffering", world.Params{"name": "DefaultIsolatedNetworkOfferingWithSourceNatService"}),
			})
		}
	}))
}

// TestCleanAfterACrash removes what a killed run has left, by its journal, and nothing else.
func TestCleanAfterACrash(t *testing.T) {
	t.Parallel()
	c := newCrashed(t, 2)
	like := world.PrefixOf(c.runs[0]) + "x" // begins like the run's names
	c.others(t, like, "shop")
	if n := len(namesIn(t, c.cloud)); n < 15 {
		t.Fatalf("only %v was made", namesIn(t, c.cloud))
	}
	// The second run's journal is lost.
	require.NoError(t, os.Remove(filepath.Join(c.o.JournalDir, c.runs[1]+".jsonl")))
	require.NoError(t, Clean(t.Context(), c.o, ""), c.log.String())
	for _, name := range namesIn(t, c.cloud) {
		if name == world.PrefixOf(c.runs[0]) || strings.HasPrefix(name, world.PrefixOf(c.runs[0])+"-") {
			t.Errorf("%s is left", name)
		}
	}
	if !strings.Contains(c.log.String(), "CLOUD_RUN=ID") || !strings.Contains(c.log.String(), c.runs[1]) {
		t.Errorf("the run without a journal is not named:\n%s", c.log.String())
	}
	if _, err := os.Stat(c.dirs[0]); !os.IsNotExist(err) {
		t.Errorf("the folder %s, which holds credentials, is left: %v", c.dirs[0], err)
	}
	if left, err := world.Journals(c.o.JournalDir); err != nil || len(left) > 0 {
		t.Errorf("journals %v, %v", left, err)
	}
	// Without a journal, by the prefix.
	require.NoError(t, Clean(t.Context(), c.o, c.runs[1]), c.log.String())
	if got, want := namesIn(t, c.cloud), []string{"ROOT", like, like + "-net", "shop", "shop-net"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	if strings.Contains(c.log.String(), simulatorLogin.Password) {
		t.Error("the log has the password")
	}
}

// TestHostileRun: a run whose id is that of another run's beginning touches nothing of it. Its guard is the last that could stop it.
func TestHostileRun(t *testing.T) {
	t.Parallel()
	c := newCrashed(t, 1)
	before := namesIn(t, c.cloud)
	for _, id := range []string{"", "a", c.runs[0][:5], c.runs[0] + "-", "../../x", "ALL"} {
		if err := world.CheckRun(id); err == nil {
			t.Errorf("%q passes as a run id", id)
		}
	}
	require.NoError(t, Clean(t.Context(), c.o, "zzzzz9"))
	// A cleaner that was given the objects of others is stopped by the guard, whatever it believes.
	err := c.o.through(t.Context(), "zzzzz9", func(cl *world.Cleaner) {
		for _, d := range cl.API.List(t.Context(), "listDomains", "domain", world.Params{"listall": "true"}) {
			if must.Catch(func() { cl.API.Do(t.Context(), "deleteDomain", world.Params{"id": d.Text("id"), "cleanup": "true"}) }) == nil {
				t.Errorf("domain %s could be deleted", d.Text("name"))
			}
		}
	})
	if err == nil || !strings.Contains(err.Error(), "the guard refused") {
		t.Errorf("the refusal is not an error of the run: %v", err)
	}
	if after := namesIn(t, c.cloud); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// crashed is a cloud with the leftovers of runs that were killed, and with objects of others.
type crashed struct {
	cloud *testenv.CloudStack
	o     Options
	log   bytes.Buffer
	runs  []string
	dirs  []string // folders on this machine
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

// namesIn returns the names of the objects in a cloud, sorted.
func namesIn(t *testing.T, cloud *testenv.CloudStack) []string {
	t.Helper()
	var all []string
	for _, l := range []struct{ command, object, project string }{
		{"listVirtualMachines", "virtualmachine", ""}, {"listVirtualMachines", "virtualmachine", "-1"},
		{"listNetworks", "network", ""},
		{"listNetworks", "network", "-1"}, {"listVPCs", "vpc", ""}, {"listProjects", "project", ""},
		{"listDomains", "domain", ""},
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

// others creates a domain and a network whose names resemble those of a run.
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
				"domainid": id("listDomains", "domain", world.Params{"name": "ROOT"}),
				"networkofferingid": id("listNetworkOfferings", "networkoffering",
					world.Params{"name": "DefaultIsolatedNetworkOfferingWithSourceNatService"}),
			})
		}
	}))
}

// TestCleanAfterACrash removes the leftovers of a killed run by its journal, and nothing else.
func TestCleanAfterACrash(t *testing.T) {
	t.Parallel()
	c := newCrashed(t, 2)
	like := world.PrefixOf(c.runs[0]) + "x" // this name begins like the run's names
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
	if got, want := namesIn(t, c.cloud), []string{"ROOT", like, like +
		"-net", "shop", "shop-net"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}

	if strings.Contains(c.log.String(), simulatorLogin.Password) {
		t.Error("the log has the password")
	}
}

// TestHostileRun: a run whose id is a prefix of another run's id must not change that run's objects. The guard is the
// last line of defence.
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

	// The guard stops a cleaner that tries to delete objects of others.
	err := c.o.through(t.Context(), "zzzzz9", func(cl *world.Cleaner) {
		for _, d := range cl.API.List(t.Context(), "listDomains", "domain", world.Params{"listall": "true"}) {
			if must.Catch(func() {
				cl.API.Do(t.Context(), "deleteDomain", world.Params{"id": d.Text("id"), "cleanup": "true"})
			}) == nil {
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

// TestPlainUser runs with the keys of a plain user in that user's account. It supports fewer scenarios, and existing
// objects remain.
func TestPlainUser(t *testing.T) {
	t.Parallel()
	cloud, err := testenv.StartCloudStack(nil) // the example world, in which the user has a network with VMs
	require.NoError(t, err)
	t.Cleanup(cloud.Stop)
	key, secret, ok := cloud.Keys("k8s-owner")
	if !ok {
		t.Fatal("the user has no keys")
	}

	var log bytes.Buffer
	o := Options{
		URL:        cloud.URL,
		Who:        world.Credentials{APIKey: key, SecretKey: secret},
		JournalDir: t.TempDir(),
		Log:        &log,
	}

	before := namesIn(t, cloud)
	r, err := Start(t.Context(), o)
	require.NoError(t, err)
	if r.world.Root || r.world.Account != "k8s" {
		t.Errorf("root: %v, in account %s", r.world.Root, r.world.Account)
	}

	for _, s := range scenarios() {
		reason := must.Catch(func() { r.able(&s) })
		// The example world's user may do everything except what needs an administrator.
		if want := s.need == needRoot; (reason != nil) != want {
			t.Errorf("%s: cannot is %v, want %v", s.name, reason, want)
		}
	}

	p := &place{Run: r, kind: isolated}
	e := &env{place: p, ctx: t.Context()}
	require.NoError(t, must.Catch(func() { p.makeNetwork(t.Context()); e.acquire() }))

	// The run cannot reach objects that existed before.
	list, err := r.world.User.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	for _, vm := range list {
		if strings.HasPrefix(vm.Name, "demo-") {
			err := must.Catch(func() { e.do("stopVirtualMachine", world.Params{"id": vm.ID}) })
			require.ErrorContains(t, err, "the guard of this test run refuses", "VM %s was there before", vm.Name)
		}
	}

	err = r.Stop(t.Context())
	if err == nil || !strings.Contains(err.Error(), "not expunged") {
		t.Errorf("a plain user cannot expunge VMs, and the error does not say so: %v", err)
	}

	for _, name := range before {
		if !slices.Contains(namesIn(t, cloud), name) {
			t.Errorf("%s is gone, and was there before the run", name)
		}
	}
}

// TestScenarioTable: names are unique, namespaces are valid and unique, and the scenarios of one place are adjacent.
func TestScenarioTable(t *testing.T) {
	t.Parallel()
	names, namespaces, places := map[string]bool{}, map[string]string{}, []string{}
	for _, s := range scenarios() {
		if names[s.name] || !strings.HasPrefix(s.name, s.at+": ") || s.run == nil {
			t.Errorf("scenario %q at %q", s.name, s.at)
		}

		names[s.name] = true
		ns := namespaceOf(&s)
		if other := namespaces[ns]; !s.trusted && other != "" && strings.HasPrefix(other, s.at) ||
			len(ns) > 63 ||
			notInNames.MatchString(strings.ReplaceAll(ns, "-", "")) {
			t.Errorf("%q has the namespace %q of %q", s.name, ns, other)
		}

		namespaces[ns] = s.name
		if len(places) == 0 || places[len(places)-1] != s.at {
			if slices.Contains(places, s.at) {
				t.Errorf("%q stands apart from the others there", s.name)
			}
			places = append(places, s.at)
		}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	if all, err := Select(nil, 0); err != nil || len(all) != len(scenarios()) {
		t.Error(all, err)
	}

	some, err := Select([]string{"PROXY"}, 0)
	if err != nil || len(some) != 3 {
		t.Error(some, err)
	}

	if _, err := Select([]string{"nothing like it"}, 0); err == nil {
		t.Error("an unknown name passes")
	}

	var thirds []string
	for part := 1; part <= 3; part++ {
		names, err := Select(nil, part)
		if err != nil || len(names) < 10 {
			t.Error(part, names, err)
		}
		thirds = append(thirds, names...)
	}

	if !slices.Equal(thirds, Names()) {
		t.Error(thirds)
	}

	for _, c := range []struct {
		only []string
		part int
	}{{nil, 4}, {nil, -1}, {[]string{"PROXY"}, 1}} {
		if names, err := Select(c.only, c.part); err == nil {
			t.Error(c, names)
		}
	}
}

// TestReport: a scenario that is not supported does not count as passed. A refused call fails a run even if all
// scenarios passed.
func TestReport(t *testing.T) {
	t.Parallel()
	ok := Result{Name: "a", Verdict: passed, Took: 1500 * time.Millisecond, Calls: 7, Seen: "1|2"}
	for name, c := range map[string]struct {
		report Report
		ok     bool
	}{
		"passed":         {Report{Results: []Result{ok}}, true},
		"cannot":         {Report{Results: []Result{ok, {Name: "b", Verdict: unable, Seen: "no VPC offering"}}}, true},
		"cannot at all":  {Report{Results: []Result{{Name: "b", Verdict: unable}}}, false},
		"failed":         {Report{Results: []Result{ok, {Name: "b", Verdict: failed, Seen: "two\nlines"}}}, false},
		"guard":          {Report{Results: []Result{ok}, Refused: []string{"deleteNetwork: id=x"}}, false},
		"something left": {Report{Results: []Result{ok}, Left: errors.New("network n is in use")}, false},
		"nothing run":    {Report{}, false},
	} {
		assert.Equal(t, c.ok, c.report.OK(), name)
		for _, x := range c.report.Results {
			if !strings.Contains(c.report.Markdown(), "| "+x.Name+" |") {
				t.Errorf("%s: no line of %s", name, x.Name)
			}
		}
	}

	if page := (&Report{Results: []Result{ok}}).Markdown(); !strings.Contains(page, `| a | ok | 1.5 | 7 | 1\|2 |`) {
		t.Error(page)
	}
}

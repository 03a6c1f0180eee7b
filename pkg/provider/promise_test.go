// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

// scenario is a change of Services, see testdata/promise.yaml.
type scenario struct{ Place, Web, Mail, Change, Nodes string }

// places are worlds, each with the nodes of its cluster.
var places = map[string]struct {
	world envOption
	nodes []string
}{
	"":        {func(*serviceEnv, *string) {}, []string{"w1", "w2"}},
	"VPC":     {withVPC, []string{"v1", "v2"}},
	"inner":   {withVPC, []string{"i1", "i2"}},
	"project": {func(env *serviceEnv, w *string) { env.project, *w = projectID, projectIn(*w) }, []string{"p1", "p2"}},
}

func withVPC(env *serviceEnv, w *string) { env.vpc, *w = true, tiersIn(*w) }

// begin returns an environment in which the change has been requested.
func (s scenario) begin(t *testing.T) *serviceEnv {
	t.Helper()
	env := newEnv(t, withSlowJobs, places[s.Place].world)
	env.nodes = places[s.Place].nodes
	words := func(text string) func(*corev1.Service) { return changed(t, strings.Fields(text)) }
	if s.Web != "" {
		env.create("web", nil, words(s.Web))
		env.mustSync("web")
	}

	if s.Mail != "" {
		env.create("mail", nil, words(s.Mail), at(env.ip("web")))
		env.mustSync("mail")
	}

	switch {
	case s.Change == "delete":
	case s.Mail != "":
		env.edit("mail", words(s.Change))
	case s.Web == "":
		env.create("web", nil, words(s.Change))
	default:
		env.edit("web", words(s.Change))
	}

	if s.Nodes == "lead" {
		was := env.ledTo(env.ip("web"))[0]
		env.nodes = slices.DeleteFunc(slices.Clone(env.nodes), func(n string) bool { return n == was })
	} else if s.Nodes != "" {
		env.nodes = strings.Fields(s.Nodes)
	}

	return env
}

// act makes the change. It retries until the change succeeds.
func (s scenario) act(env *serviceEnv) error {
	switch {
	case s.Change == "delete":
		return removeWeb(env)
	case s.Mail != "":
		return env.sync("mail")
	}
	return env.sync("web")
}

// masks hide differences that are allowed between states: an address that was not requested by name, the number of an
// ACL item (which depends on earlier items), and the node of a port forwarding (which depends on IDs).
var masks = map[string]*regexp.Regexp{
	" AUTO ":  regexp.MustCompile(` (203\.0\.113\.(1[3-9]|2\d)|10\.2\.2\.\d+) `),
	"$1 N ":   regexp.MustCompile(`^(acl acl-1) [6-9] `),
	"$1 NODE": regexp.MustCompile(`^(forwarding .*) [a-z][0-9]$`),
}

func masked(dump []string) []string {
	out := slices.Clone(dump)
	for i := range out {
		for with, re := range masks {
			out[i] = re.ReplaceAllString(out[i], with)
		}
	}
	slices.Sort(out)
	return out
}

// point is a fault at one call.
type point struct {
	command string
	nth     int
	kind    simulator.FaultKind
	kill    bool
}

func (p point) String() string {
	kinds := map[simulator.FaultKind]string{
		simulator.FaultErrorBefore: "error before",
		simulator.FaultLostAnswer:  "answer lost",
		simulator.FaultCutBefore:   "cut before",
		simulator.FaultJobFails:    "job fails",
	}
	s := fmt.Sprintf("%s of %s %d", kinds[p.kind], p.command, p.nth)
	if p.kill {
		s += ", killed"
	}
	return s
}

// points returns the faults to inject, based on the calls of a run without faults.
func points(ledger []simulator.Call) []point {
	seen := map[string]int{}
	var out []point
	for _, c := range ledger {
		if c.Caller != "ccm" {
			continue
		}

		seen[c.Command]++
		n := seen[c.Command]
		if slices.Contains(testenv.Polls, c.Command) {
			// A process that is killed here leaves jobs in progress.
			if n <= 5 {
				out = append(out, point{c.Command, n, simulator.FaultCutBefore, true})
			}
			if n <= 2 {
				out = append(out, point{c.Command, n, simulator.FaultErrorBefore, false})
			}
			continue
		}

		if isRead(c.Command) {
			// A read has no effect, so losing its answer need not be tested.
			out = append(out, point{c.Command, n, simulator.FaultErrorBefore, false},
				point{c.Command, n, simulator.FaultCutBefore, true})
			continue
		}

		for _, k := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultJobFails} {
			out = append(out, point{c.Command, n, k, false})
		}

		for _, k := range []simulator.FaultKind{simulator.FaultLostAnswer, simulator.FaultCutBefore} {
			out = append(out, point{c.Command, n, k, false}, point{c.Command, n, k, true})
		}
	}

	return out
}

// Whichever call fails, whichever answer is lost, wherever the process is killed: the next syncs converge, nothing is
// left over, and nothing of others is changed.
func TestPromiseNothingIsLostLeakedOrStolen(t *testing.T) {
	cases.Run(t, "testdata/promise.yaml", func(t *testing.T, _ string, sc scenario) {
		var want, empty []string
		var all []point
		synctest.Test(t, func(t *testing.T) {
			env := sc.begin(t)
			empty = env.before
			env.reset()
			require.NoError(t, sc.act(env))
			for _, c := range env.Ledger().Find("*", "ccm") {
				assert.Contains(t, RequiredCommands, c.Command, "least privilege")
			}
			all = points(env.Ledger().Calls())
			want = masked(env.dump())
		})

		if testing.Short() {
			all = all[:min(len(all), 6)] // make test tries all; a few are enough for the race detector
		}

		for _, p := range all {
			t.Run(p.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testPoint(t, sc, p, want, empty) })
			})
		}

		t.Logf("%d points tried", len(all))
	})
}

// withSlowJobs makes jobs last longer than a poll, so that a process can be killed while they run. Tests with slow jobs
// run in a synctest bubble, where that takes no time.
func withSlowJobs(env *serviceEnv, _ *string) {
	env.latency = simulator.LatencyProfile{Job: 500 * time.Millisecond / 50}
}

// testPoint runs a scenario with one fault, and then without faults until it succeeds.
func testPoint(t *testing.T, sc scenario, p point, want, empty []string) {
	env := sc.begin(t)
	remove := func() {}
	if p.kill {
		env.process.DieAt(func(call string) bool { return call == p.command }, p.nth,
			p.kind == simulator.FaultLostAnswer)
	} else {
		remove = env.Inject(simulator.Fault{Command: p.command, Nth: p.nth, Kind: p.kind})
	}

	err := sc.act(env)
	for _, f := range env.Faults() {
		require.Positive(t, f.Hits, "%s was not hit", f.Fault)
	}

	if p.kill {
		require.True(t, env.process.Dead(), "the call at which the process is killed was not made")
		require.Error(t, err, "a dead process does not succeed")
		env.restart()
		time.Sleep(time.Second) // running jobs end
		env.advance(20 * time.Second)
	}

	remove()
	if err != nil || p.kill {
		require.NoError(t, env.repeat(sc.act), "never succeeds")
	}

	// One more sync, after the grace period for lost answers.
	env.advance(10 * time.Minute)
	require.NoError(t, env.repeat(sc.act), "later")
	assert.Equal(t, want, masked(env.dump()), "converged")
	assert.Empty(t, records(env).Pending, "nothing is pending")
	if strings.Contains(sc.Web, "keep-ip") {
		return
	}

	require.NoError(t, env.repeat(removeWeb), "can be deleted")
	if sc.Mail != "" {
		require.NoError(t, env.repeat(func(env *serviceEnv) error { return env.remove("mail") }), "the other one too")
	}

	assert.Equal(t, empty, env.dump(), "nothing is left over")
}

func removeWeb(env *serviceEnv) error { return env.remove("web") }

func records(env *serviceEnv) annotation.Records {
	r, err := annotation.ParseRecords(env.get("web").Annotations)
	require.NoError(env.t, err)
	return r
}

// The default role allows all commands that the controller may call, and the role of CKS's clusters allows the commands
// that the controller needs.
func TestCommandsAreAllowed(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	user, err := env.inspect.ListAPIs(t.Context())
	require.NoError(t, err)
	for _, name := range RequiredCommands {
		assert.Contains(t, user, name, "the default User role")
	}

	roles, _ := env.Admin("listRoles", "name", "Project Kubernetes Service Role")["role"].([]any)
	require.Len(t, roles, 1)
	rules, _ := env.Admin("listRolePermissions", "roleid",
		roles[0].(map[string]any)["id"].(string))["rolepermission"].([]any)
	allowed := map[any]bool{}
	for _, r := range rules {
		allowed[r.(map[string]any)["rule"]] = r.(map[string]any)["permission"] == "allow"
	}

	for _, name := range needed {
		assert.True(t, allowed[name], "%s is neither optional nor allowed to CKS's clusters", name)
		assert.NotContains(t, Losses, name)
	}

	assert.Subset(t, RequiredCommands, append(needed, OptionalCommands...))
}

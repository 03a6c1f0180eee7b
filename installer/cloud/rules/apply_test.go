// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// world has two rules of Service default/web on its address, one of port 80 too many on another, and an orphan.
const world = `
zones: [{name: zone-1, publicRanges: [203.0.113.10-203.0.113.199]}]
accounts: [{name: k8s, users: [{name: k8s-owner}]}]
networks: [{name: k8s-net, account: k8s, cidr: 10.1.1.0/24}]
virtualMachines:
- {name: w1, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.21}]}
- {name: w2, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.22}]}
publicIPs:
- address: 203.0.113.20
  network: k8s-net
  loadBalancerRules:
  - {name: ` + lbWeb + `-443, publicPort: 443, privatePort: 30443, members: [w1, w2]}
  - {name: ` + lbWeb + `-80, publicPort: 80, privatePort: 30080, members: [w1, w2]}
  - {name: ` + lbWeb + `-81, publicPort: 81, privatePort: 30081}
- address: 203.0.113.99
  network: k8s-net
  loadBalancerRules:
  - {name: ` + lbWeb + `-tcp-80, publicPort: 80, privatePort: 30080, members: [w1, w2]}
`

// env is that CloudStack.
type env struct {
	*Applier
	t        *testing.T
	sim      *testenv.Cloud
	owner    *cloudapi.Client // whose calls are not watched
	recorded []Step
	before   func(command string) // of each call of the Applier
}

func newEnv(t *testing.T) *env {
	t.Helper()
	w, err := simulator.LoadWorld(strings.NewReader(world))
	require.NoError(t, err)
	e := &env{t: t, sim: testenv.NewCloud(t, w), before: func(string) {}}
	e.owner = e.sim.Client(t, "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		e.before(form.Get("command"))
		r.Body = io.NopCloser(bytes.NewReader(body))
		e.sim.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config := e.sim.Config(t, "")
	config.APIURL = server.URL + "/client/api"
	client, err := cloudapi.NewClient(config)
	require.NoError(t, err)
	e.Applier = &Applier{API: client, Progress: report.NoProgress(), Record: func(s Step) error {
		e.recorded = append(e.recorded, s)
		return nil
	}}
	return e
}

func (e *env) rules() []Rule {
	e.t.Helper()
	rules, err := Read(e.t.Context(), e.owner, "")
	require.NoError(e.t, err)
	return rules
}

// rule is the one with this name.
func (e *env) rule(name string) *Rule {
	e.t.Helper()
	for _, r := range e.rules() {
		if r.Name == name {
			return &r
		}
	}
	return nil
}

// steps are those of the plan of now: renames of the ports 443, 80 and 81, then the deletion.
func (e *env) steps() []Step {
	e.t.Helper()
	return MakePlan(Inventory{Rules: e.rules(), Services: []corev1.Service{service("default", "web", uidWeb, "203.0.113.20")}}, Selection{}).Steps
}

func (e *env) apply(steps ...Step) error {
	for _, s := range steps {
		if err := e.Apply(e.t.Context(), s); err != nil {
			return err
		}
	}
	return nil
}

// does carries out a command of the owner's.
func (e *env) does(command string, job cloudstack.Submitted, err error) {
	e.t.Helper()
	require.NoError(e.t, (&Applier{API: e.owner}).wait(context.Background(), command, job, err))
}

func (e *env) updated(id, name, algorithm string) {
	job, err := e.owner.UpdateLoadBalancerRule(context.Background(), cloudstack.UpdateLoadBalancerRuleRequest{ID: id, Name: name, Algorithm: algorithm, Protocol: "tcp"})
	e.does("updateLoadBalancerRule", job, err)
}

func (e *env) deleted(id string) {
	job, err := e.owner.DeleteLoadBalancerRule(context.Background(), id)
	e.does("deleteLoadBalancerRule", job, err)
}

func (e *env) emptied(id string) {
	for _, vm := range memberIDs(e.rule(lbWeb + "-443")) {
		job, err := e.owner.RemoveFromLoadBalancerRule(context.Background(), id, cloudstack.VMs(vm))
		e.does("removeFromLoadBalancerRule", job, err)
	}
}

// after does something once, after the rule was updated and before it is read again.
func (e *env) after(do func()) {
	updated := false
	e.before = func(command string) {
		if updated && command == "listLoadBalancerRules" {
			updated = false
			do()
		}
		updated = updated || command == "updateLoadBalancerRule"
	}
}

// A step that fails, or finds another rule than the plan did, is an error, and what was not recorded was not changed.
func TestApplyFails(t *testing.T) {
	t.Parallel()
	refused := simulator.Fault{Kind: simulator.FaultErrorBefore, HTTPStatus: 530, Text: "refused"}
	const rename, remove = 1, 3 // of port 80
	for name, tt := range map[string]struct {
		step     int
		change   func(e *env, s Step)
		err      string
		recorded int
	}{
		"refused":              {rename, func(e *env, _ Step) { refused.Command = "updateLoadBalancerRule"; e.sim.Inject(refused) }, "refused", 1},
		"renamed meanwhile":    {rename, func(e *env, s Step) { e.updated(s.RuleID, "else", "") }, "run the command again", 0},
		"gone meanwhile":       {rename, func(e *env, s Step) { e.deleted(s.RuleID) }, "is gone", 0},
		"members are lost":     {rename, func(e *env, s Step) { e.after(func() { e.emptied(s.RuleID) }) }, "members []; it must be", 1},
		"the algorithm is not": {rename, func(e *env, s Step) { e.after(func() { e.updated(s.RuleID, "", "source") }) }, "tcp, source, ", 1},
		"no room for a record": {rename, func(e *env, _ Step) { e.Record = func(Step) error { return errors.New("no space left") } }, "no space left", 0},
		"keeper is gone":       {remove, func(e *env, s Step) { e.deleted(s.Keeper) }, "that is to stay", 0},
		"keeper has lost all":  {remove, func(e *env, s Step) { e.emptied(s.Keeper) }, "does not serve", 0},
		"surplus is another":   {remove, func(e *env, s Step) { e.updated(s.RuleID, "else", "") }, "run the command again", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			s := e.steps()[tt.step]
			tt.change(e, s)
			err := e.apply(s)
			require.ErrorContains(t, err, `rule "`+s.Name+`" (`+s.RuleID+`)`)
			require.ErrorContains(t, err, tt.err)
			require.Len(t, e.recorded, tt.recorded)
		})
	}
}

// A step that has begun is finished and verified; the next does not begin.
func TestApplyEndsBetweenSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	steps := e.steps()
	ctx, cancel := context.WithCancel(t.Context())
	e.after(cancel) // ^C in the middle of the first step
	require.NoError(t, e.Apply(ctx, steps[0]))
	require.ErrorIs(t, e.Apply(ctx, steps[1]), context.Canceled)
	require.Equal(t, steps[1:], e.steps())
}

// Whatever happens to one call, the next run ends with nothing left to do, and an undo with what was there before.
func TestFaultsAndAnotherRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer, simulator.FaultCutBefore, simulator.FaultJobFails} {
		for _, command := range []string{"updateLoadBalancerRule", "deleteLoadBalancerRule"} {
			t.Run(fmt.Sprintf("%v of %s", kind, command), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				was := e.rules()
				remove := e.sim.Inject(simulator.Fault{Command: command, Nth: 1, Kind: kind, HTTPStatus: 530, Text: "injected"})
				first := e.apply(e.steps()...)
				remove()
				require.NoError(t, e.apply(e.steps()...), "first run: %v", first)
				require.Empty(t, e.steps(), "first run: %v", first)

				recorded := e.recorded
				todo, stays := Undo(recorded, e.rules())
				require.Len(t, todo, 4)
				require.Empty(t, stays)
				require.NoError(t, e.apply(todo...))
				todo, _ = Undo(recorded, e.rules())
				require.Empty(t, todo)
				for _, r := range was {
					now := e.rule(r.Name)
					require.NotNil(t, now, r.Name)
					r.Protocol = "tcp" // which CloudStack cannot take away
					require.Equal(t, text(&r), text(now))
				}
			})
		}
	}
}

func TestUndoOfADeletionNeedsItsPort(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	taken := e.rule(lbWeb + "-80")
	step := Step{Action: ActionCreate, Name: "other", PublicIP: taken.PublicIP, Port: 80, Rule: &Deleted{PublicIPID: taken.PublicIPID}}
	require.ErrorContains(t, e.apply(step), `is taken by rule "`+taken.Name+`"`)
}

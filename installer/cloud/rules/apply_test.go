// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"context"
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
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// world has three rules of Service default/web on its address.
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
`

// env is a simulated CloudStack with that world.
type env struct {
	*Applier
	t      *testing.T
	sim    *testenv.Cloud
	owner  *cloudapi.Client     // before does not run for calls of this client
	before func(command string) // runs before each call of the Applier
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
	e.Applier = &Applier{API: client, Progress: report.NoProgress(), Note: func(string, ...any) {}}
	return e
}

func (e *env) rules() []cloudstack.LoadBalancerRule {
	e.t.Helper()
	rules, err := e.owner.ListLoadBalancerRules(e.t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(e.t, err)
	return rules
}

func (e *env) members() Members {
	e.t.Helper()
	var ids []string
	for _, r := range e.rules() {
		ids = append(ids, r.ID)
	}
	members, err := ReadMembers(e.t.Context(), e.owner, ids)
	require.NoError(e.t, err)
	return members
}

var web = service("default", "web", uidWeb, "203.0.113.20")

// steps returns the plan's current steps: renames of the ports 443, 80 and 81.
func (e *env) steps() []Step {
	e.t.Helper()
	return MakePlan(e.rules(), []corev1.Service{web}, nil, nil, nil).Steps
}

func (e *env) apply(steps ...Step) error {
	return e.Apply(e.t.Context(), steps)
}

// does waits for a command of the owner.
func (e *env) does(command string, job cloudstack.Submitted, err error) {
	e.t.Helper()
	require.NoError(e.t, err)
	_, err = e.owner.Jobs().Wait(context.Background(), command, job.JobID)
	require.NoError(e.t, err)
}

func (e *env) updated(id, name string) {
	job, err := e.owner.UpdateLoadBalancerRule(context.Background(),
		cloudstack.UpdateLoadBalancerRuleRequest{ID: id, Name: name, Protocol: "tcp"})
	e.does("updateLoadBalancerRule", job, err)
}

func (e *env) deleted(id string) {
	job, err := e.owner.Delete(context.Background(), "deleteLoadBalancerRule", id)
	e.does("deleteLoadBalancerRule", job, err)
}

// A step that fails, or finds a rule that has changed since the plan, is an error.
func TestApplyFails(t *testing.T) {
	t.Parallel()
	refused := simulator.Fault{Kind: simulator.FaultErrorBefore, HTTPStatus: 530, Text: "refused"}

	for name, tt := range map[string]struct {
		change func(e *env, s Step)
		err    string
	}{
		"refused": {func(e *env, _ Step) {
			refused.Command = "updateLoadBalancerRule"
			e.sim.Inject(refused)
		}, "refused"},
		"renamed meanwhile": {func(e *env, s Step) { e.updated(s.RuleID, "else") }, "run the command again"},
		"gone meanwhile":    {func(e *env, s Step) { e.deleted(s.RuleID) }, "was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			s := e.steps()[1] // the step of port 80
			tt.change(e, s)
			err := e.apply(s)
			require.ErrorContains(t, err, `rule "`+s.Name+`" (`+s.RuleID+`)`)
			require.ErrorContains(t, err, tt.err)
		})
	}
}

// A step that has begun is completed and verified; the next one does not begin.
func TestApplyEndsBetweenSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	steps := e.steps()
	ctx, cancel := context.WithCancel(t.Context())
	e.before = func(command string) {
		if command == "updateLoadBalancerRule" {
			cancel() // ^C in the middle of the first step
		}
	}
	require.ErrorContains(t, e.Apply(ctx, steps), "1 of 3 rules renamed: ")
	require.Equal(t, steps[1:], e.steps())
}

// Whichever call fails, the next run ends with nothing left to do, and an undo restores the former names.
func TestFaultsAndAnotherRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer,
		simulator.FaultCutBefore, simulator.FaultJobFails} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			was, members, names := e.rules(), e.members(), map[string]string{}
			for _, s := range e.steps() {
				names[s.RuleID] = s.Name
			}
			remove := e.sim.Inject(simulator.Fault{
				Command:    "updateLoadBalancerRule",
				Nth:        1,
				Kind:       kind,
				HTTPStatus: 530,
				Text:       "injected",
			})
			first := e.apply(e.steps()...)
			remove()
			require.NoError(t, e.apply(e.steps()...), "first run: %v", first)
			require.Empty(t, e.steps(), "first run: %v", first)

			todo, stays := Undo(&web, names, e.rules())
			require.Len(t, todo, 3)
			require.Empty(t, stays)
			require.NoError(t, e.apply(todo...))
			todo, _ = Undo(&web, names, e.rules())
			require.Empty(t, todo)
			require.Equal(t, members, e.members())
			now := e.rules()
			for i := range was {
				was[i].Protocol = "tcp"     // CloudStack cannot remove the protocol again
				was[i].State = now[i].State // a rule without members stays in state Add after an update
			}
			require.Equal(t, was, now)
		})
	}
}

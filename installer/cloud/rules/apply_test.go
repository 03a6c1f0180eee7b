// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// fakeAPI is CloudStack with rules in memory, which only renames them.
type fakeAPI struct {
	API
	rules   map[string]*Rule
	updates []cloudstack.UpdateLoadBalancerRuleRequest
	// after is called with each update that was carried out.
	after     func(r *Rule)
	updateErr error
	jobErr    error
}

func newFakeAPI(rules ...Rule) *fakeAPI {
	f := &fakeAPI{rules: map[string]*Rule{}}
	for i := range rules {
		f.rules[rules[i].ID] = &rules[i]
	}
	return f
}

func (f *fakeAPI) ListLoadBalancerRules(_ context.Context, q cloudstack.LoadBalancerRuleQuery) ([]cloudstack.LoadBalancerRule, error) {
	var out []cloudstack.LoadBalancerRule
	for _, r := range f.rules {
		if (q.ID == "" || q.ID == r.ID) && (q.PublicIPID == "" || q.PublicIPID == r.PublicIPID) {
			out = append(out, r.LoadBalancerRule)
		}
	}
	if q.ID != "" && len(out) == 0 {
		return nil, &cloudstack.Error{Kind: cloudstack.KindNotFound, Command: "listLoadBalancerRules", Text: "unknown id"}
	}
	return out, nil
}

func (f *fakeAPI) ListLoadBalancerMembers(_ context.Context, id string) ([]cloudstack.LoadBalancerMember, error) {
	return slices.Clone(f.rules[id].Members), nil
}

func (f *fakeAPI) UpdateLoadBalancerRule(_ context.Context, r cloudstack.UpdateLoadBalancerRuleRequest) (cloudstack.Submitted, error) {
	f.updates = append(f.updates, r)
	if f.updateErr != nil {
		return cloudstack.Submitted{}, f.updateErr
	}
	x := f.rules[r.ID]
	x.Name, x.Protocol, x.Algorithm = r.Name, r.Protocol, r.Algorithm
	if f.after != nil {
		f.after(x)
	}
	return cloudstack.Submitted{JobID: "job"}, nil
}

func (f *fakeAPI) Wait(context.Context, string, string) (*cloudstack.Job, error) {
	return &cloudstack.Job{Status: cloudstack.JobSucceeded}, f.jobErr
}

// newApplier also returns what the applier records.
func newApplier(api API, jobs Waiter) (*Applier, *[]Record) {
	var kept []Record
	return &Applier{API: api, Jobs: jobs, Record: func(s Step) error {
		kept = append(kept, Record{APIURL: "http://cs/client/api", Step: s})
		return nil
	}}, &kept
}

func planFor(f *fakeAPI) []Step {
	rules, err := Read(context.Background(), f, "")
	if err != nil {
		panic(err)
	}
	return MakePlan(Inventory{Rules: rules, Services: []corev1.Service{service("default", "web", uidWeb)}}, Selection{}).Steps
}

func TestApplyStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(f *fakeAPI)
		err    string
		tries  int // updates that were sent
	}{
		{"refused", func(f *fakeAPI) { f.updateErr = errors.New("refused") }, "refused", 1},
		{"job fails", func(f *fakeAPI) { f.jobErr = errors.New("router down") }, "router down", 1},
		{"renamed meanwhile", func(f *fakeAPI) { f.rules["2"].Name = "else" }, "run the command again", 0},
		{"gone meanwhile", func(f *fakeAPI) { delete(f.rules, "2") }, "is gone", 0},
		{"a member is lost", func(f *fakeAPI) { f.after = func(r *Rule) { r.Members = nil } }, "members is", 1},
		{"state is not as before", func(f *fakeAPI) { f.after = func(r *Rule) { r.State = "Add" } }, `state is "Add", want "Active"`, 1},
		{"ranges are lost", func(f *fakeAPI) { f.after = func(r *Rule) { r.CIDRs = []string{"0.0.0.0/0"} } }, "source ranges", 1},
		{"algorithm changes", func(f *fakeAPI) { f.after = func(r *Rule) { r.Algorithm = "source" } }, "algorithm is", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(rule("2", lbWeb+"-443", "tcp", 443, "21"), rule("1", lbWeb+"-80", "", 80, "21"))
			steps := planFor(f)
			require.Len(t, steps, 2)
			tt.change(f)
			a, kept := newApplier(f, f)
			done, err := a.Apply(t.Context(), steps)
			require.ErrorContains(t, err, tt.err)
			require.ErrorContains(t, err, `rule "`+lbWeb+`-443" (2)`)
			require.Zero(t, done)
			require.Len(t, f.updates, tt.tries)
			require.Len(t, *kept, tt.tries)
		})
	}
}

func TestApplyEndsBetweenSteps(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(rule("2", lbWeb+"-443", "tcp", 443, "21"), rule("1", lbWeb+"-80", "", 80, "21"))
	steps := planFor(f)
	a, _ := newApplier(f, f)
	ctx, cancel := context.WithCancel(t.Context())
	f.after = func(*Rule) { cancel() } // ^C in the middle of the first step
	done, err := a.Apply(ctx, steps)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, done, "the step that had begun is finished and verified")
	require.Equal(t, lbWeb+"-80", f.rules["1"].Name)
}

func TestRuleWithoutMembersMayStayInAdd(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(rule("1", lbWeb+"-80", "", 80))
	f.after = func(r *Rule) { r.State = "Add" }
	a, _ := newApplier(f, f)
	_, err := a.Apply(t.Context(), planFor(f))
	require.NoError(t, err)
}

// What cannot be recorded is not changed.
func TestApplyWithoutRecord(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(rule("1", lbWeb+"-80", "", 80))
	a := &Applier{API: f, Jobs: f, Record: func(Step) error { return errors.New("no space left") }}
	_, err := a.Apply(t.Context(), planFor(f))
	require.ErrorContains(t, err, "no space left")
	require.Empty(t, f.updates)
}

func TestUndo(t *testing.T) {
	t.Parallel()
	rename := Record{APIURL: "u", Step: Step{Action: ActionRename, RuleID: "1", From: "old", To: "new", Protocol: "tcp"}}
	again := Record{APIURL: "u", Step: Step{Action: ActionRename, RuleID: "1", From: "new", To: "newest"}}
	made := Record{APIURL: "u", Step: Step{Action: ActionCreate, RuleID: "2"}}
	gone := Record{APIURL: "u", Step: Step{Action: ActionDelete, RuleID: "3", Keeper: "1", Rule: &Deleted{PublicIPID: "ip"}}}
	require.Equal(t, []Step{
		{Action: ActionCreate, RuleID: "3", Rule: &Deleted{PublicIPID: "ip"}},
		{Action: ActionRename, RuleID: "1", From: "new", To: "old", Protocol: "tcp"},
	}, Undo([]Record{rename, again, made, gone}), "the last first, by the first record of a rule, and without what an undo made")
	_, err := ReadRecords([]json.RawMessage{[]byte(`{"step":{}}`)})
	require.ErrorContains(t, err, "not a journal of csccm migrate-rules")
}

func duplicates() *fakeAPI {
	loser := at("203.0.113.99", rule("2", lbWeb+"-tcp-80", "tcp", 80, "21", "22"))
	loser.PublicIPID, loser.CIDRs = "ip-2", []string{"10.0.0.0/8"}
	return newFakeAPI(rule("1", lbWeb+"-80", "", 80, "21", "22"), loser)
}

func duplicateSteps(f *fakeAPI) []Step {
	var rules []Rule
	for _, r := range f.rules {
		rules = append(rules, *r)
	}
	return MakePlan(Inventory{Rules: rules, Services: []corev1.Service{service("default", "web", uidWeb, "203.0.113.20")}}, Selection{}).Steps
}

func TestSurplusStaysWhileTheOtherDoesNotServe(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(f *fakeAPI)
		err    string
	}{
		"keeper is gone":         {func(f *fakeAPI) { delete(f.rules, "1") }, "is gone"},
		"keeper lost members":    {func(f *fakeAPI) { f.rules["1"].Members = nil }, "does not serve"},
		"keeper is not active":   {func(f *fakeAPI) { f.rules["1"].State = "Add" }, "does not serve"},
		"surplus became another": {func(f *fakeAPI) { f.rules["2"].PublicPort = 81 }, "run the command again"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := duplicates()
			steps := duplicateSteps(f)
			i := slices.IndexFunc(steps, func(s Step) bool { return s.Action == ActionDelete })
			tt.change(f)
			a, _ := newApplier(f, f)
			_, err := a.Apply(t.Context(), steps[i:])
			require.ErrorContains(t, err, tt.err)
		})
	}
}

func TestUndoOfADeletionNeedsItsPort(t *testing.T) {
	t.Parallel()
	taken := rule("9", "other", "tcp", 80)
	taken.PublicIPID = "ip"
	f := newFakeAPI(taken)
	a, _ := newApplier(f, f)
	step := Step{Action: ActionCreate, From: lbWeb + "-80", PublicIP: "203.0.113.20", Port: 80, Rule: &Deleted{PublicIPID: "ip"}}
	_, err := a.Apply(t.Context(), []Step{step})
	require.ErrorContains(t, err, `is taken by rule "other"`)
	step.Rule = nil
	_, err = a.Apply(t.Context(), []Step{step})
	require.ErrorContains(t, err, "does not say")
	_, err = a.Apply(t.Context(), []Step{{Action: "explode"}})
	require.ErrorContains(t, err, "newer csccm")
}

// cloudStack is the shipped example world, seen with the keys of the cluster's owner.
func cloudStack(t *testing.T) (*simulator.Simulator, *cloudapi.Client) {
	t.Helper()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	t.Cleanup(sim.Close)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	apiKey, secretKey, ok := sim.Keys("k8s-owner")
	require.True(t, ok)
	client, err := cloudapi.NewClient(&cloudstack.Config{APIURL: server.URL + "/client/api", APIKey: apiKey, SecretKey: secretKey})
	require.NoError(t, err)
	return sim, client
}

// Whatever happens to one update, the next run ends with both rules renamed and nothing lost.
func TestFaultsAndAnotherRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer, simulator.FaultCutBefore, simulator.FaultJobFails} {
		sim, client := cloudStack(t)
		plan := func() []Step {
			rules, err := Read(t.Context(), client, "")
			require.NoError(t, err)
			for _, r := range rules {
				require.Len(t, r.Members, 2)
			}
			return MakePlan(Inventory{Rules: rules, Services: []corev1.Service{service("default", "web", uidWeb)}}, Selection{}).Steps
		}
		remove := sim.Inject(simulator.Fault{Command: "updateLoadBalancerRule", Nth: 1, Kind: kind, HTTPStatus: 530, Text: "injected"})
		a, _ := newApplier(client, client.Jobs())
		_, first := a.Apply(t.Context(), plan())
		remove()
		a, _ = newApplier(client, client.Jobs())
		_, err := a.Apply(t.Context(), plan())
		require.NoError(t, err, "fault %v, first run: %v", kind, first)
		require.Empty(t, plan(), "fault %v, first run: %v", kind, first)
	}
}

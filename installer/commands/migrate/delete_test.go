// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func (f *fakeAPI) CreateLoadBalancerRule(_ context.Context, r cloudstack.CreateLoadBalancerRuleRequest) (cloudstack.Submitted, error) {
	f.calls = append(f.calls, "create")
	id := "new-" + r.Name
	f.rules[id] = &Rule{LoadBalancerRule: cloudstack.LoadBalancerRule{
		ID: id, Name: r.Name, Protocol: r.Protocol, Algorithm: r.Algorithm, PublicIPID: r.PublicIPID, PublicIP: "203.0.113.20",
		PublicPort: r.PublicPort, PrivatePort: r.PrivatePort, CIDRs: r.CIDRs, State: "Add",
	}}
	return cloudstack.Submitted{ID: id, JobID: "job"}, nil
}

func (f *fakeAPI) DeleteLoadBalancerRule(_ context.Context, id string) (cloudstack.Submitted, error) {
	f.calls = append(f.calls, "delete "+id)
	delete(f.rules, id)
	return cloudstack.Submitted{JobID: "job"}, f.updateErr
}

func (f *fakeAPI) AssignToLoadBalancerRule(_ context.Context, id string, vms []cloudstack.MemberAddress) (cloudstack.Submitted, error) {
	f.calls = append(f.calls, "assign")
	for _, vm := range vms {
		f.rules[id].Members = append(f.rules[id].Members, cloudstack.LoadBalancerMember{VMID: vm.VMID})
	}
	f.rules[id].State = "Active"
	return cloudstack.Submitted{JobID: "job"}, nil
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

// The port is never without a rule: the one that stays is renamed and seen to serve first.
func TestDuplicateIsDeletedAndMadeAgain(t *testing.T) {
	t.Parallel()
	f := duplicates()
	steps := duplicateSteps(f)
	require.Equal(t, []Action{ActionRename, ActionDelete}, []Action{steps[0].Action, steps[1].Action})
	a, path := newApplier(t, f)
	done, err := a.Apply(t.Context(), steps)
	require.NoError(t, err)
	require.Equal(t, 2, done)
	require.Len(t, f.rules, 1)
	require.Equal(t, lbWeb+"-tcp-80", f.rules["1"].Name)
	require.Empty(t, duplicateSteps(f), "nothing is left to do")

	done, err = a.Apply(t.Context(), steps)
	require.NoError(t, err, "a second run finds all done")
	require.Equal(t, 2, done)

	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	_, back, err := ReadJournal(file)
	require.NoError(t, err)
	require.Equal(t, []Action{ActionCreate, ActionRename}, []Action{back[0].Action, back[1].Action}, "the last is undone first")
	u, undoPath := newApplier(t, f)
	for range 2 { // the second time there is nothing to do
		_, err = u.Apply(t.Context(), back)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"delete 2", "create", "assign"}, f.calls)
	again := f.rules["new-"+lbWeb+"-tcp-80"]
	require.Equal(t, []string{"10.0.0.0/8"}, again.CIDRs)
	require.Equal(t, 30080, again.PrivatePort)
	require.Len(t, again.Members, 2)
	require.Equal(t, lbWeb+"-80", f.rules["1"].Name)

	undo, err := os.Open(undoPath)
	require.NoError(t, err)
	defer func() { _ = undo.Close() }()
	_, forth, err := ReadJournal(undo)
	require.NoError(t, err)
	require.Equal(t, []Action{ActionRename}, []Action{forth[0].Action})
	require.Len(t, forth, 1, "what an undo made again is not deleted blindly")
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
			a, _ := newApplier(t, f)
			_, err := a.Apply(t.Context(), steps[i:])
			require.ErrorContains(t, err, tt.err)
			require.Empty(t, f.calls)
		})
	}
}

func TestUndoOfADeletionNeedsItsPort(t *testing.T) {
	t.Parallel()
	taken := rule("9", "other", "tcp", 80)
	taken.PublicIPID = "ip"
	f := newFakeAPI(taken)
	a, _ := newApplier(t, f)
	step := Step{Action: ActionCreate, From: lbWeb + "-80", PublicIP: "203.0.113.20", Port: 80, Rule: &Deleted{PublicIPID: "ip"}}
	_, err := a.Apply(t.Context(), []Step{step})
	require.ErrorContains(t, err, `is taken by rule "other"`)
	step.Rule = nil
	_, err = a.Apply(t.Context(), []Step{step})
	require.ErrorContains(t, err, "does not say")
	_, err = a.Apply(t.Context(), []Step{{Action: "explode"}})
	require.ErrorContains(t, err, "newer csccm")
}

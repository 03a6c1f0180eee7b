// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
)

const (
	uidWeb = "01234567-89ab-cdef-0123-456789abcdef"
	lbWeb  = "a0123456789abcdef0123456789abcde" // cut at 32 characters
	lbGone = "affffffffffffffffffffffffffffff0"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	tests := map[string]Name{
		lbWeb + "-80":           {Family: FamilyLegacy, LB: lbWeb, Port: 80},
		lbWeb + "-tcp-443":      {Family: FamilyUpstream, LB: lbWeb, Protocol: "tcp", Port: 443},
		lbWeb + "-tcp-proxy-80": {Family: FamilyUpstream, LB: lbWeb, Protocol: "tcp-proxy", Port: 80},
		"K8s_svc_kubernetes_default_web-tcp-80": {
			Family: FamilyLeaseweb, Cluster: "kubernetes", Namespace: "default", Service: "web", Protocol: "tcp", Port: 80,
		},
		"K8s_svc_my_cluster_kube-system_a-tcp-b-tcp-proxy-8443": {
			Family: FamilyLeaseweb, Cluster: "my_cluster", Namespace: "kube-system", Service: "a-tcp-b", Protocol: "tcp-proxy", Port: 8443,
		},
		"K8s_svc_kubernetes_default_web-tcp-99999": {Family: FamilyForeign},
		lbWeb + "-0":       {Family: FamilyForeign},
		lbWeb + "-080":     {Family: FamilyForeign},
		lbWeb + "-70000":   {Family: FamilyForeign},
		lbWeb + "-sctp-80": {Family: FamilyForeign},
		lbWeb:              {Family: FamilyForeign},
		"web-80":           {Family: FamilyForeign},
		"abcdef-80":        {Family: FamilyForeign},
		"":                 {Family: FamilyForeign},
	}
	for name, want := range tests {
		require.Equal(t, want, ParseName(name), name)
	}
}

func service(namespace, name, uid string, ips ...string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
	for _, ip := range ips {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return s
}

func rule(id, name, protocol string, port int, members ...string) Rule {
	r := Rule{LoadBalancerRule: cloudstack.LoadBalancerRule{
		ID: id, Name: name, Protocol: protocol, PublicIP: "203.0.113.20", PublicPort: port, PrivatePort: 30000 + port,
		Algorithm: "leastconn", State: "Active",
	}}
	for _, m := range members {
		r.Members = append(r.Members, cloudstack.LoadBalancerMember{VMID: m, Addresses: []string{"10.1.1." + m}})
	}
	return r
}

// fakeAPI is CloudStack with rules in memory.
type fakeAPI struct {
	rules   map[string]*Rule
	updates []cloudstack.UpdateLoadBalancerRuleRequest
	calls   []string // other writes
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

func newApplier(t *testing.T, f *fakeAPI) (*Applier, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := CreateJournal(path, Header{APIURL: "http://cs/client/api", ProjectID: "p"}, clocktesting.NewFakePassiveClock(time.Unix(1700000000, 0)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return &Applier{API: f, Jobs: f, Journal: j}, path
}

func planFor(f *fakeAPI) []Step {
	rules, err := Read(context.Background(), f, "")
	if err != nil {
		panic(err)
	}
	return MakePlan(Inventory{Rules: rules, Services: []corev1.Service{service("default", "web", uidWeb)}}, Selection{}).Steps
}

func TestApplyAndUndo(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(rule("1", lbWeb+"-80", "", 80, "21", "22"), rule("2", lbWeb+"-443", "tcp", 443, "21"), rule("3", "mine", "tcp", 25))
	a, path := newApplier(t, f)
	var said []string
	a.Progress = func(s Step, what string) { said = append(said, s.To+": "+what) }
	done, err := a.Apply(t.Context(), planFor(f))
	require.NoError(t, err)
	require.Equal(t, 2, done)
	require.Equal(t, lbWeb+"-tcp-80", f.rules["1"].Name)
	require.Equal(t, "tcp", f.rules["1"].Protocol)
	require.Equal(t, "leastconn", f.rules["1"].Algorithm)
	require.Equal(t, "mine", f.rules["3"].Name)
	require.Equal(t, []string{lbWeb + "-tcp-443: renamed", lbWeb + "-tcp-80: renamed"}, said)
	for _, u := range f.updates {
		require.NotEmpty(t, u.Protocol)
		require.NotEmpty(t, u.Algorithm)
		require.Nil(t, u.CIDRs)
	}
	require.Empty(t, planFor(f), "nothing left to do")

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	h, back, err := ReadJournal(file)
	require.NoError(t, err)
	require.Equal(t, "http://cs/client/api", h.APIURL)
	require.Equal(t, "p", h.ProjectID)
	require.Len(t, back, 2)
	require.Equal(t, "1", back[0].RuleID, "the last is undone first")
	u, _ := newApplier(t, f)
	done, err = u.Apply(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, 2, done)
	require.Equal(t, lbWeb+"-80", f.rules["1"].Name)
	require.Equal(t, lbWeb+"-443", f.rules["2"].Name)

	n := len(f.updates)
	done, err = u.Apply(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, 2, done, "a second undo finds all done")
	require.Len(t, f.updates, n)
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
			a, path := newApplier(t, f)
			done, err := a.Apply(t.Context(), steps)
			require.ErrorContains(t, err, tt.err)
			require.ErrorContains(t, err, `rule "`+lbWeb+`-443" (2)`)
			require.Zero(t, done)
			require.Len(t, f.updates, tt.tries)
			journal, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, tt.tries > 0, bytes.Contains(journal, []byte(`"event":"failed"`)), "%s", journal)
		})
	}
}

func TestApplyEndsBetweenSteps(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(rule("2", lbWeb+"-443", "tcp", 443, "21"), rule("1", lbWeb+"-80", "", 80, "21"))
	steps := planFor(f)
	a, _ := newApplier(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	f.after = func(*Rule) { cancel() } // ^C in the middle of the first step
	done, err := a.Apply(ctx, steps)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, done, "the step that had begun is finished and verified")
	require.Equal(t, lbWeb+"-80", f.rules["1"].Name)
}

func TestRuleWithoutMembersMayStayInAdd(t *testing.T) {
	t.Parallel()
	r := rule("1", lbWeb+"-80", "", 80)
	f := newFakeAPI(r)
	f.after = func(r *Rule) { r.State = "Add" }
	a, _ := newApplier(t, f)
	_, err := a.Apply(t.Context(), planFor(f))
	require.NoError(t, err)
}

func TestJournalErrors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	c := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	_, err := CreateJournal(path, Header{}, c)
	require.ErrorContains(t, err, "nothing has been changed")
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "precious", string(kept))

	if _, err := os.Stat("/dev/full"); err == nil {
		// A full disk: the first line cannot be written, so nothing is begun.
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		j := &Journal{file: full, clock: c, path: "/dev/full"}
		f := newFakeAPI(rule("1", lbWeb+"-80", "", 80))
		a := &Applier{API: f, Jobs: f, Journal: j}
		_, err = a.Apply(t.Context(), planFor(f))
		require.ErrorContains(t, err, "no space left")
		require.Empty(t, f.updates)
	}
}

func TestReadJournal(t *testing.T) {
	t.Parallel()
	line := func(v any) string {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		return string(b) + "\n"
	}
	head := line(Header{Version: 1, APIURL: "u"})
	begin := line(entry{Event: "begin", Step: Step{RuleID: "1", From: "old", To: "new", Protocol: "tcp"}})
	tests := []struct {
		name, text, err string
		steps           int
	}{
		{"empty", "", "empty", 0},
		{"something else", "hello\n", "not a journal", 0},
		{"a newer one", line(Header{Version: 9}), "version 9", 0},
		{"head only", head, "", 0},
		{"killed in the step: may have happened", head + begin, "", 1},
		{"killed while writing", head + begin + begin[:20], "", 1},
		{"broken in the middle", head + "{\n" + begin, "line 2", 0},
		{"twice the same rule counts once", head + begin + begin, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, steps, err := ReadJournal(strings.NewReader(tt.text))
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, steps, tt.steps)
			if tt.steps > 0 {
				require.Equal(t, Step{Action: ActionRename, RuleID: "1", From: "new", To: "old", Protocol: "tcp"}, steps[0])
			}
		})
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/engine/stepclock"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
)

func cluster(state string, change ...func(*cloudstack.KubernetesCluster)) *cloudstack.KubernetesCluster {
	k := &cloudstack.KubernetesCluster{
		ID: "k", Name: "demo", State: state, Type: cloudstack.CloudManaged, ZoneID: "z", VersionID: "v", Version: "v1.33.1", OfferingID: "o", OfferingName: "node",
		ControlNodes: 1, Size: 2,
	}
	for _, c := range change {
		c(k)
	}
	return k
}

func external(k *cloudstack.KubernetesCluster) { k.Type = cloudstack.ExternalManaged }

func TestPick(t *testing.T) {
	t.Parallel()
	versions := []cloudstack.KubernetesVersion{
		{ID: "1", Name: "v1.33.1", Semantic: "1.33.1", ZoneName: "a"}, {ID: "2", Name: "v1.33.1-b", Semantic: "1.33.1", ZoneName: "b"}, {ID: "3", Name: "new", Semantic: "1.34.0"},
	}
	for want, id := range map[string]string{"1": "1", "v1.33.1-b": "2", "1.34.0": "3", "v1.34.0": "3", "new": "3"} {
		v, err := pick("version", "--version", want, versions, nameOfVersion)
		require.NoError(t, err)
		require.Equal(t, id, v.ID)
	}
	_, err := pick("version", "--version", "1.33.1", versions, nameOfVersion)
	testenv.RequireRefusal(t, err, `2 versions are called "1.33.1": 1 (zone a), 2 (zone b)`, "the id of one with --version", report.ExitUsage)
	_, err = pick("version", "", "x", versions, nameOfVersion)
	testenv.RequireRefusal(t, err, `there is no version "x"`, "name one of these: new, v1.33.1, v1.33.1-b", report.ExitUsage)
	_, err = pick("version", "", "x", nil, nameOfVersion)
	testenv.RequireRefusal(t, err, `there is no version "x"`, "none", report.ExitUsage)
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	require.Negative(t, compareVersions("1.9.9", "1.10.0"))
	require.Positive(t, compareVersions("1.10.0", "x"))
	require.Negative(t, compareVersions("x", "1.0.0"))
	require.Negative(t, compareVersions("x", "y"))
}

func TestPlans(t *testing.T) {
	t.Parallel()
	on := true
	scale := func(k *cloudstack.KubernetesCluster, r cloudstack.ScaleClusterRequest) func() (*Plan, error) {
		return func() (*Plan, error) { return planScale(k, r, map[string]string{"b": "big"}) }
	}
	power := func(operation, state string) func() (*Plan, error) {
		return func() (*Plan, error) { return planPower(operation, cluster(state)) }
	}
	create := func(k *cloudstack.KubernetesCluster, r cloudstack.CreateClusterRequest) func() (*Plan, error) {
		return func() (*Plan, error) {
			r.Name, r.ZoneID, r.VersionID, r.OfferingID = "demo", "z", "v", "o"
			return planCreate(k, r, map[string]string{})
		}
	}
	for name, tc := range map[string]struct {
		plan    func() (*Plan, error)
		action  Action
		changes []Change
		refused string
		code    int
	}{
		"size":                         {scale(cluster("Running"), cloudstack.ScaleClusterRequest{Size: 3}), ActionChange, []Change{{"workers", "2", "3"}}, "", 0},
		"the same size":                {scale(cluster("Running"), cloudstack.ScaleClusterRequest{Size: 2}), ActionNone, nil, "", 0},
		"size, while it scales":        {scale(cluster("Scaling"), cloudstack.ScaleClusterRequest{Size: 3}), ActionFollow, nil, "", 0},
		"the same size, while it does": {scale(cluster("Scaling"), cloudstack.ScaleClusterRequest{Size: 2}), ActionFollow, nil, "", 0},
		"size, while it is upgraded":   {scale(cluster("Upgrading"), cloudstack.ScaleClusterRequest{Size: 3}), "", nil, "is Upgrading: another operation", report.ExitCheckFailed},
		"offering of workers": {
			scale(cluster("Stopped"), cloudstack.ScaleClusterRequest{WorkerOfferingID: "b"}), ActionChange, []Change{{"offering of workers", "node", "big"}}, "", 0,
		},
		"autoscaling":           {scale(cluster("Running"), cloudstack.ScaleClusterRequest{Autoscaling: &on, MinSize: 1, MaxSize: 3}), ActionChange, []Change{{"autoscaling", "off", "1 to 3"}}, "", 0},
		"scale an external one": {scale(cluster("Running", external), cloudstack.ScaleClusterRequest{Size: 3}), "", nil, "ExternalManaged", report.ExitUsage},
		"start":                 {power("start", "Stopped"), ActionChange, []Change{{"state", "Stopped", "Running"}}, "", 0},
		"start a running one":   {power("start", "Running"), ActionNone, nil, "", 0},
		"start a starting one":  {power("start", "Starting"), ActionFollow, nil, "", 0},
		"stop a starting one":   {power("stop", "Starting"), "", nil, "another operation", report.ExitCheckFailed},
		"upgrade": {func() (*Plan, error) {
			return planUpgrade(cluster("Running"), &cloudstack.KubernetesVersion{ID: "w", Name: "v1.34.0"})
		}, ActionChange, []Change{{"version", "v1.33.1", "v1.34.0"}}, "", 0},
		"upgrade to the same": {func() (*Plan, error) {
			return planUpgrade(cluster("Running"), &cloudstack.KubernetesVersion{ID: "v", Name: "v1.33.1"})
		}, ActionNone, nil, "", 0},
		"delete":           {func() (*Plan, error) { return planDelete(cluster("Error")) }, ActionChange, nil, "", 0},
		"delete again":     {func() (*Plan, error) { return planDelete(cluster("Destroying")) }, ActionFollow, nil, "", 0},
		"create":           {create(nil, cloudstack.CreateClusterRequest{}), ActionChange, nil, "", 0},
		"create again":     {create(cluster("Running"), cloudstack.CreateClusterRequest{Size: 2}), ActionNone, nil, "", 0},
		"create, going on": {create(cluster("Starting"), cloudstack.CreateClusterRequest{}), ActionFollow, nil, "", 0},
		"create another":   {create(cluster("Running"), cloudstack.CreateClusterRequest{Size: 3}), "", nil, "workers 2, not 3", report.ExitUsage},
		"create, in Error": {create(cluster("Error"), cloudstack.CreateClusterRequest{}), "", nil, "in state Error", report.ExitFailure},
		"create, external": {create(cluster("Running", external), cloudstack.CreateClusterRequest{}), "", nil, "type ExternalManaged, not CloudManaged", report.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := tc.plan()
			if tc.refused != "" {
				testenv.RequireRefusal(t, err, tc.refused, "", tc.code)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.action, p.Action)
			if tc.changes != nil {
				require.Equal(t, tc.changes, p.Changes)
			}
			var text bytes.Buffer
			require.NoError(t, p.Write(&text, report.Style{}))
			require.Contains(t, text.String(), "demo")
		})
	}
}

func TestPreflightStops(t *testing.T) {
	t.Parallel()
	p := newPlan("scale", cluster("Running"))
	p.Findings = []preflight.Finding{{Code: "limit", Severity: preflight.Error, Object: "account k8s", What: "too many VMs"}, {Code: "x", Severity: preflight.Warning}}
	testenv.RequireRefusal(t, judge(p, nil), "cannot scale cluster demo, the preflight has found 1 problem: account k8s: too many VMs", "--ignore-preflight limit", report.ExitCheckFailed)
	require.NoError(t, judge(p, []string{"limit"}))
}

func TestGoals(t *testing.T) {
	t.Parallel()
	job := func(status cloudstack.JobStatus, text string) *cloudstack.Job {
		return &cloudstack.Job{Status: status, ErrorText: text}
	}
	five := scaled(cloudstack.ScaleClusterRequest{Size: 5})
	is := func(state string, size int) *cloudstack.KubernetesCluster {
		return cluster(state, func(k *cloudstack.KubernetesCluster) { k.Size = size })
	}
	gone := goal(func(k *cloudstack.KubernetesCluster) bool { return k == nil })
	for name, tc := range map[string]struct {
		goal  goal
		look  look
		over  bool
		cause string
	}{
		"the job runs":                  {five, look{is("Running", 5), job(cloudstack.JobPending, "")}, false, ""},
		"the job has failed":            {five, look{is("Scaling", 2), job(cloudstack.JobFailed, "no capacity")}, true, "no capacity"},
		"the job broke off":             {five, look{is("Scaling", 2), job(cloudstack.JobFailed, "")}, true, "the job ended without a reason given, perhaps by a restart of the management server"},
		"the job is done":               {five, look{is("Running", 5), job(cloudstack.JobSucceeded, "")}, true, ""},
		"the job is done, but not that": {five, look{is("Alert", 5), job(cloudstack.JobSucceeded, "")}, true, "it ended in state Alert, and is not as it was asked for"},
		"no job, it works":              {five, look{is("Scaling", 2), nil}, false, ""},
		"no job, it is done":            {five, look{is("Running", 5), nil}, true, ""},
		"no job, it is not":             {five, look{is("Running", 2), nil}, true, "it ended in state Running, and is not as it was asked for"},
		"gone meanwhile":                {five, look{nil, nil}, true, "the cluster does not exist any more"},
		"deleted":                       {gone, look{nil, job(cloudstack.JobSucceeded, "")}, true, ""},
		"deleting":                      {gone, look{is("Destroying", 2), nil}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over, cause := tc.goal.judge(tc.look)
			require.Equal(t, tc.over, over)
			require.Equal(t, tc.cause, cause)
		})
	}
}

// scripted answers one look after the other; the last one again and again.
type scripted struct {
	looks  []look
	errs   map[int]error // of a look
	events [][]cloudstack.Event
	n      int
}

func (s *scripted) KubernetesCluster(context.Context, string, string) (*cloudstack.KubernetesCluster, error) {
	at := min(s.n, len(s.looks)-1)
	s.n++
	return s.looks[at].cluster, s.errs[at]
}

func (s *scripted) QueryJob(context.Context, string) (*cloudstack.Job, error) {
	if job := s.looks[min(s.n, len(s.looks)-1)].job; job != nil {
		return job, nil
	}
	return nil, &cloudstack.Error{Kind: cloudstack.KindNotFound}
}

func (s *scripted) ListEvents(context.Context, string, string, string) ([]cloudstack.Event, error) {
	if s.events == nil {
		return nil, &cloudstack.Error{Kind: cloudstack.KindNotPermitted}
	}
	return s.events[min(s.n, len(s.events)-1)], nil
}

func TestFollower(t *testing.T) {
	t.Parallel()
	pending := &cloudstack.Job{Status: cloudstack.JobPending}
	old := cloudstack.Event{ID: "1", Type: "KUBERNETES.CLUSTER.START", Description: "long ago"}
	failed := cloudstack.Event{ID: "2", Type: "KUBERNETES.CLUSTER.CREATE", Level: cloudstack.EventError, Description: "no host"}
	for name, tc := range map[string]struct {
		api   scripted
		cause string
		says  []string
		not   string
	}{
		"it comes up, over a server that does not answer once": {scripted{
			looks: []look{{cluster("Starting"), pending}, {nil, pending}, {cluster("Starting"), pending}, {cluster("Running"), nil}},
			errs:  map[int]error{1: &cloudstack.Error{Kind: cloudstack.KindTransient}},
		}, "", []string{"Cluster demo: Starting, 0 of 3 VMs run", "Cluster demo: Running"}, "event"},
		"it fails": {scripted{
			looks:  []look{{cluster("Starting"), pending}, {cluster("Error"), &cloudstack.Job{Status: cloudstack.JobFailed, ErrorText: "Provisioning failed"}}},
			events: [][]cloudstack.Event{{old}, {failed, old}},
		}, "Provisioning failed; no host", []string{"event KUBERNETES.CLUSTER.CREATE: no host"}, "long ago"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			c := stepclock.New(nil)
			f := &follower{api: &tc.api, clock: c, progress: report.NewProgress(&said, report.Style{}, c), id: "k", name: "demo", job: "j"}
			f.begin(t.Context())
			k, cause, err := f.follow(t.Context(), inState(stateRunning))
			require.NoError(t, err)
			require.Equal(t, tc.cause, cause)
			require.NotNil(t, k)
			f.progress.Close()
			for _, text := range tc.says {
				require.Contains(t, said.String(), text)
			}
			require.NotContains(t, said.String(), tc.not)
		})
	}
}

func TestParseAutoscaling(t *testing.T) {
	t.Parallel()
	a, err := ParseAutoscaling("2-5")
	require.NoError(t, err)
	require.Equal(t, &Range{2, 5}, a.Range)
	a, err = ParseAutoscaling("off")
	require.NoError(t, err)
	require.Nil(t, a.Range)
	for _, bad := range []string{"", "3", "5-2", "0-3", "a-b", "2-2"} {
		_, err = ParseAutoscaling(bad)
		require.Error(t, err, bad)
	}
}

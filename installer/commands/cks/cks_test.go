// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
)

func cluster(state string, change ...func(*cloudapi.KubernetesCluster)) *cloudapi.KubernetesCluster {
	k := &cloudapi.KubernetesCluster{
		ID: "k", Name: "demo", State: state, Type: cloudapi.CloudManaged, ZoneID: "z", VersionID: "v", Version: "v1.33.1", OfferingID: "o", OfferingName: "node",
		ControlNodes: 1, Size: 2,
	}
	for _, c := range change {
		c(k)
	}
	return k
}

func external(k *cloudapi.KubernetesCluster) { k.Type = cloudstack.ExternalManaged }

func TestPick(t *testing.T) {
	t.Parallel()
	versions := []cloudapi.KubernetesVersion{
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

func TestVersionsAreNumbers(t *testing.T) {
	t.Parallel()
	compare := func(a, b string) int {
		return semantic(&cloudapi.KubernetesVersion{Semantic: a}).Compare(semantic(&cloudapi.KubernetesVersion{Semantic: b}))
	}
	require.Negative(t, compare("1.9.9", "1.10.0"))
	require.Negative(t, compare("x", "1.0.0"))
}

func TestPlans(t *testing.T) {
	t.Parallel()
	change := func(what, from, to string) func(*Plan) { return func(p *Plan) { p.change(what, from, to) } }
	for name, tc := range map[string]struct {
		op      operation
		state   string
		change  func(*Plan)
		action  Action
		refused string
	}{
		"size":                         {opScale, "Running", change("workers", "2", "3"), ActionChange, ""},
		"the same size":                {opScale, "Running", change("workers", "2", "2"), ActionNone, ""},
		"size, while it scales":        {opScale, "Scaling", change("workers", "2", "3"), ActionFollow, ""},
		"the same size, while it does": {opScale, "Scaling", change("workers", "2", "2"), ActionFollow, ""},
		"size, while it is upgraded":   {opScale, "Upgrading", change("workers", "2", "3"), "", "is Upgrading: another operation"},
		"scale in alert":               {opScale, "Alert", change("workers", "2", "3"), "", "can scale it only while it is Running or Stopped"},
		"start":                        {opStart, "Stopped", change("state", "Stopped", "Running"), ActionChange, ""},
		"start a running one":          {opStart, "Running", change("state", "Running", "Running"), ActionNone, ""},
		"start a starting one":         {opStart, "Starting", change("state", "Starting", "Running"), ActionFollow, ""},
		"stop a starting one":          {opStop, "Starting", change("state", "Starting", "Stopped"), "", "another operation"},
		"upgrade":                      {opUpgrade, "Running", change("version", "v1", "v2"), ActionChange, ""},
		"upgrade a stopped one":        {opUpgrade, "Stopped", change("version", "v1", "v2"), "", "can upgrade it only while it is Running"},
		"delete":                       {opDelete, "Error", change("state", "Error", "deleted"), ActionChange, ""},
		"delete again":                 {opDelete, "Destroying", change("state", "Destroying", "deleted"), ActionFollow, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := cluster(tc.state)
			p := tc.op.plan(k)
			tc.change(p)
			err := tc.op.decide(p, k)
			if tc.refused != "" {
				testenv.RequireRefusal(t, err, tc.refused, "", report.ExitCheckFailed)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.action, p.Action)
			var text bytes.Buffer
			require.NoError(t, p.Write(&text, report.Style{}))
			require.Contains(t, text.String(), "demo")
		})
	}
}

func TestPlanCreate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		existing *cloudapi.KubernetesCluster
		size     int
		action   Action
		refused  string
		code     int
	}{
		"new":         {nil, 0, ActionChange, "", 0},
		"again":       {cluster("Running"), 2, ActionNone, "", 0},
		"going on":    {cluster("Starting"), 0, ActionFollow, "", 0},
		"another":     {cluster("Running"), 3, "", "workers 2, not 3", report.ExitUsage},
		"in Error":    {cluster("Error"), 0, "", "in state Error", report.ExitFailure},
		"an external": {cluster("Running", external), 0, "", "CloudStack cannot create cluster demo: it is ExternalManaged", report.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := planCreate(tc.existing, request{CreateClusterRequest: cloudapi.CreateClusterRequest{Name: "demo", ZoneID: "z", VersionID: "v", OfferingID: "o", Size: tc.size}})
			if tc.refused != "" {
				testenv.RequireRefusal(t, err, tc.refused, "", tc.code)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.action, p.Action)
		})
	}
}

func TestPreflightStops(t *testing.T) {
	t.Parallel()
	p := opScale.plan(cluster("Running"))
	p.Findings = []ckscheck.Finding{{Code: "limit", Severity: ckscheck.Error, Object: "account k8s", What: "too many VMs"}, {Code: "x", Severity: ckscheck.Warning}}
	testenv.RequireRefusal(t, p.judge(nil), "cannot scale cluster demo, the preflight has found 1 problem: account k8s: too many VMs", "--ignore-preflight limit", report.ExitCheckFailed)
	require.NoError(t, p.judge([]string{"limit"}))
}

func TestGoals(t *testing.T) {
	t.Parallel()
	job := func(status cloudstack.JobStatus, text string) *cloudstack.Job {
		return &cloudstack.Job{Status: status, ErrorText: text}
	}
	five := scaled(cloudapi.ScaleClusterRequest{Size: 5})
	is := func(state string, size int) *cloudapi.KubernetesCluster {
		return cluster(state, func(k *cloudapi.KubernetesCluster) { k.Size = size })
	}
	gone := goal(func(k *cloudapi.KubernetesCluster) bool { return k == nil })
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

func TestAutoscaling(t *testing.T) {
	t.Parallel()
	r, err := (&ScaleOptions{Autoscaling: "2-5"}).request()
	require.NoError(t, err)
	require.Equal(t, []any{true, 2, 5}, []any{*r.Autoscaling, r.MinSize, r.MaxSize})
	r, err = (&ScaleOptions{Autoscaling: "off"}).request()
	require.NoError(t, err)
	require.False(t, *r.Autoscaling)
	for _, bad := range []string{"3", "5-2", "0-3", "a-b", "2-2"} {
		require.Error(t, (&ScaleOptions{Autoscaling: bad}).Validate(), bad)
	}
}

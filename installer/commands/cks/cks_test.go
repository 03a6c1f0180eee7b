// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
)

func cluster(state string, size int) *cloudapi.KubernetesCluster {
	return &cloudapi.KubernetesCluster{ID: "k", Name: "demo", State: state, Type: cloudapi.CloudManaged, Size: size}
}

func TestPick(t *testing.T) {
	t.Parallel()
	versions := []cloudapi.KubernetesVersion{
		{ID: "1", Name: "v1.33.1", Semantic: "1.33.1"}, {ID: "2", Name: "v1.33.1-b", Semantic: "1.33.1"},
		{ID: "3", Name: "new", Semantic: "1.34.0"},
	}
	for want, id := range map[string]string{"1": "1", "v1.33.1-b": "2", "1.34.0": "3", "v1.34.0": "3", "new": "3"} {
		v, err := pick("version", " with --version", want, versions, namesOfVersion)
		require.NoError(t, err)
		require.Equal(t, id, v.ID)
	}
	_, err := pick("version", " with --version", "1.33.1", versions, namesOfVersion)
	testenv.RequireRefusal(t, err, `2 versions are called "1.33.1"`, "the id of one with --version: 1, 2",
		report.ExitUsage)
	_, err = pick("version", "", "x", nil, namesOfVersion)
	testenv.RequireRefusal(t, err, `there is no version "x"`, "none", report.ExitUsage)
}

// taskOf returns the task of an operation on a cluster, with the requested number of workers.
func taskOf(op Operation, k *cloudapi.KubernetesCluster, size int) *task {
	t := &task{Service: &Service{}, Operation: op, plan: &Plan{Operation: op.name, Object: "cluster"}}
	t.found(k)
	t.differs = func(k *cloudapi.KubernetesCluster) []Change {
		return changes{}.add("workers", "", "x", k.Size == size)
	}
	return t
}

func TestDecide(t *testing.T) {
	t.Parallel()
	external := cluster("Running", 2)
	external.Type = cloudstack.ExternalManaged
	for name, tc := range map[string]struct {
		op      Operation
		cluster *cloudapi.KubernetesCluster
		action  Action
		refused string
		code    int
	}{
		"size":                  {Scale, cluster("Running", 2), ActionChange, "", 0},
		"the same size":         {Scale, cluster("Running", 3), ActionNone, "", 0},
		"size, while it scales": {Scale, cluster("Scaling", 3), ActionFollow, "", 0},
		"size, while it is upgraded": {Scale, cluster("Upgrading", 2), "", "is Upgrading: another operation",
			report.ExitCheckFailed},
		"scale in alert": {Scale, cluster("Alert", 2), "", "cannot scale cluster demo while it is Alert",
			report.ExitCheckFailed},
		"scale what is external": {Scale, external, "", "cannot scale cluster demo: it is ExternalManaged",
			report.ExitUsage},
		"start":                {Start, cluster("Stopped", 2), ActionChange, "", 0},
		"start a starting one": {Start, cluster("Starting", 2), ActionFollow, "", 0},
		"stop a starting one":  {Stop, cluster("Starting", 2), "", "another operation", report.ExitCheckFailed},
		"upgrade a stopped one": {Upgrade, cluster("Stopped", 2), "",
			"cannot upgrade cluster demo while it is Stopped", report.ExitCheckFailed},
		"delete":           {Delete, cluster("Error", 2), ActionChange, "", 0},
		"delete again":     {Delete, cluster("Destroying", 2), ActionFollow, "", 0},
		"create again":     {Create, cluster("Running", 3), ActionNone, "", 0},
		"create, going on": {Create, cluster("Created", 3), ActionFollow, "", 0},
		"create, in Error": {Create, cluster("Error", 3), "", "cannot create cluster demo while it is Error",
			report.ExitCheckFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := taskOf(tc.op, tc.cluster, 3)
			err := task.decide()
			if tc.refused != "" {
				testenv.RequireRefusal(t, err, tc.refused, "", tc.code)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.action, task.plan.Action)
			require.Contains(t, task.plan.shown(&engine.Env{}).Text(report.Style{}), "demo")
		})
	}

	going := taskOf(Create, cluster("Running", 3), 3)
	going.after = []engine.Step{{Name: "install"}}
	require.NoError(t, going.decide())
	require.Equal(t, ActionFollow, going.plan.Action, "the install is missing")
}

func TestPreflightStops(t *testing.T) {
	t.Parallel()
	p := taskOf(Scale, cluster("Running", 2), 3).plan
	p.Findings = []ckscheck.Finding{
		{Code: "limit", Severity: ckscheck.Error, Object: "account k8s", What: "too many VMs"},
		{Code: "x", Severity: ckscheck.Warning},
	}
	testenv.RequireRefusal(t, p.judge(nil),
		"cannot scale cluster demo, because the preflight found 1 problem: account k8s: too many VMs",
		"--ignore-preflight limit", report.ExitCheckFailed)
	require.NoError(t, p.judge([]string{"limit"}))
}

func TestOver(t *testing.T) {
	t.Parallel()
	job := func(status cloudstack.JobStatus, text string) *cloudstack.Job {
		return &cloudstack.Job{Status: status, ErrorText: text}
	}
	is := cluster

	for name, tc := range map[string]struct {
		op      Operation
		cluster *cloudapi.KubernetesCluster
		job     *cloudstack.Job
		over    bool
		cause   string
	}{
		"the job runs": {Scale, is("Running", 5), job(cloudstack.JobPending, ""), false, ""},
		"the job has failed": {Scale, is("Scaling", 2), job(cloudstack.JobFailed, "no capacity"), true,
			"no capacity"},
		"the job broke off": {Scale, is("Scaling", 2), job(cloudstack.JobFailed, ""), true,
			"the job ended, and CloudStack gave no reason: perhaps by a restart of the management server"},
		"the job is done": {Scale, is("Running", 5), job(cloudstack.JobSucceeded, ""), true, ""},
		"the job is done, but not that": {Scale, is("Alert", 5), job(cloudstack.JobSucceeded, ""), true,
			"it ended in state Alert, and differs from what was requested"},
		"no job, it works":   {Scale, is("Scaling", 2), nil, false, ""},
		"no job, it is done": {Scale, is("Running", 5), nil, true, ""},
		"no job, it is not": {Scale, is("Running", 2), nil, true,
			"it ended in state Running, and differs from what was requested"},
		"gone meanwhile": {Scale, nil, nil, true, "the cluster no longer exists"},
		"deleted":        {Delete, nil, job(cloudstack.JobSucceeded, ""), true, ""},
		"deleting":       {Delete, is("Destroying", 2), nil, false, ""},
	} {
		over, cause := taskOf(tc.op, is("Running", 2), 5).over(tc.cluster, tc.job)
		require.Equal(t, tc.over, over, name)
		require.Equal(t, tc.cause, cause, name)
	}
}

func TestScaleRequest(t *testing.T) {
	t.Parallel()
	r, err := (&Options{Autoscaling: "off"}).scaleRequest()
	require.NoError(t, err)
	require.False(t, *r.Autoscaling)
	for _, bad := range []string{"3", "5-2", "0-3", "a-b", "2-2"} {
		_, err := (&Options{Autoscaling: bad}).scaleRequest()
		require.Error(t, err, bad)
	}
}

// Offerings are compared by id, not by name. Only offerings that flags name can change.
func TestOfferingsDiffer(t *testing.T) {
	t.Parallel()
	k := &cloudapi.KubernetesCluster{
		OfferingID:         "1",
		OfferingName:       "node",
		WorkerOfferingID:   "2",
		WorkerOfferingName: "big",
	}
	all := task{named: map[string]object{"offering": {"2", "big"}}}
	require.Equal(t, changes{{"offering of control nodes", "node", "big"}}, all.offeringChanges(k))
	same := task{named: map[string]object{"control-offering": {"3", "node"}}}
	require.Equal(t, changes{{"offering of control nodes", "node", "node"}}, same.offeringChanges(k))
	require.Empty(t, (&task{}).offeringChanges(k))
}

// serviceOf returns the Service for a simulated CloudStack, with --yes and without a terminal.
func serviceOf(t *testing.T, cloud *testenv.Cloud) (*Service, *testenv.Env) {
	t.Helper()
	e := testenv.New(t)
	e.Cluster = nil
	return &Service{Env: e.Env, API: cloud.Client(t, "")}, e
}

// The Services are deleted first. The cluster is deleted only after the controller has removed their rules and then
// their finalizers.
func TestDeleteRemovesServices(t *testing.T) {
	t.Parallel()
	for name, controller := range map[string]bool{"with a controller": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := testenv.NewCKS(t)

			// The cluster is in an existing network, in which the Service has an address and a rule.
			web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}
			web.Spec.Type = corev1.ServiceTypeLoadBalancer
			web.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: cloud.Supplied(t)}}
			s, e := serviceOf(t, cloud)
			classy := web.DeepCopy() // a Service of another controller, on the same address
			classy.Name, classy.UID, classy.Spec.LoadBalancerClass = "classy", "2", ptr.To("other.example.org/lb")
			kube := fake.NewClientset(web, classy)
			deleted := false
			kube.PrependReactor("delete", "services", func(ktesting.Action) (bool, runtime.Object, error) {
				waits := !deleted || !controller // the deletion waits for the finalizer
				deleted = true
				return waits, nil, nil
			})

			s.Kube = func(string) (kubernetes.Interface, error) { return kube, nil }
			err := s.Run(t.Context(), Delete, "demo", Options{RemoveServices: true})
			left, lerr := s.clusters(t.Context())
			require.NoError(t, lerr)
			require.Contains(t, e.Said(), "delete Service default/web with its load balancer")
			require.NotContains(t, e.Said(), "default/classy")
			if controller {
				require.NoError(t, err)
				require.Empty(t, left)
				return
			}

			testenv.RequireRefusal(t, err,
				"cluster demo was not deleted: of its Services 1 are left after 5m0s, such as default/web",
				"csccm doctor", 1)
			require.Len(t, left, 1)
		})
	}
}

// The install into a new cluster gets its kubeconfig. If the install fails, a second run continues with it.
func TestCreateInstalls(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	s, e := serviceOf(t, cloud)
	var given string
	broken := errors.New("no Pod of the controller starts")
	o := Options{Zone: "zone-1", Offering: "node", Install: func(_ context.Context, kubeconfig string) error {
		given = kubeconfig
		return broken
	}}

	err := s.Run(t.Context(), Create, "demo", o)
	require.ErrorContains(t, err,
		"cluster demo runs, but csccm is not ready there; run the same command again to continue the install: no "+
			"Pod of the controller starts")
	require.Contains(t, given, "clusters:")
	broken = nil
	require.NoError(t, s.Run(t.Context(), Create, "demo", o))
	require.Contains(t, e.Stdout.String(), "when it runs, install     csccm")
	require.Equal(t, 1, cloud.Ledger().Count("createKubernetesCluster"))
	journal, err := os.ReadFile(e.Journal)
	require.NoError(t, err)
	require.Contains(t, string(journal), "installed csccm")
	require.NotContains(t, string(journal)+e.Said(), "client-key-data")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// elsewhere is a CloudStack whose VMs are in a project that the cloud-config does not name.
type elsewhere struct {
	check.API
	own []cloudstack.VirtualMachine
}

const opProject = "0b0b0b0b-0000-4000-8000-000000000001"

func (c elsewhere) ListProjects(context.Context) ([]cloudstack.Project, error) {
	return []cloudstack.Project{{ID: opProject, Name: "op-proj", State: "Active"}}, nil
}

func (c elsewhere) ListVirtualMachines(ctx context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error) {
	if q.ProjectID == opProject {
		q.ProjectID = ""
		return c.API.ListVirtualMachines(ctx, q)
	}
	return c.own, nil
}

// A wrong project looks as if all VMs were gone. Nobody may be told to delete the Nodes.
func TestVMsAreInAnotherProject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		own   []cloudstack.VirtualMachine
		codes []string
	}{
		"no VM at all": {codes: []string{"CS-004"}},
		"another VM": {
			own:   []cloudstack.VirtualMachine{{ID: "0b0b0b0b-0000-4000-8000-000000000002", Name: "database", ZoneName: "zone-1", State: cloudstack.VMRunning}},
			codes: []string{"NODE-002", "NODE-003", "NODE-008"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.nodeDown(t)
			w.env.CloudStack = elsewhere{w.env.CloudStack, tc.own}
			r := check.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
			failed := map[string]check.Result{}
			for _, c := range r.Checks {
				failed[c.Code] = c
				if c.Outcome == check.Failed {
					require.NotContains(t, c.Remedy, "delete the Node")
					require.NotContains(t, c.Remedy, "may go")
				}
			}
			for _, code := range tc.codes {
				require.Equal(t, check.Failed, failed[code].Outcome, code)
				require.Contains(t, failed[code].Message, "wrong account, project or zone: VMs of the nodes are elsewhere, 3 in project op-proj", code)
				require.Contains(t, failed[code].Remedy, "project op-proj: --project op-proj", code)
			}
		})
	}
}

// nodeDown makes one node NotReady, as after an outage.
func (w *world) nodeDown(t *testing.T) {
	t.Helper()
	n, err := w.kube.CoreV1().Nodes().Get(t.Context(), "demo-worker-1", metav1.GetOptions{})
	require.NoError(t, err)
	n.Status.Conditions[0].Status = corev1.ConditionFalse
	_, err = w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	require.NoError(t, err)
}

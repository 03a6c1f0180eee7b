// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// What Events and logs still tell of Services and Nodes that are gone leaves the cluster under pseudonyms.
func TestSecurityBundleRedactsDeletedObjects(t *testing.T) {
	t.Parallel()
	event := func(of corev1.ObjectReference, message string) corev1.Event {
		return corev1.Event{InvolvedObject: of, Message: message, Reason: "R", Source: corev1.EventSource{Component: "service-controller"}}
	}
	files, err := Files(check.Report{}, &check.Facts{
		At:  time.Unix(0, 0),
		VMs: inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, []cloudstack.VirtualMachine{{ID: "1", Name: "payroll-db"}}),
		Events: []corev1.Event{
			event(corev1.ObjectReference{Kind: "Service", Namespace: "takeover-project", Name: "acquisition"}, "released"),
			event(corev1.ObjectReference{Kind: "Node", Name: "gone-worker"}, `near is VM payroll-db`),
			event(corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"}, `node "old-worker.example.org" has no VM; Service "merger/secret-plan" has it`),
		},
		Logs: []check.Log{{Pod: "ccm", Lines: []podlog.Line{
			{Level: 'I', Message: "Deleted", Values: map[string]string{"service": "layoffs/portal", "nodes": "[lost-a lost-b]"}},
			{Level: 'E', Message: "error checking if node lost-c exists: node \"lost-c\": timed out"},
			{Level: 'W', Message: "x", Values: map[string]string{"err": `no VM for node "lost-d"`}},
		}}},
	}, false)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		for _, name := range []string{"takeover-project", "acquisition", "gone-worker", "payroll-db", "old-worker", "merger", "secret-plan", "layoffs", "portal", "lost-a", "lost-b", "lost-c", "lost-d"} {
			require.NotContains(t, string(f.Body), name, f.Name)
		}
	}
}

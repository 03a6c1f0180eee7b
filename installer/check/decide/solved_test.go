// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/provider"
)

// What was said about a Service before its load balancer became ready is over; what was said after is not.
func TestSolvedErrorsAreNotOpen(t *testing.T) {
	t.Parallel()
	service := func(status metav1.ConditionStatus, ago time.Duration) []corev1.Service {
		return []corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{
				Type: provider.ConditionReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-ago)),
			}}},
		}}
	}
	failed := event("Service", "web", "service-controller", "SyncLoadBalancerFailed", "Warning", 10*time.Minute)
	repaired := event("Service", "web", "cloudstack-cloud-controller-manager", "DriftRepaired", "Warning", time.Minute)
	other := event("Node", "web", "cloud-node-controller", "NodeWithoutVM", "Warning", 10*time.Minute)
	line := func(service string) podlog.Line {
		return podlog.Line{At: now.Add(-10 * time.Minute), Level: 'E', Message: "could not be synced", Values: []podlog.Value{{Key: "service", Text: service}}}
	}
	lines := []podlog.Line{line("default/web"), line("default/mail")}
	for _, c := range []struct {
		name          string
		services      []corev1.Service
		events, lines int
	}{
		{"no condition", nil, 3, 2},
		{"not ready", service(metav1.ConditionFalse, time.Minute), 3, 2},
		{"ready since", service(metav1.ConditionTrue, time.Minute), 1, 1},
		{"ready before", service(metav1.ConditionTrue, 20*time.Minute), 2, 2},
	} {
		events, logs := Unsolved([]corev1.Event{failed, repaired, other}, []Log{{Pod: "p", Lines: lines}}, c.services)
		assert.Len(t, events, c.events, c.name)
		assert.Len(t, logs[0].Lines, c.lines, c.name)
	}
}

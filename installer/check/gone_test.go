// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
)

// What the controller said about a Service or Node that is gone is over: Events outlive their object by an hour.
func TestErrorsOfWhatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, o := range []corev1.ObjectReference{
		{Kind: "Service", Namespace: "default", Name: "gone", UID: "1"},
		{Kind: "Service", Namespace: "default", Name: "web", UID: "of one that had this name before"},
		{Kind: "Node", Name: "gone", UID: "gone"},
	} {
		w.add(t, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string("e-" + o.UID)}, Type: "Warning", Reason: "SyncLoadBalancerFailed", Message: "no free address",
			LastTimestamp: metav1.NewTime(w.now.Add(-time.Minute)), Source: corev1.EventSource{Component: "service-controller"}, InvolvedObject: o,
		})
	}
	w.log += strings.Repeat(w.logLine('E', time.Minute, "loadbalancer.go:364",
		`"A Service's load balancer could not be synced; it is tried again" err="500" service="default/gone" in="5s"`), 3)
	r := w.result(t, "CCM-005")
	require.Equal(t, check.OK, r.Outcome, "%s %v", r.Message, r.Objects)

	w.log = strings.ReplaceAll(w.log, "default/gone", "default/web")
	require.Equal(t, check.Warning, w.result(t, "CCM-005").Outcome)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func TestConditionsOfService(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*maxConditionMessage)
	for name, tc := range map[string]struct {
		err             error
		reason, message string
		ports           string // the reason of the condition LoadBalancerPortsError if it is true
	}{
		"call failed": {errors.New("broken"), "CloudStackError", "broken", ""},
		"waiting":     {&plan.WaitError{Message: "soon"}, "Waiting", "soon", ""},
		"a port refused": {
			errors.Join(&plan.RefusalError{Reason: plan.ReasonPortTaken, Message: "taken", Port: 80},
				&cloudstack.Error{}), "PortTaken", "taken", "PortTaken",
		},
		"mixed protocols": {
			&plan.RefusalError{Reason: plan.ReasonMixedProtocols, Message: "both", Port: 53}, "MixedProtocols", "both",
			corev1.LoadBalancerPortsErrorReason,
		},
		"a long message": {errors.New(long), "CloudStackError", long[:maxConditionMessage], ""},
	} {
		got := conditions(&work{
			version:  newVersion(aService("a", "web")),
			unserved: &plan.Notice{Reason: plan.ReasonNoBackends, Message: "no node"},
		}, tc.err)
		assert.Equal(t,
			metav1.Condition{
				Type:    ConditionReady,
				Status:  metav1.ConditionFalse,
				Reason:  tc.reason,
				Message: tc.message,
			}, got[0], name)

		assert.Equal(t, corev1.LoadBalancerPortsError, got[1].Type, name)
		assert.Equal(t, tc.ports != "", got[1].Status == metav1.ConditionTrue, name)
		if tc.ports != "" {
			assert.Equal(t, tc.ports, got[1].Reason, name)
		}
	}
}

// Only changes are written, and the transition time changes only with the
// condition's status.
func TestOnlyNewsIsWritten(t *testing.T) {
	t.Parallel()
	c, clk := idleController(t)
	svc := aService("a", "web",
		func(s *corev1.Service) { s.Status.Conditions = []metav1.Condition{{Type: "example.org/Other"}} })
	kube := fake.NewClientset(svc)
	c.Kube = kube
	w := newWork(newVersion(svc), c.stateOf(KeyOf(svc)), nil, silent{})
	write := func(unserved *plan.Notice, failure error) (written bool, ready, ports *metav1.Condition) {
		t.Helper()
		clk.Step(time.Minute)
		kube.ClearActions()
		w.IP, w.Unserved = ip1, unserved
		var status *corev1.LoadBalancerStatus
		if failure == nil {
			status = &corev1.LoadBalancerStatus{
				Ingress: []corev1.LoadBalancerIngress{{IP: ip1, Ports: []corev1.PortStatus{{Port: 80}, {Port: 81}}}},
			}
		}
		require.NoError(t, c.writeStatus(t.Context(), w, status, failure))
		all := w.latest.Status.Conditions
		require.NotNil(t, apimeta.FindStatusCondition(all, "example.org/Other"))
		return len(kube.Actions()) > 0, apimeta.FindStatusCondition(all, ConditionReady),
			apimeta.FindStatusCondition(all, corev1.LoadBalancerPortsError)
	}

	refused := &plan.RefusalError{Reason: plan.ReasonPortTaken, Message: "taken", Port: 80}
	_, ready, ports := write(nil, refused)
	require.True(t, clk.Now().Equal(ready.LastTransitionTime.Time))
	require.Equal(t, metav1.ConditionTrue, ports.Status)
	require.Empty(t, w.latest.Status.LoadBalancer.Ingress, "no port to mark")
	_, ready, ports = write(nil, nil)
	began := clk.Now()
	require.Equal(t, []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse},
		[]metav1.ConditionStatus{ready.Status, ports.Status})
	written, _, _ := write(nil, nil)
	require.False(t, written)
	require.Empty(t, svc.Status.LoadBalancer.Ingress, "the cached object is not changed")
	_, ready, _ = write(nil, refused)
	require.Equal(t, []corev1.PortStatus{{Port: 80, Error: ptr.To("PortTaken")}, {Port: 81}},
		w.latest.Status.LoadBalancer.Ingress[0].Ports)
	transition := ready.LastTransitionTime
	require.False(t, began.Equal(transition.Time))
	written, _, _ = write(nil, refused)
	require.False(t, written, "it is marked already")
	_, ready, _ = write(nil, &plan.RefusalError{Reason: plan.ReasonPortTaken, Message: "taken by another", Port: 80})
	require.Equal(t, transition, ready.LastTransitionTime, "the message changed, the status did not")
	_, ready, _ = write(&plan.Notice{Reason: plan.ReasonNoBackends, Message: "no node"}, nil)
	require.Equal(t, "NoBackends", ready.Reason)
	require.Nil(t, w.latest.Status.LoadBalancer.Ingress[0].Ports[0].Error)
	require.NoError(t, c.addFinalizer(t.Context(), w))
	require.NoError(t, c.release(t.Context(), w))
	require.Len(t, w.latest.Status.Conditions, 1)
	require.Empty(t, w.latest.Finalizers)
	require.Empty(t, w.latest.Status.LoadBalancer.Ingress)
}

// The version that this process has written is used until the informer shows the same or a newer one.
func TestNewestVersionOfService(t *testing.T) {
	t.Parallel()
	version := func(v string) *corev1.Service {
		return aService("a", "web", func(s *corev1.Service) { s.ResourceVersion = v })
	}
	c, _ := idleController(t)
	shown := version("1")
	k := KeyOf(shown)
	c.ServiceChanged(shown)
	for i, step := range []struct{ wrote, informer, want string }{
		{want: "1"},
		{wrote: "2", want: "2"},
		{wrote: "3", want: "3"},
		{informer: "2", want: "3"}, // the informer shows version 3 later
		{informer: "3", want: "3"},
		{wrote: "4", informer: "5", want: "5"},   // somebody else wrote
		{wrote: "4", want: "5"},                  // the answer of a write arrives late
		{wrote: "10", informer: "9", want: "10"}, // somebody else has written between two writes of ours
		{informer: "11", want: "11"},
		{wrote: "12", want: "12"},
	} {
		if step.wrote != "" {
			c.wrote(k, version(step.wrote))
		}
		if step.informer != "" {
			c.ServiceChanged(version(step.informer))
			shown = version(step.informer)
		}
		assert.Equal(t, step.want, c.states[k].svc.ResourceVersion, "step %d", i)
	}

	c.stateOf(k).touched = true
	c.ServiceDeleted(shown)
	assert.True(t, c.states[k].deleted)
	assert.Equal(t, "12", c.states[k].svc.ResourceVersion, "all that is left of it")
}

// A Service that becomes type LoadBalancer again while its old load balancer is being removed gets a new one.
func TestServiceThatWantsAgainIsKept(t *testing.T) {
	t.Parallel()
	c, _ := idleController(t)
	svc := aService("a", "web")
	c.ServiceChanged(svc)
	c.stateOf(KeyOf(svc)).touched = true
	c.deleteState(KeyOf(svc))
	require.NotNil(t, c.states[KeyOf(svc)])
	assert.Equal(t, &state{version: newVersion(svc)}, c.states[KeyOf(svc)])
}

// The informer's event about a write of this process causes no sync.
func TestOwnWritesDoNotWakeTheQueue(t *testing.T) {
	t.Parallel()
	c, _ := idleController(t)
	before := aService("a", "web",
		func(s *corev1.Service) { s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"} })

	k := KeyOf(before)
	c.ServiceChanged(before)
	queued, _ := c.queue.Get()
	c.queue.Done(queued)

	after := before.DeepCopy()
	after.ResourceVersion = "2"
	recording(true, ip1)(after) // the missing status would cause a sync if somebody else had written this

	c.wrote(k, after)
	c.ServiceChanged(after)
	assert.Zero(t, c.queue.Len())
	assert.Equal(t, []string{"web"}, holdersOf(c.book, ip1))

	theirs := after.DeepCopy()
	theirs.ResourceVersion = "3"
	c.ServiceChanged(theirs)
	assert.Equal(t, 1, c.queue.Len(), "the status is missing")
}

func TestChangesThatWakeTheQueue(t *testing.T) {
	t.Parallel()
	served := func(change ...func(*corev1.Service)) *corev1.Service {
		return aService("a", "web", append([]func(*corev1.Service){func(s *corev1.Service) {
			s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
		}, showing(true, ip1)}, change...)...)
	}

	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		wakes  bool
	}{
		"a label":      {func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }, false},
		"a port":       {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, true},
		"another type": {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }, true},
		"deletion": {func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: testTime} },
			true},
		"the finalizer is taken": {func(s *corev1.Service) { s.Finalizers = nil }, true},
		"the status is cleared":  {func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = nil }, true},
		"type changed and finalizer": {func(s *corev1.Service) {
			s.Spec.Type, s.Finalizers = corev1.ServiceTypeClusterIP, nil
		}, true},
	} {
		c, _ := idleController(t)
		c.learn(served())
		c.ServiceChanged(served(tc.change, versioned("2")))
		assert.Equal(t, tc.wakes, c.queue.Len() == 1, name)
	}
}

// A Service that is deleted without its finalizer is cleaned up like any other. The state of a Service that had nothing
// in CloudStack is deleted.
func TestDeletedServices(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		svc     *corev1.Service
		touched bool
		cleaned bool
	}{
		"never worked on":     {svc: aService("a", "web")},
		"worked on":           {svc: aService("a", "web"), touched: true, cleaned: true},
		"with a record":       {svc: aService("a", "web", recording(false, ip1)), cleaned: true},
		"with an acquisition": {svc: aService("a", "web", annotated(annotation.Allocation, "[]")), cleaned: true},
		"with a status": {
			svc: aService("a", "web",
				func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip1}} }),
			cleaned: true,
		},
		"of another class": {
			svc: aService("a", "web", showing(true, ip1),
				func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("x/y") }),
			cleaned: true,
		},
		"never ours": {
			svc: aService("a", "web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("x/y") }),
		},
		"of another type, touched": {
			svc:     aService("a", "web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
			touched: true,
			cleaned: true,
		},
	} {
		c, _ := idleController(t)
		k := KeyOf(tc.svc)
		c.stateOf(k).touched = tc.touched
		c.learn(tc.svc)

		c.ServiceDeleted(tc.svc)
		assert.Equal(t, tc.cleaned, c.queue.Len() == 1, name)
		assert.Equal(t, tc.cleaned, c.states[k] != nil, name)
		assert.Equal(t, tc.cleaned, c.book.ByUID("web") != nil, "%s: it is in the book until it is cleaned up", name)
	}
}

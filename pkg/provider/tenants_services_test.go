// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
)

// Services are named namespace/name here.

// create makes a Service of type LoadBalancer.
func (e *tenantEnv) create(key string, ports []int, change ...func(*corev1.Service)) {
	e.t.Helper()
	svc := newService(ports)
	svc.Namespace, svc.Name, _ = strings.Cut(key, "/")
	e.services++
	svc.UID = types.UID(fmt.Sprintf("5e%06x-0000-4000-8000-0000000000aa", e.services))
	for _, c := range change {
		c(svc)
	}
	_, err := e.kube.CoreV1().Services(svc.Namespace).Create(e.t.Context(), svc, metav1.CreateOptions{})
	require.NoError(e.t, err)
}

// get returns a Service.
func (e *tenantEnv) get(key string) *corev1.Service {
	e.t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	svc, err := e.kube.CoreV1().Services(namespace).Get(e.t.Context(), name, metav1.GetOptions{})
	require.NoError(e.t, err)
	return svc
}

// edit changes a Service as a user does.
func (e *tenantEnv) edit(key string, changes ...func(*corev1.Service)) {
	e.t.Helper()
	svc := e.get(key)
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	for _, c := range changes {
		c(svc)
	}
	_, err := e.kube.CoreV1().Services(svc.Namespace).Update(e.t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(e.t, err)
}

// sync does what the framework does for a changed Service: a type other than LoadBalancer is a removal.
func (e *tenantEnv) sync(key string) error {
	e.t.Helper()
	svc := e.get(key)
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return e.remove(key)
	}
	e.lb.backoff.Forget(svc.UID) // its time has come
	status, err := e.lb.EnsureLoadBalancer(e.killer.life(), "kubernetes", svc, nodesNamed(e.nodes...))
	if err != nil {
		return err
	}
	e.edit(key, func(s *corev1.Service) { s.Status.LoadBalancer = *status })
	return nil
}

func (e *tenantEnv) mustSync(key string) {
	e.t.Helper()
	require.NoError(e.t, e.sync(key), key)
}

// remove does what the framework does for a Service that has no load balancer any more.
func (e *tenantEnv) remove(key string) error {
	e.t.Helper()
	svc := e.get(key)
	e.lb.backoff.Forget(svc.UID) // its time has come
	_, exists, err := e.lb.GetLoadBalancer(e.killer.life(), "kubernetes", svc)
	if err == nil && exists {
		err = e.lb.EnsureLoadBalancerDeleted(e.killer.life(), "kubernetes", svc)
	}
	if err == nil {
		e.edit(key, func(s *corev1.Service) { s.Status.LoadBalancer = corev1.LoadBalancerStatus{} })
	}
	return err
}

// delete removes the load balancer, and then the Service as the API server does when the finalizer is gone.
func (e *tenantEnv) delete(key string) error {
	e.t.Helper()
	if err := e.remove(key); err != nil {
		return err
	}
	svc := e.get(key)
	return e.kube.CoreV1().Services(svc.Namespace).Delete(e.t.Context(), svc.Name, metav1.DeleteOptions{})
}

// mustDelete tries again for some minutes, as the framework does: an acquisition without an outcome is waited for.
func (e *tenantEnv) mustDelete(key string) {
	e.t.Helper()
	var err error
	for range 4 {
		if err = e.delete(key); err == nil {
			return
		}
		e.clock.SetTime(e.clock.Now().Add(3 * time.Minute))
	}
	require.NoError(e.t, err, key)
}

// ip is the address that a Service shows.
func (e *tenantEnv) ip(key string) string {
	e.t.Helper()
	ingress := e.get(key).Status.LoadBalancer.Ingress
	require.Len(e.t, ingress, 1, key)
	return ingress[0].IP
}

// drift runs two rounds of the drift loop, a period apart: orphans count from the second on.
func (e *tenantEnv) drift() {
	e.t.Helper()
	for range 2 {
		e.clock.SetTime(e.clock.Now().Add(6 * time.Minute))
		e.lb.driftRound(e.t.Context())
	}
}

// refused syncs a Service that must be refused before anything is written. It returns the Event's text.
func (e *tenantEnv) refused(key string, reasons ...loadbalancer.Reason) string {
	e.t.Helper()
	before := e.world()
	e.events()
	e.reset()
	if err := e.sync(key); err == nil {
		e.same(before, "the sync")
		assert.Fail(e.t, "not refused", key)
		return ""
	}
	assert.Empty(e.t, e.writes(), "calls that change something")
	e.same(before, "the refused sync")
	for _, event := range e.events() {
		for _, reason := range reasons {
			if strings.Contains(event, " "+string(reason)+" ") {
				return event
			}
		}
	}
	assert.Fail(e.t, "no Event says why", "%s should be refused with one of %v", key, reasons)
	return ""
}

// unchanged checks that every address that was there before is as it was, with everything on it. Addresses acquired
// since do not count.
func (e *tenantEnv) unchanged(before []string, when string, except ...string) {
	e.t.Helper()
	known := map[string]bool{}
	for _, line := range before {
		known[ipOf(line)] = true
	}
	now := e.world()
	for _, ip := range except {
		delete(known, ip)
	}
	aside := func(line string) bool { return !known[ipOf(line)] }
	was, is := slices.DeleteFunc(slices.Clone(before), aside), slices.DeleteFunc(now, aside)
	assert.Empty(e.t, changes(was, is), "changed by %s", when)
}

// same checks that the world is as it was.
func (e *tenantEnv) same(before []string, when string) {
	e.t.Helper()
	assert.Empty(e.t, changes(before, e.world()), "changed by %s", when)
}

// changes are the lines that only one of two dumps has.
func changes(before, after []string) []string {
	var out []string
	for _, line := range before {
		if !slices.Contains(after, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			out = append(out, "+ "+line)
		}
	}
	return out
}

// ipOf is the address that a line of a dump is about; empty for none.
func ipOf(line string) string {
	for _, field := range strings.Fields(line) {
		if strings.Count(field, ".") == 3 && !strings.Contains(field, "/") {
			return field
		}
	}
	return ""
}

// acquireAgain makes somebody release an address and acquire it again: it has the same id afterwards.
func (e *tenantEnv) acquireAgain(ip, network string) {
	e.t.Helper()
	ctx := e.t.Context()
	wait := func(s cloudstack.Submitted, err error) {
		e.t.Helper()
		require.NoError(e.t, err)
		_, err = instantJobs{loadbalancer.FromClient(e.inspect)}.Wait(ctx, "", s.JobID)
		require.NoError(e.t, err)
	}
	ips, err := e.inspect.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip})
	require.NoError(e.t, err)
	if len(ips) > 0 {
		wait(e.inspect.DisassociateIP(ctx, ips[0].ID))
	}
	e.later.Add(int64(time.Minute)) // CloudStack shows the time of an acquisition in seconds
	wait(e.inspect.AssociateIP(ctx, cloudstack.AssociateIPRequest{NetworkID: network, Address: ip}))
}

func at(ip string) func(*corev1.Service) { return annotate(annotation.Address, ip) }

func ranges(r ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = r }
}

func ofType(t corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = t }
}

func unset(names ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, n := range names {
			delete(s.Annotations, n)
		}
	}
}

// jsonText is a record as the controller would write it.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and booleans only
	}
	return string(text)
}

func forgedRecord(r ...map[string]any) func(*corev1.Service) {
	return annotate(annotation.Addresses, jsonText(r))
}

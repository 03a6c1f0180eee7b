// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// The scenarios in this file run under steady traffic; no request may fail, except in the parts named below.

// undisturbed returns a scenario that creates two Services, calls do and fails when a request was lost meanwhile.
func undisturbed(do func(context.Context, *env)) func(context.Context, *env) string {
	return func(ctx context.Context, e *env) string {
		one, _ := e.served(ctx, "steady-1", nil)
		two, _ := e.served(ctx, "steady-2", nil)
		r := e.steady(ctx, "", true, one, two)
		err := must.Catch(func() { do(ctx, e) })
		sum := r.Stop()
		must.OK(errors.Join(err, sum.Err()))
		return brief(sum)
	}
}

// leader returns the host part of the lease's holder identity: the leading Pod's hostname. With hostNetwork, that is
// the name of its node.
func (e *env) leader(ctx context.Context) string {
	l := must.Get(e.Client.CoordinationV1().Leases(namespace).Get(ctx, testenv.PredecessorName, metav1.GetOptions{}))
	must.Be(l.Spec.HolderIdentity != nil, "the lease has no holder")
	host, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	return host
}

// leaderKilled deletes the leading Pod without a grace period and waits for another leader.
func leaderKilled(ctx context.Context, e *env) {
	first := e.leader(ctx)
	list := must.Get(e.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: controllerLabel}))
	for i := range list.Items {
		p := &list.Items[i]
		if p.Name != first && p.Spec.NodeName != first {
			continue
		}
		now := int64(0)
		must.OK(e.Client.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
	e.until(ctx, "another leader", func(ctx context.Context) {
		now := e.leader(ctx)
		must.Be(now != first, "the leader is still %s", now)
	})
	// The new leader serves a new Service.
	e.served(ctx, "after-leader", nil)
}

const controllerLabel = "app.kubernetes.io/name=" + controller

// cloudDown makes CloudStack unavailable for a minute and creates a Service meanwhile.
func cloudDown(ctx context.Context, e *env) {
	const away = time.Minute
	e.cloud.Restart(away)
	e.service(ctx, "meanwhile", nil)
	ip := e.address(ctx, "meanwhile")
	e.answers(ctx, client1, netip.AddrPortFrom(ip, 80))
}

// upgradeAndBack changes a value of the chart, which restarts the Pods, and rolls back.
func upgradeAndBack(ctx context.Context, e *env) {
	e.csccm(ctx, "upgrade", "--yes", "--set", "logVerbosity=4")
	e.csccm(ctx, "rollback", "--yes")
	e.served(ctx, "after-rollback", nil)
}

// Requests may fail only in these two parts; neither CloudStack nor its controller could prevent that.
const (
	// kube-proxy on the other nodes still sends a share of the requests to the dead node's Pods.
	partNotReady = "until Kubernetes marks the node as not ready"
	// Linux tracks a connection without an answer for two minutes; a new connection from the same port of the load
	// balancer is sent to the same Pod.
	partTracked = "until the other nodes' connection tracking has dropped its Pods"
)

// nodeLost kills a node with a third of the Pods and destroys its VM. Requests in flight to
// that node are unavoidably lost; no others may be.
func nodeLost(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "lost", nil)
	const name = "worker-3"
	r := e.steady(ctx, partNotReady, false, to)
	defer r.Stop()
	e.Node(name).PowerOff()
	e.destroyed(ctx, name)
	e.members(ctx, to, "worker-1", "worker-2") // CloudStack itself removes the destroyed VM from the rule
	r.Next(partTracked)
	e.workloadReady(ctx, replicas)
	for _, other := range []string{"worker-1", "worker-2"} {
		e.until(ctx, other+" to forget the Pods of "+name, func(ctx context.Context) { must.OK(e.Node(other).NoConnectionsTo(ctx, e.Node(name))) })
	}
	r.Next("after")
	for range 1000 {
		must.Get(ask(ctx, client1, to))
	}
	after := r.Stop()
	must.OK(after.Err())
	return "afterwards " + brief(after)
}

// migrated gives rules old names under traffic and checks that csccm migrate-rules restores the new ones.
func migrated(ctx context.Context, e *env) {
	client := must.Get(e.client())
	defer client.CloseIdleConnections()
	rules := must.Get(testenv.RulesByID(ctx, client, ""))
	must.OK(testenv.RulesOfOld(ctx, client, rules))
	journal := filepath.Join(e.home, "migrate.jsonl")
	e.csccm(ctx, "migrate-rules", "--yes", "--journal", journal)
	after := must.Get(testenv.RulesByID(ctx, client, ""))
	for id, was := range rules {
		if now, ok := after[id]; !ok || now.Name != was.Name {
			must.Fail("rule %s was %+v and is %+v", id, was, now)
		}
	}
}

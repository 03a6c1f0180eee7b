// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

// A thousand events of Nodes over many Services, each of which makes the framework call UpdateLoadBalancer for every
// Service: they cost what changed for the load balancers, and no more. Upstream pays for each event and Service the
// list of all VMs and 1+N calls.
func TestBudgetOfNodeEvents(t *testing.T) {
	t.Parallel()
	const (
		events = 1000
		every  = 250 // events from one that changes the nodes to the next
		nodes  = 6
	)
	services := 500
	if testing.Short() {
		services = 20
	}
	b := newBed(t, withNodes(nodes+1))
	list := nodesUpTo(nodes)
	byName := map[string]*corev1.Service{}
	for i := range services {
		name := fmt.Sprintf("web%d", i)
		b.service([]int{80}, uid(fmt.Sprintf("%08d-0000-4000-8000-00000000abcd", i)), func(s *corev1.Service) { s.Name = name })
	}
	b.each(services, func(name string) error {
		_, err := b.lb.EnsureLoadBalancer(t.Context(), "", b.getAs(name), list)
		return err
	})
	for i := range services {
		name := fmt.Sprintf("web%d", i)
		byName[name] = b.getAs(name)
	}
	update := func() {
		b.each(services, func(name string) error { return b.lb.UpdateLoadBalancer(t.Context(), "", byName[name], list) })
	}

	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- a test
	changes := 0
	b.reset()
	for i := range events {
		if i%every == every/2 { // a node joins, later it leaves
			changes++
			list = nodesUpTo(nodes + changes%2)
			update()
			continue
		}
		// What changes about Nodes most of the time: nothing that matters, in another order.
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		n := list[0].DeepCopy()
		n.Labels = map[string]string{"changed": fmt.Sprint(i)}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: fmt.Sprint(i)}}
		n.ResourceVersion = fmt.Sprint(i)
		list[0] = n
		update()
	}
	calls := b.calls()
	want := changes * services
	t.Logf("%d events, %d of which changed the nodes, over %d Services of 1 port: %d calls (%d assign or remove); upstream %d",
		events, changes, services, len(calls), want, events*services*3+want*2)
	assert.Equal(t, want, count(calls, "assignToLoadBalancerRule")+count(calls, "removeFromLoadBalancerRule"), "each change once for each rule")
	assert.Empty(t, without(calls, "assignToLoadBalancerRule", "removeFromLoadBalancerRule", "listVirtualMachines"))
	assert.LessOrEqual(t, count(calls, "listVirtualMachines"), changes, "at most one list of VMs a change, for all Services")
}

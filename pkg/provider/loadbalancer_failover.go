// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/backoff"
	"github.com/csccm/csccm/pkg/provider/failover"
)

// watchHeartbeats prepares the watch of the kubelets' leases.
func (lb *loadBalancer) watchHeartbeats() *failover.Watch {
	probe := lb.deps.Probe
	if probe == nil {
		probe = failover.Answers
	}
	return &failover.Watch{
		Kube: lb.deps.Kube, Nodes: lb.deps.Nodes, After: lb.deps.SuspectAfter, Probe: probe, Changed: lb.fitnessChanged, Clock: lb.deps.Clock,
	}
}

// mayForward reports whether ports of the Service may be port forwardings: whether they are depends on the network, too.
func (lb *loadBalancer) mayForward(svc *corev1.Service) bool {
	spec, err := annotation.Parse(svc)
	spec.Mode = cmp.Or(spec.Mode, lb.deps.Mode)
	return err == nil && plan.Facts{Service: loadbalancer.ServiceOf(svc), Spec: spec}.Forwards()
}

// unfit returns which of the nodes must not serve direct traffic of the Service now; none when it has no such traffic.
func (lb *loadBalancer) unfit(svc *corev1.Service, nodes []*corev1.Node) map[string]failover.Unfitness {
	if !lb.mayForward(svc) {
		return nil
	}
	all, err := lb.deps.Nodes()
	if err != nil { // the cache is not filled yet
		return failover.Unfit(nodes, nil)
	}
	there := make(map[types.UID]bool, len(all))
	for _, n := range all {
		there[n.UID] = true
	}
	out := failover.Unfit(lb.current(nodes), lb.heartbeats.Suspected())
	for _, n := range nodes {
		if !there[n.UID] {
			out[n.Name] = failover.Unfitness{Cause: failover.Deleted, Text: "deleted"}
		}
	}
	return out
}

// backends identifies the nodes that serve a Service, and those of them that must not serve its direct traffic.
func (lb *loadBalancer) backends(svc *corev1.Service, nodes []*corev1.Node) string {
	return backendsKey(nodes, lb.unfit(svc, nodes))
}

func backendsKey(nodes []*corev1.Node, unfit map[string]failover.Unfitness) string {
	key := nodesKey(nodes)
	if len(unfit) > 0 {
		key += "\nunfit " + strings.Join(slices.Sorted(maps.Keys(unfit)), " ")
	}
	return key
}

func (lb *loadBalancer) attempt(svc *corev1.Service, nodes []*corev1.Node) backoff.Attempt {
	return backoff.AttemptOf(svc, lb.backends(svc, nodes))
}

// texts are the reasons for which nodes must not serve, for Events.
func texts(unfit map[string]failover.Unfitness) map[string]string {
	out := make(map[string]string, len(unfit))
	for name, why := range unfit {
		out[name] = why.Text
	}
	return out
}

// fitnessChanged syncs the Services with direct ports, as other nodes than before may serve these. Those that nothing
// changes for cost no call.
func (lb *loadBalancer) fitnessChanged() {
	lb.heartbeats.NodesChanged()
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.known {
		if s.forwards {
			lb.wakeups.Add(uid)
		}
	}
}

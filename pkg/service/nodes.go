// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/node/failover"
)

const (
	// freshVMAge is the maximum age of the list before a refusal.
	freshVMAge = 5 * time.Second
	// missingPause is the maximum age of a list of VMs that lacks the VM of a node. A list that is older than the node
	// is always read again.
	missingPause = 30 * time.Second
	// endpointSettle is how long kube-proxy on a node may need to learn about an endpoint that has become ready.
	endpointSettle = 5 * time.Second
)

// findBackends determines the project, chooses the nodes that serve a Service, and finds their VMs. It checks the state
// of the nodes only once: if that state changes meanwhile, the change causes another sync.
func (c *Controller) findBackends(ctx context.Context, w *work) error {
	if err := c.locate(ctx, w); err != nil {
		return err
	}

	var since map[string]time.Time
	none := ""
	w.serving = w.chosen()
	switch {
	case len(w.nodes) == 0:
		none = w.noneEligible()
	case len(w.serving) == 0:
		none = "no node matches " + annotation.NodeSelector
	case w.svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		// The router has no health check, so leave out nodes without endpoints.
		with, err := c.endpoints.nodesOf(ctx, w.svc)
		if err != nil {
			return fmt.Errorf("find the nodes with endpoints: %w", err)
		}

		if w.serving = filterNodes(w.serving, func(n *corev1.Node) bool { return with[n.Name] }); len(w.serving) == 0 {
			none = "externalTrafficPolicy is Local and no node has a ready endpoint"
		}
		since = readySince(w.state.ready, w.serving, c.Clock.Now())
		w.state.ready = since
	}

	if w.forwards {
		w.request.Ineligible = failover.Problems(w.serving, c.heartbeats.Suspected())
		for _, n := range filterNodes(w.all, failover.Leaving) {
			w.request.Ineligible[n.Name] = failover.ProblemOf(n) // ports may still be forwarded to it
		}
		for _, name := range justReady(since, w.request.Ineligible, c.Clock.Now()) {
			w.request.Ineligible[name] = plan.Problem{
				Cause: plan.NotReady, Text: "its endpoints have just become ready",
			}
			c.queue.AddAfter(w.key, endpointSettle)
		}
	}

	if err := c.find(ctx, w); err != nil || none == "" {
		return err
	}
	w.unserved = plan.Warning(plan.ReasonNoBackends, none+"; the Service gets no traffic")
	return nil
}

// readySince returns when each node first had a ready endpoint of a Service; was is the result of the last sync, nil at
// the first one. At the first sync the times are zero, because the endpoints may have been ready for a long time.
func readySince(was map[string]time.Time, nodes []*corev1.Node, now time.Time) map[string]time.Time {
	since := map[string]time.Time{}
	for _, n := range nodes {
		at, known := was[n.Name]
		if was != nil && !known {
			at = now
		}
		since[n.Name] = at
	}
	return since
}

// justReady returns the nodes to which no port should be moved yet, because kube-proxy there may not know the
// endpoints. It does not return the healthy nodes that have been ready for the longest time.
func justReady(since map[string]time.Time, unhealthy map[string]plan.Problem, now time.Time) (nodes []string) {
	longest := now
	for name, at := range since {
		if unhealthy[name].Text == "" && at.Before(longest) {
			longest = at
		}
	}
	for name, at := range since {
		if unhealthy[name].Text == "" && at.After(longest) && now.Sub(at) < endpointSettle {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// chosen returns the eligible nodes that the node selector of the Service matches.
func (w *work) chosen() []*corev1.Node {
	selector := w.spec.NodeSelector
	if selector == nil {
		return w.nodes
	}
	return filterNodes(w.nodes, func(n *corev1.Node) bool { return selector.Matches(labels.Set(n.Labels)) })
}

// filterNodes returns the nodes for which want returns true.
func filterNodes(nodes []*corev1.Node, want func(*corev1.Node) bool) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !want(n) })
}

// find finds the VMs of the nodes that serve. If not all nodes serve, it also finds those of the others, so that the
// network of the Service does not depend on which nodes serve at the moment.
func (c *Controller) find(ctx context.Context, w *work) error {
	nodes, found := w.serving, &w.request.Members
	if len(nodes) == 0 {
		// The other nodes show in which network the address will be. A record alone does not show that, because it may
		// be forged.
		nodes, found = w.nodes, &w.request.Reach
	}

	// If there is a record, problems with nodes that do not serve matter only to a sync that needs them.
	said, quiet := w.events, len(w.serving) == 0 && w.svc.Annotations[annotation.Addresses] != ""
	if quiet {
		w.events = events{}
	}
	members, err := c.membersOf(ctx, w, nodes)
	if w.events = said; err != nil && !quiet {
		return err
	}
	*found = members

	vms := w.request.Inventory.LastVMs()
	if vms != nil && len(w.serving) > 0 && len(w.serving) < len(w.nodes) {
		// Pods that move to other nodes must not move the address to another network.
		chosen, _ := c.members.Match(vms, w.chosen())
		w.request.Reach = inZone(vms, chosen, w.spec.Zone)
	}

	if vms != nil && w.forwards {
		w.request.Leaving, _ = c.members.Match(vms, filterNodes(w.all, failover.Leaving))
	}

	return nil
}

// membersOf finds the VMs of nodes. Nodes without a VM are named in an Event and do not serve. That is an error only if
// no node has a VM.
func (c *Controller) membersOf(
	ctx context.Context, w *work, nodes []*corev1.Node,
) (members []plan.Member, err error) {
	if len(nodes) == 0 {
		return nil, nil
	}

	age := observe.VMAge
	if w.fresh {
		age = freshVMAge
	}

	c.mu.Lock()
	if failed := w.state.retry.err; cloudstack.IsKind(failed, cloudstack.KindJobFailed) ||
		cloudstack.IsNotFound(failed) {
		age = time.Second // CloudStack may have refused a VM that no longer exists
	}
	c.mu.Unlock()

	inv := w.request.Inventory
	vms, err := inv.VMs(ctx, age)
	if err != nil {
		return nil, err
	}

	members, failed := c.members.Match(vms, nodes)
	if len(failed) > 0 {
		newer := func(f node.Unmatched) bool { return f.Node.CreationTimestamp.After(vms.Taken) }
		age := missingPause
		if slices.ContainsFunc(failed, newer) {
			age = time.Second
		}
		if vms, err = inv.VMs(ctx, age); err != nil {
			return nil, err
		}
		_, failed = c.members.Match(vms, nodes)
		if vms, err = node.Ask(ctx, inv, vms, failed); err != nil {
			return nil, err
		}
		members, failed = c.members.Match(vms, nodes)
	}

	w.lacksVM = len(failed) > 0
	problems := map[plan.Reason][]string{}
	for _, f := range failed {
		reason := node.ReasonWithoutVM
		if node.ReasonOf(f.Err) == node.ReasonAmbiguousVM {
			reason = AmbiguousNode
		}
		problems[reason] = append(problems[reason], f.Err.Error())
	}

	for reason, texts := range problems {
		slices.Sort(texts)
		w.events.warn(reason, "not serving: "+plan.Some(texts, 5))
	}

	if w.spec.Zone != "" {
		if members = inZone(vms, members, w.spec.Zone); len(members) == 0 {
			return nil, plan.Refuse(plan.ReasonNoBackends,
				fmt.Sprintf("none of the %d nodes is in zone %q", len(nodes), w.spec.Zone), "correct "+annotation.Zone)
		}
	}

	if len(members) == 0 {
		// It is more likely that the API keys or the project are wrong than that the VMs of the whole cluster are gone,
		// so change nothing.
		where, remedy := "", "check project-id and zone of the cloud-config and the nodes' names"
		if w.spec.Project != "" {
			where, remedy = fmt.Sprintf(" in project %q, which annotation %s names", w.spec.Project,
				annotation.Project), "correct or remove the annotation"
		}
		message := fmt.Sprintf("none of the %d eligible nodes has a VM%s; the load balancer is left as it is",
			len(nodes), where)
		return nil, plan.Refuse(plan.ReasonNoBackends, message, remedy)
	}

	return members, nil
}

// inZone returns the members whose VMs are in a zone, given by name or id; all members if zone is empty.
func inZone(vms *inventory.VMSnapshot, members []plan.Member, zone string) []plan.Member {
	return slices.DeleteFunc(members, func(m plan.Member) bool {
		vm, _ := vms.ByID(m.VMID)
		return !inventory.InZone(&vm, zone)
	})
}

// noneEligible returns why no node may serve.
func (w *work) noneEligible() string {
	if len(w.all) == 0 {
		return "the cluster has no nodes yet"
	}
	return fmt.Sprintf("no node is eligible: of %d in the cluster, %d with the label %s and %d about to be deleted",
		len(w.all),
		len(filterNodes(w.all, failover.ExcludedByLabel)), corev1.LabelNodeExcludeBalancers,
		len(filterNodes(w.all, failover.Leaving)))
}

// Eligible returns the nodes that may serve Services, by the rules of the service controller of Kubernetes.
func Eligible(nodes []*corev1.Node) []*corev1.Node { return filterNodes(nodes, eligible) }

// eligible reports whether a node may serve Services.
func eligible(n *corev1.Node) bool { return !failover.ExcludedByLabel(n) && !failover.Leaving(n) }

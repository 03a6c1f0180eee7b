// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
	"github.com/csccm/csccm/pkg/provider/failover"
)

const (
	// lbVMAge is how old the list of VMs may be when it holds every node and nothing failed. The node
	// controller keeps it younger than that; what counts is that re-syncs need no list of their own.
	lbVMAge = 10 * time.Minute
	// freshVMAge is the same before a refusal.
	freshVMAge = 5 * time.Second
	// missingPause is how long a node without VM does not make the list be read again.
	missingPause = 30 * time.Second
	// missingAge is how long a node without VM is remembered.
	missingAge = time.Hour
	// namedNodes is how many nodes an Event names.
	namedNodes = 5
)

// backends are who serves a Service.
type backends struct {
	nodes []*corev1.Node
	// unfit are nodes that must not serve its direct traffic now.
	unfit map[string]failover.Unfitness
	// key identifies the nodes, and which of them are unfit.
	key string
	// members are the VMs of the nodes; reach is as in loadbalancer.Request.
	members, reach []plan.Member
	complete       bool   // every node has a VM
	none           string // why no node serves, if so
}

// backends chooses the nodes that serve a Service, and finds their VMs.
func (lb *loadBalancer) backends(ctx context.Context, w *work) (*backends, error) {
	b, err := lb.serving(ctx, w)
	if err != nil {
		return nil, err
	}
	return b, lb.find(ctx, w, b, w.events, lbVMAge)
}

// serving is backends without the VMs. What the nodes are fit for is decided once: a change in the meantime makes the
// Service be synced again.
func (lb *loadBalancer) serving(ctx context.Context, w *work) (*backends, error) {
	nodes, err := lb.choose(ctx, w)
	if err != nil {
		return nil, err
	}
	unfit := lb.unfit(w, nodes)
	return &backends{nodes: nodes, unfit: unfit, key: lb.nodes.key(nodes, unfit), none: lb.whyNone(w, nodes)}, nil
}

// choose narrows the nodes down to those that serve: those that are not about to be deleted, by the node selector, and for externalTrafficPolicy
// Local to those with endpoints, as the router has no health check that could tell.
func (lb *loadBalancer) choose(ctx context.Context, w *work) ([]*corev1.Node, error) {
	out := filterNodes(selected(w.spec, w.nodes), func(n *corev1.Node) bool { return !failover.Leaving(n) })
	if w.svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return out, nil
	}
	with, err := lb.endpoints.nodesOf(ctx, lb.deps.Kube, w.svc)
	if err != nil {
		return nil, fmt.Errorf("find the nodes with endpoints: %w", err)
	}
	return filterNodes(out, func(n *corev1.Node) bool { return with[n.Name] }), nil
}

// selected are the nodes that the Service's own selector leaves.
func selected(spec annotation.Spec, nodes []*corev1.Node) []*corev1.Node {
	if spec.NodeSelector == nil {
		return nodes
	}
	return filterNodes(nodes, func(n *corev1.Node) bool { return spec.NodeSelector.Matches(labels.Set(n.Labels)) })
}

func filterNodes(nodes []*corev1.Node, want func(*corev1.Node) bool) []*corev1.Node {
	out := make([]*corev1.Node, 0, len(nodes))
	for _, n := range nodes {
		if want(n) {
			out = append(out, n)
		}
	}
	return out
}

// unfit returns which of the nodes must not serve direct traffic of the Service now; none when it has no such traffic.
func (lb *loadBalancer) unfit(w *work, nodes []*corev1.Node) map[string]failover.Unfitness {
	if !w.forwards {
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
	for _, n := range all { // they are not among the nodes that serve, and may be the ones that ports lead to
		if failover.Leaving(n) {
			out[n.Name] = failover.Fitness(n)
		}
	}
	for _, n := range nodes {
		if !there[n.UID] {
			out[n.Name] = failover.Unfitness{Cause: failover.Deleted, Text: "deleted"}
		}
	}
	return out
}

// texts are the reasons for which nodes must not serve, for Events.
func texts(unfit map[string]failover.Unfitness) map[string]string {
	out := make(map[string]string, len(unfit))
	for name, why := range unfit {
		out[name] = why.Text
	}
	return out
}

// find finds the VMs of the nodes that serve, and those that tell in which network the Service is where these cannot.
func (lb *loadBalancer) find(ctx context.Context, w *work, b *backends, events event.Service, age time.Duration) (err error) {
	inv := lb.inventory(w.spec.Project)
	b.reach = nil
	if b.members, b.complete, err = lb.members(ctx, inv, w, b.nodes, events, age); err != nil {
		return err
	}
	if len(b.nodes) == 0 {
		// Nobody serves: the others tell in which network the address will be. A record may be forged, so that it alone does
		// not tell that; where there is one, what else is wrong with the nodes matters only to a sync that needs them.
		recorded := w.svc.Annotations[annotation.Addresses] != ""
		if recorded {
			events = event.Service{}
		}
		if b.reach, _, err = lb.members(ctx, inv, w, w.nodes, events, age); err != nil && !recorded {
			return err
		}
	}
	if vms := inv.LastVMs(); vms != nil && len(b.nodes) > 0 && len(b.nodes) < len(w.nodes) {
		// Pods that wander must not make the address move to another network.
		all, _ := lb.nodes.match(vms, selected(w.spec, w.nodes))
		b.reach = inZone(vms, all, w.spec.Zone)
	}
	return nil
}

// members finds the nodes' VMs. Nodes without one are named in an Event and do
// not serve; that is no error as long as some node does. complete is false when any is missing. age is how old the list
// of VMs may be.
func (lb *loadBalancer) members(ctx context.Context, inv *inventory.Inventory, w *work, nodes []*corev1.Node, events event.Service, age time.Duration) (members []plan.Member, complete bool, err error) {
	if len(nodes) == 0 {
		return nil, true, nil
	}
	lb.with(w.svc.UID, func(s *serviceState) {
		if s.doubtful {
			age = time.Second // CloudStack may have refused a VM that is no longer there
		}
	})
	vms, err := inv.VMs(ctx, age)
	if err != nil {
		return nil, false, err
	}
	members, failed := lb.nodes.match(vms, nodes)
	if len(failed) > 0 && lb.worthAnother(failed, vms) {
		// The list may be older than the node.
		if vms, err = inv.VMs(ctx, time.Second); err != nil {
			return nil, false, err
		}
		members, failed = lb.nodes.match(vms, nodes)
		lb.noteMissing(failed)
	}
	var missing, ambiguous []string
	for _, f := range failed {
		if is[*node.AmbiguousError](f.err) {
			ambiguous = append(ambiguous, f.err.Error())
		} else {
			missing = append(missing, f.err.Error())
		}
	}
	tell := func(reason plan.Reason, problems []string) {
		if len(problems) == 0 {
			return
		}
		slices.Sort(problems)
		more := ""
		if n := len(problems) - namedNodes; n > 0 {
			problems, more = problems[:namedNodes], fmt.Sprintf("; and %d more", n)
		}
		events.Warn(reason, "not serving: "+strings.Join(problems, "; ")+more)
	}
	tell(event.NodeWithoutVM, missing)
	tell(event.AmbiguousNode, ambiguous)
	if w.spec.Zone != "" {
		if members = inZone(vms, members, w.spec.Zone); len(members) == 0 {
			return nil, false, &plan.RefusalError{
				Reason: plan.ReasonNoBackends, Message: fmt.Sprintf("none of the %d nodes is in zone %q", len(nodes), w.spec.Zone), Remedy: "correct " + annotation.Zone,
			}
		}
	}
	if len(members) == 0 {
		// Rather our view of CloudStack is wrong than the whole cluster gone: touch nothing.
		where, remedy := "", "check project-id and zone of the cloud-config and the nodes' names"
		if w.spec.Project != "" {
			where, remedy = fmt.Sprintf(" in project %q, which annotation %s names", w.spec.Project, annotation.Project), "correct or remove the annotation"
		}
		return nil, false, &plan.RefusalError{
			Reason:  plan.ReasonNoBackends,
			Message: fmt.Sprintf("none of the %d eligible nodes has a VM%s; the load balancer is left as it is", len(nodes), where),
			Remedy:  remedy,
		}
	}
	return members, len(failed) == 0, nil
}

// inZone are the members whose VMs are in the zone of that name or id; all of them for none.
func inZone(vms *inventory.VMSnapshot, members []plan.Member, zone string) []plan.Member {
	return slices.DeleteFunc(members, func(m plan.Member) bool {
		vm, _ := vms.ByID(m.VMID)
		return !inventory.InZone(&vm, zone)
	})
}

// worthAnother reports whether a newer list could know more.
func (lb *loadBalancer) worthAnother(failed []unmatched, vms *inventory.VMSnapshot) bool {
	now := lb.deps.Clock.Now()
	return slices.ContainsFunc(failed, func(f unmatched) bool {
		at, known := lb.missing.Get(f.node.UID)
		found, _ := at.(time.Time)
		return !known || (now.Sub(found) >= missingPause && now.Sub(vms.Taken) >= missingPause)
	})
}

func (lb *loadBalancer) noteMissing(failed []unmatched) {
	for _, f := range failed {
		lb.missing.Set(f.node.UID, lb.deps.Clock.Now(), missingAge)
	}
}

// whyNone says why no node is chosen; empty when one is.
func (lb *loadBalancer) whyNone(w *work, chosen []*corev1.Node) string {
	switch {
	case len(chosen) > 0:
		return ""
	case len(Eligible(w.nodes)) == 0:
		return lb.noneEligible()
	case len(selected(w.spec, w.nodes)) == 0:
		return "no node matches " + annotation.NodeSelector
	case w.svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		return "externalTrafficPolicy is Local and no node has a ready endpoint"
	default:
		return "no node is chosen"
	}
}

// noneEligible says why Kubernetes gives us no node at all.
func (lb *loadBalancer) noneEligible() string {
	const none = "no node is eligible"
	nodes, err := lb.deps.Nodes()
	switch {
	case err != nil:
		return none
	case len(nodes) == 0:
		return "the cluster has no nodes yet"
	}
	excluded, going := 0, 0
	for _, n := range nodes {
		switch {
		case failover.Leaving(n):
			going++
		case len(Eligible([]*corev1.Node{n})) == 0:
			excluded++
		}
	}
	var why []string
	if excluded > 0 {
		why = append(why, fmt.Sprintf("%d with the label %s", excluded, corev1.LabelNodeExcludeBalancers))
	}
	if going > 0 {
		why = append(why, fmt.Sprintf("%d about to be deleted", going))
	}
	if excluded+going < len(nodes) { // the list of the sync was older
		return none
	}
	return fmt.Sprintf("%s: of %d in the cluster, %s", none, len(nodes), strings.Join(why, ", "))
}

// Eligible returns the nodes that the framework would hand to the controller; its own function for that is not exported.
func Eligible(nodes []*corev1.Node) []*corev1.Node {
	return filterNodes(nodes, func(n *corev1.Node) bool {
		return !failover.ExcludedByLabel(n) && !failover.Leaving(n)
	})
}

// current returns the Nodes as the framework's cache has them now. The framework hands out Nodes when something
// changes that it knows of; labels that a node selector names are not among that. A Node that is gone stays as it was:
// the framework reports it soon.
func (lb *loadBalancer) current(nodes []*corev1.Node) []*corev1.Node {
	all, err := lb.deps.Nodes()
	if err != nil {
		return nodes // the cache is not filled yet
	}
	byUID := make(map[types.UID]*corev1.Node, len(all))
	for _, n := range all {
		byUID[n.UID] = n
	}
	out := make([]*corev1.Node, 0, len(nodes))
	for _, n := range nodes {
		if now, ok := byUID[n.UID]; ok && now.Name == n.Name {
			n = now
		}
		out = append(out, n)
	}
	return out
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/service"
)

// NewPlan decides. It is pure, and the order of its input does not matter.
func NewPlan(f *Facts) *Plan {
	p := &Plan{SchemaVersion: 1, Predecessors: slices.Clone(f.Predecessors), Own: f.Own, Services: []ServicePlan{}, Values: values(f), project: f.project}
	slices.SortFunc(p.Predecessors, func(a, b family.Predecessor) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	p.order()
	p.Rules = rules.MakePlan(rules.Inventory{Rules: f.Rules, Services: f.Services, NodeVMs: rules.NodeVMs(f.Nodes, f.VMs)}, rules.Selection{})
	w := newCurrent(f, &p.Rules)
	for _, svc := range tenants.Balanced(f.Services) {
		p.Services = append(p.Services, w.service(svc))
	}
	return p
}

// order decides who is started or stopped first, and what stands against it.
func (p *Plan) order() {
	p.Order, p.Why = Nothing, "no other cloud controller manager is there"
	for i := range p.Predecessors {
		old := &p.Predecessors[i]
		switch {
		case old.Family == family.InTree:
			p.Problems = append(p.Problems, Problem{
				fmt.Sprintf("%s runs a cloud provider of its own", old),
				"start kube-controller-manager with --cloud-provider=external (Kubernetes before 1.31), then run the command again",
			})
		case old.Family == family.Other:
			p.Problems = append(p.Problems, Problem{
				fmt.Sprintf("%s (image %s) is a cloud controller manager that csccm does not know", old, old.Image),
				"if it is not needed: " + old.Deletion(),
			})
		case p.Order == OldFirst:
		case old.Wanted == 0:
			if p.Order == Nothing {
				p.Order, p.Why = OldFirst, old.String()+" is stopped already"
			}
		case old.Lease == nil:
			p.Order, p.Why = OldFirst, old.String()+" elects no leader: it has to end before another one starts"
		case *old.Lease != p.Own.Lease:
			p.Order, p.Why = OldFirst, fmt.Sprintf("%s holds lease %s, ours would hold %s: it has to end before ours starts", old, old.Lease, p.Own.Lease)
		default:
			p.Order, p.Why = OursFirst, fmt.Sprintf("both use lease %s: ours stands by until the old one has ended", old.Lease)
		}
	}
}

// Running are the predecessors that want Pods.
func (p *Plan) Running() []family.Predecessor {
	return slices.DeleteFunc(slices.Clone(p.Predecessors), func(x family.Predecessor) bool { return x.Wanted == 0 || !x.Replaceable() })
}

// values keeps the forms that the cluster's nodes carry: jobs and volumes are bound to their labels, and
// Cluster API finds its machines by provider ID.
func values(f *Facts) map[string]string {
	out := map[string]string{}
	upstream, kept, cluster, apache := 0, 0, 0, 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if id := n.Spec.ProviderID; strings.HasPrefix(id, "cloudstack:") {
			cluster++
		} else if strings.HasPrefix(id, "external-cloudstack:") {
			apache++
		}
		vm, err := node.Match(f.VMs, n)
		label := n.Labels[corev1.LabelInstanceTypeStable]
		if err != nil || label == "" {
			continue
		}
		short := node.InstanceTypeLabel(node.LabelUpstream, vm.ServiceOfferingName)
		long := node.InstanceTypeLabel(node.LabelKeepSeparators, vm.ServiceOfferingName)
		switch {
		case short == long:
		case label == short:
			upstream++
		case label == long:
			kept++
		}
	}
	if upstream > kept {
		out["instanceTypeFormat"] = string(node.LabelUpstream)
	}
	if cluster > apache {
		out["providerIDFormat"] = "cloudstack"
	}
	return out
}

// members are the VMs of the nodes that may serve Services.
func members(f *Facts) []plan.Member {
	var out []plan.Member
	nodes := make([]*corev1.Node, len(f.Nodes))
	for i := range f.Nodes {
		nodes[i] = &f.Nodes[i]
	}
	for _, n := range service.Eligible(nodes) {
		if vm, err := node.Match(f.VMs, n); err == nil && len(vm.NICs) > 0 {
			out = append(out, node.MemberOf(n, &vm))
		}
	}
	return out
}

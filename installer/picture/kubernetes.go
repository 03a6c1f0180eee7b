// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/report"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

const maxAnnotation = 1000 // characters of a value

func (b *builder) services() {
	for _, svc := range b.handled {
		name := rules.Key(svc)
		o := b.add(model.Object{ID: serviceID(name), Kind: model.KindService, Name: svc.Name, Group: svc.Namespace})

		var ports, ips []string
		for _, p := range svc.Spec.Ports {
			ports = append(ports, portText(int(p.Port), cmp.Or(string(p.Protocol), "TCP")))
		}

		for _, in := range svc.Status.LoadBalancer.Ingress {
			ips = append(ips, cmp.Or(in.IP, in.Hostname))
		}

		o.Label = strings.ReplaceAll(strings.Join(ports, ", "), "/tcp", "")
		o.Facts = model.Facts(
			"Service", name, "Address", strings.Join(ips, ", "), "Ports", strings.Join(ports, ", "),
			"External traffic policy", string(svc.Spec.ExternalTrafficPolicy),
			"Source ranges", strings.Join(svc.Spec.LoadBalancerSourceRanges, ", "),
			"UID", string(svc.UID), "Created", stamp(svc.CreationTimestamp))

		b.serviceHealth(o, svc)
		for _, c := range svc.Status.Conditions {
			o.Facts = append(o.Facts,
				model.Facts("Condition "+c.Type,
					strings.TrimSpace(fmt.Sprintf("%s (%s) %s", c.Status, c.Reason, c.Message)))...)
		}

		for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
			if key != corev1.LastAppliedConfigAnnotation { // it repeats the whole object
				o.Facts = append(o.Facts,
					model.Facts("Annotation "+key, terminal.Cut(svc.Annotations[key], maxAnnotation))...)
			}
		}

		o.Commands = []string{
			fmt.Sprintf("kubectl -n %s describe service %s", svc.Namespace, svc.Name),
			b.csccm("plan " + name), b.csccm("doctor --only LB"),
		}
	}
}

func (b *builder) serviceHealth(o *model.Object, svc *corev1.Service) {
	name := rules.Key(svc)
	served := len(svc.Status.LoadBalancer.Ingress) > 0
	ready := service.Ready(svc)
	switch {
	case svc.DeletionTimestamp != nil:
		worsen(o, model.HealthPending, "the Service is being deleted")
	case ready.Status == metav1.ConditionFalse:
		worsen(o, model.HealthError, ready.Reason+": "+ready.Message)
	case !served:
		worsen(o, model.HealthPending, "the Service has no address yet")
	}

	if p := b.Planned[name]; p != nil {
		planned, n := model.Plan{Service: o.ID}, len(p.Actions)
		for _, action := range p.Actions {
			planned.Actions = append(planned.Actions, model.Action{Sign: action.Sign(), Label: plan.Text(&action)})
		}

		if p.Pending > 0 {
			planned.Actions = append(planned.Actions,
				model.Action{Sign: "~", Label: "ask CloudStack for the outcome of an acquisition of an address"})
		}

		switch {
		case p.Error != "":
			planned.Refusal = "no plan: " + p.Error
			worsen(o, model.HealthWarning, planned.Refusal)
		case p.Refusal != nil:
			planned.Refusal, planned.Remedy = p.Refusal.Message, p.Refusal.Remedy
			worsen(o, model.HealthError, string(p.Refusal.Reason)+": "+p.Refusal.Message)
		case n > 0 && served && svc.DeletionTimestamp == nil && !onlyChanges(p):
			worsen(o, model.HealthWarning,
				fmt.Sprintf("CloudStack differs from the Service: %s planned", report.Count(n, "action")))
		case len(planned.Actions) > 0:
			worsen(o, model.HealthPending, report.Count(n, "action")+" planned")
		}

		if planned.Refusal != "" || len(planned.Actions) > 0 {
			b.planned = append(b.planned, planned)
		}

		for _, notice := range p.Notices {
			if notice.Warning && notice.Reason != node.ReasonWithoutVM { // shown at the Node
				worsen(o, model.HealthWarning, notice.Message)
			}
		}
	}

	b.diagnose(o, "Service "+name)
	if next := b.next[name]; o.Health != model.HealthOK && next.After(b.At) {
		o.Facts = append(o.Facts, model.Facts("Next try", stamp(metav1.NewTime(next)))...)
	}
}

// onlyChanges reports whether a plan only changes existing rules, as when a node joins or leaves: the Service works
// throughout.
func onlyChanges(p *plan.Service) bool {
	return !slices.ContainsFunc(p.Actions, func(a lbplan.Step) bool {
		return a.BlockedByPolicy ||
			a.Sign() != lbplan.Changes && a.Kind != lbplan.AddMembers && a.Kind != lbplan.RemoveMembers
	})
}

func portText(port int, protocol string) string {
	return fmt.Sprintf("%d/%s", port, strings.ToLower(protocol))
}

func stamp(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// poolLabels are the labels with a node's pool: of Cluster API, of Rancher, and of users.
var poolLabels = []string{
	"topology.cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/deployment-name",
	"rke.cattle.io/rke-machine-pool-name",
	"node.kubernetes.io/pool", "node-pool", "nodepool", "pool",
}

// pool returns the group of a node: its pool, or else its offering.
func pool(n *corev1.Node) string {
	if node.ControlPlane(n) {
		return "control plane"
	}
	for _, l := range poolLabels {
		if v := n.Labels[l]; v != "" {
			return v
		}
	}
	return cmp.Or(n.Labels[corev1.LabelInstanceTypeStable], "workers")
}

func (b *builder) nodes() {
	verdicts := map[string]kubelet.NodeVerdict{}
	for _, v := range b.Kubelets {
		verdicts[v.Node] = v
	}

	for _, n := range b.Nodes {
		o := b.add(model.Object{ID: nodeID(n.Name), Kind: model.KindNode, Name: n.Name, Group: pool(&n)})
		in := model.Node{
			Name:       n.Name,
			Kubelet:    string(kubelet.Unknown),
			ProviderID: n.Spec.ProviderID,
			Ready:      node.Ready(&n),
		}

		if v, known := verdicts[n.Name]; known {
			in.Kubelet, in.Evidence = strings.ReplaceAll(string(v.Verdict), "-", " "), v.Reason()
		}

		var addresses []string
		for _, a := range n.Status.Addresses {
			if ip := net.ParseIP(a.Address); ip != nil && !slices.Contains(in.Kubernetes, a.Address) {
				in.Kubernetes = append(in.Kubernetes, a.Address)
			}
			addresses = append(addresses, fmt.Sprintf("%s %s", a.Type, a.Address))
			if a.Type == corev1.NodeInternalIP && o.Label == "" {
				o.Label = a.Address
			}
		}

		if !in.Ready {
			worsen(o, model.HealthError, "the node is not ready")
		}

		if node.HasTaint(&n) {
			worsen(o, model.HealthPending, "the controller has not initialised the node yet")
		}

		if vm, known := b.VM(&n); known {
			b.nodeOfVM[vm.ID] = o.ID
			in.VMID, in.VMState, in.CloudStack = vm.ID, string(vm.State), vmAddresses(&vm)
			b.link(o.ID, cloudID(model.KindVM, vm.ID), "")
		} else if b.VMs != nil {
			worsen(o, model.HealthError, "no VM in CloudStack is this node")
		}

		b.diagnose(o, "Node "+n.Name)
		in.Health, in.Why = o.Health, slices.Clone(o.Why)
		b.compared = append(b.compared, in)

		var taints []string
		for _, t := range n.Spec.Taints {
			taints = append(taints, t.Key+":"+string(t.Effect))
		}

		o.Facts = model.Facts("Node", n.Name, "Taints", strings.Join(taints, ", "), "Provider ID", n.Spec.ProviderID,
			"Kubelet", in.Kubelet, "Evidence", in.Evidence,
			"Addresses in Kubernetes", strings.Join(addresses, ", "),
			"Addresses in CloudStack", strings.Join(in.CloudStack, ", "),
			"VM id", in.VMID, "Zone", n.Labels[corev1.LabelTopologyZone],
			"Offering", n.Labels[corev1.LabelInstanceTypeStable],
			"Kubelet version", n.Status.NodeInfo.KubeletVersion, "Created", stamp(n.CreationTimestamp))

		o.Commands = []string{"kubectl describe node " + n.Name, b.csccm("doctor --only NODE")}
	}
}

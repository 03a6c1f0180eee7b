// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/provider/failover"
)

// Forwarding is what is known of port forwardings. It is read only where a Service may have some.
type Forwarding struct {
	Rules    []cloudstack.PortForwarding
	Err      error // of reading them
	Networks []cloudstack.Network
	// Mode is the cloud-config's, of Services that choose none.
	Mode string
}

// MayForward reports whether a Service may have ports that are forwarded: whether it has depends on its network, too.
func MayForward(s *corev1.Service, mode string) bool {
	if !balanced(s) {
		return false
	}
	spec, err := annotation.Parse(s)
	spec.Mode = cmp.Or(spec.Mode, mode)
	return err == nil && plan.Facts{Service: loadbalancer.ServiceOf(s), Spec: spec}.Forwards()
}

// balanced reports whether the controller serves a Service.
func balanced(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil
}

// forwarded returns the ports of a Service that the controller forwards, by the controller's own decision, and the network
// of its nodes. There are none where it refuses the Service.
func (in *BalanceFacts) forwarded(s *corev1.Service) ([]plan.ForwardPort, *cloudstack.Network) {
	if !MayForward(s, in.Forwarding.Mode) {
		return nil, nil
	}
	spec, err := annotation.Parse(s)
	if err != nil {
		return nil, nil
	}
	spec.Mode = cmp.Or(spec.Mode, in.Forwarding.Mode)
	facts := plan.Facts{Service: loadbalancer.ServiceOf(s), Spec: spec, LeaveACLs: true}
	for i := range in.Nodes {
		if vm, err := node.Match(in.VMs, &in.Nodes[i]); err == nil {
			facts.Members = append(facts.Members, loadbalancer.MemberOf(&in.Nodes[i], &vm))
		}
	}
	id, refusal := plan.ServingNetwork(facts.Members, spec.Network, "")
	at := slices.IndexFunc(in.Forwarding.Networks, func(n cloudstack.Network) bool { return n.ID == id })
	if refusal != nil || at < 0 {
		return nil, nil
	}
	network := &in.Forwarding.Networks[at]
	described := loadbalancer.NetworkOf(network)
	facts.Network = &described
	desired, refusal := plan.Desire(facts)
	if refusal != nil {
		return nil, nil
	}
	return desired.Forwards, network
}

// Direct decides LB-005.
func Direct(in BalanceFacts) Finding {
	var objects []Object
	checked := 0
	for i := range in.Services {
		s := &in.Services[i]
		ports, network := in.forwarded(s)
		if len(ports) == 0 || len(s.Status.LoadBalancer.Ingress) == 0 { // LB-001 says that it has no address
			continue
		}
		checked++
		if in.Forwarding.Err != nil {
			continue
		}
		if problems := in.forwardProblems(s, ports, network); len(problems) > 0 {
			objects = append(objects, Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, Message: strings.Join(problems, "; ")})
		}
	}
	switch {
	case checked == 0:
		return Passf("no Service has ports that are forwarded")
	case cloudstack.IsKind(in.Forwarding.Err, cloudstack.KindNotPermitted):
		return Unknownf("the role does not allow listPortForwardingRules, so the ports of %s cannot be compared", plural.Count(checked, "Service")).
			Fix("allow the role the commands that CS-003 names")
	case in.Forwarding.Err != nil:
		return Unread(in.Forwarding.Err)
	case len(objects) > 0:
		return Problemf("ports of %d of %s are not led to a node that serves", len(objects), plural.Count(checked, "Service")).About(objects...)
	}
	return Passf("%s with ports that are forwarded", plural.Count(checked, "Service"))
}

func (in *BalanceFacts) forwardProblems(s *corev1.Service, ports []plan.ForwardPort, network *cloudstack.Network) []string {
	var out []string
	if network.VPCID != "" && network.ACLName == "default_deny" {
		out = append(out, fmt.Sprintf("the network ACL list default_deny of %s, which nobody can change, lets nobody in: give the tier a list of its own", network.Name))
	}
	for _, p := range ports {
		name := fmt.Sprintf("port %d/%s", p.PublicPort, p.Protocol)
		found := false
		for i := range in.Forwarding.Rules {
			f := &in.Forwarding.Rules[i]
			if f.StartPort > p.PublicPort || p.PublicPort > f.EndPort || !strings.EqualFold(f.Protocol, p.Protocol) || !shows(s, f.PublicIP) {
				continue
			}
			found = true
			if problem := in.forwardProblem(f, p); problem != "" {
				out = append(out, name+" "+problem)
			}
		}
		if !found {
			out = append(out, name+" has no port forwarding")
		}
	}
	return out
}

// forwardProblem says what is wrong with a port forwarding of a port; empty for nothing.
func (in *BalanceFacts) forwardProblem(f *cloudstack.PortForwarding, p plan.ForwardPort) string {
	for i := range in.Nodes {
		n := &in.Nodes[i]
		vm, err := node.Match(in.VMs, n)
		if err != nil || vm.ID != f.VMID {
			continue
		}
		switch why := failover.Fitness(n); {
		case f.PrivatePort != p.PrivatePort:
			return fmt.Sprintf("leads to port %d of node %s, the node port is %d", f.PrivatePort, n.Name, p.PrivatePort)
		case why.Cause != "":
			return fmt.Sprintf("leads to node %s, which cannot serve: %s", n.Name, why.Text)
		case f.State != "" && f.State != "Active":
			return "has a port forwarding in state " + f.State
		}
		return ""
	}
	return fmt.Sprintf("leads to VM %s, which is none of the nodes", cmp.Or(f.VMName, f.VMID))
}

func shows(s *corev1.Service, ip string) bool {
	return slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == ip })
}

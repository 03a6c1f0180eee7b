// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// forwarding is healthy with a UDP port, which a virtual router forwards to node b.
func forwarding(t *testing.T) BalanceFacts {
	t.Helper()
	in := healthy()
	s := &in.Services[0]
	s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 32053})
	in.Forwarding.Networks = []cloudstack.Network{{
		ID: in.VMs.All()[0].NICs[0].NetworkID, Name: "k8s-net", Type: "Isolated",
		Services:         map[string]map[string]string{"Lb": {}, "Firewall": {}, "PortForwarding": {}},
		ServiceProviders: map[string][]string{"Lb": {"VirtualRouter"}, "PortForwarding": {"VirtualRouter"}},
	}}
	in.Forwarding.Rules = []cloudstack.PortForwarding{{
		ID: "f", PublicIP: s.Status.LoadBalancer.Ingress[0].IP, Protocol: "udp", StartPort: 53, EndPort: 53, PrivatePort: 32053, VMID: idB, VMName: "b", State: "Active",
	}}
	return in
}

func TestDecideDirect(t *testing.T) {
	t.Parallel()
	const web = "Service default/web: "
	for name, c := range map[string]struct {
		change func(in *BalanceFacts)
		want   expect
	}{
		"fine":              {func(*BalanceFacts) {}, expect{OK, "1 Service with ports", nil}},
		"nothing forwarded": {func(in *BalanceFacts) { in.Services[0].Spec.Ports = in.Services[0].Spec.Ports[:1] }, expect{OK, "no Service has ports", nil}},
		"mode proxy": {func(in *BalanceFacts) {
			in.Services[0].Annotations = map[string]string{annotation.Mode: annotation.Proxy}
		}, expect{OK, "no Service has ports", nil}},
		"the cloud-config's mode": {func(in *BalanceFacts) {
			in.Services[0].Spec.Ports, in.Forwarding.Mode = in.Services[0].Spec.Ports[:1], annotation.Direct
		}, expect{"", "1 of 1 Service", []string{web + "port 80/tcp has no port forwarding"}}},
		"missing":       {func(in *BalanceFacts) { in.Forwarding.Rules = nil }, expect{"", "1 of 1 Service", []string{web + "port 53/udp has no port forwarding"}}},
		"another port":  {func(in *BalanceFacts) { in.Forwarding.Rules[0].PrivatePort = 1 }, expect{"", "", []string{web + "port 53/udp leads to port 1 of node b, the node port is 32053"}}},
		"somebody's VM": {func(in *BalanceFacts) { in.Forwarding.Rules[0].VMID, in.Forwarding.Rules[0].VMName = "x", "db" }, expect{"", "", []string{web + "port 53/udp leads to VM db, which is none of the nodes"}}},
		"a lost node":   {func(in *BalanceFacts) { notReadyNode(&in.Nodes[1]) }, expect{"", "", []string{web + "port 53/udp leads to node b, which cannot serve: not Ready"}}},
		"being made":    {func(in *BalanceFacts) { in.Forwarding.Rules[0].State = "Add" }, expect{"", "", []string{web + "port 53/udp has a port forwarding in state Add"}}},
		"closed tier": {func(in *BalanceFacts) {
			in.Forwarding.Networks[0].VPCID, in.Forwarding.Networks[0].ACLName = "vpc", "default_deny"
		}, expect{"", "", []string{web + "the network ACL list default_deny of k8s-net"}}},
		"not permitted":  {func(in *BalanceFacts) { in.Forwarding.Err = csError(cloudstack.KindNotPermitted, "") }, expect{Unknown, "listPortForwardingRules", nil}},
		"cannot be read": {func(in *BalanceFacts) { in.Forwarding.Err = errors.New("boom") }, expect{Unknown, "boom", nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := forwarding(t)
			c.change(&in)
			c.want.verify(t, Direct(in))
		})
	}
	expect{OK, "1 Service", nil}.verify(t, Services(forwarding(t)))
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// ServiceOf is what the planner needs of a Service.
func ServiceOf(svc *corev1.Service) Service {
	out := Service{UID: string(svc.UID), Namespace: svc.Namespace, Name: svc.Name, LB: cloudprovider.DefaultLoadBalancerName(svc)}
	for _, p := range svc.Spec.Ports {
		out.Ports = append(out.Ports, Port{Name: p.Name, Protocol: string(p.Protocol), Port: int(p.Port), NodePort: int(p.NodePort)})
	}
	out.IPv6Only = len(svc.Spec.IPFamilies) > 0 && !slices.Contains(svc.Spec.IPFamilies, corev1.IPv4Protocol)
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			out.StatusIPs = append(out.StatusIPs, i.IP)
		}
	}
	return out
}

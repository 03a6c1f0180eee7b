// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/internal/must"
)

// refused are Services that cannot be served: at the API server, or with an Event and without a call that changes something.
func refused(e *env) string {
	for what, c := range map[string]change{
		"an annotation that does not parse": set("algorithm", "fastest"),
	} {
		must.Be(must.Catch(func() { e.create("bad", c) }) != nil, "%s: the API server takes it", what)
	}
	mark := e.proxy.Mark()
	for _, c := range []struct {
		name, reason string
		change       change
		alsoInVPC    bool
	}{
		{"statistics-port", "ReservedPort", ports(8081), true},
		{"tenants-network", "NotAllowed", set("network", e.network.Name), true}, // what an operator allows is the controller's to judge
		{"taken-address", "AddressUnavailable", set("address", "192.0.2.1"), true},
		{"internal", "UnsupportedNetwork", set("internal", "true"), false},
	} {
		if e.vpcID == "" || c.alsoInVPC {
			e.create(c.name, c.change)
			e.event(c.name, c.reason)
		}
	}
	class := "example.org/other"
	e.create("of-others", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class })
	e.idle()
	s := e.get("of-others")
	must.Be(len(s.Status.LoadBalancer.Ingress) == 0 && len(s.Finalizers) == 0, "a Service with a loadBalancerClass is left to others, and is %v", s)
	for _, c := range e.proxy.Since(mark, proxy.Product) {
		// CloudStack itself refuses the address.
		must.Be(!c.Changes() || c.Command == "associateIpAddress", "a refused Service led to the call %s", c.Command)
	}
	return "by the API server: bad value, tenant's network; by Event: port 8081, an address that is not there, an internal balancer without a provider; a loadBalancerClass is left to others"
}

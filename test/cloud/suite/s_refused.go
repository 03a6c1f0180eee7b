// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/cloud/proxy"
)

// refused are Services that cannot be served: at the API server, or with an Event and without a call that changes something.
func refused(ctx context.Context, e *env) (string, error) {
	for what, c := range map[string]change{
		"an annotation that does not parse":     set("algorithm", "fastest"),
		"a network named in a tenant's Service": set("network", e.network.Name),
	} {
		if _, err := e.create(ctx, "bad", c); err == nil {
			return "", fmt.Errorf("%s: the API server takes it", what)
		}
	}
	mark := e.proxy.Mark()

	cases := []struct {
		name, reason string
		change       change
	}{
		{"statistics-port", "ReservedPort", ports(8081)},
		{"taken-address", "AddressUnavailable", set("address", "192.0.2.1")},
	}
	if e.vpcID == "" {
		cases = append(cases, struct {
			name, reason string
			change       change
		}{"internal", "UnsupportedNetwork", set("internal", "true")})
	}
	for _, c := range cases {
		if _, err := e.create(ctx, c.name, c.change); err != nil {
			return "", err
		}
		if _, err := e.event(ctx, "Service", c.name, c.reason); err != nil {
			return "", err
		}
	}
	class := "example.org/other"
	if _, err := e.create(ctx, "of-others", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }); err != nil {
		return "", err
	}
	if err := e.idle(ctx); err != nil {
		return "", err
	}
	if s, err := e.get(ctx, "of-others"); err != nil || len(s.Status.LoadBalancer.Ingress) > 0 || len(s.Finalizers) > 0 {
		return "", fmt.Errorf("a Service with a loadBalancerClass is left to others, and has %v, %w", s, err)
	}
	changed := ""
	for _, c := range e.proxy.Since(mark, proxy.Product) {
		if c.Changes() && c.Command != "associateIpAddress" { // CloudStack itself refuses the address
			changed = c.Command
		}
	}
	if changed != "" {
		return "", fmt.Errorf("a refused Service led to the call %s", changed)
	}

	return "by the API server: bad value, tenant's network; by Event: port 8081, an address that is not there, an internal balancer without a provider; a loadBalancerClass is left to others", nil
}

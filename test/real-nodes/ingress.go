// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"net/netip"
	"path/filepath"

	"github.com/csccm/csccm/test/internal/must"
)

// ingress is an example from the documentation: an ingress controller behind a Service.
type ingress struct {
	file, namespace, service string
	// hostPort is the port of the node on which it listens as well; 0 means none.
	hostPort uint16
}

var ingresses = []ingress{
	{file: "docs/examples/traefik/manifest.yaml", namespace: "traefik", service: "traefik", hostPort: 80},
	{file: "docs/examples/ingress-nginx/manifest.yaml", namespace: "ingress-nginx", service: "ingress-nginx-controller"},
}

// run applies the manifest unchanged and checks that the Pod sees the client's address.
// The manifest's image contains echo, which listens as the image's arguments say.
func (i ingress) run(ctx context.Context, e *env) string {
	file := filepath.Join(e.programs.Root, i.file)
	e.kubectl(ctx, "", "apply", "-f", file)
	ip := e.addressIn(ctx, i.namespace, i.service)
	at := []netip.AddrPort{netip.AddrPortFrom(ip, 80), netip.AddrPortFrom(ip, 443)}
	if i.hostPort != 0 {
		for _, n := range e.place.nodes {
			at = append(at, netip.AddrPortFrom(n.Address, i.hostPort))
		}
	}
	for _, to := range at {
		for _, client := range []netip.Addr{client1, client2} {
			a := e.answers(ctx, client, to)
			must.Be(a.Client == client.String(), "for a request of %s to %s the Pod sees the client address %s", client, to, a.Client)
		}
	}
	e.kubectl(ctx, "", "delete", "-f", file, "--timeout=120s")
	note := "stand-in image; clients' addresses seen through the balancer"
	if i.hostPort != 0 {
		note += " and at the nodes' own port"
	}
	return note
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"net/netip"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/csccm/csccm/test/internal/must"
)

// routedHost is the host of the examples' routes, and of all requests.
const routedHost = "www.example.org"

// traefikChapters runs the examples of Traefik with Traefik itself.
func traefikChapters() []chapter {
	routed := func(x example) func(context.Context, *env) string {
		return func(ctx context.Context, e *env) string { return e.routed(ctx, x) }
	}
	return []chapter{{"Traefik itself", isolated, []scenario{
		{"csccm install, before Traefik", installed("--account", account)},
		{"Traefik routes an Ingress, PROXY protocol and hostPort", routed(examples[0])},
		{"Traefik routes for a Gateway, PROXY protocol", routed(examples[2])},
		{"Traefik routes for a Gateway, direct, HTTP/3 and HTTP/2", routed(examples[3])},
	}}}
}

// routed creates an example and what it needs in the cluster: the Service that its routes lead to, an Ingress, and the
// certificate.
func (e *env) routed(ctx context.Context, x example) string {
	e.kubectl(ctx, "apply", "-f", filepath.Join(e.programs.Root, "test/real-nodes/routes.yaml"))

	crt, key := must.Get2(cert.GenerateSelfSignedCertKey(routedHost, nil, nil))
	_, err := e.Client.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "example-org"},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: crt, corev1.TLSPrivateKeyKey: key},
	}, metav1.CreateOptions{})
	must.Be(err == nil || apierrors.IsAlreadyExists(err), "the certificate: %v", err)

	return x.run(ctx, e)
}

// isRouted checks Traefik itself: it does not find a host without a route, and the status of the route's object has
// the address of the Service.
func (x example) isRouted(ctx context.Context, e *env, ip netip.Addr) string {
	object, addresses := "gateway/web", "{.status.addresses[*].value}"
	if x.hostPort != 0 {
		object, addresses = "ingress/web", "{.status.loadBalancer.ingress[*].ip}"
	}
	e.until(ctx, object+" to have the address of the Service", func(ctx context.Context) {
		got := e.kubectl(ctx, "get", object, "-o", "jsonpath="+addresses)
		must.Be(got == ip.String(), "it has %q, not %s", got, ip)
	})

	if x.forwarded != 0 {
		return "its Gateway has the Service's address"
	}
	other := must.Catch(func() { get(ctx, client1, netip.AddrPortFrom(ip, 80), "http://other.example.org/") })
	must.Be(other != nil && strings.Contains(other.Error(), "404"), "a host without a route: %v", other)
	return object + " has the Service's address, another host is not found"
}

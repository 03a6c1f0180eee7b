// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/csccm/csccm/test/gateway"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/realnode"
)

// gatewayExample is an example from the documentation: Traefik as an implementation of Gateway API. The image in the
// manifest contains Traefik itself.
type gatewayExample struct {
	name, file string
	// check sends requests to the address of Traefik's Service.
	check func(ctx context.Context, e *env, ip netip.Addr) (seen string)
}

var gateways = []gatewayExample{
	{"Gateway API: Traefik's example, PROXY protocol", "docs/examples/gateway-traefik/proxy-protocol.yaml", gatewayProxied},
	{"Gateway API: Traefik's example, direct, HTTP/3 and HTTP/2", "docs/examples/gateway-traefik/http3.yaml", gatewayDirect},
}

// Names in the examples.
const (
	gatewayNamespace = "traefik"
	gatewayService   = "traefik"
	backend          = "web"
	routedHost       = "www.example.org"
	certificate      = "example-org"
)

// otherHost is a name without an HTTPRoute.
const otherHost = "other.example.org"

// gatewayFiles are what scenarios of Gateway API need.
type gatewayFiles struct {
	// CRDs is a folder of manifests.
	CRDs string
	// Version is Traefik's.
	Version string
	// Image is an archive with the image that the examples name; empty when Traefik is not built.
	Image string
}

// findGateway returns the files. It does not build Traefik, which takes too long without being asked.
func findGateway(ctx context.Context, root string) (files gatewayFiles, err error) {
	defer must.Return(&err)
	files.CRDs = must.Get(gateway.CRDs(ctx))
	traefik := must.Get(gateway.Traefik())
	binary, there, err := traefik.Cached(ctx)
	if err != nil || !there {
		return files, err
	}
	ref := gatewayImage(root)
	files.Version, files.Image = traefik.Release, filepath.Join(filepath.Dir(binary), archiveName(ref))
	// Written once: it is large, and its program never changes.
	if _, err := os.Stat(files.Image); err == nil {
		return files, nil
	}
	must.OK(realnode.WriteImage(files.Image+".new", ref, binary))
	return files, os.Rename(files.Image+".new", files.Image)
}

// gatewayImage returns the image that all examples have.
func gatewayImage(root string) string {
	var refs []string
	for _, g := range gateways {
		refs = append(refs, imagesOf(root, g.file)...)
	}
	slices.Sort(refs)
	refs = slices.Compact(refs)
	must.Be(len(refs) == 1, "the examples of Traefik have the images %v, want one", refs)
	return refs[0]
}

// gatewayNames returns the names of the scenarios that need Traefik.
func gatewayNames() []string {
	var names []string
	for _, g := range gateways {
		names = append(names, g.name)
	}
	return names
}

// run applies the manifest unchanged, with echo behind the HTTPRoute, and checks what clients and echo see.
func (g gatewayExample) run(ctx context.Context, e *env) string {
	files := e.programs.Gateway
	names := e.names()
	must.Each(len(names), func(i int) { must.OK(e.Node(names[i]).Import(ctx, files.Image)) })
	e.gatewayAPI(ctx)
	e.behindGateway(ctx)
	file := filepath.Join(e.programs.Root, g.file)
	e.kubectl(ctx, "", "apply", "-f", file)
	ip := e.addressIn(ctx, gatewayNamespace, gatewayService)
	e.kubectl(ctx, "", "wait", "--for=condition=Programmed", "--timeout=180s", "gateway/web")
	seen := g.check(ctx, e, ip)
	e.until(ctx, "the Gateway to have the address of the Service", func(ctx context.Context) {
		got := e.kubectl(ctx, "", "get", "gateway/web", "-o", "jsonpath={.status.addresses[*].value}")
		must.Be(got == ip.String(), "it has %q, want %s", got, ip)
	})
	e.kubectl(ctx, "", "delete", "-f", file, "--timeout=120s")
	return fmt.Sprintf("Traefik %s: %s", files.Version, seen)
}

// gatewayAPI installs the CRDs of Gateway API. On the server's side, because they are too long for kubectl's
// annotation.
func (e *env) gatewayAPI(ctx context.Context) {
	e.kubectl(ctx, "", "apply", "--server-side", "-f", e.programs.Gateway.CRDs)
	e.kubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
}

// gatewayObjects checks the objects of Gateway API in all examples by its CRDs. No kind of an implementation is known
// here.
func gatewayObjects(ctx context.Context, e *env) string {
	e.gatewayAPI(ctx)
	objects := 0
	files := must.Get(filepath.Glob(filepath.Join(e.programs.Root, "docs/examples/gateway-*/*.yaml")))
	for _, file := range files {
		var own []string
		for _, document := range strings.Split(string(must.Get(os.ReadFile(file))), "\n---\n") { // #nosec G304 -- of the checkout
			if strings.Contains("\n"+document, "\napiVersion: gateway.networking.k8s.io/") {
				own = append(own, document)
			}
		}
		e.kubectl(ctx, strings.Join(own, "\n---\n"), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		objects += len(own)
	}
	return fmt.Sprintf("%d objects of %d examples accepted", objects, len(files))
}

// behindGateway creates what the examples expect: the Service that the HTTPRoute names, and, unless a scenario before has
// done it, the certificate for HTTP/3.
func (e *env) behindGateway(ctx context.Context) {
	e.service(ctx, backend, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	crt, key := must.Get2(cert.GenerateSelfSignedCertKey(routedHost, nil, nil))
	_, err := e.Client.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: certificate}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: crt, corev1.TLSPrivateKeyKey: key},
	}, metav1.CreateOptions{})
	must.Be(err == nil || apierrors.IsAlreadyExists(err), "the certificate: %v", err)
}

// gatewayProxied sends requests through the load balancer, which tells Traefik the clients' addresses by the PROXY
// protocol.
func gatewayProxied(ctx context.Context, e *env, ip netip.Addr) string {
	e.up(ctx, ip)
	url := "http://" + netip.AddrPortFrom(ip, 80).String() + "/"
	for _, client := range []netip.Addr{client1, client2} {
		var a answer
		e.until(ctx, fmt.Sprintf("an answer for %s to %s", routedHost, client), func(ctx context.Context) {
			a = must.Get(get(ctx, client, url, routedHost))
		})
		must.Be(a.Forwarded == client.String(), "for a request of %s the Pod sees X-Forwarded-For %q", client, a.Forwarded)
	}
	_, err := get(ctx, client1, url, otherHost)
	refused(err)
	return fmt.Sprintf("%s answers, the Pod sees the clients in X-Forwarded-For; %s gets 404", routedHost, otherHost)
}

// gatewayDirect sends requests past the load balancer: Traefik sees the clients' own addresses.
func gatewayDirect(ctx context.Context, e *env, ip netip.Addr) string {
	to := netip.AddrPortFrom(ip, 443)
	protocols := e.bothProtocols(ctx, ip, routedHost, func(a answer) string { return a.Forwarded })
	for _, three := range []bool{true, false} {
		_, _, err := e.https(ctx, outside1, to, otherHost, three)
		refused(err)
	}
	if r := e.rule(to); r != nil {
		must.Fail("%s has a load balancer rule, %+v", to, *r)
	}
	return fmt.Sprintf("%s answers over %s, the Pod sees the client in X-Forwarded-For; %s gets 404", routedHost, protocols, otherHost)
}

// refused returns nil for the response 404 to a request.
func refused(err error) {
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound {
		return
	}
	must.Fail("a request for %s, which has no route: %w, want 404", otherHost, err)
}

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

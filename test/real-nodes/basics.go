// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/gateway"
	"github.com/csccm/csccm/test/internal/must"
)

func tcp(ctx context.Context, e *env) string {
	to := e.served(ctx, "tcp")
	pods := map[string]bool{}
	for range 30 {
		pods[ask(ctx, client1, to).Pod] = true
	}
	must.Be(len(pods) == replicas, "30 requests reached %d of %d Pods", len(pods), replicas)
	e.deleteService(ctx, "tcp")
	refuses(ctx, client1, to, ask)
	return fmt.Sprintf("%s, all %d Pods answer", to, len(pods))
}

// proxyProtocol checks that the Pod sees the client's address in the PROXY protocol header.
func proxyProtocol(ctx context.Context, e *env) string {
	to := e.served(ctx, "proxied", proxied)
	seesClient(client1, ask(ctx, client1, to))
	seesClient(client2, ask(ctx, client2, to))
	return "the Pod sees " + client2.String()
}

// sourceRanges allows one client and refuses another, then the reverse.
func sourceRanges(ctx context.Context, e *env) string {
	return e.ranges(ctx, client1, client2, e.served(ctx, "ranges", allow(client1)), ask)
}

// ranges checks that the Service ranges, which allows one client, refuses another, then the reverse.
func (e *env) ranges(ctx context.Context, one, two netip.Addr, to netip.AddrPort, ask asker) string {
	refuses(ctx, two, to, ask)
	s := must.Get(e.services().Get(ctx, "ranges", metav1.GetOptions{}))
	allow(two)(s)
	must.Get(e.services().Update(ctx, s, metav1.UpdateOptions{}))
	e.answers(ctx, two, to, ask)
	e.until(ctx, "the first client to be refused", func(ctx context.Context) { refuses(ctx, one, to, ask) })
	return "allowed answered, others refused, also after a change"
}

// affinity checks that all requests of a client reach the same Pod.
func affinity(ctx context.Context, e *env) string {
	to := e.served(ctx, "affine", sticky)
	from := clients.Addr()
	for range 12 {
		from = from.Next()
		first := ask(ctx, from, to)
		for range 5 {
			a := ask(ctx, from, to)
			must.Be(a.Pod == first.Pod, "client %s was sent to %s, then to %s", from, first.Pod, a.Pod)
		}
	}
	return "12 clients, each with one Pod"
}

// doctor checks that csccm doctor finds no error.
func doctor(ctx context.Context, e *env) string {
	return firstLine(strings.TrimSpace(e.csccm(ctx, "doctor", "-o", "short")))
}

// localPolicy checks that only nodes with Pods are members, and that a node forwards to its own Pods.
func localPolicy(ctx context.Context, e *env) string {
	to := e.served(ctx, "local", localTraffic)
	follow := func() (nodes []string) {
		running, _ := e.pods(ctx)
		for _, it := range running {
			nodes = append(nodes, it.Spec.NodeName)
		}
		slices.Sort(nodes)
		nodes = slices.Compact(nodes)
		e.members(ctx, to, nodes...)
		return nodes
	}

	follow()
	r := e.steady(ctx, "scaled down", false, to)
	e.scale(ctx, 1)
	nodes, router := follow(), e.place.gateway.Addr().String()
	e.ended(ctx)
	down := r.Next("scaled up")
	must.OK(down.Err())
	for range 10 {
		a := ask(ctx, client1, to)
		must.Be(a.Node == nodes[0] && a.Client == router,
			"a Pod on %s answered and saw the client %s, want node %s and the router %s",
			a.Node, a.Client, nodes[0], router)
	}

	e.scale(ctx, replicas)
	follow()
	return fmt.Sprintf("members follow the Pods; scaled down with %s, up with %s", brief(down), lossless(r))
}

// ipMode checks how a Pod's request to the load balancer's address is routed. With ipMode VIP, kube-proxy forwards it
// directly. With ipMode Proxy, which the PROXY protocol needs, it goes through the load balancer.
func ipMode(ctx context.Context, e *env) string {
	var seen []string
	for i, mode := range []corev1.LoadBalancerIPMode{corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy} {
		name, want := strings.ToLower(string(mode)), int64(i)
		to := e.served(ctx, name, []change{func(*corev1.Service) {}, proxied}[i])
		got := must.Get(e.services().Get(ctx, name, metav1.GetOptions{})).Status.LoadBalancer.Ingress[0].IPMode
		must.Be(got != nil && *got == mode, "ipMode of %s is %v", name, got)
		running, _ := e.pods(ctx)
		must.Be(len(running) > 0, "no Pod of echo is running")
		pod := running[0].Status.PodIP
		var a answer

		// kube-proxy sees the address some time after it is in the Service's status.
		e.until(ctx, fmt.Sprintf("a Pod's request to go %d times through the balancer (%s)", want, mode),
			func(ctx context.Context) {
				before := e.rule(to).Connections
				query := url.QueryEscape("http://" + to.String() + "/")
				a = get(ctx, e.place.gateway.Addr(), netip.AddrPortFrom(must.Get(netip.ParseAddr(pod)), 8080),
					"http://"+routedHost+"/fetch?url="+query)
				through := e.rule(to).Connections - before
				must.Be(through == want, "it went through %d times", through)
			})

		must.Be(i == 0 || a.Client == pod, "for a request of Pod %s the answering Pod sees the client address %s", pod,
			a.Client)
		seen = append(seen, fmt.Sprintf("%s: %d through the balancer", mode, want))
		e.deleteService(ctx, name)
	}

	return strings.Join(seen, "; ")
}

// addresses checks that two Services can share an address, and that keep-ip keeps the address after the Service is
// deleted.
func addresses(ctx context.Context, e *env) string {
	to := e.served(ctx, "first", annotated("keep-ip", "true"))
	second, given := netip.AddrPortFrom(to.Addr(), 8080), annotated("address", to.Addr().String())
	e.service(ctx, "second", given, ports(port(8080, 8080, ""))) // the first Service uses other ports on this address
	e.answers(ctx, client1, second, ask)
	e.deleteService(ctx, "first")
	ask(ctx, client1, second)
	e.deleteService(ctx, "second")
	again := e.served(ctx, "third", given)
	must.Be(again == to, "the third Service asked for the kept address %s and got %s", to, again)
	return to.Addr().String() + " shared by two Services, kept, used again"
}

// example is an example from the documentation: an ingress controller or a gateway behind a Service.
type example struct {
	file, namespace, service string
	// hostPort is a port of the node on which it also listens; 0 means none.
	hostPort uint16
	// forwarded is a port that is forwarded past the load balancer, for HTTP/3 and HTTP/2. If it is 0, public are
	// ports of load balancer rules.
	forwarded uint16
	public    []uint16
}

const ingressNginx = "ingress-nginx-controller"

var examples = []example{
	{file: "traefik/manifest.yaml", namespace: "traefik", service: "traefik", hostPort: 80, public: []uint16{80, 443}},
	{file: "ingress-nginx/manifest.yaml", namespace: "ingress-nginx", service: ingressNginx, public: []uint16{80, 443}},
	{file: "gateway-traefik/proxy-protocol.yaml", namespace: "traefik", service: "traefik", public: []uint16{80}},
	{file: "gateway-traefik/http3.yaml", namespace: "traefik", service: "traefik", forwarded: 443},
}

// run applies the manifest unchanged and checks that the Pod sees the client's address. The image of the manifest
// contains Traefik itself, or echo, which listens where the image's arguments say.
func (x example) run(ctx context.Context, e *env) string {
	e.kubectl(ctx, "apply", "--server-side", "-f", cmp.Or(e.programs.Gateway.CRDs,
		filepath.Join(e.programs.Root, "charts/testdata/apischemas/gateway-api.yaml")))
	e.until(ctx, "the CRDs to be established", func(ctx context.Context) {
		e.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	})
	file := filepath.Join(e.programs.Root, "docs/examples", x.file)
	e.kubectl(ctx, "apply", "-f", file)
	itself := e.programs.Gateway.Traefik != ""
	ip := e.address(ctx, x.namespace, x.service)
	note := "clients' addresses seen through the balancer"
	var at []netip.AddrPort
	for _, p := range x.public {
		at = append(at, netip.AddrPortFrom(ip, p))
	}
	if x.hostPort != 0 {
		note += " and at the nodes' own port"
		for _, n := range e.place.nodes {
			at = append(at, netip.AddrPortFrom(n.Address, x.hostPort))
		}
	}
	for _, to := range at {
		over := ask
		if itself && to.Port() == 443 {
			over = askTLS
		}
		seesClient(client1, e.answers(ctx, client1, to, over))
		seesClient(client2, e.answers(ctx, client2, to, over))
	}
	if x.forwarded != 0 {
		to := netip.AddrPortFrom(ip, x.forwarded)
		note = e.bothProtocols(ctx, to)
		must.Be(e.rule(to) == nil, "%s has a load balancer rule, %+v", to, e.rule(to))
	}

	program := "stand-in image; "
	if itself {
		program = "Traefik " + gateway.Version + "; " + x.isRouted(ctx, e, ip) + "; "
	}
	e.kubectl(ctx, "delete", "-f", file, "--timeout=120s")
	return program + note
}

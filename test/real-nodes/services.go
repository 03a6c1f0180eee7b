// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/traffic"
)

const (
	// echo is the workload behind the Services, in the default namespace.
	echo     = "echo"
	replicas = 3
	// steadyPort is a Service's second port, for the requests of test/traffic. Port 80 is unsuitable: there a virtual
	// router closes the connection after each response.
	steadyPort = 81
)

// rolledOut waits until the Pods of echo are ready.
func (e *env) rolledOut(ctx context.Context) {
	e.kubectl(ctx, "rollout", "status", "deployment/"+echo, "--timeout=300s")
}

func (e *env) scale(ctx context.Context, n int) {
	e.kubectl(ctx, "scale", "deployment/"+echo, fmt.Sprintf("--replicas=%d", n))
	e.rolledOut(ctx)
	e.kubectl(ctx, "wait", "deployment/"+echo, fmt.Sprintf("--for=jsonpath={.status.replicas}=%d", n), "--timeout=300s")
}

// pods returns the Pods of echo. A Deployment's status does not count the terminating ones.
func (e *env) pods(ctx context.Context) (running, terminating []corev1.Pod) {
	list := must.Get(e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{LabelSelector: "app=" + echo}))
	for _, it := range list.Items {
		p := it
		if p.DeletionTimestamp != nil {
			terminating = append(terminating, p)
		} else if p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
			running = append(running, p)
		}
	}
	return running, terminating
}

// ended waits until terminating Pods have ended.
func (e *env) ended(ctx context.Context) {
	e.until(ctx, "the old Pods of echo to end", func(ctx context.Context) {
		_, old := e.pods(ctx)
		must.Be(len(old) == 0, "%d Pods are still terminating", len(old))
	})
}

func (e *env) services() corev1client.ServiceInterface {
	return e.Client.CoreV1().Services(metav1.NamespaceDefault)
}

// port returns a port of a Service that leads to a port of echo. If protocol is empty, it is TCP.
func port(public, echo int32, protocol corev1.Protocol) corev1.ServicePort {
	name := strings.ToLower(fmt.Sprintf("p%d%s", public, protocol))
	return corev1.ServicePort{Name: name, Port: public, TargetPort: intstr.FromInt32(echo), Protocol: protocol}
}

// service creates a Service of type LoadBalancer in front of echo.
func (e *env) service(ctx context.Context, name string, changes ...change) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{},
			Labels:      map[string]string{"app": echo},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": echo},
			Ports: []corev1.ServicePort{port(80, 8080, ""), port(steadyPort, 8080, "")},
		},
	}
	for _, change := range changes {
		change(s)
	}
	must.Get(e.services().Create(ctx, s, metav1.CreateOptions{}))
}

// change changes a Service before it is created.
type change = func(*corev1.Service)

func annotated(name, value string) change {
	return func(s *corev1.Service) { s.Annotations[prefix+name] = value }
}

func ports(all ...corev1.ServicePort) change {
	return func(s *corev1.Service) { s.Spec.Ports = all }
}

func localTraffic(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func sticky(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }

func proxied(s *corev1.Service) {
	annotated("proxy-protocol", "true")(s)
	s.Spec.Ports[0].TargetPort = intstr.FromInt32(8081)
}

// allow makes an address the only source range of a Service.
func allow(only netip.Addr) change {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{only.String() + "/32"} }
}

// deleteService deletes a Service and waits until the object is removed. The finalizer prevents that until the
// controller has deleted the load balancer.
func (e *env) deleteService(ctx context.Context, name string) {
	e.kubectl(ctx, "delete", "service", name, "--timeout=300s")
}

// address waits until a Service has an address and returns it.
func (e *env) address(ctx context.Context, namespace, name string) netip.Addr {
	const ip = "jsonpath={.status.loadBalancer.ingress[0].ip}"
	got := e.kubectl(ctx, "wait", "-n", namespace, "service/"+name, "--for="+ip, "--timeout=300s", "-o", ip)
	return must.Get(netip.ParseAddr(got))
}

// served creates a Service and waits until it answers and all its members are up. A node is down if its first health
// check comes before kube-proxy knows the Service; the next checks succeed.
func (e *env) served(ctx context.Context, name string, changes ...change) netip.AddrPort {
	e.service(ctx, name, changes...)
	to := netip.AddrPortFrom(e.address(ctx, metav1.NamespaceDefault, name), 80)
	e.up(ctx, to.Addr())
	e.answers(ctx, client1, to, ask)
	return to
}

// rule returns the router's rule for an address and port, nil if there is none.
func (e *env) rule(to netip.AddrPort) *datapath.RuleStatus {
	rules := e.path.Status().Rules
	if i := slices.IndexFunc(rules, func(r datapath.RuleStatus) bool { return r.Public == to.String() }); i >= 0 {
		return &rules[i]
	}
	return nil
}

// members waits until the members of a rule are exactly these VMs.
func (e *env) members(ctx context.Context, to netip.AddrPort, want ...string) {
	slices.Sort(want)
	e.until(ctx, fmt.Sprintf("the members of %s to be %v", to, want), func(context.Context) {
		r := e.rule(to)
		must.Be(r != nil, "there is no rule")
		var got []string
		for _, m := range r.Members {
			got = append(got, m.VM)
		}
		slices.Sort(got)
		must.Be(slices.Equal(got, want), "the members are %v", got)
	})
}

// up waits until every member of an address has passed a health check. The router treats a new member as up before its
// first check.
func (e *env) up(ctx context.Context, ip netip.Addr) {
	e.until(ctx, fmt.Sprintf("the members of %s to be up", ip), func(context.Context) {
		all := 0
		for _, r := range e.path.Status().Rules {
			if !strings.HasPrefix(r.Public, ip.String()+":") {
				continue
			}
			for _, m := range r.Members {
				all++
				must.Be(m.Up && m.Check == "ok", "%s %s is down", m.VM, m.Address)
			}
		}
		must.Be(all > 0, "there are none")
	})
}

// answer is the response of a Pod of echo.
type answer struct{ Pod, Node, Client string }

func parsed(text []byte) (a answer) {
	must.OK(json.Unmarshal(text, &a))
	return a
}

// asker sends one request from a client's address, on a new connection or from a new port.
type asker func(ctx context.Context, from netip.Addr, to netip.AddrPort) answer

// ask sends a request over HTTP.
func ask(ctx context.Context, from netip.Addr, to netip.AddrPort) answer {
	return get(ctx, from, to, "http://"+routedHost+"/")
}

// askTLS sends a request over HTTPS.
func askTLS(ctx context.Context, from netip.Addr, to netip.AddrPort) answer {
	return get(ctx, from, to, "https://"+routedHost+"/")
}

// get sends a request to an address, regardless of the host in the URL.
func get(ctx context.Context, from netip.Addr, to netip.AddrPort, url string) answer {
	dialer := &net.Dialer{Timeout: 5 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, to.String())
		},
		DisableKeepAlives: true,
		TLSClientConfig:   selfSigned(),
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: transport}
	a, _ := request(ctx, client, url)
	return a
}

// selfSigned returns a TLS configuration that accepts every certificate of a server.
func selfSigned() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} // #nosec G402 -- see above
}

// request also returns the protocol of the response.
func request(ctx context.Context, client *http.Client, url string) (a answer, protocol string) {
	resp, err := client.Do(must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil)))
	must.OK(err)
	defer func() { _ = resp.Body.Close() }()
	must.Be(resp.StatusCode == http.StatusOK, "%s", resp.Status)
	must.OK(json.NewDecoder(resp.Body).Decode(&a))
	return a, resp.Proto
}

// answers waits until an address answers a client, and returns the answer.
func (e *env) answers(ctx context.Context, from netip.Addr, to netip.AddrPort, ask asker) (a answer) {
	e.until(ctx, fmt.Sprintf("%s to answer %s", to, from), func(ctx context.Context) { a = ask(ctx, from, to) })
	return a
}

// refuses fails if an address answers a client.
func refuses(ctx context.Context, from netip.Addr, to netip.AddrPort, ask asker) {
	var a answer
	err := must.Catch(func() { a = ask(ctx, from, to) })
	must.Be(err != nil, "client %s must not reach %s, but Pod %s answered", from, to, a.Pod)
}

// seesClient checks that the Pod saw the client's address.
func seesClient(from netip.Addr, a answer) {
	must.Be(a.Client == from.String(), "the Pod sees %s, the client is %s", a.Client, from)
}

// steady starts steady traffic to the steadyPort of Services. part is the name of its first part, empty if it is the
// only one. With open, the traffic includes connections that stay open; scenarios that end such connections on purpose
// omit them.
func (e *env) steady(ctx context.Context, part string, open bool, to ...netip.AddrPort) *traffic.Client {
	o := traffic.Options{Open: open}
	for _, t := range to {
		o.Targets = append(o.Targets, netip.AddrPortFrom(t.Addr(), steadyPort).String())
	}
	c := traffic.Start(ctx, part, o)
	e.clients = append(e.clients, c)
	return c
}

// lossless stops steady traffic and fails if any of it was lost.
func lossless(c *traffic.Client) (seen string) {
	r := c.Stop()
	must.OK(r.Err())
	return brief(r)
}

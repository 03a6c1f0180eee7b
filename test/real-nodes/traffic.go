// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/traffic"
)

// echoName is the workload behind the Services, in the default namespace.
const echoName = "echo"

const replicas = 3

//go:embed echo.yaml
var echo string

// workload starts the Pods.
func (e *env) workload(ctx context.Context) {
	e.kubectl(ctx, echo, "create", "-f", "-")
	e.workloadReady(ctx, replicas)
}

func (e *env) workloadReady(ctx context.Context, want int32) {
	e.until(ctx, "the Pods of echo to be ready", func(ctx context.Context) {
		d := must.Get(e.Client.AppsV1().Deployments(metav1.NamespaceDefault).Get(ctx, echoName, metav1.GetOptions{}))
		s := d.Status
		now := s.ObservedGeneration >= d.Generation && s.ReadyReplicas == want && s.UpdatedReplicas == want && s.Replicas == want
		must.Be(now, "%d replicas, %d updated, %d ready, want %d", s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, want)
	})
}

// service creates a Service of type LoadBalancer in front of echo; change may be nil.
func (e *env) service(ctx context.Context, name string, change func(*corev1.Service)) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": echoName},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
				{Name: "steady", Port: steadyPort, TargetPort: intstr.FromInt32(8082)},
			},
		},
	}
	if change != nil {
		change(s)
	}
	must.Get(e.Client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, s, metav1.CreateOptions{}))
}

// deleteService deletes a Service and waits until the object is removed. The finalizer allows that only after the
// controller has deleted the load balancer.
func (e *env) deleteService(ctx context.Context, name string) {
	services := e.Client.CoreV1().Services(metav1.NamespaceDefault)
	must.OK(services.Delete(ctx, name, metav1.DeleteOptions{}))
	e.until(ctx, "Service "+name+" to be deleted", func(ctx context.Context) {
		_, err := services.Get(ctx, name, metav1.GetOptions{})
		must.Be(err != nil, "it still exists")
	})
}

// deleteServices deletes what a scenario has left in the default namespace.
func (e *env) deleteServices(ctx context.Context) {
	for _, s := range must.Get(e.Client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})).Items {
		if s.Name != "kubernetes" {
			e.deleteService(ctx, s.Name)
		}
	}
}

// address waits until a Service of the default namespace has an address and returns it.
func (e *env) address(ctx context.Context, name string) netip.Addr {
	return e.addressIn(ctx, metav1.NamespaceDefault, name)
}

// addressIn is address for a Service of any namespace.
func (e *env) addressIn(ctx context.Context, namespace, name string) (ip netip.Addr) {
	e.until(ctx, "Service "+name+" to get its address", func(ctx context.Context) {
		s := must.Get(e.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}))
		must.Not(len(s.Status.LoadBalancer.Ingress) == 0, "no address yet")
		ip = must.Get(netip.ParseAddr(s.Status.LoadBalancer.Ingress[0].IP))
	})
	return ip
}

// answer is the response of a Pod of echo.
type answer struct {
	Pod, Node, Client string
	// Forwarded is the client address that a proxy before the Pod reports.
	Forwarded string
}

// statusError is a response that is not 200.
type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.code, http.StatusText(e.code), e.body)
}

// answerOf reads a response.
func answerOf(resp *http.Response) (answer, error) {
	var a answer
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	if resp.StatusCode != http.StatusOK {
		return a, &statusError{resp.StatusCode, string(body)}
	}
	return a, json.Unmarshal(body, &a)
}

// ask sends one request on a new connection from a client's address.
func ask(ctx context.Context, from netip.Addr, to netip.AddrPort) (answer, error) {
	return get(ctx, from, "http://"+to.String()+"/", "")
}

// get sends one request; host is the name in its Host header, empty for that of the URL.
func get(ctx context.Context, from netip.Addr, url, host string) (_ answer, err error) {
	defer must.Return(&err)
	dialer := &net.Dialer{Timeout: 5 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	return answerOf(resp)
}

// answers waits until an address answers a client, and returns the answer.
func (e *env) answers(ctx context.Context, from netip.Addr, to netip.AddrPort) (a answer) {
	e.until(ctx, fmt.Sprintf("%s to answer %s", to, from), func(ctx context.Context) { a = must.Get(ask(ctx, from, to)) })
	return a
}

// served creates a Service and waits until all its members are up and it answers. A node whose first health check comes
// before kube-proxy has the Service is down until the next checks succeed.
func (e *env) served(ctx context.Context, name string, change func(*corev1.Service)) (netip.AddrPort, answer) {
	e.service(ctx, name, change)
	ip := e.address(ctx, name)
	to := netip.AddrPortFrom(ip, 80)
	e.up(ctx, ip)
	return to, e.answers(ctx, client1, to)
}

// steadyPort is a Service's second port, for the requests of test/traffic. It is not port 80, because on port 80 a
// virtual router closes the connection after each response.
const steadyPort = 81

// steady starts steady traffic to the steadyPort of Services. part is the name of its first part, empty if it is the
// only one. With open, connections that stay open are part of the traffic; they are left out where the scenario ends
// them on purpose.
func (e *env) steady(ctx context.Context, part string, open bool, to ...netip.AddrPort) *traffic.Client {
	o := traffic.Options{Rate: e.programs.Rate}
	if !open {
		o.Open = -1
	}
	for _, t := range to {
		o.Targets = append(o.Targets, netip.AddrPortFrom(t.Addr(), steadyPort).String())
	}
	c := traffic.Start(ctx, part, o)
	e.clients = append(e.clients, c)
	return c
}

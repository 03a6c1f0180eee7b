// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
)

// Public ports of the Services in this file.
const (
	udpEchoPort = 5300
	dnsPort     = 53
	tcpEchoPort = 84
)

// Clients beyond the router.
var (
	outside1 = netip.MustParseAddr("192.0.2.11")
	outside2 = netip.MustParseAddr("192.0.2.22")
)

var (
	udpEcho = corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: udpEchoPort, TargetPort: intstr.FromInt32(8083)}
	dns     = corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: dnsPort, TargetPort: intstr.FromInt32(8053)}
	tcpEcho = corev1.ServicePort{Name: "idle", Port: tcpEchoPort, TargetPort: intstr.FromInt32(8084)}
	h2      = corev1.ServicePort{Name: "h2", Port: 443, TargetPort: intstr.FromInt32(8443)}
	h3      = corev1.ServicePort{Name: "h3", Protocol: corev1.ProtocolUDP, Port: 443, TargetPort: intstr.FromInt32(8443)}
	steady  = corev1.ServicePort{Name: "steady", Port: steadyPort, TargetPort: intstr.FromInt32(8082)}
)

// forwardsOf returns the forwards of an address that the router has.
func (e *env) forwardsOf(ip netip.Addr) []datapath.ForwardStatus {
	return slices.DeleteFunc(e.path.Status().Forwards, func(f datapath.ForwardStatus) bool { return !strings.HasPrefix(f.Public, ip.String()+":") })
}

// vmsOf returns the VMs to which the forwards of an address lead.
func (e *env) vmsOf(ip netip.Addr) []string {
	var vms []string
	for _, f := range e.forwardsOf(ip) {
		vms = append(vms, f.VM)
	}
	slices.Sort(vms)
	return slices.Compact(vms)
}

// direct creates a Service with ports that are forwarded and waits until the router has a forward for each. change may
// be nil.
func (e *env) direct(ctx context.Context, name string, ports []corev1.ServicePort, change func(*corev1.Service)) netip.Addr {
	e.service(ctx, name, func(s *corev1.Service) {
		s.Spec.Ports = ports
		if change != nil {
			change(s)
		}
	})
	ip := e.address(ctx, name)
	e.until(ctx, "the router to forward the ports of "+ip.String(), func(context.Context) {
		forwards := e.forwardsOf(ip)
		for _, p := range ports {
			public := fmt.Sprintf("%s:%d/%s", ip, p.Port, strings.ToLower(cmp.Or(string(p.Protocol), "tcp")))
			must.Not(!slices.ContainsFunc(forwards, func(f datapath.ForwardStatus) bool { return f.Public == public }), "nothing forwards %s", public)
		}
	})
	return ip
}

// everyPort makes every port a forward; without it, those are that load balancer rules cannot serve.
func everyPort(s *corev1.Service) { s.Annotations[prefix+"mode"] = "direct" }

// localTraffic sets externalTrafficPolicy Local.
func localTraffic(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// udpAndDNS serves a UDP echo and a DNS server under externalTrafficPolicy Local.
func udpAndDNS(ctx context.Context, e *env) string {
	ip := e.direct(ctx, "datagrams", []corev1.ServicePort{udpEcho, dns}, localTraffic)
	a := e.answersUDP(ctx, outside1, netip.AddrPortFrom(ip, udpEchoPort))
	must.Be(a.Client == outside1.String(), "the Pod sees %s, the client is %s", a.Client, outside1)
	var node string
	e.until(ctx, "an answer of the DNS server", func(ctx context.Context) {
		node = e.lookup(ctx, outside2, netip.AddrPortFrom(ip, dnsPort))
	})
	if vms := e.vmsOf(ip); !slices.Equal(vms, []string{node}) || a.Node != node {
		must.Fail("node %s answered DNS and %s the echo; the forwards lead to %v", node, a.Node, vms)
	}
	return fmt.Sprintf("%s answers on UDP ports %d and %d, Pod sees %s", node, udpEchoPort, dnsPort, a.Client)
}

// webProtocols serves HTTP/3 and HTTP/2 on one port.
func webProtocols(ctx context.Context, e *env) string {
	ip := e.direct(ctx, "web3", []corev1.ServicePort{h2, h3}, localTraffic)
	return e.bothProtocols(ctx, ip, "", func(a answer) string { return a.Client }) + " on port 443, the Pod sees the client"
}

// bothProtocols asks over HTTP/3 and HTTP/2 and returns the protocols of the responses. client is the address of the client
// that the Pod sees.
func (e *env) bothProtocols(ctx context.Context, ip netip.Addr, host string, client func(answer) string) string {
	var seen []string
	for _, three := range []bool{true, false} {
		var a answer
		var protocol string
		e.until(ctx, fmt.Sprintf("an answer (HTTP/3: %v)", three), func(ctx context.Context) {
			a, protocol = must.Get2(e.https(ctx, outside1, netip.AddrPortFrom(ip, 443), host, three))
		})
		must.Be(client(a) == outside1.String(), "over %s the Pod sees %+v, the client is %s", protocol, a, outside1)
		seen = append(seen, protocol)
	}
	must.Be(slices.Equal(seen, []string{"HTTP/3.0", "HTTP/2.0"}), "the protocols were %v", seen)
	return strings.Join(seen, " and ")
}

// udpRanges allows one client of a UDP port and refuses another, then the reverse.
func udpRanges(ctx context.Context, e *env) string {
	ip := e.direct(ctx, "udp-ranges", []corev1.ServicePort{udpEcho}, allow(outside1))
	to := netip.AddrPortFrom(ip, udpEchoPort)
	e.answersUDP(ctx, outside1, to)
	e.ranges(ctx, "udp-ranges", outside1, outside2, to, e.askUDP)
	return "allowed answered, others not, also after a change"
}

const (
	tcpTimeout = "nf_conntrack_tcp_timeout_established"
	// idleClock is the router's limit for idle TCP connections in the scenario, idleFor how long the connection is idle.
	idleClock = 3
	idleFor   = (2*idleClock + 1) * time.Second
)

// sysctl sets a value of the router's connection tracking and returns the one before.
func sysctl(name, value string) string {
	path := "/proc/sys/net/netfilter/" + name
	before := must.Get(os.ReadFile(path)) // #nosec G304 -- ours
	must.OK(os.WriteFile(path, []byte(value), 0o600))
	return strings.TrimSpace(string(before))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		must.OK(ctx.Err())
	}
}

// idleTCP keeps a TCP connection idle for longer than the router remembers it.
func idleTCP(ctx context.Context, e *env) string {
	ip := e.direct(ctx, "idle", []corev1.ServicePort{tcpEcho}, everyPort)
	to := netip.AddrPortFrom(ip, tcpEchoPort)
	e.until(ctx, "the TCP echo to answer", func(ctx context.Context) {
		c, err := e.dialOutside(ctx, "tcp4", outside1, to)
		if err == nil {
			_, err = converse(c, []byte("hello"), quick)
			_ = c.Close()
		}
		must.OK(err)
	})
	before := sysctl(tcpTimeout, strconv.Itoa(idleClock))
	defer func() { sysctl(tcpTimeout, before) }()
	c := must.Get(e.dialOutside(ctx, "tcp4", outside1, to))
	defer func() { _ = c.Close() }()
	must.Get(converse(c, []byte("before"), 5*time.Second))
	pause(ctx, idleFor)
	if b := must.Get(converse(c, []byte("after"), 5*time.Second)); string(b) != "after" {
		must.Fail("the echo is %q", b)
	}
	limit := must.Get(strconv.Atoi(before))
	return fmt.Sprintf("a connection that was idle for %.1f times the router's limit goes on; the limit was shortened from %s to %d s",
		idleFor.Seconds()/idleClock, time.Duration(limit)*time.Second, idleClock)
}

// movedOff waits until no forward of an address leads to a VM.
func (e *env) movedOff(ctx context.Context, ip netip.Addr, vm string) {
	e.until(ctx, fmt.Sprintf("the forwards of %s to leave %s", ip, vm), func(context.Context) {
		vms := e.vmsOf(ip)
		must.Not(len(vms) == 0 || slices.Contains(vms, vm), "they lead to %v", vms)
	})
}

// directDrained drains the node that serves a direct Service under externalTrafficPolicy Local.
func directDrained(ctx context.Context, e *env) string {
	ip := e.direct(ctx, "drained", []corev1.ServicePort{udpEcho, steady}, func(s *corev1.Service) {
		everyPort(s)
		localTraffic(s)
	})
	to := netip.AddrPortFrom(ip, udpEchoPort)
	e.answersUDP(ctx, outside1, to)
	from := e.vmsOf(ip)[0]
	sent := e.sendDatagrams(ctx, outside1, to, patiently)
	defer sent.end()
	r := e.steady(ctx, "", false, to)
	defer r.Stop()
	e.kubectl(ctx, "", "drain", from, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
	e.movedOff(ctx, ip, from)
	sum := r.Stop()
	sent.end()
	e.kubectl(ctx, "", "uncordon", from)
	must.OK(sum.Err())
	must.Be(sent.lost <= 0, "%s", sent)
	e.workloadReady(ctx, replicas)
	return fmt.Sprintf("%s to %v: %s; UDP: %s", from, e.vmsOf(ip), brief(sum), sent)
}

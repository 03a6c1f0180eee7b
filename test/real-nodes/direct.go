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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
)

// udp is the port of the UDP echo. everyPort forwards every port; without it, only ports that rules cannot serve are
// forwarded.
var (
	udp       = port(5300, 8083, corev1.ProtocolUDP)
	everyPort = annotated("mode", "direct")
)

// forwardsOf returns the router's port forwardings of an address.
func (e *env) forwardsOf(ip netip.Addr) []datapath.ForwardStatus {
	return slices.DeleteFunc(e.path.Status().Forwards, func(f datapath.ForwardStatus) bool {
		return !strings.HasPrefix(f.Public, ip.String()+":")
	})
}

// vmsOf returns the VMs to which an address is forwarded.
func (e *env) vmsOf(ip netip.Addr) []string {
	var vms []string
	for _, f := range e.forwardsOf(ip) {
		vms = append(vms, f.VM)
	}
	slices.Sort(vms)
	return slices.Compact(vms)
}

// direct creates a Service with forwarded ports and waits until the router forwards each of them and, if the first
// port is the UDP echo, until it answers. It returns the address of the first port.
func (e *env) direct(ctx context.Context, name string, all []corev1.ServicePort, changes ...change) netip.AddrPort {
	e.service(ctx, name, append(changes, ports(all...))...)
	ip := e.address(ctx, metav1.NamespaceDefault, name)
	for _, p := range all {
		public := fmt.Sprintf("%s:%d/%s", ip, p.Port, strings.ToLower(cmp.Or(string(p.Protocol), "tcp")))
		e.until(ctx, "the router to forward "+public, func(context.Context) {
			forwards := e.forwardsOf(ip)
			has := slices.ContainsFunc(forwards, func(f datapath.ForwardStatus) bool { return f.Public == public })
			must.Be(has, "it forwards %v", forwards)
		})
	}
	to := netip.AddrPortFrom(ip, uint16(all[0].Port)) // #nosec G115 -- a port
	if all[0] == udp {
		e.answers(ctx, outside1, to, e.askUDP)
	}
	return to
}

// twoPorts serves two UDP ports under externalTrafficPolicy Local.
func twoPorts(ctx context.Context, e *env) string {
	to := e.direct(ctx, "datagrams", []corev1.ServicePort{udp, port(53, 8083, corev1.ProtocolUDP)}, localTraffic)
	a := e.answers(ctx, outside1, to, e.askUDP)
	b := e.answers(ctx, outside2, netip.AddrPortFrom(to.Addr(), 53), e.askUDP)
	seesClient(outside1, a)
	seesClient(outside2, b)
	vms := e.vmsOf(to.Addr())
	must.Be(slices.Equal(vms, []string{a.Node}) && a.Node == b.Node, "%s and %s answered; forwards to %v", a.Node,
		b.Node, vms)
	return fmt.Sprintf("%s answers on UDP ports 5300 and 53, Pod sees %s", a.Node, a.Client)
}

// webProtocols serves HTTP/3 and HTTP/2 on one port.
func webProtocols(ctx context.Context, e *env) string {
	both := []corev1.ServicePort{port(443, 8443, ""), port(443, 8443, corev1.ProtocolUDP)}
	return e.bothProtocols(ctx, e.direct(ctx, "web3", both, localTraffic))
}

// udpRanges allows one client of a UDP port and refuses another, then the reverse.
func udpRanges(ctx context.Context, e *env) string {
	return e.ranges(ctx, outside1, outside2, e.direct(ctx, "ranges", []corev1.ServicePort{udp}, allow(outside1)),
		e.askUDP)
}

// sysctl sets a time-out of the router's connection tracking, in seconds, and returns the previous value.
func sysctl(name string, seconds int) (before int) {
	path := "/proc/sys/net/netfilter/nf_conntrack_" + name
	text := must.Get(os.ReadFile(path)) // #nosec G304 -- ours
	must.OK(os.WriteFile(path, []byte(strconv.Itoa(seconds)), 0o600))
	return must.Get(strconv.Atoi(strings.TrimSpace(string(text))))
}

// idleTCP keeps a TCP connection idle for longer than the router's time-out.
func idleTCP(ctx context.Context, e *env) string {
	const (
		clock     = 3 // the router's limit for idle TCP connections in this scenario
		idle, tcp = (2*clock + 1) * time.Second, "tcp_timeout_established"
	)

	to := e.direct(ctx, "idle", []corev1.ServicePort{port(84, 8080, "")}, everyPort)
	dial := func(ctx context.Context) (ask func()) {
		c := e.dialOutside(ctx, "tcp4", outside1, to)
		return func() { // on the same connection
			b := converse(c, "GET / HTTP/1.1\r\nHost: idle\r\n\r\n", patiently)
			must.Be(strings.HasPrefix(string(b), "HTTP/1.1 200 OK"), "the answer is %q", b)
		}
	}

	e.until(ctx, "an answer", func(ctx context.Context) { dial(ctx)() })
	before := sysctl(tcp, clock)
	defer func() { sysctl(tcp, before) }()
	ask := dial(ctx)
	ask()
	time.Sleep(idle)
	ask()
	return fmt.Sprintf("a connection that was idle for %.1f times the router's limit goes on; the limit was "+
		"shortened from %s to %d s", idle.Seconds()/clock, time.Duration(before)*time.Second, clock)
}

// movedOff waits until no port of an address is forwarded to a VM.
func (e *env) movedOff(ctx context.Context, ip netip.Addr, vm string) {
	e.until(ctx, fmt.Sprintf("the forwards of %s to leave %s", ip, vm), func(context.Context) {
		vms := e.vmsOf(ip)
		must.Be(len(vms) > 0 && !slices.Contains(vms, vm), "they lead to %v", vms)
	})
}

// directDrained drains the node that serves a direct Service under externalTrafficPolicy Local.
func directDrained(ctx context.Context, e *env) string {
	to := e.direct(ctx, "drained", []corev1.ServicePort{udp, port(steadyPort, 8080, "")}, everyPort, localTraffic)
	from := e.vmsOf(to.Addr())[0]
	sent := e.sendDatagrams(ctx, to, patiently)
	defer sent.end()
	r := e.steady(ctx, "", false, to)
	e.drain(ctx, from)
	e.movedOff(ctx, to.Addr(), from)
	seen := lossless(r)
	sent.end()
	e.kubectl(ctx, "uncordon", from)
	must.Be(sent.lost == 0, "%s", sent)
	e.rolledOut(ctx)
	return fmt.Sprintf("%s to %v: %s; UDP: %s", from, e.vmsOf(to.Addr()), seen, sent)
}

// directLost kills the node that serves a direct Service. New flows are answered again after the controller has moved
// the forwards. A flow that never pauses stays with the dead node.
func directLost(ctx context.Context, e *env) string {
	const (
		name, label  = "worker-5", "example.com/direct"
		suspectAfter = 12 * time.Second // the default of direct-suspect-after
		// clock is the router's time-out for UDP flows in this scenario, in seconds.
		clock = 2
	)

	n := e.Join(ctx, e.place.node(5))
	e.initialized(ctx, name)
	e.kubectl(ctx, "label", "node", name, label+"=yes")
	to := e.direct(ctx, "lost-direct", []corev1.ServicePort{udp}, annotated("node-selector", label+"=yes"))
	e.kubectl(ctx, "label", "node", "worker-1", label+"=yes")
	for _, timeout := range []string{"udp_timeout", "udp_timeout_stream"} {
		before := sysctl(timeout, clock)
		defer func() { sysctl(timeout, before) }()
	}

	flow := e.dialOutside(ctx, "udp4", outside2, to)
	defer func() { _ = flow.Close() }()

	// The node has only just joined.
	e.until(ctx, "the flow to be answered", func(context.Context) { converse(flow, "?", quick) })
	vms := e.vmsOf(to.Addr())
	must.Be(slices.Equal(vms, []string{name}), "the forwards lead to %v, want %s", vms, name)
	sent := e.sendDatagrams(ctx, to, shortly)
	defer sent.end()
	kept := keepAsking(0, func() { converse(flow, "?", shortly) })
	defer kept.end()
	n.PowerOff()
	e.movedOff(ctx, to.Addr(), name)
	e.answers(ctx, outside1, to, e.askUDP)
	sent.end()
	kept.end()
	must.Be(kept.last != nil, "a flow that never paused was answered after its node had died")
	time.Sleep((clock + 1) * time.Second)
	converse(flow, "?", quick)
	e.kubectl(ctx, "label", "node", "worker-1", label+"-")
	e.destroyed(ctx, name)
	return fmt.Sprintf("longest gap of new flows %s, %.2f s for each second of direct-suspect-after (%s); a flow "+
		"that never paused was answered only after a pause (the router's limit was shortened to %d s)",
		sent.gap.Round(10*time.Millisecond), sent.gap.Seconds()/suspectAfter.Seconds(), suspectAfter, clock)
}

// spread sends requests to a direct Service in a VPC from 64 clients across the address space.
func spread(ctx context.Context, e *env) string {
	const many = 64
	to := e.direct(ctx, "spread", []corev1.ServicePort{udp}, localTraffic)
	nodes := make([]string, many)
	for range 2 {
		must.Each(many, func(i int) {
			first := byte(1 + i*7/2) // #nosec G115 -- up to 221
			if first == 127 {
				first++ // loopback
			}
			client := netip.AddrFrom4([4]byte{first, 20, 30, 40})
			a := e.answers(ctx, client, to, e.askUDP)
			seesClient(client, a)
			must.Be(nodes[i] == "" || a.Node == nodes[i], "client %s was on %s, then on %s", client, nodes[i], a.Node)
			nodes[i] = a.Node
		})
	}

	shares := map[string]int{}
	for _, n := range nodes {
		shares[n]++
	}

	must.Be(len(shares) == len(e.place.nodes), "not every node serves a client: %v", shares)
	return fmt.Sprintf("%d clients, %d forwards: %v; each stays on its node", many, len(e.forwardsOf(to.Addr())),
		shares)
}

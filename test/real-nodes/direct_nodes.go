// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/internal/must"
)

const (
	// suspectAfter is the default of direct-suspect-after.
	suspectAfter = 12 * time.Second
	// udpClock is the limit of the router's connection tracking for UDP flows in this scenario, in seconds.
	udpClock = "2"
	udpPause = 3 * time.Second
)

// directLost kills the node that serves a direct Service. New flows are answered again when the controller has moved the
// forwards; a flow that never pauses stays with the dead node.
func directLost(ctx context.Context, e *env) string {
	const name, label = "worker-5", "example.com/direct"
	n := e.join(ctx, e.place.node(5))
	e.initialized(ctx, name)
	e.kubectl(ctx, "", "label", "node", name, label+"=yes")
	ip := e.direct(ctx, "lost-direct", []corev1.ServicePort{udpEcho}, func(s *corev1.Service) { s.Annotations[prefix+"node-selector"] = label + "=yes" })
	to := netip.AddrPortFrom(ip, udpEchoPort)
	e.answersUDP(ctx, outside1, to)
	e.kubectl(ctx, "", "label", "node", "worker-1", label+"=yes")
	for _, timeout := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
		before := sysctl(timeout, udpClock)
		defer func() { sysctl(timeout, before) }()
	}
	flow := must.Get(e.dialOutside(ctx, "udp4", outside2, to))
	defer func() { _ = flow.Close() }()
	e.until(ctx, "the flow to be answered", func(context.Context) { must.Get(converse(flow, []byte("?"), quick)) }) // the node has just come
	if vms := e.vmsOf(ip); !slices.Equal(vms, []string{name}) {
		must.Fail("the forwards lead to %v, want %s", vms, name)
	}
	sent := e.sendDatagrams(ctx, outside1, to, shortly)
	defer sent.end()
	kept := keepAsking(flow)
	n.PowerOff()
	e.movedOff(ctx, ip, name)
	e.answersUDP(ctx, outside1, to)
	sent.end()
	if answered := kept(); answered {
		must.Fail("a flow that never paused was answered after its node had died")
	}
	pause(ctx, udpPause)
	must.Get(converse(flow, []byte("?"), quick))
	e.kubectl(ctx, "", "label", "node", "worker-1", label+"-")
	e.destroyed(ctx, name)
	return fmt.Sprintf("longest gap of new flows %s, %.2f s for each second of direct-suspect-after (%s); a flow that never paused was answered only after a pause (the router's limit was shortened to %s s)",
		sent.gap.Round(10*time.Millisecond), sent.gap.Seconds()/suspectAfter.Seconds(), suspectAfter, udpClock)
}

// spread asks a direct Service in a VPC from 64 clients all over the address space.
func spread(ctx context.Context, e *env) string {
	const many = 64
	ip := e.direct(ctx, "spread", []corev1.ServicePort{udpEcho}, localTraffic)
	to := netip.AddrPortFrom(ip, udpEchoPort)
	clients := make([]netip.Addr, many)
	for i := range clients { // 1.20.30.40 to 221.20.30.40
		first := byte(1 + i*7/2) // #nosec G115 -- up to 221
		if first == 127 {
			first++ // loopback
		}
		clients[i] = netip.AddrFrom4([4]byte{first, 20, 30, 40})
	}
	must.OK(e.outside.Add(ctx, clients...))
	nodes := make([]string, many)
	for round := range 2 {
		must.Each(many, func(i int) {
			a := e.answersUDP(ctx, clients[i], to)
			must.Be((round == 0 || a.Node == nodes[i]) && a.Client == clients[i].String(), "client %s was on %s, then on %s as %s", clients[i], nodes[i], a.Node, a.Client)
			nodes[i] = a.Node
		})
	}
	shares := map[string]int{}
	for _, n := range nodes {
		shares[n]++
	}
	var texts []string
	for _, n := range e.names() {
		must.Be(shares[n] != 0, "%s serves no client: %v", n, shares)
		texts = append(texts, fmt.Sprintf("%s %d", n, shares[n]))
	}
	return fmt.Sprintf("%d clients, %d forwards: %s; each stays on its node", many, len(e.forwardsOf(ip)), strings.Join(texts, ", "))
}

// foreign creates port forwarding rules of somebody else on an address, and returns a function that returns an error if
// they have changed.
func (e *env) foreign(ctx context.Context, ip string) func() error {
	list := must.Get(e.cloud.Admin(ctx, "listPublicIpAddresses", map[string]string{"ipaddress": ip, "listall": "true"}))
	addresses, _ := list["publicipaddress"].([]any)
	if len(addresses) != 1 {
		must.OK(fmt.Errorf("%d addresses are %s", len(addresses), ip))
	}
	address, _ := addresses[0].(map[string]any)
	id, _ := address["id"].(string)
	vm := e.vmID(ctx, "worker-1")
	for _, protocol := range []string{"tcp", "udp"} {
		must.Get(e.cloud.Admin(ctx, "createPortForwardingRule", map[string]string{
			"ipaddressid": id, "protocol": protocol, "publicport": "2222", "privateport": "22", "virtualmachineid": vm, "openfirewall": "false"}))
	}
	rules := func() string {
		return fmt.Sprint(must.Get(e.cloud.Admin(ctx, "listPortForwardingRules", map[string]string{"ipaddressid": id, "listall": "true"})))
	}
	before := rules()
	return func() error {
		if after := rules(); after != before {
			return fmt.Errorf("the port forwarding rules of somebody else were %s and are %s", before, after)
		}
		return nil
	}
}

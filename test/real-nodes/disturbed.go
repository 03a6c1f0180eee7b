// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// The scenarios in this file run under steady traffic. No request may fail, except in the parts named below.

// undisturbed returns a scenario that creates two Services, calls do, and fails if a request was lost meanwhile.
func undisturbed(do func(context.Context, *env)) func(context.Context, *env) string {
	return func(ctx context.Context, e *env) string {
		r := e.steady(ctx, "", true, e.served(ctx, "steady-1"), e.served(ctx, "steady-2"))
		do(ctx, e)
		return lossless(r)
	}
}

// podsRolled replaces every Pod under traffic, which ends open connections.
func podsRolled(ctx context.Context, e *env) string {
	r := e.steady(ctx, "", false, e.served(ctx, "rolled"))
	e.kubectl(ctx, "rollout", "restart", "deployment/"+echo)
	e.rolledOut(ctx)
	e.ended(ctx)
	return lossless(r)
}

const controllerLabel = "app.kubernetes.io/name=" + controller

// leader returns the hostname of the leader's Pod, which is the name of its node with hostNetwork.
func (e *env) leader(ctx context.Context) string {
	l := must.Get(e.Client.CoordinationV1().Leases(namespace).Get(ctx, testenv.PredecessorName, metav1.GetOptions{}))
	must.Be(l.Spec.HolderIdentity != nil, "the lease has no holder")
	host, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	return host
}

// killLeader deletes the leading Pod without a grace period and returns the name of its node.
func (e *env) killLeader(ctx context.Context) string {
	leader := e.leader(ctx)
	e.kubectl(ctx, "delete", "pods", "-n", namespace, "-l", controllerLabel, "--field-selector=spec.nodeName="+leader,
		"--force", "--grace-period=0")
	return leader
}

// leaderKilled kills the leader and waits for another.
func leaderKilled(ctx context.Context, e *env) {
	first := e.killLeader(ctx)
	e.until(ctx, "another leader", func(ctx context.Context) {
		now := e.leader(ctx)
		must.Be(now != first, "the leader is still %s", now)
	})
	e.served(ctx, "after-leader")
}

// cloudDown makes CloudStack unavailable for a minute and creates a Service meanwhile.
func cloudDown(ctx context.Context, e *env) {
	e.cloud.Restart(time.Minute)
	e.service(ctx, "meanwhile")
	e.answers(ctx, client1, netip.AddrPortFrom(e.address(ctx, metav1.NamespaceDefault, "meanwhile"), 80), ask)
}

// upgradeAndBack changes a value of the chart, which restarts the Pods, and rolls back.
func upgradeAndBack(ctx context.Context, e *env) {
	e.csccm(ctx, "upgrade", "--yes", "--set", "logVerbosity=4")
	e.csccm(ctx, "rollback", "--yes")
	e.served(ctx, "after-rollback")
}

// Requests may fail only in these parts. Neither CloudStack nor its controller could prevent that.
const (
	partPowerFailure = "power lost, VM stopped and destroyed"
	// kube-proxy on the other nodes still sends a share of the requests to the dead node's Pods.
	partNotReady = "until Kubernetes marks the node as not ready"
	// Linux tracks a connection without an answer for two minutes; a new connection from the same port of the load
	// balancer is sent to the same Pod.
	partTracked = "until the other nodes' connection tracking has dropped its Pods"
)

// nodeLife adds a node, drains it, stops its VM and destroys it, under traffic.
func nodeLife(ctx context.Context, e *env) string {
	const name = "worker-4"
	to := e.served(ctx, "nodes")
	r := e.steady(ctx, "joined and drained", false, to)
	n := e.Join(ctx, e.place.node(4))
	e.initialized(ctx, name)
	e.members(ctx, to, e.names(name)...)
	e.drain(ctx, name)
	joined := r.Next(partPowerFailure)
	must.OK(joined.Err())
	n.PowerOff()
	must.Get(e.cloud.Admin(ctx, "stopVirtualMachine", map[string]string{"id": e.vmID(ctx, name), "forced": "true"}))

	// A node that is not ready stays a member, as in Kubernetes' service controller; the load balancer's health check
	// keeps requests away from it.
	e.until(ctx, "the node to have the shutdown taint", func(ctx context.Context) {
		must.Be(hasTaint(e.node(ctx, name), shutdownKey), "it has it not")
	})
	e.destroyed(ctx, name)
	e.members(ctx, to, e.names()...)
	return fmt.Sprintf("joined and drained: %s; power lost, VM stopped and destroyed: %s", brief(joined),
		brief(r.Stop()))
}

// nodeLost kills a node with a third of the Pods and destroys its VM. Requests in flight to that node are unavoidably
// lost; no others may be.
func nodeLost(ctx context.Context, e *env) string {
	const name = "worker-3"
	to := e.served(ctx, "lost")
	r := e.steady(ctx, partNotReady, false, to)
	e.Node(name).PowerOff()
	e.destroyed(ctx, name)
	e.members(ctx, to, "worker-1", "worker-2") // CloudStack itself removes the destroyed VM from the rule
	r.Next(partTracked)
	e.rolledOut(ctx)
	for _, other := range []string{"worker-1", "worker-2"} {
		e.until(ctx, other+" to forget the Pods of "+name, func(ctx context.Context) {
			e.Node(other).NoConnectionsTo(ctx, e.Node(name))
		})
	}

	r.Next("after")
	for range 1000 {
		ask(ctx, client1, to)
	}

	return "afterwards " + lossless(r)
}

// migrated gives rules old names under traffic and checks that csccm migrate-rules restores the new ones.
func migrated(ctx context.Context, e *env) {
	renamed := e.renamed(ctx, testenv.RulesOfOld, "")
	e.csccm(ctx, "migrate-rules", "--yes", "--journal", filepath.Join(e.home, "migrate.jsonl"))
	renamed()
}

type (
	rules  = map[string]testenv.Rule
	rename func(context.Context, *cloudstack.Client, rules) error
)

// renamed gives the rules of addresses old names. It returns a function that fails unless the rules have their present
// names again.
func (e *env) renamed(ctx context.Context, age rename, addresses ...string) (check func()) {
	client := must.Get(e.cloud.Client(owner))
	before := must.Get(testenv.RulesByID(ctx, client, addresses...))
	must.OK(age(ctx, client, before))
	return func() {
		defer client.CloseIdleConnections()
		after := must.Get(testenv.RulesByID(ctx, client, addresses...))
		for id, was := range before {
			now, ok := after[id]
			must.Be(ok && now.PublicIP == was.PublicIP && now.Name == was.Name, "rule %s was %+v and is %+v", id, was,
				now)
		}
	}
}

// apacheTakenOver takes over from Apache's provider in three steps: prepare, install next to it, swap.
func apacheTakenOver(ctx context.Context, e *env) string {
	return e.takenOver(ctx, testenv.RulesOfOld,
		"takeover --yes",
		"install --yes --skip-taint --skip-check CCM-002,CCM-003 --set instanceTypeFormat=upstream",
		"takeover --yes")
}

// leasewebTakenOver takes over from Leaseweb's provider with the one command of docs/migrate.md.
func leasewebTakenOver(ctx context.Context, e *env) string {
	return e.takenOver(ctx, e.leasewebNames, "install --yes --skip-taint")
}

// leasewebNames renames rules to the names that Leaseweb's fork uses, which contain the name of the Service.
func (e *env) leasewebNames(ctx context.Context, client *cloudstack.Client, rules rules) (err error) {
	defer must.Return(&err)
	names := map[string]string{}
	for _, s := range must.Get(e.services().List(ctx, metav1.ListOptions{})).Items {
		for _, at := range s.Status.LoadBalancer.Ingress {
			names[at.IP] = s.Name
		}
	}
	for id, r := range rules {
		name := fmt.Sprintf("K8s_svc_kubernetes_%s_%s-tcp-%d", metav1.NamespaceDefault, names[r.PublicIP], r.PublicPort)
		s := must.Get(client.UpdateLoadBalancerRule(ctx, cloudstack.UpdateLoadBalancerRuleRequest{
			ID: id, Name: name, Protocol: r.Protocol, Algorithm: r.Algorithm,
		}))
		must.Get(client.Jobs().Wait(ctx, "updateLoadBalancerRule", s.JobID))
	}
	return nil
}

// takenOver replaces a running provider under traffic and checks that rules keep their IDs and addresses and get
// csccm's names. age renames the rules to the names of the old provider first.
func (e *env) takenOver(ctx context.Context, age rename, steps ...string) string {
	web, shop := e.served(ctx, "web"), e.served(ctx, "shop", sticky)
	renamed := e.renamed(ctx, age, web.Addr().String(), shop.Addr().String())
	unchanged := e.foreign(ctx, web.Addr().String())
	r := e.steady(ctx, "", true, web, shop)
	for _, args := range steps {
		e.csccm(ctx, strings.Fields(args)...)
	}
	e.until(ctx, "the new controller to record its addresses", func(ctx context.Context) {
		for _, name := range []string{"web", "shop"} {
			s := must.Get(e.services().Get(ctx, name, metav1.GetOptions{}))
			must.Be(s.Annotations[prefix+"addresses"] != "", "service %s has no annotation %s", name,
				prefix+"addresses")
		}
	})
	renamed()
	unchanged()
	return lossless(r) + "; port forwardings of others kept"
}

// foreign creates port forwarding rules of somebody else on an address. It returns a function that fails if they have
// changed.
func (e *env) foreign(ctx context.Context, ip string) (check func()) {
	id, vm := e.admin(ctx, "listPublicIpAddresses", "publicipaddress", "ipaddress", ip), e.vmID(ctx, "worker-1")
	for _, protocol := range []string{"tcp", "udp"} {
		must.Get(e.cloud.Admin(ctx, "createPortForwardingRule", map[string]string{
			"ipaddressid": id, "protocol": protocol, "publicport": "2222", "privateport": "22", "virtualmachineid": vm,
			"openfirewall": "false"}))
	}
	rules := func() string {
		of := map[string]string{"ipaddressid": id, "listall": "true"}
		return fmt.Sprint(must.Get(e.cloud.Admin(ctx, "listPortForwardingRules", of)))
	}
	before := rules()
	return func() {
		after := rules()
		must.Be(after == before, "the port forwarding rules of somebody else were %s and are %s", before, after)
	}
}

func (e *env) drain(ctx context.Context, name string) {
	e.kubectl(ctx, "drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
}

// destroyed destroys a VM and waits until its Node object is deleted.
func (e *env) destroyed(ctx context.Context, name string) {
	must.Get(e.cloud.Admin(ctx, "destroyVirtualMachine", map[string]string{"id": e.vmID(ctx, name), "expunge": "true"}))
	e.kubectl(ctx, "wait", "--for=delete", "node/"+name, "--timeout=300s")
}

func (e *env) vmID(ctx context.Context, name string) string {
	return e.admin(ctx, "listVirtualMachines", "virtualmachine", "name", name)
}

// admin returns the ID of the object in a list whose field has a value.
func (e *env) admin(ctx context.Context, command, list, field, value string) string {
	answer := must.Get(e.cloud.Admin(ctx, command,
		map[string]string{field: value, "listall": "true", "projectid": "-1"}))
	for _, object := range answer[list].([]any) { //nolint:forcetypeassert // CloudStack's lists are
		if fields := object.(map[string]any); fields[field] == value { //nolint:forcetypeassert // so are their objects
			return fields["id"].(string) //nolint:forcetypeassert // every object has one
		}
	}
	must.Fail("%s: none has the %s %s", command, field, value)
	return ""
}

func hasTaint(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

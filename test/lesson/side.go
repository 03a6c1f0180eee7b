// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// Names of the clusters, which are those of their accounts.
const (
	withoutName = "without"
	withName    = "with"

	workers       = 3
	adminUser     = "admin"
	adminPassword = "password"
	zone          = "zone-1"
	offering      = "Small Instance"
	taint         = "node.cloudprovider.kubernetes.io/uninitialized"
	// nodeGrace is how long a node may be silent. Four heartbeats may be late on a slow machine.
	nodeGrace = 10 * time.Second
)

// side is one of the two clusters, with its account in CloudStack.
type side struct {
	name    string
	subnet  string // the first three bytes of its network
	cluster *testenv.Cluster
	api     *cloudstack.Client // as a user of the account that only looks
	joined  map[string]*processnode.Node
}

func newSide(name string) *side {
	subnet := "10.1.1."
	if name == withName {
		subnet = "10.2.1."
	}
	return &side{name: name, subnet: subnet, joined: map[string]*processnode.Node{}}
}

func (s *side) owner() string          { return s.name + "-owner" }
func (s *side) inspector() string      { return s.name + "-inspector" }
func (s *side) worker(i int) string    { return fmt.Sprintf("%s-%d", s.name, i) }
func (s *side) controlPlane() string   { return s.name + "-cp" }
func (s *side) address(i int) string   { return fmt.Sprintf("%s%d", s.subnet, 20+i) }
func (s *side) isWorker(n string) bool { return n != s.controlPlane() }

// workerNames are the names of all workers' VMs, sorted.
func (s *side) workerNames() (out []string) {
	for i := range workers {
		out = append(out, s.worker(i+1))
	}
	return out
}

// world is the CloudStack of the lesson: two accounts that differ only in their names and networks.
func world() *simulator.World {
	w := &simulator.World{
		Zones:            []simulator.Zone{{Name: zone, PublicRanges: []string{"203.0.113.10-203.0.113.199"}, Hosts: []string{"hypervisor-1"}}},
		ServiceOfferings: []simulator.ServiceOffering{{Name: offering, CPUs: 1, CPUSpeed: 500, Memory: 512}},
		Accounts:         []simulator.Account{{Name: adminUser, Role: "Root Admin", Users: []simulator.User{{Name: adminUser, Password: adminPassword}}}},
	}
	for _, name := range []string{withoutName, withName} {
		s := newSide(name)
		w.Accounts = append(w.Accounts, simulator.Account{Name: name, Role: "User", Users: []simulator.User{
			{Name: s.owner(), Password: adminPassword}, {Name: s.inspector(), Password: adminPassword},
		}})
		network := simulator.Network{Name: name + "-net", Account: name, CIDR: s.subnet + "0/24"}
		w.Networks = append(w.Networks, network)
		for i, vm := range append([]string{s.controlPlane()}, s.workerNames()...) {
			w.VirtualMachines = append(w.VirtualMachines, simulator.VirtualMachine{
				Name: vm, Account: name, Offering: offering, NICs: []simulator.NIC{{Network: network.Name, IP: s.address(i)}},
			})
		}
	}
	return w
}

// start starts the control plane and the nodes.
func (s *side) start(ctx context.Context, l *lesson, binary string) {
	s.api = must.Get(l.cloud.Client(s.inspector()))
	s.cluster = must.Get(testenv.StartCluster(ctx, testenv.ClusterOptions{
		Plane: plane.Options{Binary: binary, Dir: l.Dir, NodeGrace: nodeGrace}, Controller: l.binaries.Controller,
	}))
	for i, name := range append([]string{s.controlPlane()}, s.workerNames()...) {
		o := processnode.Options{Name: name, Address: s.address(i), Dir: l.Dir}
		if !s.isWorker(name) {
			// Without the label of a control plane node, as in a managed cluster: two Pods of the controller run, on any node.
			o.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
		}
		s.joined[name] = must.Get(s.cluster.Join(ctx, o))
	}
}

// kubectl returns the output of a kubectl command.
func (s *side) kubectl(ctx context.Context, l *lesson, args ...string) []string {
	var out bytes.Buffer
	err := l.Console.Run(ctx, console.Command{Name: "kubectl", Path: s.cluster.Kubectl, Args: args, Kubeconfig: s.cluster.Kubeconfig}, &out)
	if err != nil {
		must.Fail("%w: %s", err, out.String())
	}
	return lines(out.String())
}

// both prints a kubectl command and its output in both clusters.
func (l *lesson) both(ctx context.Context, args ...string) {
	l.Echo(console.Command{Name: "kubectl", Args: args}.Line())
	without := l.without.kubectl(ctx, l, args...)
	with := l.with.kubectl(ctx, l, args...)
	l.compare(without, with)
}

// nodes returns the Nodes, sorted by name.
func (s *side) nodes(ctx context.Context) []corev1.Node {
	list := must.Get(s.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items
}

// createService creates a Service of type LoadBalancer with two ports.
func (s *side) createService(ctx context.Context, name string) {
	_, err := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
				{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)},
			},
		},
	}, metav1.CreateOptions{})
	must.OK(err)
}

// service returns a Service and its address, which is empty while it is pending.
func (s *side) service(ctx context.Context, name string) (svc *corev1.Service, ip string) {
	svc = must.Get(s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{}))
	if len(svc.Status.LoadBalancer.Ingress) > 0 {
		ip = svc.Status.LoadBalancer.Ingress[0].IP
	}
	return svc, ip
}

// served waits for the address of a Service.
func (s *side) served(ctx context.Context, name string) (svc *corev1.Service, ip string) {
	testenv.Await(ctx, limit, fmt.Sprintf("Service %s of cluster %q to get its address", name, s.name), func(ctx context.Context) {
		svc, ip = s.service(ctx, name)
		must.Be(ip != "", "it has none yet")
	})
	return svc, ip
}

// pending returns an error unless a Service has no address.
func (s *side) pending(ctx context.Context, name string) {
	_, ip := s.service(ctx, name)
	must.Be(ip == "", "service %s of cluster %q has the address %s", name, s.name, ip)
}

// rules returns the load balancer rules of the account, sorted by address and port.
func (s *side) rules(ctx context.Context) []testenv.Rule {
	return must.Get(testenv.Rules(ctx, s.api, ""))
}

// inCloud returns the lines that show what the account has in CloudStack of load balancers.
func (s *side) inCloud(ctx context.Context) []string {
	rules := s.rules(ctx)
	out := []string{"no load balancer rules"}
	if len(rules) > 0 {
		out = out[:0]
	}
	for _, r := range rules {
		out = append(out, fmt.Sprintf("%s:%d -> %d  %s", r.PublicIP, r.PublicPort, r.PrivatePort, cmp.Or(strings.Join(r.Members, " "), "no members")))
	}
	return out
}

// showCloud prints the load balancers of both accounts.
func (l *lesson) showCloud(ctx context.Context) {
	without := l.without.inCloud(ctx)
	with := l.with.inCloud(ctx)
	l.title("In CloudStack (listLoadBalancerRules, listLoadBalancerRuleInstances):")
	l.compare(without, with)
}

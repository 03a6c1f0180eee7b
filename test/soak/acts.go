// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// annotations is the prefix of the controller's annotations.
const annotations = "service.beta.kubernetes.io/cloudstack-load-balancer-"

// service is the desired state of a Service.
type service struct {
	ports     []int32
	proxy     bool
	ranges    string // empty: all clients
	algorithm string
	affinity  bool
	local     bool
	endpoints []string // nodes with a ready endpoint; they are the members with externalTrafficPolicy Local
}

// act is a kind of change. Its probability is its weight relative to the sum of all weights.
type act struct {
	name   string
	weight int
	early  bool // only in the first half
	do     func(*run, context.Context) (bool, error)
}

var acts = []act{
	{"Service made", 10, false, (*run).create},
	{"Service deleted", 5, false, (*run).remove},
	{"port added", 8, false, func(r *run, ctx context.Context) (bool, error) { return r.edit(ctx, r.addPort) }},
	{"port removed", 6, false, func(r *run, ctx context.Context) (bool, error) { return r.edit(ctx, r.dropPort) }},
	{"PROXY protocol toggled", 3, false, func(r *run, ctx context.Context) (bool, error) {
		return r.edit(ctx, func(s *service) bool { s.proxy = !s.proxy; return true })
	}},
	{"source ranges changed", 5, false, func(r *run, ctx context.Context) (bool, error) { return r.edit(ctx, r.newRanges) }},
	{"algorithm changed", 3, false, func(r *run, ctx context.Context) (bool, error) { return r.edit(ctx, r.newAlgorithm) }},
	{"session affinity toggled", 3, false, func(r *run, ctx context.Context) (bool, error) {
		return r.edit(ctx, func(s *service) bool { s.affinity, s.algorithm = !s.affinity, ""; return true })
	}},
	{"traffic policy toggled", 2, false, func(r *run, ctx context.Context) (bool, error) {
		return r.edit(ctx, func(s *service) bool { s.local = !s.local; return true })
	}},
	{"endpoints moved", 3, false, (*run).moveEndpoints},
	{"node joined", 4, false, (*run).join},
	{"node left", 3, false, (*run).leave},
	{"VM destroyed", 1, false, (*run).destroy},
	{"CloudStack restarted", 1, false, (*run).restart},
	{"controller killed", 2, true, (*run).kill},
}

// act makes one random change. When the chosen change is not possible now, it does nothing.
func (r *run) act(ctx context.Context, early bool) error {
	sum := 0
	for _, a := range acts {
		sum += a.weight
	}
	n := r.random.IntN(sum)
	for _, a := range acts {
		if n -= a.weight; n >= 0 {
			continue
		}
		if a.early && !early {
			return nil
		}
		return must.Catch(func() {
			if must.Get(a.do(r, ctx)) {
				r.done[a.name]++
			}
		})
	}
	return nil
}

func (r *run) create(ctx context.Context) (bool, error) {
	if len(r.services) >= r.Services {
		return false, nil
	}
	r.made++
	name, s := fmt.Sprintf("web%d", r.made), &service{}
	for range 1 + r.random.IntN(3) {
		r.addPort(s)
	}
	if r.random.IntN(3) == 0 {
		r.newRanges(s)
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	s.write(svc)
	must.Get(r.env.Client.CoreV1().Services(testenv.Namespace).Create(ctx, svc, metav1.CreateOptions{}))
	r.services[name] = s
	return true, r.placeEndpoints(ctx, name)
}

// moveEndpoints moves the endpoints of a Service to other nodes, which changes the members of rules with
// externalTrafficPolicy Local.
func (r *run) moveEndpoints(ctx context.Context) (bool, error) {
	name, ok := r.any()
	if !ok {
		return false, nil
	}
	return true, r.placeEndpoints(ctx, name)
}

// placeEndpoints chooses nodes at random among those that are never removed.
func (r *run) placeEndpoints(ctx context.Context, name string) error {
	s := r.services[name]
	s.endpoints = [][]string{{"w1"}, {"w2"}, {"w1", "w2"}}[r.random.IntN(3)]
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}}, AddressType: discoveryv1.AddressTypeIPv4,
	}
	ready := true
	for i, node := range s.endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.244.0.%d", i+1)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	slices := r.env.Client.DiscoveryV1().EndpointSlices(testenv.Namespace)
	_, err := slices.Update(ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = slices.Create(ctx, slice, metav1.CreateOptions{})
	}
	return err
}

func (r *run) remove(ctx context.Context) (bool, error) {
	name, ok := r.any()
	if !ok {
		return false, nil
	}
	delete(r.services, name)
	must.OK(r.env.Client.DiscoveryV1().EndpointSlices(testenv.Namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	return true, r.env.Client.CoreV1().Services(testenv.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// any chooses a Service. It sorts the names: with the random order of a map, runs with the same seed would differ.
func (r *run) any() (string, bool) {
	names := slices.Sorted(maps.Keys(r.services))
	if len(names) == 0 {
		return "", false
	}
	return names[r.random.IntN(len(names))], true
}

// edit changes a Service.
func (r *run) edit(ctx context.Context, change func(*service) bool) (bool, error) {
	name, ok := r.any()
	if !ok || !change(r.services[name]) {
		return false, nil
	}
	services := r.env.Client.CoreV1().Services(testenv.Namespace)
	for { // the controller writes Services as well
		svc := must.Get(services.Get(ctx, name, metav1.GetOptions{}))
		r.services[name].write(svc)
		if _, err := services.Update(ctx, svc, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return true, err
		}
	}
}

// write applies the desired state to a Service object.
func (s *service) write(svc *corev1.Service) {
	old := map[int32]corev1.ServicePort{}
	for _, p := range svc.Spec.Ports {
		old[p.Port] = p
	}
	svc.Spec.Ports = nil
	for _, n := range s.ports {
		p, ok := old[n]
		if !ok {
			p = corev1.ServicePort{Name: fmt.Sprintf("p%d", n), Port: n}
		}
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	set := func(key, value string) {
		if delete(svc.Annotations, annotations+key); value != "" {
			svc.Annotations[annotations+key] = value
		}
	}
	set("proxy-protocol", map[bool]string{true: "true"}[s.proxy])
	set("source-cidrs", s.ranges)
	set("algorithm", s.algorithm)
	svc.Spec.SessionAffinity = corev1.ServiceAffinityNone
	if s.affinity {
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	} else {
		svc.Spec.SessionAffinityConfig = nil
	}
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	if s.local {
		svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	} else {
		svc.Spec.HealthCheckNodePort = 0
	}
}

func (r *run) addPort(s *service) bool {
	if len(s.ports) >= 5 {
		return false
	}
	for {
		if p := int32(8000 + r.random.IntN(12)); !slices.Contains(s.ports, p) { // #nosec G115 -- small
			s.ports = append(s.ports, p)
			return true
		}
	}
}

func (r *run) dropPort(s *service) bool {
	if len(s.ports) < 2 {
		return false
	}
	i := r.random.IntN(len(s.ports))
	s.ports = slices.Delete(s.ports, i, i+1)
	return true
}

func (r *run) newRanges(s *service) bool {
	choices := []string{"", "10.0.0.0/8", "192.0.2.0/24,198.51.100.0/24", "203.0.113.7/32"}
	was := s.ranges
	s.ranges = choices[r.random.IntN(len(choices))]
	return s.ranges != was
}

func (r *run) newAlgorithm(s *service) bool {
	if s.affinity {
		return false // session affinity requires the algorithm source
	}
	choices := []string{"", "leastconn", "source", "roundrobin"}
	was := s.algorithm
	s.algorithm = choices[r.random.IntN(len(choices))]
	return s.algorithm != was
}

func (r *run) join(ctx context.Context) (bool, error) {
	if len(r.spare) == 0 {
		return false, nil
	}
	name := r.spare[0]
	r.spare = r.spare[1:]
	r.nodes[name] = true
	return true, r.env.JoinVM(ctx, name)
}

// removableNode chooses a node to remove. At least fewestNodes remain, and so do w1 and w2, the members of foreign
// rules.
func (r *run) removableNode() (string, bool) {
	if len(r.nodes) <= fewestNodes {
		return "", false
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.nodes)), func(n string) bool { return n == "w1" || n == "w2" })
	name := names[r.random.IntN(len(names))]
	delete(r.nodes, name)
	return name, true
}

func (r *run) leave(ctx context.Context) (bool, error) {
	name, ok := r.removableNode()
	if !ok {
		return false, nil
	}
	r.spare = append(r.spare, name)
	return true, r.env.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
}

// destroy destroys a node's VM, as its owner can, and deploys a new one.
func (r *run) destroy(ctx context.Context) (bool, error) {
	name, ok := r.removableNode()
	if !ok {
		return false, nil
	}
	must.OK(r.env.Destroy(ctx, name))
	r.vmsMade++
	fresh := fmt.Sprintf("n%d", r.vmsMade)
	r.spare = append(r.spare, fresh)
	return true, r.env.Deploy(ctx, fresh)
}

func (r *run) restart(context.Context) (bool, error) {
	r.env.Cloud.Restart(managementUp)
	return true, nil
}

// kill kills the controller, whatever it is doing, and starts another.
func (r *run) kill(ctx context.Context) (bool, error) {
	r.env.Kill()
	r.gauges.restarted()
	return true, r.start(ctx)
}

// wanted returns the desired source ranges.
func (s *service) wanted() []string {
	if s.ranges == "" {
		return []string{"0.0.0.0/0"}
	}
	return strings.Split(s.ranges, ",")
}

// balance returns the desired algorithm of rules.
func (s *service) balance() string {
	switch {
	case s.affinity:
		return "source"
	case s.algorithm == "":
		return "roundrobin"
	}
	return s.algorithm
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/csccm/csccm/pkg/testenv/script"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// act is a kind of change. Its probability is its weight relative to the sum of all weights.
type act struct {
	name   string
	weight int
	do     func(*run) bool // returns false if the change is not possible now
}

var acts = []act{
	// must be first, because the second half of the test leaves out the first act
	{"controller killed", 2, func(r *run) bool { r.start(); return true }},
	{"Service made", 10, (*run).create},
	{"Service deleted", 5, service((*run).remove)},
	{"port added", 10, edit("+8000", "+8001", "+8002", "+8003", "+8004", "+8005")},
	{"port removed", 10, edit("-8000", "-8001", "-8002", "-8003", "-8004", "-8005")},
	{"PROXY protocol toggled", 5, edit("proxy-protocol=true", "-proxy-protocol")},
	{"source ranges changed", 6,
		edit("source-cidrs=10.0.0.0/8", "source-cidrs=192.0.2.0/24,198.51.100.0/24", "source-cidrs=203.0.113.7/32",
			"-source-cidrs")},
	{"algorithm changed", 3,
		edit("affinity=None algorithm=leastconn", "algorithm=source", "affinity=None algorithm=roundrobin",
			"-algorithm")},
	{"session affinity toggled", 5, edit("affinity=ClientIP -algorithm", "affinity=None")},
	{"traffic policy toggled", 4, edit("policy=Local", "policy=Cluster")},
	{"endpoints moved", 3, service((*run).placeEndpoints)},
	{"node joined", 4, (*run).join},
	{"node left", 3, node((*run).leave)},
	{"VM destroyed", 1, node((*run).destroy)},
	{"CloudStack restarted", 1, func(r *run) bool { r.env.Cloud.Restart(managementUp); return true }},
}

// act makes one random change. If the chosen change is not possible now, it does nothing.
func (r *run) act(acts []act) {
	var all []*act
	for _, it := range acts {
		all = append(all, slices.Repeat([]*act{&it}, it.weight)...)
	}
	if a := all[r.random.IntN(len(all))]; a.do(r) {
		r.done[a.name]++
	}
}

func port(protocol corev1.Protocol, number int32, old *corev1.ServicePort) corev1.ServicePort {
	if old != nil {
		return *old
	}
	return corev1.ServicePort{Name: fmt.Sprint("p", number), Port: number, Protocol: protocol}
}

// edit returns an act that applies one of these changes (see script.Change) to one of the Services.
func edit(changes ...string) func(*run) bool {
	return service(func(r *run, name string) (changed bool) {
		words := strings.Fields(changes[r.random.IntN(len(changes))])
		services := r.env.Client.CoreV1().Services(testenv.Namespace)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller writes Services as well
			was := must.Get(services.Get(r.Context(), name, metav1.GetOptions{}))
			svc := was.DeepCopy()
			must.OK(script.Change(svc, words, port))
			slices.SortFunc(svc.Spec.Ports, func(a, b corev1.ServicePort) int { return cmp.Compare(a.Port, b.Port) })
			svc.Spec.Ports = slices.Compact(svc.Spec.Ports) // the added port may exist already
			if changed = !equality.Semantic.DeepEqual(was, svc); !changed {
				return nil
			}

			_, err := services.Update(r.Context(), svc, metav1.UpdateOptions{})
			return err
		})

		if apierrors.IsInvalid(err) { // the Service would have no port
			return false
		}

		must.OK(err)
		return changed
	})
}

func (r *run) create() bool {
	if len(r.services) >= mostServices {
		return false
	}
	r.made++
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web", r.made)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	words := []string{[]string{"8000", "8001,8002", "8003-8005"}[r.random.IntN(3)], "source-cidrs=203.0.113.7/32"}
	must.OK(script.Change(svc, words[:1+r.random.IntN(2)], port))
	must.Get(r.env.Client.CoreV1().Services(testenv.Namespace).Create(r.Context(), svc, metav1.CreateOptions{}))
	return r.placeEndpoints(svc.Name)
}

func (r *run) remove(name string) bool {
	delete(r.services, name)
	must.OK(r.env.Client.DiscoveryV1().EndpointSlices(testenv.Namespace).Delete(r.Context(), name,
		metav1.DeleteOptions{}))
	must.OK(r.env.Client.CoreV1().Services(testenv.Namespace).Delete(r.Context(), name, metav1.DeleteOptions{}))
	return true
}

// service changes one of the Services. It sorts the names, because with the random order of a map, runs with the same
// seed would differ.
func service(do func(*run, string) bool) func(*run) bool {
	return func(r *run) bool {
		names := slices.Sorted(maps.Keys(r.services))
		return len(names) > 0 && do(r, names[r.random.IntN(len(names))])
	}
}

// placeEndpoints chooses nodes at random among those that are never removed: the members of rules with
// externalTrafficPolicy Local.
func (r *run) placeEndpoints(name string) bool {
	r.services[name] = [][]string{{"w1"}, {"w2"}, {"w1", "w2"}}[r.random.IntN(3)]
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}

	for i, node := range r.services[name] {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.244.0.%d", i+1)},
			NodeName:   &node,
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}

	slices := r.env.Client.DiscoveryV1().EndpointSlices(testenv.Namespace)
	_, err := slices.Update(r.Context(), slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = slices.Create(r.Context(), slice, metav1.CreateOptions{})
	}

	must.OK(err)
	return true
}

func (r *run) join() bool {
	if len(r.spare) == 0 {
		return false
	}
	name := r.spare[0]
	r.spare = r.spare[1:]
	r.nodes[name] = true
	must.OK(r.env.JoinVM(r.Context(), name))
	return true
}

// node removes one of the nodes. At least fewestNodes remain, and w1 and w2 always do, because they are members of
// foreign rules.
func node(remove func(*run, string)) func(*run) bool {
	return func(r *run) bool {
		if len(r.nodes) <= fewestNodes {
			return false
		}
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.nodes)),
			func(n string) bool { return n == "w1" || n == "w2" })
		name := names[r.random.IntN(len(names))]
		delete(r.nodes, name)
		remove(r, name)
		return true
	}
}

func (r *run) leave(name string) {
	r.spare = append(r.spare, name)
	must.OK(r.env.Client.CoreV1().Nodes().Delete(r.Context(), name, metav1.DeleteOptions{}))
}

// destroy destroys a node's VM, as its owner may, and deploys a new one.
func (r *run) destroy(name string) {
	must.OK(r.env.Destroy(r.Context(), name))
	fresh := fmt.Sprint("n", r.done["VM destroyed"])
	r.spare = append(r.spare, fresh)
	must.OK(r.env.Deploy(r.Context(), fresh))
}

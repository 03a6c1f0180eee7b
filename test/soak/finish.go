// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// finish removes the faults, waits until CloudStack's state matches the Services,
// deletes the Services and waits until CloudStack's state is the initial one.
func (r *run) finish(ctx context.Context) {
	for _, disarm := range r.disarm {
		disarm()
	}
	testenv.Await(ctx, settle, "CloudStack's rules to match the Services", func(ctx context.Context) {
		must.OK(errors.Join(r.nodesAgree(ctx), r.converged(ctx)))
	})
	r.watch.check(ctx)
	r.served = len(r.services)
	must.OK(r.env.Clear(ctx))
	r.services = map[string]*service{}
	testenv.Await(ctx, settle, "CloudStack to return to its initial state", func(ctx context.Context) {
		must.OK(errors.Join(r.converged(ctx), r.nothingLeft(ctx)))
	})
}

// nodesAgree returns an error until the Nodes are the expected ones: those of destroyed VMs are deleted.
func (r *run) nodesAgree(ctx context.Context) error {
	list := must.Get(r.env.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(r.nodes)); !slices.Equal(names, want) {
		return fmt.Errorf("nodes are %v instead of %v", names, want)
	}
	return nil
}

// converged compares the rules on the virtual routers with the Services.
func (r *run) converged(ctx context.Context) error {
	list := must.Get(r.env.Client.CoreV1().Services(testenv.Namespace).List(ctx, metav1.ListOptions{}))
	want := map[string]string{}
	for i := range list.Items {
		s, wanted := &list.Items[i], r.services[list.Items[i].Name]
		switch {
		case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
			continue
		case wanted == nil:
			return fmt.Errorf("the Service %s is not deleted yet", s.Name)
		case len(s.Status.LoadBalancer.Ingress) != 1:
			return fmt.Errorf("the Service %s has no address", s.Name)
		}
		members := slices.Sorted(maps.Keys(r.nodes))
		if wanted.local {
			members = wanted.endpoints
		}
		for _, p := range s.Spec.Ports {
			at := fmt.Sprintf("%s:%d", s.Status.LoadBalancer.Ingress[0].IP, p.Port)
			want[at] = fmt.Sprintf("%s to %d of %v, PROXY header %v, for %v", wanted.balance(), p.NodePort, members, wanted.proxy, admitted(wanted.wanted()))
		}
	}
	listeners, refused := datapath.Desired(r.env.Cloud.Router())
	must.Not(len(refused) > 0, "HAProxy would refuse its configuration: %+v", refused)
	is := map[string]string{}
	for i := range listeners {
		l := &listeners[i]
		if slices.Contains(r.watch.before, l.Public.Addr().String()) {
			continue
		}
		var names []string
		for _, m := range l.Members {
			names = append(names, m.VM)
		}
		slices.Sort(names)
		is[l.Public.String()] = fmt.Sprintf("%s to %d of %v, PROXY header %v, for %v", l.Algorithm, l.Members[0].Address.Port(), names, l.ProxyHeader, reached(l))
	}
	return differences(want, is)
}

// probes holds one client of each range that a Service may use, and one that is in none.
var probes = []string{"10.1.2.3", "192.0.2.9", "198.51.100.9", "203.0.113.7", "203.0.113.8"}

func reached(l *datapath.Listener) (out []string) {
	for _, p := range probes {
		if l.Admits(netip.MustParseAddr(p)) {
			out = append(out, p)
		}
	}
	return out
}

func admitted(ranges []string) (out []string) {
	for _, p := range probes {
		if slices.ContainsFunc(ranges, func(c string) bool { return netip.MustParsePrefix(c).Contains(netip.MustParseAddr(p)) }) {
			out = append(out, p)
		}
	}
	return out
}

func differences(want, is map[string]string) error {
	var texts []string
	for at, w := range want {
		if is[at] != w {
			texts = append(texts, fmt.Sprintf("%s: %q instead of %q", at, is[at], w))
		}
	}
	for at := range is {
		if want[at] == "" {
			texts = append(texts, at+": no Service asks for this rule: "+is[at])
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	return errors.New(strings.Join(texts, "\n"))
}

// nothingLeft returns an error when CloudStack holds other objects than at the start, or addresses that are stuck in a
// transitional state.
func (r *run) nothingLeft(ctx context.Context) error {
	c := must.Get(r.watch.read(ctx))
	is := must.Get(r.watch.describe(ctx, c, func(string) bool { return true }))
	must.OK(differences(r.watch.foreign, is))
	for _, state := range []string{"Allocating", "Releasing"} {
		list := must.Get(r.env.Cloud.Admin(ctx, "listPublicIpAddresses", map[string]string{"allocatedonly": "false", "state": state, "listall": "true"}))
		if n, _ := list["count"].(float64); n > 0 {
			return fmt.Errorf("%v addresses are still in state %s", n, state)
		}
	}
	return nil
}

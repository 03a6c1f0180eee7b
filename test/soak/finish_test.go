// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// finish waits until CloudStack's state matches the Services, deletes the Services, and waits until its state is the initial one.
func (r *run) finish(w *watch) {
	require.NoError(r, must.Catch(func() {
		testenv.Await(r.Context(), settle, "CloudStack's rules to match the Services", func(ctx context.Context) { r.converged(ctx, w) })
		w.look(r.Context())
		must.OK(r.env.Clear(r.Context()))
		r.services = map[string][]string{}
		testenv.Await(r.Context(), settle, "CloudStack to return to its initial state", func(ctx context.Context) {
			r.converged(ctx, w)
			must.OK(differences(w.foreign, w.texts(ctx, w.read(ctx), func(string) bool { return true })))
			for _, state := range []string{"Allocating", "Releasing"} {
				list := must.Get(r.env.Cloud.Admin(ctx, "listPublicIpAddresses", map[string]string{"allocatedonly": "false", "state": state, "listall": "true"}))
				must.Be(list["count"] == nil, "%v addresses are still in state %s", list["count"], state)
			}
		})
	}))
}

// converged compares the Nodes with those that are left, and the rules on the virtual routers with the Services.
func (r *run) converged(ctx context.Context, w *watch) {
	nodes := slices.Sorted(maps.Keys(r.nodes))
	var names []string
	for _, n := range must.Get(r.env.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})).Items {
		names = append(names, n.Name)
	}
	must.Be(slices.Equal(names, nodes), "nodes are %v instead of %v", names, nodes)

	want, is := map[string]string{}, map[string]string{}
	for _, s := range w.services(ctx) {
		endpoints, wanted := r.services[s.Name]
		must.Be(wanted, "the Service %s is not deleted yet", s.Name)
		must.Be(len(s.Status.LoadBalancer.Ingress) == 1, "the Service %s has no address", s.Name)
		setting := func(name string) string { return s.Annotations[annotation.Prefix+name] }
		algorithm, members := cmp.Or(setting("algorithm"), "roundrobin"), nodes
		if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
			algorithm = "source"
		}
		if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			members = endpoints
		}
		var clients []string
		for cidr := range strings.SplitSeq(cmp.Or(setting("source-cidrs"), "0.0.0.0/0"), ",") {
			clients = append(clients, admitted(netip.MustParsePrefix(cidr).Contains)...)
		}
		for _, p := range s.Spec.Ports {
			want[fmt.Sprintf("%s:%d", s.Status.LoadBalancer.Ingress[0].IP, p.Port)] = fmt.Sprintf("%s to %d of %v, PROXY header %v, for %v",
				algorithm, p.NodePort, members, setting("proxy-protocol") == "true", clients)
		}
	}
	listeners, refused := datapath.Desired(r.env.Cloud.Router())
	must.Be(len(refused) == 0, "HAProxy would refuse its configuration: %+v", refused)
	for i := range listeners {
		l := &listeners[i]
		if slices.Contains(w.before, l.Public.Addr().String()) {
			continue
		}
		var members []string
		for _, m := range l.Members {
			members = append(members, m.VM)
		}
		slices.Sort(members)
		is[l.Public.String()] = fmt.Sprintf("%s to %d of %v, PROXY header %v, for %v", l.Algorithm, l.Members[0].Address.Port(), members, l.ProxyHeader, admitted(l.Admits))
	}
	must.OK(differences(want, is))
}

// admitted are those that come in of one client of each range that a Service may use, in the order of acts, and one that is in none.
func admitted(by func(netip.Addr) bool) []string {
	return slices.DeleteFunc([]string{"10.1.2.3", "192.0.2.9", "198.51.100.9", "203.0.113.7", "203.0.113.8"}, func(ip string) bool { return !by(netip.MustParseAddr(ip)) })
}

func differences(want, is map[string]string) (err error) {
	all := maps.Clone(want)
	maps.Copy(all, is)
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if want[at] != is[at] {
			err = errors.Join(err, fmt.Errorf("%s: %q instead of %q", at, is[at], want[at]))
		}
	}
	return err
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	require.NoError(t, differences(map[string]string{"a": "1"}, map[string]string{"a": "1"}))
	require.EqualError(t, differences(map[string]string{"a": "1", "b": "2"}, map[string]string{"a": "3", "c": "4"}),
		"a: \"3\" instead of \"1\"\nb: \"\" instead of \"2\"\nc: \"4\" instead of \"\"")
}

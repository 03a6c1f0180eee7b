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
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// watch looks for states that must never occur, even after failures.
type watch struct {
	env     *testenv.Env
	client  *cloudstack.Client
	foreign map[string]string // texts of foreign objects, by ID
	before  []string          // addresses that existed at the start

	looks     int
	addresses map[types.UID]string // last known address of each Service
	calls     map[string]int       // number of the controller's calls, by command
	failed    int                  // number of the controller's failed calls
	broken    map[string]int       // how often each violation was seen
}

func (r *run) watch() *watch {
	w := &watch{
		env: r.env, client: must.Get(r.env.Cloud.Client("inspector")),
		addresses: map[types.UID]string{}, calls: map[string]int{}, broken: map[string]int{},
	}
	c := w.read(r.Context())
	for _, ip := range c.ips {
		w.before = append(w.before, ip.Address)
	}
	w.foreign = w.texts(r.Context(), c, func(string) bool { return true })
	return w
}

// cloud is the state of CloudStack.
type cloud struct {
	ips      []cloudstack.PublicIP
	rules    []cloudstack.LoadBalancerRule
	firewall []cloudstack.FirewallRule
}

// read lists all addresses and rules of the account.
func (w *watch) read(ctx context.Context) cloud {
	return cloud{
		ips:      must.Get(w.client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{})),
		rules:    must.Get(w.client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{})),
		firewall: must.Get(w.client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{})),
	}
}

// texts returns texts that describe objects, by ID. When an object changes, so does its text.
func (w *watch) texts(ctx context.Context, c cloud, of func(id string) bool) map[string]string {
	out := map[string]string{}
	for _, ip := range c.ips {
		out[ip.ID] = fmt.Sprintf("address %+v", ip)
	}

	for _, f := range c.firewall {
		out[f.ID] = fmt.Sprintf("firewall rule %+v", f)
	}

	for _, r := range c.rules {
		if of(r.ID) {
			var names []string
			for _, m := range must.Get(w.client.ListLoadBalancerMembers(ctx, r.ID)) {
				names = append(names, m.Name)
			}
			slices.Sort(names)
			out[r.ID] = fmt.Sprintf("rule %+v to %v", r, names)
		}
	}

	maps.DeleteFunc(out, func(id, _ string) bool { return !of(id) })
	return out
}

func (w *watch) services(ctx context.Context) []corev1.Service {
	list := must.Get(w.env.Client.CoreV1().Services(testenv.Namespace).List(ctx, metav1.ListOptions{}))
	return slices.DeleteFunc(list.Items,
		func(s corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeLoadBalancer })
}

// look looks once. It sees nothing while CloudStack is unavailable.
func (w *watch) look(ctx context.Context) {
	w.count()
	_ = must.Catch(func() {
		// The Services are read before CloudStack: what their status says must already be true in CloudStack. A second
		// list shows which were deleted meanwhile: those have released their address, not lost it.
		services := w.services(ctx)
		c := w.read(ctx)
		is := w.texts(ctx, c, func(id string) bool { return w.foreign[id] != "" })
		later := w.services(ctx)
		w.looks++
		for id, was := range w.foreign {
			if is[id] != was {
				w.breaks("foreign: %s became %q", was, is[id])
			}
		}
		w.compare(services, later, c)
	})
}

func (w *watch) breaks(format string, a ...any) { w.broken[fmt.Sprintf(format, a...)]++ }

// compare looks for two rules of a name on an address, since a name identifies the Service and the port; for Services
// that have lost their address or have another; and for more addresses than Services.
func (w *watch) compare(services, later []corev1.Service, c cloud) {
	names := map[string]bool{}
	for _, r := range c.rules {
		name := r.PublicIP + " " + r.Name
		if names[name] {
			w.breaks("two rules are named %s", name)
		}
		names[name] = true
	}

	// addresses that are in the status of no Service: those that are being acquired, and leaked ones
	unshown := map[string]string{}
	for _, ip := range c.ips {
		if !slices.Contains(w.before, ip.Address) {
			unshown[ip.Address] = ip.Tags[plan.TagService]
		}
	}

	ours, living, kept := len(unshown), map[types.UID]bool{}, map[types.UID]bool{}
	for _, it := range later {
		living[it.UID], kept[it.UID] = true, it.DeletionTimestamp == nil
	}

	for _, s := range services {
		living[s.UID] = true
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			continue
		}
		ip := s.Status.LoadBalancer.Ingress[0].IP
		_, there := unshown[ip]
		delete(unshown, ip)
		if !kept[s.UID] {
			continue
		}
		if was, ok := w.addresses[s.UID]; ok && was != ip {
			w.breaks("Service %s had %s and has %s", s.Name, was, ip)
		}
		if w.addresses[s.UID] = ip; !there {
			w.breaks("Service %s has lost its address %s", s.Name, ip)
		}
	}

	if ours > len(living) {
		w.breaks("%d addresses for %d Services; in the status of none: %v", ours, len(living), unshown)
	}
}

// count counts the user's calls in the simulator's ledger and records those that would change foreign objects.
func (w *watch) count() {
	ledger := w.env.Cloud.Ledger()
	calls := ledger.Find("", testenv.User)
	ledger.Reset()
	for _, c := range calls {
		w.calls[c.Command]++
		if c.Status != 200 || c.JobStatus == 2 {
			w.failed++
		}

		if strings.HasPrefix(c.Command, "list") || strings.HasPrefix(c.Command, "query") {
			continue
		}

		for _, value := range c.Params {
			for id := range strings.SplitSeq(value, ",") {
				if w.foreign[id] != "" {
					w.breaks("foreign: %s was sent for %s", c.Command, w.foreign[id])
				}
			}
		}
	}
}

// finish waits until CloudStack's state matches the Services, deletes the Services, and waits until its state is the
// initial one.
func (r *run) finish(w *watch) {
	testenv.Await(r.Context(), settle, "CloudStack's rules to match the Services",
		func(ctx context.Context) { r.converged(ctx, w) })
	w.look(r.Context())
	must.OK(r.env.Clear(r.Context()))
	r.services = map[string][]string{}
	testenv.Await(r.Context(), settle, "CloudStack to return to its initial state", func(ctx context.Context) {
		r.converged(ctx, w)
		must.OK(differences(w.foreign, w.texts(ctx, w.read(ctx), func(string) bool { return true })))
		for _, state := range []string{"Allocating", "Releasing"} {
			list := must.Get(r.env.Cloud.Admin(ctx, "listPublicIpAddresses",
				map[string]string{"allocatedonly": "false", "state": state, "listall": "true"}))
			must.Be(list["count"] == nil, "%v addresses are still in state %s", list["count"], state)
		}
	})
}

// converged compares the Nodes with those that must remain, and the rules on the virtual routers with the Services.
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
			at := fmt.Sprintf("%s:%d", s.Status.LoadBalancer.Ingress[0].IP, p.Port)
			want[at] = served(algorithm, p.NodePort, members, setting("proxy-protocol") == "true", clients)
		}
	}
	listeners, refused := datapath.Desired(r.env.Cloud.Router())
	must.Be(len(refused) == 0, "HAProxy would refuse its configuration: %+v", refused)
	for _, l := range listeners {
		if slices.Contains(w.before, l.Public.Addr().String()) {
			continue
		}
		var members []string
		for _, m := range l.Members {
			members = append(members, m.VM)
		}
		slices.Sort(members)
		is[l.Public.String()] = served(l.Algorithm, int32(l.Members[0].Address.Port()), members, l.ProxyHeader,
			admitted(l.Admits))
	}
	must.OK(differences(want, is))
}

func served(algorithm string, port int32, members []string, proxy bool, clients []string) string {
	return fmt.Sprintf("%s to %d of %v, PROXY header %t, for %v", algorithm, port, members, proxy, clients)
}

// admitted returns the client addresses that by admits. The candidates are one address in each range that a Service may
// use, in the order of acts, and one outside all ranges.
func admitted(by func(netip.Addr) bool) []string {
	all := strings.Fields("10.1.2.3 192.0.2.9 198.51.100.9 203.0.113.7 203.0.113.8")
	return slices.DeleteFunc(all, func(ip string) bool { return !by(netip.MustParseAddr(ip)) })
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

// TestBrokenPromisesAreSeen breaks a promise in each case, between two looks.
func TestBrokenPromisesAreSeen(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct{ shows, has, rules string }{
		"":             {"192.0.2.1", "192.0.2.1", "a"},
		"and has":      {"192.0.2.2", "192.0.2.2", ""},
		"has lost its": {"192.0.2.1", "192.0.2.9", ""},
		"2 addresses for 1 Services; in the status of none: map[192.0.2.7:]": {"192.0.2.1", "192.0.2.1 192.0.2.7", ""},
		"two rules are named 192.0.2.1 a":                                    {"192.0.2.1", "192.0.2.1", "a a"},
	} {
		w := &watch{addresses: map[types.UID]string{"1": "192.0.2.1"}, broken: map[string]int{}}
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: c.shows}}
		var is cloud
		for _, ip := range strings.Fields(c.has) {
			is.ips = append(is.ips, cloudstack.PublicIP{Address: ip})
		}

		for _, name := range strings.Fields(c.rules) {
			is.rules = append(is.rules, cloudstack.LoadBalancerRule{Name: name, PublicIP: c.has})
		}

		w.compare([]corev1.Service{s}, []corev1.Service{s}, is)
		require.Equal(t, want == "", len(w.broken) == 0, want)
		for text := range w.broken {
			require.Contains(t, text, want)
		}
	}
}

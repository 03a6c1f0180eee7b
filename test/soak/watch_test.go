// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// watch looks for states that must never be, whatever fails.
type watch struct {
	env     *testenv.Env
	user    string // the controller's
	client  *cloudstack.Client
	foreign map[string]string // texts of foreign objects, by ID
	before  []string          // addresses that existed at the start

	looks     int
	addresses map[types.UID]string // the last address of each Service
	calls     map[string]int       // the controller's calls, by command
	failed    int                  // the controller's calls that failed
	broken    map[string]int       // how often each violation was seen
}

func newWatch(env *testenv.Env, user string) *watch {
	return &watch{env: env, user: user, addresses: map[types.UID]string{}, calls: map[string]int{}, broken: map[string]int{}}
}

func (r *run) watch() *watch {
	w := newWatch(r.env, testenv.User)
	require.NoError(r, must.Catch(func() {
		w.client = must.Get(r.env.Cloud.Client("inspector"))
		c := w.read(r.Context())
		for _, ip := range c.ips {
			w.before = append(w.before, ip.Address)
		}
		w.foreign = w.texts(r.Context(), c, func(string) bool { return true })
	}))
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

// texts are texts of objects by ID; a text changes when its object does.
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
	return slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeLoadBalancer })
}

// look looks once. It sees nothing while CloudStack is unavailable.
func (w *watch) look(ctx context.Context) {
	w.count()
	_ = must.Catch(func() {
		// The Services are read before CloudStack: what their status says must already be true in CloudStack. A second list shows which
		// were deleted meanwhile: those have released their address, not lost it.
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

// compare looks for two rules of a name on an address, since a name identifies the Service and the port; for Services that have lost
// their address or have another; and for more addresses than Services.
func (w *watch) compare(services, later []corev1.Service, c cloud) {
	names := map[string]bool{}
	for _, r := range c.rules {
		name := r.PublicIP + " " + r.Name
		if names[name] {
			w.breaks("two rules are named %s", name)
		}
		names[name] = true
	}
	unshown := map[string]string{} // addresses that are in the status of no Service: those that are being acquired, and leaked ones
	for _, ip := range c.ips {
		if !slices.Contains(w.before, ip.Address) {
			unshown[ip.Address] = ip.Tags[plan.TagService]
		}
	}
	ours, living, kept := len(unshown), map[types.UID]bool{}, map[types.UID]bool{}
	for i := range later {
		living[later[i].UID], kept[later[i].UID] = true, later[i].DeletionTimestamp == nil
	}
	for i := range services {
		s := &services[i]
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
	calls := ledger.Find("", w.user)
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

// err returns an error that lists the broken promises.
func (w *watch) err() (err error) {
	for _, text := range slices.Sorted(maps.Keys(w.broken)) {
		err = errors.Join(err, fmt.Errorf("%s (seen %d times)", text, w.broken[text]))
	}
	return err
}

// TestBrokenPromisesAreSeen compares Services with addresses and rules of several looks, the last of which breaks a promise.
func TestBrokenPromisesAreSeen(t *testing.T) {
	t.Parallel()
	at := func(ips ...string) (c cloud) {
		for _, ip := range ips {
			c.ips = append(c.ips, cloudstack.PublicIP{Address: ip})
		}
		return c
	}
	served := func(ip string) []corev1.Service {
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		return []corev1.Service{s}
	}
	named := at("192.0.2.1")
	named.rules = slices.Repeat([]cloudstack.LoadBalancerRule{{Name: "a-tcp-80", PublicIP: "192.0.2.1"}}, 2)
	for _, c := range []struct {
		name            string
		services, later []corev1.Service
		cloud           cloud
		want            string
	}{
		{"well", served("192.0.2.1"), served("192.0.2.1"), at("192.0.2.1"), ""},
		{"another address", served("192.0.2.2"), served("192.0.2.2"), at("192.0.2.2"), "Service web had 192.0.2.1 and has 192.0.2.2"},
		{"lost", served("192.0.2.1"), served("192.0.2.1"), at("192.0.2.9"), "Service web has lost its address 192.0.2.1"},
		{"deleted meanwhile", served("192.0.2.1"), nil, at("192.0.2.9"), ""},
		{"two rules", served("192.0.2.1"), served("192.0.2.1"), named, "two rules are named 192.0.2.1 a-tcp-80"},
		{"leaked", served("192.0.2.1"), served("192.0.2.1"), at("192.0.2.1", "192.0.2.7"), "2 addresses for 1 Services; in the status of none: map[192.0.2.7:]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWatch(nil, "")
			w.compare(served("192.0.2.1"), served("192.0.2.1"), at("192.0.2.1"))
			w.compare(c.services, c.later, c.cloud)
			if err := w.err(); c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// TestForeignCallsAreSeen deletes a foreign rule as the controller's user.
func TestForeignCallsAreSeen(t *testing.T) {
	t.Parallel()
	c, err := testenv.StartCloudStack(simulator.ExampleWorld())
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	client, err := c.Client("k8s-owner")
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	rules, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	require.NotEmpty(t, rules)
	w := newWatch(&testenv.Env{Cloud: c}, "k8s-owner")
	w.foreign = map[string]string{rules[0].ID: "a rule"}
	w.count()
	require.NoError(t, w.err(), "reading is allowed")
	require.NotZero(t, w.calls["listLoadBalancerRules"])
	_, err = client.DeleteLoadBalancerRule(t.Context(), rules[0].ID)
	require.NoError(t, err)
	w.count()
	require.ErrorContains(t, w.err(), "foreign: deleteLoadBalancerRule was sent for a rule")
}

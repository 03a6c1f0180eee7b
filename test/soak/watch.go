// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// watch checks invariants: states that must never occur, whatever fails.
type watch struct {
	env     *testenv.Env
	caller  string // the controller's CloudStack user
	client  *cloudstack.Client
	foreign map[string]string // descriptions of foreign objects, by ID
	before  []string          // addresses that existed at the start

	mu        sync.Mutex
	checks    int
	addresses map[types.UID]string // the last address of each Service
	calls     map[string]int       // the controller's calls, by command
	failed    int                  // the controller's calls that failed
	broken    map[string]int       // violations of invariants: description to count
}

// cloud is the state of CloudStack.
type cloud struct {
	ips      []cloudstack.PublicIP
	rules    []cloudstack.LoadBalancerRule
	firewall []cloudstack.FirewallRule
}

func newWatch(ctx context.Context, env *testenv.Env) (_ *watch, err error) {
	defer must.Return(&err)
	w := &watch{env: env, caller: controller, foreign: map[string]string{}, addresses: map[types.UID]string{}, calls: map[string]int{}, broken: map[string]int{}}

	w.client = must.Get(env.Cloud.Client("inspector"))
	c := must.Get(w.read(ctx))
	for _, ip := range c.ips {
		w.before = append(w.before, ip.Address)
	}
	w.foreign, err = w.describe(ctx, c, func(string) bool { return true })
	return w, err
}

// read lists all addresses and rules of the account.
func (w *watch) read(ctx context.Context) (c cloud, err error) {
	defer must.Return(&err)
	c.ips = must.Get(w.client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{}))
	c.rules = must.Get(w.client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{}))
	c.firewall, err = w.client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{})
	return c, err
}

// describe returns descriptions of objects by ID; a description changes when its object changes.
func (w *watch) describe(ctx context.Context, c cloud, of func(id string) bool) (_ map[string]string, err error) {
	defer must.Return(&err)
	out := map[string]string{}
	for i := range c.ips {
		if ip := &c.ips[i]; of(ip.ID) {
			out[ip.ID] = fmt.Sprintf("address %s of network %s, tags %v", ip.Address, ip.AssociatedNetworkID, ip.Tags)
		}
	}
	for i := range c.rules {
		r := &c.rules[i]
		if !of(r.ID) {
			continue
		}
		members := must.Get(w.client.ListLoadBalancerMembers(ctx, r.ID))
		var names []string
		for _, m := range members {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		out[r.ID] = fmt.Sprintf("rule %s %s:%d to %d, %s, %s, %s, %v", r.Name, r.PublicIP, r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm, r.State, names)
	}
	for i := range c.firewall {
		if f := &c.firewall[i]; of(f.ID) {
			out[f.ID] = fmt.Sprintf("firewall rule %+v", *f)
		}
	}
	return out, nil
}

// run checks periodically until the context ends.
func (w *watch) run(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.check(ctx)
		}
	}
}

// check checks all invariants once. It does nothing while CloudStack is unavailable.
func (w *watch) check(ctx context.Context) {
	w.count()
	// The Services are read before CloudStack: what their status says must already be true in CloudStack.
	list, err := w.env.Client.CoreV1().Services(testenv.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	c, err := w.read(ctx)
	if err != nil {
		return
	}
	is, err := w.describe(ctx, c, func(id string) bool { return w.foreign[id] != "" })
	if err != nil {
		return
	}
	// A second list shows which Services were deleted meanwhile: those have released their address, not lost it.
	after, err := w.env.Client.CoreV1().Services(testenv.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checks++
	for id, was := range w.foreign {
		if is[id] != was {
			w.broken[fmt.Sprintf("foreign: %s became %q", was, is[id])]++
		}
	}
	w.duplicates(c)
	w.lost(list.Items, after.Items, c)
	if most := len(w.before) + len(w.living(list.Items, after.Items)); len(c.ips) > most {
		w.broken[fmt.Sprintf("%d addresses, but at most %d foreign ones and Services; in the status of no Service: %s", len(c.ips), most, w.unshown(c, list.Items))]++
	}
}

// unshown returns the addresses that are in the status of no Service: those that are being acquired, and leaked ones.
func (w *watch) unshown(c cloud, services []corev1.Service) string {
	var out []string
	for i := range c.ips {
		ip := &c.ips[i]
		shown := slices.ContainsFunc(services, func(s corev1.Service) bool {
			return slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == ip.Address })
		})
		if !shown && !slices.Contains(w.before, ip.Address) {
			out = append(out, fmt.Sprintf("%s of %q", ip.Address, ip.Tags[plan.TagService]))
		}
	}
	return strings.Join(out, ", ")
}

// living returns the UIDs of the Services of type LoadBalancer in any of the lists.
func (w *watch) living(lists ...[]corev1.Service) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, l := range lists {
		for i := range l {
			if l[i].Spec.Type == corev1.ServiceTypeLoadBalancer {
				out[l[i].UID] = true
			}
		}
	}
	return out
}

// duplicates records rules with the same name on the same address: a name identifies the Service and the port.
func (w *watch) duplicates(c cloud) {
	names := map[string]int{}
	for i := range c.rules {
		names[c.rules[i].PublicIP+" "+c.rules[i].Name]++
	}
	for name, n := range names {
		if n > 1 {
			w.broken[fmt.Sprintf("%d rules are named %s", n, name)]++
		}
	}
}

// lost records Services whose address has changed or is no longer allocated.
func (w *watch) lost(before, after []corev1.Service, c cloud) {
	later := map[types.UID]*corev1.Service{}
	for i := range after {
		later[after[i].UID] = &after[i]
	}
	for i := range before {
		s := &before[i]
		if len(s.Status.LoadBalancer.Ingress) == 0 || s.DeletionTimestamp != nil || later[s.UID] == nil || later[s.UID].DeletionTimestamp != nil {
			continue
		}
		ip := s.Status.LoadBalancer.Ingress[0].IP
		if was, ok := w.addresses[s.UID]; ok && was != ip {
			w.broken[fmt.Sprintf("Service %s had %s and has %s", s.Name, was, ip)]++
		}
		w.addresses[s.UID] = ip
		if !slices.ContainsFunc(c.ips, func(a cloudstack.PublicIP) bool { return a.Address == ip }) {
			w.broken[fmt.Sprintf("Service %s has lost its address %s", s.Name, ip)]++
		}
	}
}

// count counts the controller's calls in the simulator's ledger and records those that would change foreign objects.
func (w *watch) count() {
	ledger := w.env.Cloud.Ledger()
	calls := ledger.Find("", w.caller)
	ledger.Reset()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range calls {
		c := &calls[i]
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
					w.broken[fmt.Sprintf("foreign: %s was sent for %s", c.Command, w.foreign[id])]++
				}
			}
		}
	}
}

// err returns an error that lists the broken invariants.
func (w *watch) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(w.broken)) {
		errs = append(errs, fmt.Errorf("%s (seen %d times)", text, w.broken[text]))
	}
	return errors.Join(errs...)
}

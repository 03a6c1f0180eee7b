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
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/test/bare"
)

// watch looks all the time for what must never happen.
type watch struct {
	bed     *bare.Bed
	caller  string // whose calls are the controller's
	client  *cloudstack.Client
	foreign map[string]string // what others have, by id
	before  []string          // addresses that were there before

	mu        sync.Mutex
	looks     int
	addresses map[types.UID]string // of each Service, for its life
	calls     map[string]int       // of the controller, by command
	struck    int
	broken    map[string]int // promises, by text
}

// cloud is what CloudStack holds.
type cloud struct {
	ips      []cloudstack.PublicIP
	rules    []cloudstack.LoadBalancerRule
	firewall []cloudstack.FirewallRule
}

func newWatch(ctx context.Context, bed *bare.Bed) (*watch, error) {
	w := &watch{bed: bed, caller: controller, foreign: map[string]string{}, addresses: map[types.UID]string{}, calls: map[string]int{}, broken: map[string]int{}}
	var err error
	if w.client, err = bed.Cloud.Client("inspector"); err != nil {
		return nil, err
	}
	c, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	for _, ip := range c.ips {
		w.before = append(w.before, ip.Address)
	}
	w.foreign, err = w.describe(ctx, c, func(string) bool { return true })
	return w, err
}

// read lists everything that the account has.
func (w *watch) read(ctx context.Context) (c cloud, err error) {
	if c.ips, err = w.client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{}); err != nil {
		return c, err
	}
	if c.rules, err = w.client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{}); err != nil {
		return c, err
	}
	c.firewall, err = w.client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{})
	return c, err
}

// describe puts objects into words that change when they do.
func (w *watch) describe(ctx context.Context, c cloud, of func(id string) bool) (map[string]string, error) {
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
		members, err := w.client.ListLoadBalancerMembers(ctx, r.ID)
		if err != nil {
			return nil, err
		}
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

// run looks until the context ends.
func (w *watch) run(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(ctx)
		}
	}
}

// look checks once. CloudStack may be away: then there is nothing to see.
func (w *watch) look(ctx context.Context) {
	w.count()
	// What a Service says now must be true in CloudStack afterwards.
	list, err := w.bed.Kube.CoreV1().Services(bare.Namespace).List(ctx, metav1.ListOptions{})
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
	// An address that a Service gave back meanwhile is none that it lost.
	after, err := w.bed.Kube.CoreV1().Services(bare.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	for id, was := range w.foreign {
		if is[id] != was {
			w.broken[fmt.Sprintf("foreign: %s became %q", was, is[id])]++
		}
	}
	w.duplicates(c)
	w.lost(list.Items, after.Items, c)
	if most := len(w.before) + len(w.living(list.Items, after.Items)); len(c.ips) > most {
		w.broken[fmt.Sprintf("%d addresses for at most %d Services and strangers; no Service shows %s", len(c.ips), most, w.unshown(c, list.Items))]++
	}
}

// unshown are addresses that no Service shows: those that are being acquired, and what is left of others.
func (w *watch) unshown(c cloud, services []corev1.Service) string {
	var out []string
	for i := range c.ips {
		ip := &c.ips[i]
		shown := slices.ContainsFunc(services, func(s corev1.Service) bool {
			return slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == ip.Address })
		})
		if !shown && !slices.Contains(w.before, ip.Address) {
			out = append(out, fmt.Sprintf("%s of %q", ip.Address, ip.Tags[loadbalancer.TagService]))
		}
	}
	return strings.Join(out, ", ")
}

// living are the Services of either list.
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

// duplicates: the name of a rule says which port of which Service it is.
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

// lost: a Service keeps the address that it was given, and the address stays allocated.
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

// count takes the ledger's calls of the controller and looks whether one was sent to what others have.
func (w *watch) count() {
	ledger := w.bed.Cloud.Ledger()
	calls := ledger.Find("", w.caller)
	ledger.Reset()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range calls {
		c := &calls[i]
		w.calls[c.Command]++
		if c.Status != 200 || c.JobStatus == 2 {
			w.struck++
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

// err names the promises that were broken.
func (w *watch) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(w.broken)) {
		errs = append(errs, fmt.Errorf("%s (seen %d times)", text, w.broken[text]))
	}
	return errors.Join(errs...)
}

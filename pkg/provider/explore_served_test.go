// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// wish is what a Service requests. It is deliberately derived from the spec without the product's own code.
type wish struct {
	*explorer
	when     string
	svc      *corev1.Service
	ranges   []netip.Prefix
	rules    map[int]string // expected load balancer rule, by port
	forwards map[string]int // node port, by forwarded port
	members  []string       // the VMs that serve
	internal bool
	deny     bool // no source is allowed
}

func (e *explorer) wishOf(when string, s *corev1.Service) *wish {
	w := &wish{
		explorer: e, when: when, svc: s, ranges: rangesAsked(s), rules: map[int]string{}, forwards: map[string]int{},
		internal: yes(s, "internal"),
	}

	w.deny = len(w.ranges) == 0
	algorithm := annotated(s, "algorithm")
	switch {
	case algorithm != "":
	case s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP:
		algorithm = "source"
	default:
		algorithm = "roundrobin"
	}

	mode, proxy := cmp.Or(annotated(s, "mode"), e.setup.config["lb-mode"], "auto"), annotated(s, "proxy-protocol")
	for _, p := range s.Spec.Ports {
		udp := slices.ContainsFunc(s.Spec.Ports, func(o corev1.ServicePort) bool {
			return o.Protocol == corev1.ProtocolUDP && (o.Port == p.Port || e.onePurpose)
		})
		if mode == "direct" || mode == "auto" && !w.internal && udp {
			w.forwards[portKey(string(p.Protocol), int(p.Port))] = int(p.NodePort)
			continue
		}
		protocol := "tcp"
		if all, _ := annotation.Bool(proxy); all || proxy == fmt.Sprint(p.Port) {
			protocol = "tcp-proxy"
		}
		w.rules[int(p.Port)] = fmt.Sprintf("to %d %s %s", p.NodePort, protocol, algorithm)
	}

	if !w.deny || !e.vpc && !w.internal {
		w.members = e.membersOf(s)
	}

	return w
}

// membersOf returns the names of the VMs that serve a Service.
func (e *explorer) membersOf(s *corev1.Service) (out []string) {
	network, owner := "k8s-net", "k8s"
	switch {
	case annotated(s, "project") == "dev":
		network, owner = "project-net", "dev"
	case annotated(s, "network") != "":
		network = annotated(s, "network")
	case e.vpc:
		network = "tier"
	}

	networkID := e.networkID(network)
	selector, err := labels.Parse(annotated(s, "node-selector"))
	if err != nil {
		selector = labels.Nothing()
	}

	nodes, err := e.kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil
	}

	with, local := e.nodesWithEndpoints(s), s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	for i := range nodes.Items {
		n := &nodes.Items[i]
		excluded := n.Labels[corev1.LabelNodeExcludeBalancers] == "true" || tainted(n, "ToBeDeletedByClusterAutoscaler")
		if excluded || !selector.Matches(labels.Set(n.Labels)) || local && !with[n.Name] {
			continue
		}
		for _, vm := range e.Objects().VMs {
			reached := slices.ContainsFunc(vm.NICs, func(c simulator.NICInfo) bool { return c.Network == networkID })
			if !slices.Contains([]string{"Destroyed", "Expunging"}, vm.State) &&
				isVMOf(n, &vm) &&
				reached &&
				vm.Owner == owner {
				out = append(out, vm.Name)
			}
		}
	}

	slices.Sort(out)
	return out
}

// nodesWithEndpoints returns the nodes with ready endpoints or, if there are none, those with terminating ones.
func (e *explorer) nodesWithEndpoints(s *corev1.Service) map[string]bool {
	ready, ending := map[string]bool{}, map[string]bool{}
	list, err := e.kube.DiscoveryV1().EndpointSlices(s.Namespace).Get(context.Background(), s.Name+"-1",
		metav1.GetOptions{})
	if err != nil {
		return nil
	}

	for _, x := range list.Endpoints {
		switch {
		case ptr.Deref(x.Conditions.Ready, true):
			ready[ptr.Deref(x.NodeName, "")] = true
		case ptr.Deref(x.Conditions.Terminating, false):
			ending[ptr.Deref(x.NodeName, "")] = true
		}
	}

	if len(ready) > 0 {
		return ready
	}

	return ending
}

// isServedAsAsked checks that CloudStack has for a reconciled Service what the Service requests.
func (e *explorer) isServedAsAsked(when string, s *corev1.Service, now reading) {
	w := e.wishOf(when, s)
	ip := addressOf(s)
	if ip == "" {
		w.wrong("status", "it is ready and shows no address")
		return
	}

	if named := namedAddress(s); named != "" && named != ip {
		w.wrong("address", "it names %s and shows %s", named, ip)
	}

	if !servicehelpers.HasLBFinalizer(s) {
		w.wrong("finalizer", "it has none")
	}

	w.status()
	var rules map[int]string
	if w.internal {
		rules = w.internalRules(ip, now)
	} else {
		a := now.at(ip)
		if a == nil {
			w.wrong("address", "it shows %s, which is not there", ip)
			return
		}
		rules = w.publicRules(a)
		w.forwarded(a)
		w.opened(a)
	}

	for port, text := range w.rules {
		if want := fmt.Sprintf("%s %v", text, w.members); rules[port] != want {
			w.wrong("rule", "port %d: %q in place of %q", port, rules[port], want)
		}
		delete(rules, port)
	}

	if len(rules) > 0 {
		w.wrong("rule", "other ports have rules: %v", rules)
	}

	w.nowhereElse(ip, now)
	w.acl(now)
}

func (w *wish) wrong(of, format string, v ...any) {
	w.breach(servedAsAsked, of, "%s Service %s: %s", w.when, keyOf(w.svc), fmt.Sprintf(format, v...))
}

// owns reports whether a rule is the Service's, by the rule's name.
func (w *wish) owns(name string) bool {
	name, _, _ = strings.Cut(name, "-")
	return name == lbName(w.svc.UID)
}

// status checks what the Service shows.
func (w *wish) status() {
	ingress := w.svc.Status.LoadBalancer.Ingress
	if len(ingress) != 1 || len(ingress[0].Ports) != len(w.svc.Spec.Ports) ||
		ingress[0].Hostname != annotated(w.svc, "hostname") {
		w.wrong("status", "it is %v", w.svc.Status.LoadBalancer)
		return
	}
	proxy := annotated(w.svc, "proxy-protocol")
	all, isBool := annotation.Bool(proxy)
	shown := ptr.Deref(ingress[0].IPMode, "")
	if shown != "" && (shown == corev1.LoadBalancerIPModeProxy) != (all || !isBool && proxy != "") {
		w.wrong("status", "it shows mode %s", shown)
	}
}

func (w *wish) internalRules(ip string, now reading) map[int]string {
	rules, members := map[int]string{}, w.routed()
	for _, l := range now.internal {
		if w.owns(l.Name) && l.Address == ip {
			rules[l.Port] = fmt.Sprintf("to %d tcp %s %v", l.InstancePort, l.Algorithm, members[l.ID])
		}
	}
	return rules
}

func (w *wish) publicRules(a *addressSnapshot) map[int]string {
	rules := map[int]string{}
	for i := range a.rules {
		r := &a.rules[i]
		if !w.owns(r.Name) {
			continue
		}
		rules[r.PublicPort] = fmt.Sprintf("to %d %s %s %v", r.PrivatePort, cmp.Or(r.Protocol, "tcp"), r.Algorithm,
			a.members[r.ID])
		if !w.deny && !annotation.SameRanges(r.CIDRs, annotation.Strings(w.ranges)) {
			w.wrong("ranges of a rule", "port %d lets in %v in place of %v", r.PublicPort, r.CIDRs, w.ranges)
		}
		w.sticky(r)
	}
	return rules
}

// sticky checks the stickiness of a rule.
func (w *wish) sticky(r *cloudstack.LoadBalancerRule) {
	policies, err := w.inspect.ListStickinessPolicies(context.Background(), r.ID)
	if err != nil {
		return
	}
	have := ""
	for _, p := range policies {
		have += p.Method + " " + p.Params["expire"]
	}
	want := map[string]string{"source": "SourceBased ", "lb-cookie": "LbCookie "}[annotated(w.svc, "stickiness")]
	expire, _ := strings.CutPrefix(annotated(w.svc, "stickiness-options"), "expire=")
	if !strings.HasPrefix(have, want) || want == "" && have != "" || want == "SourceBased " && expire != "" &&
		have != want+expire {
		w.wrong("stickiness", "port %d has %q in place of %q", r.PublicPort, have, want+expire)
	}
}

// forwarded checks the port forwardings of an address.
func (w *wish) forwarded(a *addressSnapshot) {
	have := map[string][]cloudstack.PortForwarding{}
	for i := range a.forwards {
		f := &a.forwards[i]
		uid, key := f.Tags[plan.TagServiceUID], portKey(f.Protocol, f.StartPort)
		_, wanted := w.forwards[key]
		if !w.protects(f.ID) && (uid == string(w.svc.UID) || uid == "" && wanted) {
			have[key] = append(have[key], *f)
		}
	}

	for key, nodePort := range w.forwards {
		list := have[key]
		delete(have, key)
		if (len(list) > 0) != (len(w.members) > 0) {
			w.wrong("forwarding", "port %s is forwarded %d times, to %v", key, len(list), w.members)
			continue
		}

		var sources []netip.Prefix
		for _, f := range list {
			if f.PrivatePort != nodePort || !slices.Contains(w.members, f.VMName) {
				w.wrong("forwarding", "port %s leads to port %d of %s in place of port %d of %v", key, f.PrivatePort,
					f.VMName, nodePort, w.members)
			}
			sources = append(sources, prefixesOf(strings.Join(f.CIDRs, ","))...)
		}

		switch {
		case len(list) == 0:
		case a.VPCID == "" && len(list) != 1:
			w.wrong("forwarding", "port %s is forwarded %d times", key, len(list))
		case a.VPCID != "" && !annotation.SameRanges(annotation.Strings(sources), annotation.Strings(w.ranges)):
			w.wrong("ranges of a forwarding", "port %s lets in %v in place of %v", key, sources, w.ranges)
		}
	}

	if len(have) > 0 {
		w.wrong("forwarding", "other ports are forwarded: %v", have)
	}
}

// opened checks the firewall of an address.
func (w *wish) opened(a *addressSnapshot) {
	if a.VPCID != "" {
		return
	}

	for _, p := range w.svc.Spec.Ports {
		var sources []netip.Prefix
		for _, f := range a.firewall {
			if strings.EqualFold(f.Protocol, string(p.Protocol)) &&
				f.StartPort <= int(p.Port) &&
				int(p.Port) <= f.EndPort {
				sources = append(sources, prefixesOf(strings.Join(f.CIDRs, ","))...)
			}
		}
		if !annotation.SameRanges(annotation.Strings(sources), annotation.Strings(w.ranges)) {
			w.wrong("firewall", "port %d/%s lets in %v in place of %v", p.Port, p.Protocol,
				annotation.Aggregate(sources), w.ranges)
		}
	}
}

// nowhereElse checks that the Service has no rules on other addresses.
func (w *wish) nowhereElse(ip string, now reading) {
	for _, a := range now.addresses {
		for i := range a.rules {
			if w.owns(a.rules[i].Name) && (a.Address != ip || w.internal) && !w.raced[a.ID] {
				w.wrong("address", "it shows %s and has rule %s on %s", ip, a.rules[i].Name, a.Address)
			}
		}
	}
	for _, l := range now.internal {
		if w.owns(l.Name) && (l.Address != ip || !w.internal) {
			w.wrong("address", "it shows %s and has internal load balancer %s at %s", ip, l.Name, l.Address)
		}
	}
}

// acl checks the Service's items in the network ACL list of its tier, unless that is a default list, which cannot be
// changed.
func (w *wish) acl(now reading) {
	if !w.vpc {
		return
	}

	list := ""
	for _, n := range w.Objects().Networks {
		if n.Name == cmp.Or(annotated(w.svc, "network"), "tier") {
			list = n.ACL
		}
	}

	have := map[string][]netip.Prefix{}
	for _, x := range now.acls {
		_, uid, ours := plan.ACLOwner(x.Reason)
		if !ours || uid != string(w.svc.UID) || w.protects(x.ID) {
			continue
		}
		if x.ListName != list {
			w.wrong("ACL", "it has item %d of list %s, and the tier has %s", x.Number, x.ListName, list)
			continue
		}
		for port := x.StartPort; port <= x.EndPort; port++ {
			key := portKey(x.Protocol, port)
			have[key] = append(have[key], prefixesOf(strings.Join(x.CIDRs, ","))...)
		}
	}

	if strings.HasPrefix(list, "default_") {
		return
	}

	want := map[string]bool{}
	for port := range w.rules {
		if w.internal { // for a public one, the router itself connects to the nodes
			want[portKey("tcp", port)] = true
		}
	}

	for key, nodePort := range w.forwards {
		protocol, _, _ := strings.Cut(key, "/")
		want[portKey(protocol, nodePort)] = true
	}

	for key := range want {
		if !annotation.SameRanges(annotation.Strings(have[key]), annotation.Strings(w.ranges)) {
			w.wrong("ACL", "port %s lets in %v in place of %v", key, annotation.Aggregate(have[key]), w.ranges)
		}
		delete(have, key)
	}

	if len(have) > 0 {
		w.wrong("ACL", "other ports are let in: %v", have)
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/cloud/api"
)

// services are the scenarios of Services that are the same wherever the nodes are.
func services(at string) []scenario {
	return []scenario{
		{name: at + ": a Service comes and goes", at: at, run: comesAndGoes},
		{name: at + ": algorithm and session affinity", at: at, run: algorithms},
		{name: at + ": PROXY protocol", at: at, run: proxyProtocol},
		{name: at + ": source ranges", at: at, run: sourceRanges},
		{name: at + ": ports added and removed", at: at, run: portsChange},
		{name: at + ": stickiness", at: at, run: stickiness},
		{name: at + ": hostname", at: at, run: hostname},
		{name: at + ": external traffic policy Local", at: at, run: localPolicy},
		{name: at + ": node selector and labels", at: at, run: nodeSelector},
		{name: at + ": network, zone and project named", at: at, trusted: true, run: placeNamed},
		{name: at + ": what is refused", at: at, run: refused},
		{name: at + ": certificate", at: at, trusted: true, needs: []need{needCertificate}, run: certificate},
	}
}

// comesAndGoes makes a Service of two ports and deletes it.
func comesAndGoes(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web", ports(80, 443))
	if err != nil {
		return "", err
	}
	if err := e.serves(ctx, ip, "80", "443"); err != nil {
		return "", err
	}
	if err := e.filterIs(ctx, ip, "80", everybody); err != nil {
		return "", err
	}
	if err := e.remove(ctx, "web"); err != nil {
		return "", err
	}
	left, err := e.addresses(ctx)
	if err != nil {
		return "", err
	}
	if left[ip] != "" {
		return "", fmt.Errorf("address %s is still the account's", ip)
	}
	return "2 rules with all nodes, open to everybody; address released", nil
}

// ruleIs waits until a rule of an address is as a check wants it.
func (e *env) ruleIs(ctx context.Context, ip, port, what string, check func(rule) bool) (rule, error) {
	var found rule
	err := e.rulesAre(ctx, ip, fmt.Sprintf("the rule of port %s at %s: %s", port, ip, what), func(rules map[string]rule) error {
		r, ok := rules[port]
		if !ok {
			return errors.New("no rule")
		}
		if found = r; !check(r) {
			return fmt.Errorf("it has algorithm %s, protocol %s, sources %q, members %v", r.Algorithm, r.Protocol, r.CIDRs, r.Members)
		}
		return nil
	})
	return found, err
}

// step is a live change of a Service and what the rule of port 80 is to be then.
type step struct {
	what   string
	change change
	is     func(rule) bool
}

// inPlace makes changes to a living Service; the rule stays the same one.
func (e *env) inPlace(ctx context.Context, name, ip string, steps ...step) error {
	first, err := e.ruleIs(ctx, ip, "80", "there", func(rule) bool { return true })
	if err != nil {
		return err
	}
	for _, s := range steps {
		if err := e.edit(ctx, name, s.change); err != nil {
			return err
		}
		now, err := e.ruleIs(ctx, ip, "80", s.what, s.is)
		if err != nil {
			return err
		}
		if now.ID != first.ID {
			return fmt.Errorf("%s: the rule was made again, and connections were cut", s.what)
		}
	}
	return nil
}

func algorithms(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web", set("algorithm", "leastconn"))
	if err != nil {
		return "", err
	}
	if _, err := e.ruleIs(ctx, ip, "80", "leastconn", func(r rule) bool { return r.Algorithm == "leastconn" }); err != nil {
		return "", err
	}
	err = e.inPlace(ctx, "web", ip,
		step{"source", set("algorithm", "source"), func(r rule) bool { return r.Algorithm == "source" }},
		step{"roundrobin without the annotation", func(s *corev1.Service) { delete(s.Annotations, prefix+"algorithm") }, func(r rule) bool { return r.Algorithm == "roundrobin" }},
		step{"source by session affinity", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }, func(r rule) bool { return r.Algorithm == "source" }},
	)
	return "leastconn, source, roundrobin, ClientIP: changed in place", err
}

func proxyProtocol(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web", ports(80, 443), set("proxy-protocol", "80"))
	if err != nil {
		return "", err
	}
	isTCP, isProxy := func(r rule) bool { return r.Protocol == "tcp" }, func(r rule) bool { return r.Protocol == "tcp-proxy" }
	if _, err := e.ruleIs(ctx, ip, "80", "tcp-proxy", isProxy); err != nil {
		return "", err
	}
	if _, err := e.ruleIs(ctx, ip, "443", "tcp", isTCP); err != nil {
		return "", err
	}
	err = e.inPlace(ctx, "web", ip, step{"off", set("proxy-protocol", "false"), isTCP}, step{"on for all ports", set("proxy-protocol", "enabled"), isProxy})
	if err != nil {
		return "", err
	}
	_, err = e.ruleIs(ctx, ip, "443", "tcp-proxy", isProxy)
	return "one port of two, off, on for all: changed in place", err
}

func sourceRanges(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web", set("source-cidrs", "10.0.0.0/8,192.168.0.0/16"))
	if err != nil {
		return "", err
	}
	if err := e.filterIs(ctx, ip, "80", "10.0.0.0/8,192.168.0.0/16"); err != nil {
		return "", err
	}
	for _, s := range []struct {
		change change
		want   string
	}{
		{set("source-cidrs", "10.0.0.0/8"), "10.0.0.0/8"},
		{set("source-cidrs", "0.0.0.0/0"), everybody},
		{func(s *corev1.Service) {
			delete(s.Annotations, prefix+"source-cidrs")
			s.Spec.LoadBalancerSourceRanges = []string{"172.16.0.0/12"}
		}, "172.16.0.0/12"},
	} {
		if err := e.edit(ctx, "web", s.change); err != nil {
			return "", err
		}
		if err := e.filterIs(ctx, ip, "80", s.want); err != nil {
			return "", err
		}
	}
	if err := e.edit(ctx, "web", set("source-cidrs", "")); err != nil {
		return "", err
	}
	if err := e.deniesAll(ctx, ip); err != nil {
		return "", err
	}
	return "two ranges, narrowed, widened, by the spec's field, nobody", nil
}

// deniesAll waits until nobody reaches port 80 of an address.
func (e *env) deniesAll(ctx context.Context, ip string) error {
	return e.rulesAre(ctx, ip, "nobody to be let in at "+ip, func(rules map[string]rule) error {
		r, ok := rules["80"]
		if !ok {
			return nil
		}
		if e.vpcID != "" {
			if len(r.Members) > 0 && r.CIDRs == "" {
				return errors.New("the rule has members and no source ranges")
			}
			return nil
		}
		list, err := e.firewall(ctx, r.AddressID)
		if err == nil && sources(list, "80") != "" {
			err = fmt.Errorf("the firewall lets in %s", sources(list, "80"))
		}
		return err
	})
}

func portsChange(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web", ports(80))
	if err != nil {
		return "", err
	}
	for _, numbers := range [][]int32{{80, 443, 8443}, {443, 8443}, {443, 9000}} {
		if err := e.edit(ctx, "web", ports(numbers...)); err != nil {
			return "", err
		}
		if err := e.serves(ctx, ip, texts(numbers)...); err != nil {
			return "", err
		}
		for _, port := range texts(numbers) {
			if err := e.filterIs(ctx, ip, port, everybody); err != nil {
				return "", err
			}
		}
	}
	// Another node port cannot be given to a rule: it is made again, and an Event says so.
	node := int32(0)
	if err := e.edit(ctx, "web", func(s *corev1.Service) {
		node = s.Spec.Ports[0].NodePort
		s.Spec.Ports[0].NodePort = 0 // the API server chooses another
		s.Spec.Ports[0].Name = "renamed"
	}); err != nil {
		return "", err
	}
	s, err := e.get(ctx, "web")
	if err != nil {
		return "", err
	}
	if s.Spec.Ports[0].NodePort != node {
		if _, err := e.event(ctx, "Service", "web", "RuleReplaced"); err != nil {
			return "", err
		}
	}
	want := fmt.Sprint(s.Spec.Ports[0].NodePort)
	if err := e.rulesAre(ctx, ip, "port 443 to lead to node port "+want, func(rules map[string]rule) error {
		if rules["443"].PrivatePort != want {
			return fmt.Errorf("it leads to %s", rules["443"].PrivatePort)
		}
		return e.complete(rules, []string{"443", "9000"}, e.names())
	}); err != nil {
		return "", err
	}
	now, err := e.address(ctx, "web")
	if err == nil && now != ip {
		err = fmt.Errorf("the address changed from %s to %s", ip, now)
	}
	return "two added, one removed, one replaced, a node port changed; the address stayed", err
}

func texts(numbers []int32) []string {
	var all []string
	for _, n := range numbers {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func stickiness(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web", set("stickiness", "lb-cookie"), set("stickiness-options", "cookie-name=SRV,nocache"))
	if err != nil {
		return "", err
	}
	for _, want := range []string{"LbCookie", "SourceBased", ""} {
		switch want {
		case "SourceBased":
			err = e.edit(ctx, "web", set("stickiness", "source"), set("stickiness-options", "expire=30m,tablesize=200k"))
		case "":
			err = e.edit(ctx, "web", func(s *corev1.Service) {
				delete(s.Annotations, prefix+"stickiness")
				delete(s.Annotations, prefix+"stickiness-options")
			})
		}
		if err != nil {
			return "", err
		}
		if err := e.rulesAre(ctx, ip, fmt.Sprintf("the stickiness at %s to be %q", ip, want), func(rules map[string]rule) error {
			got, err := e.sticky(ctx, rules["80"].ID)
			if err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		}); err != nil {
			return "", err
		}
	}
	return "cookie of the router with options, source table, none", nil
}

// sticky is the method of a rule's stickiness policy, "" without one.
func (e *env) sticky(ctx context.Context, ruleID string) (string, error) {
	answer, err := e.world.User.Call(ctx, "listLBStickinessPolicies", api.Params{"lbruleid": ruleID})
	if err != nil {
		return "", err
	}
	for _, rules := range answer.Objects("stickinesspolicies") {
		for _, policy := range rules.Objects("stickinesspolicy") {
			return policy.Text("methodname"), nil
		}
	}
	return "", nil
}

func hostname(ctx context.Context, e *env) (string, error) {
	if _, err := e.create(ctx, "web", set("hostname", "lb.example.org")); err != nil {
		return "", err
	}
	err := e.until(ctx, "the status to have the host name alone", func(ctx context.Context) error {
		s, err := e.get(ctx, "web")
		if err != nil {
			return err
		}
		in := s.Status.LoadBalancer.Ingress
		if len(in) != 1 || in[0].Hostname != "lb.example.org" || in[0].IP != "" {
			return fmt.Errorf("ingress is %v", in)
		}
		return nil
	})
	return "published in place of the address", err
}

// placeNamed names the network, zone and project in which the nodes are, and others.
func placeNamed(ctx context.Context, e *env) (string, error) {
	changes := []change{set("network", e.network.Name), set("zone", e.world.Offers.Zone)}
	if e.project != "" {
		changes = append(changes, set("project", e.project))
	}
	ip, err := e.served(ctx, "web", changes...)
	if err != nil {
		return "", err
	}
	if err := e.serves(ctx, ip, "80"); err != nil {
		return "", err
	}
	if _, err := e.create(ctx, "elsewhere", set("network", "no-such-network")); err != nil {
		return "", err
	}
	text, err := e.event(ctx, "Service", "elsewhere", "NoSuchNetwork")
	if err != nil {
		return "", err
	}
	if !strings.Contains(text, "no-such-network") {
		return "", fmt.Errorf("the Event does not name the network: %s", text)
	}
	return "served; an unknown network is refused by name", nil
}

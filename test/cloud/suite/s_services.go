// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/must"
)

// comesAndGoes makes a Service of two ports and deletes it.
func comesAndGoes(e *env) string {
	ip := e.served("web", ports(80, 443))
	e.serves(ip, "80", "443")
	e.filterIs(ip, "80", everybody)
	e.remove("web")
	must.Be(e.addresses()[ip] == "", "address %s is still the account's", ip)
	return "2 rules with all nodes, open to everybody; address released"
}

// ruleIs waits until a rule of an address is as a check wants it.
func (e *env) ruleIs(ip, port, what string, check func(rule) bool) (found rule) {
	e.rulesAre(ip, fmt.Sprintf("the rule of port %s at %s: %s", port, ip, what), func(rules map[string]rule) {
		r, ok := rules[port]
		must.Be(ok, "no rule")
		must.Be(check(r), "it has algorithm %s, protocol %s, sources %q, members %v", r.Algorithm, r.Protocol, r.CIDRs, r.Members)
		found = r
	})
	return found
}

// step is a live change of a Service and what the rule of port 80 is to be then.
type step struct {
	what   string
	change change
	is     func(rule) bool
}

// inPlace makes changes to a living Service; the rule stays the same one.
func (e *env) inPlace(name, ip string, steps ...step) {
	first := e.rules(ip)["80"]
	for _, s := range steps {
		e.edit(name, s.change)
		now := e.ruleIs(ip, "80", s.what, s.is)
		must.Be(now.ID == first.ID, "%s: the rule was made again, and connections were cut", s.what)
	}
}

func hasAlgorithm(want string) func(rule) bool {
	return func(r rule) bool { return r.Algorithm == want }
}

func hasProtocol(want string) func(rule) bool { return func(r rule) bool { return r.Protocol == want } }

func algorithms(e *env) string {
	ip := e.served("web", set("algorithm", "leastconn"))
	e.ruleIs(ip, "80", "leastconn", hasAlgorithm("leastconn"))
	e.inPlace("web", ip,
		step{"source", set("algorithm", "source"), hasAlgorithm("source")},
		step{"roundrobin without the annotation", unset("algorithm"), hasAlgorithm("roundrobin")},
		step{"source by session affinity", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }, hasAlgorithm("source")},
	)
	return "leastconn, source, roundrobin, ClientIP: changed in place"
}

func proxyProtocol(e *env) string {
	ip := e.served("web", ports(80, 443), set("proxy-protocol", "80"))
	e.ruleIs(ip, "80", "tcp-proxy", hasProtocol("tcp-proxy"))
	e.ruleIs(ip, "443", "tcp", hasProtocol("tcp"))
	e.inPlace("web", ip,
		step{"off", set("proxy-protocol", "false"), hasProtocol("tcp")},
		step{"on for all ports", set("proxy-protocol", "enabled"), hasProtocol("tcp-proxy")},
	)
	e.ruleIs(ip, "443", "tcp-proxy", hasProtocol("tcp-proxy"))
	return "one port of two, off, on for all: changed in place"
}

func sourceRanges(e *env) string {
	two := "10.0.0.0/8,192.168.0.0/16"
	ip := e.served("web", set("source-cidrs", two))
	for _, s := range []struct {
		change change
		want   string
	}{
		{set("source-cidrs", two), two},
		{set("source-cidrs", "10.0.0.0/8"), "10.0.0.0/8"},
		{set("source-cidrs", "0.0.0.0/0"), everybody},
		{func(s *corev1.Service) {
			unset("source-cidrs")(s)
			s.Spec.LoadBalancerSourceRanges = []string{"172.16.0.0/12"}
		}, "172.16.0.0/12"},
	} {
		e.edit("web", s.change)
		e.filterIs(ip, "80", s.want)
	}
	e.edit("web", set("source-cidrs", ""))
	e.rulesAre(ip, "nobody to be let in at "+ip, func(rules map[string]rule) {
		r, ok := rules["80"]
		switch {
		case !ok:
		case e.vpcID != "":
			must.Be(len(r.Members) == 0 || r.CIDRs != "", "the rule has members and no source ranges")
		default:
			open := sources(e.firewall(r.AddressID), "80")
			must.Be(open == "", "the firewall lets in %s", open)
		}
	})
	return "two ranges, narrowed, widened, by the spec's field, nobody"
}

func portsChange(e *env) string {
	ip := e.served("web", ports(80))
	for _, numbers := range [][]int32{{80, 443, 8443}, {443, 8443}, {443, 9000}} {
		e.edit("web", ports(numbers...))
		e.serves(ip, texts(numbers)...)
		for _, port := range texts(numbers) {
			e.filterIs(ip, port, everybody)
		}
	}
	// Another node port cannot be given to a rule: it is made again, and an Event says so.
	node := int32(0)
	e.edit("web", func(s *corev1.Service) {
		node = s.Spec.Ports[0].NodePort
		s.Spec.Ports[0].NodePort = 0 // the API server chooses another
		s.Spec.Ports[0].Name = "renamed"
	})
	chosen := e.get("web").Spec.Ports[0].NodePort
	if chosen != node {
		e.event("web", "RuleReplaced")
	}
	e.rulesAre(ip, fmt.Sprintf("port 443 to lead to node port %d", chosen), func(rules map[string]rule) {
		must.Be(rules["443"].PrivatePort == fmt.Sprint(chosen), "it leads to %s", rules["443"].PrivatePort)
		complete(rules, []string{"443", "9000"}, e.names())
	})
	now := e.address("web")
	must.Be(now == ip, "the address changed from %s to %s", ip, now)
	return "two added, one removed, one replaced, a node port changed; the address stayed"
}

func texts(numbers []int32) []string {
	var all []string
	for _, n := range numbers {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func stickiness(e *env) string {
	cookie := []change{set("stickiness", "lb-cookie"), set("stickiness-options", "cookie-name=SRV,nocache")}
	ip := e.served("web", cookie...)
	for _, s := range []struct {
		want    string
		changes []change
	}{
		{"LbCookie", cookie},
		{"SourceBased", []change{set("stickiness", "source"), set("stickiness-options", "expire=30m,tablesize=200k")}},
		{"", []change{unset("stickiness", "stickiness-options")}},
	} {
		e.edit("web", s.changes...)
		e.rulesAre(ip, fmt.Sprintf("the stickiness at %s to be %q", ip, s.want), func(rules map[string]rule) {
			got := e.sticky(rules["80"].ID)
			must.Be(got == s.want, "it is %q", got)
		})
	}
	return "cookie of the router with options, source table, none"
}

// sticky is the method of a rule's stickiness policy, "" without one.
func (e *env) sticky(ruleID string) string {
	answer := must.Get(e.world.User.Call(e.ctx, "listLBStickinessPolicies", api.Params{"lbruleid": ruleID}))
	for _, rules := range answer.Objects("stickinesspolicies") {
		for _, policy := range rules.Objects("stickinesspolicy") {
			return policy.Text("methodname")
		}
	}
	return ""
}

func hostname(e *env) string {
	e.create("web", set("hostname", "lb.example.org"))
	e.until("the status to have the host name alone", func() {
		in := e.ingress("web")
		must.Be(len(in) == 1 && in[0].Hostname == "lb.example.org" && in[0].IP == "", "ingress is %v", in)
	})
	return "published in place of the address"
}

// placeNamed names the network, zone and project in which the nodes are, and others.
func placeNamed(e *env) string {
	changes := []change{set("network", e.network.Name), set("zone", e.world.Offers.Zone)}
	if e.project != "" {
		changes = append(changes, set("project", e.project))
	}
	e.serves(e.served("web", changes...), "80")
	e.create("elsewhere", set("network", "no-such-network"))
	text := e.event("elsewhere", "NoSuchNetwork")
	must.Be(strings.Contains(text, "no-such-network"), "the Event does not name the network: %s", text)
	return "served; an unknown network is refused by name"
}

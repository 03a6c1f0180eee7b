// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/testenv"
)

const head = `# Load balancers, from creation to deletion. Written by ` + "`make transcript`" + `: a real kube-apiserver with two Nodes, w1
# and w2, the controller as a process, and the CloudStack simulator with the measured latencies of a real server.
# kubectl and csccm are run as they stand here. The lines of curl stand for calls that the program makes itself with
# the same parameters ($CLOUDSTACK is the API with an account's signature); of the answers the fields that matter are
# shown, with the members of each rule. ID is a UUID, aUID the name that Kubernetes gives a load balancer.
`

const manifest = `apiVersion: v1
kind: Service
metadata:
  name: %s
spec:
  type: LoadBalancer%s
  ports:%s
`

func service(name, more string, ports ...int) string {
	var list strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&list, "\n  - {name: p%d, port: %d, nodePort: %d}", p, p, 30000+p)
	}
	if more != "" {
		more = "\n  " + more
	}
	return fmt.Sprintf(manifest, name, more, list.String())
}

// story runs the whole session.
func (t *transcript) story() {
	t.text.WriteString(head)
	t.say("Create. Before the controller runs, csccm says what it would do; exit code 2 means that something is to do.")
	t.apply(service("web", "", 80, 443), "apply", "-f", "-")
	t.csccm(2, "plan")
	t.do(func() error { return t.env.Start(t.ctx, 20) })
	t.served(1)
	ip := t.address("web")
	t.say("The controller has started.")
	t.get()
	t.rules(ip)
	t.firewall(ip)
	t.events("web")
	t.csccm(0, "plan")

	t.say("Switch to the PROXY protocol: the rules are changed in place, and kube-proxy is told by the mode.")
	t.kubectl("annotate", "service", "web", annotation.ProxyProtocol+"=true")
	t.settle()
	t.get()
	t.rules(ip)

	t.say("Tighten the source ranges: one list governs the rules and the firewall.")
	t.kubectl("patch", "service", "web", "-p", `{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24","198.51.100.0/24"]}}`)
	t.settle()
	t.get()
	t.rules(ip)
	t.firewall(ip)

	t.say("Share the address: a second Service asks for it, with a port of its own.")
	t.apply(service("mail", "loadBalancerIP: "+ip, 25), "apply", "-f", "-")
	t.served(2)
	t.settle()
	t.get()
	t.rules(ip)
	t.firewall(ip)

	t.say("A port that is taken there is refused, with reason and remedy; what stands is left as it is.")
	t.kubectl("patch", "service", "mail", "-p", `{"spec":{"ports":[{"name":"p80","port":80,"nodePort":30081}]}}`)
	t.settle()
	t.kubectl("get", "service", "mail", "-o",
		`custom-columns=NAME:.metadata.name,REASON:.status.conditions[?(@.type=="csccm.io/LoadBalancerReady")].reason,MESSAGE:.status.conditions[?(@.type=="csccm.io/LoadBalancerReady")].message`)
	t.rules(ip)

	t.say("Delete the second Service: the address stays with the first.")
	t.kubectl("delete", "service", "mail")
	t.settle()
	t.rules(ip)

	t.say("Keep the address: it outlives its Service, without a rule on it, and another Service takes it.")
	t.kubectl("annotate", "service", "web", annotation.KeepIP+"=true")
	t.settle()
	t.kubectl("delete", "service", "web")
	t.settle()
	t.addresses()
	t.rules(ip)
	t.apply(service("shop", "loadBalancerIP: "+ip, 80), "apply", "-f", "-")
	t.served(1)
	t.settle()
	t.get()

	t.say("Delete: an address that the controller acquired for a Service goes with it. The kept one stays.")
	t.apply(service("api", "", 81), "apply", "-f", "-")
	t.served(2)
	t.settle()
	t.get()
	t.addresses()
	t.kubectl("delete", "service", "api", "shop")
	t.settle()
	t.addresses()
	t.events("api")
	t.csccm(0, "plan")
}

// do runs a part of the session that is not shown.
func (t *transcript) do(part func() error) {
	if t.err == nil {
		t.err = part()
	}
}

// get shows the Services.
func (t *transcript) get() {
	t.kubectl("get", "services", "-l", "!component", "-o", "custom-columns=NAME:.metadata.name,ADDRESS:.status.loadBalancer.ingress[*].ip,"+
		"MODE:.status.loadBalancer.ingress[*].ipMode,PORTS:.spec.ports[*].port,RANGES:.spec.loadBalancerSourceRanges[*]")
}

// settle waits until the controller is idle.
func (t *transcript) settle() { t.do(func() error { return t.env.Idle(t.ctx) }) }

// served waits until n Services have an address.
func (t *transcript) served(n int) { t.do(func() error { return t.env.Served(t.ctx, n) }) }

func (t *transcript) address(name string) (ip string) {
	t.do(func() error {
		svc, err := t.env.Client.CoreV1().Services(testenv.Namespace).Get(t.ctx, name, metav1.GetOptions{})
		if err == nil {
			ip = svc.Status.LoadBalancer.Ingress[0].IP
		}
		return err
	})
	return ip
}

// curl writes an API call as a curl command, with lines made from its answer.
func (t *transcript) curl(query string, lines []string) {
	fmt.Fprintf(&t.text, "\n$ curl -s \"$CLOUDSTACK?%s\"\n", query)
	for _, l := range lines {
		fmt.Fprintln(&t.text, t.withoutIDs(l))
	}
	if len(lines) == 0 {
		fmt.Fprintln(&t.text, "{}")
	}
}

func (t *transcript) rules(ip string) {
	t.do(func() error {
		rules, err := testenv.Rules(t.ctx, t.inspector, ip)
		slices.SortFunc(rules, func(a, b testenv.Rule) int { return cmp.Compare(a.PublicPort, b.PublicPort) })
		var lines []string
		for _, r := range rules {
			lines = append(lines, fmt.Sprintf("{name: %s, publicport: %d, privateport: %d, protocol: %s, algorithm: %s, cidrlist: %q, members: %v}",
				r.Name, r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm, strings.Join(r.CIDRs, " "), r.Members))
		}
		t.curl("command=listLoadBalancerRules&publicipid=ID", lines)
		return err
	})
}

func (t *transcript) firewall(ip string) {
	t.do(func() error {
		ips, err := t.inspector.ListPublicIPs(t.ctx, cloudstack.PublicIPQuery{Address: ip})
		if err != nil || len(ips) != 1 {
			return errors.Join(err, fmt.Errorf("listPublicIpAddresses returned %d addresses for %s, want 1", len(ips), ip))
		}
		rules, err := t.inspector.ListFirewallRules(t.ctx, cloudstack.FirewallRuleQuery{PublicIPID: ips[0].ID})
		slices.SortFunc(rules, func(a, b cloudstack.FirewallRule) int { return cmp.Compare(a.StartPort, b.StartPort) })
		var lines []string
		for i := range rules {
			f := &rules[i]
			lines = append(lines, fmt.Sprintf("{protocol: %s, startport: %d, endport: %d, cidrlist: %q}", f.Protocol, f.StartPort, f.EndPort, strings.Join(f.CIDRs, ",")))
		}
		t.curl("command=listFirewallRules&ipaddressid=ID", lines)
		return err
	})
}

func (t *transcript) addresses() {
	t.do(func() error {
		ips, err := t.inspector.ListPublicIPs(t.ctx, cloudstack.PublicIPQuery{})
		var lines []string
		for i := range ips {
			lines = append(lines, fmt.Sprintf("{ipaddress: %s, issourcenat: %v, state: %s, service: %q}", ips[i].Address, ips[i].SourceNAT, ips[i].State, ips[i].Tags["csccm-service"]))
		}
		slices.Sort(lines)
		t.curl("command=listPublicIpAddresses", lines)
		return err
	})
}

// events writes the controller's Events about a Service in order of creation.
func (t *transcript) events(name string) {
	t.kubectl("get", "events", "--field-selector", "involvedObject.name="+name, "--sort-by=.metadata.creationTimestamp",
		"-o", "custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message")
}

var (
	balancer = regexp.MustCompile(`\ba[0-9a-f]{31}\b`)
	uuid     = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
)

// withoutIDs replaces IDs, which differ between runs.
func (t *transcript) withoutIDs(text string) string {
	return uuid.ReplaceAllString(balancer.ReplaceAllString(text, "aUID"), "ID")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
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
func (t *transcript) story(ctx context.Context) error {
	t.text.WriteString(head)
	columns := "custom-columns=NAME:.metadata.name,ADDRESS:.status.loadBalancer.ingress[*].ip,MODE:.status.loadBalancer.ingress[*].ipMode,PORTS:.spec.ports[*].port,RANGES:.spec.loadBalancerSourceRanges[*]"
	get := func() error { return t.kubectl(ctx, "", "get", "services", "-l", "!component", "-o", columns) }

	t.say("Create. Before the controller runs, csccm says what it would do; exit code 2 means that something is to do.")
	if err := errors.Join(
		t.kubectl(ctx, service("web", "", 80, 443), "apply", "-f", "-"),
		t.csccm(ctx, 2, "plan"),
	); err != nil {
		return err
	}
	if err := t.env.Start(ctx, 20); err != nil {
		return err
	}
	if err := t.env.Served(ctx, 1); err != nil {
		return err
	}
	ip, err := t.address(ctx, "web")
	if err != nil {
		return err
	}
	t.say("The controller has started.")
	if err := errors.Join(get(), t.rules(ctx, ip), t.firewall(ctx, ip), t.events(ctx, "web"), t.csccm(ctx, 0, "plan")); err != nil {
		return err
	}

	t.say("Switch to the PROXY protocol: the rules are changed in place, and kube-proxy is told by the mode.")
	if err := t.kubectl(ctx, "", "annotate", "service", "web", annotation.ProxyProtocol+"=true"); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := errors.Join(get(), t.rules(ctx, ip)); err != nil {
		return err
	}

	t.say("Tighten the source ranges: one list governs the rules and the firewall.")
	if err := t.kubectl(ctx, "", "patch", "service", "web", "-p", `{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24","198.51.100.0/24"]}}`); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := errors.Join(get(), t.rules(ctx, ip), t.firewall(ctx, ip)); err != nil {
		return err
	}

	t.say("Share the address: a second Service asks for it, with a port of its own.")
	if err := t.kubectl(ctx, service("mail", "loadBalancerIP: "+ip, 25), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := t.env.Served(ctx, 2); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := errors.Join(get(), t.rules(ctx, ip), t.firewall(ctx, ip)); err != nil {
		return err
	}

	t.say("A port that is taken there is refused, with reason and remedy; what stands is left as it is.")
	if err := t.kubectl(ctx, "", "patch", "service", "mail", "-p", `{"spec":{"ports":[{"name":"p80","port":80,"nodePort":30081}]}}`); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	condition := `custom-columns=NAME:.metadata.name,REASON:.status.conditions[?(@.type=="csccm.io/LoadBalancerReady")].reason,MESSAGE:.status.conditions[?(@.type=="csccm.io/LoadBalancerReady")].message`
	if err := errors.Join(t.kubectl(ctx, "", "get", "service", "mail", "-o", condition), t.rules(ctx, ip)); err != nil {
		return err
	}

	t.say("Delete the second Service: the address stays with the first.")
	if err := errors.Join(t.kubectl(ctx, "", "delete", "service", "mail"), t.settle(ctx), t.rules(ctx, ip)); err != nil {
		return err
	}

	t.say("Keep the address: it outlives its Service, without a rule on it, and another Service takes it.")
	if err := errors.Join(
		t.kubectl(ctx, "", "annotate", "service", "web", annotation.KeepIP+"=true"), t.settle(ctx),
		t.kubectl(ctx, "", "delete", "service", "web"), t.settle(ctx),
		t.addresses(ctx), t.rules(ctx, ip),
		t.kubectl(ctx, service("shop", "loadBalancerIP: "+ip, 80), "apply", "-f", "-"),
	); err != nil {
		return err
	}
	if err := t.env.Served(ctx, 1); err != nil {
		return err
	}
	if err := errors.Join(t.settle(ctx), get()); err != nil {
		return err
	}

	t.say("Delete: an address that the controller acquired for a Service goes with it. The kept one stays.")
	if err := t.kubectl(ctx, service("api", "", 81), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := t.env.Served(ctx, 2); err != nil {
		return err
	}
	return errors.Join(
		t.settle(ctx), get(), t.addresses(ctx), t.kubectl(ctx, "", "delete", "service", "api", "shop"), t.settle(ctx),
		t.addresses(ctx), t.events(ctx, "api"), t.csccm(ctx, 0, "plan"),
	)
}

// settle waits until the controller is idle.
func (t *transcript) settle(ctx context.Context) error { return t.env.Idle(ctx) }

func (t *transcript) address(ctx context.Context, name string) (string, error) {
	svc, err := t.env.Client.CoreV1().Services(testenv.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return svc.Status.LoadBalancer.Ingress[0].IP, nil
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

func (t *transcript) inspect(ctx context.Context, ip string) (*cloudstack.Client, string, error) {
	client, err := t.env.Cloud.Client("inspector")
	if err != nil {
		return nil, "", err
	}
	ips, err := client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip})
	if err != nil || len(ips) != 1 {
		return nil, "", errors.Join(err, fmt.Errorf("listPublicIpAddresses returned %d addresses for %s, want 1", len(ips), ip))
	}
	return client, ips[0].ID, nil
}

func (t *transcript) rules(ctx context.Context, ip string) error {
	client, _, err := t.inspect(ctx, ip)
	if err != nil {
		return err
	}
	rules, err := testenv.Rules(ctx, client, ip)
	if err != nil {
		return err
	}
	slices.SortFunc(rules, func(a, b testenv.Rule) int { return cmp.Compare(a.PublicPort, b.PublicPort) })
	var lines []string
	for _, r := range rules {
		lines = append(lines, fmt.Sprintf("{name: %s, publicport: %d, privateport: %d, protocol: %s, algorithm: %s, cidrlist: %q, members: %v}",
			r.Name, r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm, strings.Join(r.CIDRs, " "), r.Members))
	}
	t.curl("command=listLoadBalancerRules&publicipid=ID", lines)
	return nil
}

func (t *transcript) firewall(ctx context.Context, ip string) error {
	client, id, err := t.inspect(ctx, ip)
	if err != nil {
		return err
	}
	rules, err := client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: id})
	if err != nil {
		return err
	}
	slices.SortFunc(rules, func(a, b cloudstack.FirewallRule) int { return cmp.Compare(a.StartPort, b.StartPort) })
	var lines []string
	for i := range rules {
		f := &rules[i]
		lines = append(lines, fmt.Sprintf("{protocol: %s, startport: %d, endport: %d, cidrlist: %q}", f.Protocol, f.StartPort, f.EndPort, strings.Join(f.CIDRs, ",")))
	}
	t.curl("command=listFirewallRules&ipaddressid=ID", lines)
	return nil
}

func (t *transcript) addresses(ctx context.Context) error {
	client, err := t.env.Cloud.Client("inspector")
	if err != nil {
		return err
	}
	ips, err := client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{})
	if err != nil {
		return err
	}
	var lines []string
	for i := range ips {
		lines = append(lines, fmt.Sprintf("{ipaddress: %s, issourcenat: %v, state: %s, service: %q}", ips[i].Address, ips[i].SourceNAT, ips[i].State, ips[i].Tags["csccm-service"]))
	}
	slices.Sort(lines)
	t.curl("command=listPublicIpAddresses", lines)
	return nil
}

// events writes the controller's Events about a Service in order of creation.
func (t *transcript) events(ctx context.Context, name string) error {
	return t.kubectl(ctx, "", "get", "events", "--field-selector", "involvedObject.name="+name, "--sort-by=.metadata.creationTimestamp",
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

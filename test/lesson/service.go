// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/lesson/chapters"
	"github.com/csccm/csccm/test/testenv"
)

// web is the Service of chapters 2 to 5.
const web = "web"

// everyone are the sources that the firewall lets in by default.
const everyone = "0.0.0.0/0"

// serviceColumns fit into half a terminal.
const serviceColumns = "custom-columns=NAME:.metadata.name,EXTERNAL-IP:.status.loadBalancer.ingress[*].ip,PORTS:.spec.ports[*].port,NODEPORTS:.spec.ports[*].nodePort"

// service is chapter 2.
func (l *lesson) service(ctx context.Context) {
	l.cloud.Ledger().Reset()
	begun := time.Now()
	for _, s := range []*side{l.without, l.with} {
		s.createService(ctx, web)
	}
	svc, ip := l.with.served(ctx, web)
	l.allocated(ctx, ip, time.Since(begun))
	l.rulesOf(ctx, svc, ip)
	l.open(ctx, svc, ip)
	l.without.pending(ctx, web)
	events := must.Get(l.without.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Service"}))
	must.Be(len(events.Items) == 0, "cluster %q has Events on Services: %v", l.without.name, events.Items)
	l.saw("service-pending", "")
	l.counted(ctx)
	l.both(ctx, "get", "service", web, "-o", serviceColumns)
	l.showCloud(ctx)
}

// allocated checks that the address belongs to the cluster's account.
func (l *lesson) allocated(ctx context.Context, ip string, took time.Duration) {
	ips := must.Get(l.with.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip}))
	must.Not(len(ips) != 1 || ips[0].State != "Allocated", "account %q has no address %s: %v", l.with.name, ip, ips)
	l.saw("service-served", "%s, after %s", ip, took.Round(100*time.Millisecond))
}

// rulesOf checks the rules at an address.
func (l *lesson) rulesOf(ctx context.Context, svc *corev1.Service, ip string) {
	rules := l.with.rules(ctx)
	for _, p := range svc.Spec.Ports {
		ok := slices.ContainsFunc(rules, func(r testenv.Rule) bool {
			return r.PublicIP == ip && r.PublicPort == int(p.Port) && r.PrivatePort == int(p.NodePort) && slices.Equal(r.Members, l.with.workerNames())
		})
		must.Be(ok, "no rule leads from %s:%d to port %d of all workers: %v", ip, p.Port, p.NodePort, rules)
	}
	must.Not(len(rules) != len(svc.Spec.Ports), "a Service with %d ports has %d rules", len(svc.Spec.Ports), len(rules))
	l.saw("service-rules", "%d rules with %d members each", len(rules), workers)
}

// open checks the firewall rules of an address.
func (l *lesson) open(ctx context.Context, svc *corev1.Service, ip string) {
	ports := openPorts(ctx, l.with, ip)
	var want []int
	for _, p := range svc.Spec.Ports {
		want = append(want, int(p.Port))
	}
	slices.Sort(want)
	must.Be(slices.Equal(ports, want), "the firewall of %s lets everyone in to the ports %v, not to %v", ip, ports, want)
	l.saw("service-open", "%s to ports %v", everyone, ports)
}

// openPorts returns the ports of an address that the firewall lets everyone in to.
func openPorts(ctx context.Context, s *side, ip string) []int {
	ips := must.Get(s.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip}))
	must.Be(len(ips) == 1, "account %q has no address %s", s.name, ip)
	rules := must.Get(s.api.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: ips[0].ID}))
	var ports []int
	for i := range rules {
		if f := &rules[i]; f.Protocol == "tcp" && slices.Equal(f.CIDRs, []string{everyone}) {
			for p := f.StartPort; p <= f.EndPort; p++ {
				ports = append(ports, p)
			}
		}
	}
	slices.Sort(ports)
	return ports
}

// controllerUser returns the CloudStack user whose keys the controller has.
func (l *lesson) controllerUser(ctx context.Context) simulator.UserInfo {
	secret := must.Get(l.with.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, "cloudstack-secret", metav1.GetOptions{}))
	config := must.Get(cloudconfig.Parse(strings.NewReader(string(secret.Data["cloud-config"]))))
	users := l.cloud.Users()
	i := slices.IndexFunc(users, func(u simulator.UserInfo) bool { return u.APIKey == config.APIKey })
	must.Be(i >= 0, "CloudStack does not know the controller's keys")
	return users[i]
}

// counted checks who has called CloudStack since the Service was created.
func (l *lesson) counted(ctx context.Context) {
	user := l.controllerUser(ctx)
	calls := l.cloud.Ledger().Find("", user.Name)
	must.Be(len(calls) != 0, "the ledger has no call of user %s", user.Name)
	others := l.cloud.Ledger().Find("", l.without.owner())
	must.Be(len(others) == 0, "the ledger has calls of user %s: %v", l.without.owner(), others)
	l.saw("service-calls", "%d calls of user %s", len(calls), user.Name)
	l.made = calls
}

// calls is chapter 3.
func (l *lesson) calls(ctx context.Context) {
	user := l.controllerUser(ctx)
	l.title("The calls of user " + user.Name + " since the Service was created:")
	for _, c := range l.made {
		must.Be(chapters.Text.Purposes[c.Command] != "", "the lesson does not say what %s is for", c.Command)
		must.Not(c.Status != http.StatusOK || c.ErrorCode != 0 || c.JobID != "" && c.JobCode != 0, "%s was refused: HTTP status %d, error %d, job's result %d", c.Command, c.Status, c.ErrorCode, c.JobCode)
	}
	l.table(l.made)
	l.saw("calls-explained", "%d calls", len(l.made))
	kind := l.roleType(ctx, user.Role)
	must.Be(kind == "User", "role %s of user %s is of type %q", user.Role, user.Name, kind)
	l.saw("calls-plain-user", "role %s", user.Role)
	l.byHand(ctx)
	l.showCloud(ctx)
	l.both(ctx, "get", "service", web, "-o", serviceColumns)
	l.without.pending(ctx, web)
	l.saw("calls-unnoticed", "")
}

// table prints calls with their purposes; the same call several times in a row is one line.
func (l *lesson) table(calls []simulator.Call) {
	for i := 0; i < len(calls); {
		c, first := calls[i], i+1
		for i++; i < len(calls) && calls[i].Command == c.Command && parameters(calls[i]) == parameters(c); i++ {
		}
		number := strconv.Itoa(first)
		if i > first {
			number += "-" + strconv.Itoa(i)
		}
		line := fmt.Sprintf("%5s  %-25s %-55s %s", number, c.Command, chapters.Text.Purposes[c.Command], parameters(c))
		l.Printf("%s\n", terminal.Cut(strings.TrimRight(line, " "), cmp.Or(l.Style.Width, defaultWidth)))
	}
}

// parameters returns the parameters of a call that say something to a reader.
func parameters(c simulator.Call) string {
	switch p := c.Params; {
	case p["publicport"] != "":
		return p["publicport"] + " -> " + p["privateport"]
	case p["startport"] != "":
		return p["startport"] + " for " + p["cidrlist"]
	default:
		return p["resourcetype"]
	}
}

// roleType asks CloudStack for the type of a role.
func (l *lesson) roleType(ctx context.Context, name string) string {
	answer := must.Get(l.cloud.Admin(ctx, "listRoles", map[string]string{"name": name}))
	roles, _ := answer["role"].([]any)
	must.Be(len(roles) == 1, "CloudStack has %d roles %s", len(roles), name)
	role, _ := roles[0].(map[string]any)
	kind, _ := role["type"].(string)
	return kind
}

// byHand makes the calls that give the Service of the cluster without the controller what the other has.
func (l *lesson) byHand(ctx context.Context) {
	s := l.without
	client := must.Get(l.cloud.Client(s.owner()))
	defer client.CloseIdleConnections()
	l.cloud.Ledger().Reset()
	svc, _ := s.service(ctx, web)
	makeByHand(ctx, client, svc, s.workerNames())
	l.title("The calls of user " + s.owner() + ", by hand, for cluster \"without\":")
	l.table(l.cloud.Ledger().Find("", s.owner()))
	mine := s.rules(ctx)
	theirs := l.with.rules(ctx)
	must.Not(len(mine) != len(theirs) || len(mine) == 0, "%d rules by hand, %d of the controller", len(mine), len(theirs))
	for i := range mine {
		a, b := mine[i], theirs[i]
		must.Not(a.PublicPort != b.PublicPort || a.Protocol != b.Protocol || a.Algorithm != b.Algorithm || len(a.Members) != len(b.Members), "the rules differ: %+v by hand, %+v of the controller", a, b)
	}
	ports := openPorts(ctx, s, mine[0].PublicIP)
	theirPorts := openPorts(ctx, l.with, theirs[0].PublicIP)
	must.Be(slices.Equal(ports, theirPorts), "open are the ports %v by hand, %v of the controller", ports, theirPorts)
	l.saw("calls-by-hand", "%s for %s", mine[0].PublicIP, theirs[0].PublicIP)
}

// makeByHand acquires an address and makes its rules.
func makeByHand(ctx context.Context, client *cloudstack.Client, svc *corev1.Service, members []string) {
	vms := must.Get(client.ListVirtualMachines(ctx, cloudstack.VMQuery{}))
	var to []cloudstack.MemberAddress
	var network string
	for i := range vms {
		if slices.Contains(members, vms[i].Name) {
			to, network = append(to, cloudstack.MemberAddress{VMID: vms[i].ID}), vms[i].NICs[0].NetworkID
		}
	}
	done := func(command string, submitted cloudstack.Submitted, err error) (string, error) {
		if err != nil {
			return "", err
		}
		_, err = client.Jobs().Wait(ctx, command, submitted.JobID)
		return submitted.ID, err
	}
	submitted, err := client.AssociateIP(ctx, cloudstack.AssociateIPRequest{NetworkID: network})
	address := must.Get(done("associateIpAddress", submitted, err))
	for _, p := range svc.Spec.Ports {
		submitted, err := client.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name: fmt.Sprintf("%s-%d", svc.Name, p.Port), Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: address, PublicPort: int(p.Port), PrivatePort: int(p.NodePort),
		})
		rule := must.Get(done("createLoadBalancerRule", submitted, err))
		submitted, err = client.AssignToLoadBalancerRule(ctx, rule, to)
		must.Get(done("assignToLoadBalancerRule", submitted, err))
		submitted, err = client.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{
			PublicIPID: address, Protocol: "tcp", StartPort: int(p.Port), EndPort: int(p.Port), CIDRs: []string{everyone},
		})
		must.Get(done("createFirewallRule", submitted, err))
	}
}

// ruleAt returns the rule of a port.
func ruleAt(rules []testenv.Rule, port int) (testenv.Rule, bool) {
	i := slices.IndexFunc(rules, func(r testenv.Rule) bool { return r.PublicPort == port })
	if i < 0 {
		return testenv.Rule{}, false
	}
	return rules[i], true
}

// publicIPs returns the addresses of rules, each once.
func publicIPs(rules []testenv.Rule) (out []string) {
	for _, r := range rules {
		out = append(out, cmp.Or(r.PublicIP, "?"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
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
func (l *lesson) service(ctx context.Context) error {
	l.cloud.Ledger().Reset()
	begun := time.Now()
	for _, s := range []*side{l.without, l.with} {
		if err := s.createService(ctx, web); err != nil {
			return err
		}
	}
	svc, ip, err := l.with.served(ctx, web)
	if err != nil {
		return err
	}
	if err := l.allocated(ctx, ip, time.Since(begun)); err != nil {
		return err
	}
	if err := l.rulesOf(ctx, svc, ip); err != nil {
		return err
	}
	if err := l.open(ctx, svc, ip); err != nil {
		return err
	}
	if err := l.without.pending(ctx, web); err != nil {
		return err
	}
	events, err := l.without.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Service"})
	if err != nil {
		return err
	}
	if len(events.Items) > 0 {
		return fmt.Errorf("cluster %q has an Event on a Service: %s", l.without.name, events.Items[0].Message)
	}
	l.saw(chapters.ServicePending, "")
	if err := l.counted(ctx); err != nil {
		return err
	}
	if err := l.both(ctx, "get", "service", web, "-o", serviceColumns); err != nil {
		return err
	}
	return l.showCloud(ctx)
}

// allocated checks that the address belongs to the cluster's account.
func (l *lesson) allocated(ctx context.Context, ip string, took time.Duration) error {
	ips, err := l.with.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip})
	if err != nil {
		return err
	}
	if len(ips) != 1 || ips[0].State != "Allocated" {
		return fmt.Errorf("account %q has no address %s: %v", l.with.name, ip, ips)
	}
	l.saw(chapters.ServiceServed, "%s, after %s", ip, took.Round(100*time.Millisecond))
	return nil
}

// rulesOf checks the rules at an address.
func (l *lesson) rulesOf(ctx context.Context, svc *corev1.Service, ip string) error {
	rules, err := l.with.rules(ctx)
	if err != nil {
		return err
	}
	for _, p := range svc.Spec.Ports {
		ok := slices.ContainsFunc(rules, func(r testenv.Rule) bool {
			return r.PublicIP == ip && r.PublicPort == int(p.Port) && r.PrivatePort == int(p.NodePort) && slices.Equal(r.Members, l.with.workerNames())
		})
		if !ok {
			return fmt.Errorf("no rule leads from %s:%d to port %d of all workers: %v", ip, p.Port, p.NodePort, rules)
		}
	}
	if len(rules) != len(svc.Spec.Ports) {
		return fmt.Errorf("a Service with %d ports has %d rules", len(svc.Spec.Ports), len(rules))
	}
	l.saw(chapters.ServiceRules, "%d rules with %d members each", len(rules), workers)
	return nil
}

// open checks the firewall rules of an address.
func (l *lesson) open(ctx context.Context, svc *corev1.Service, ip string) error {
	ports, err := openPorts(ctx, l.with, ip)
	if err != nil {
		return err
	}
	var want []int
	for _, p := range svc.Spec.Ports {
		want = append(want, int(p.Port))
	}
	slices.Sort(want)
	if !slices.Equal(ports, want) {
		return fmt.Errorf("the firewall of %s lets everyone in to the ports %v, not to %v", ip, ports, want)
	}
	l.saw(chapters.ServiceOpen, "%s to ports %v", everyone, ports)
	return nil
}

// openPorts returns the ports of an address that the firewall lets everyone in to.
func openPorts(ctx context.Context, s *side, ip string) ([]int, error) {
	ips, err := s.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip})
	if err != nil {
		return nil, err
	}
	if len(ips) != 1 {
		return nil, fmt.Errorf("account %q has no address %s", s.name, ip)
	}
	rules, err := s.api.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: ips[0].ID})
	if err != nil {
		return nil, err
	}
	var ports []int
	for i := range rules {
		if f := &rules[i]; f.Protocol == "tcp" && slices.Equal(f.CIDRs, []string{everyone}) {
			for p := f.StartPort; p <= f.EndPort; p++ {
				ports = append(ports, p)
			}
		}
	}
	slices.Sort(ports)
	return ports, nil
}

// controllerUser returns the CloudStack user whose keys the controller has.
func (l *lesson) controllerUser(ctx context.Context) (simulator.UserInfo, error) {
	secret, err := l.with.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, "cloudstack-secret", metav1.GetOptions{})
	if err != nil {
		return simulator.UserInfo{}, err
	}
	config, err := cloudconfig.Parse(strings.NewReader(string(secret.Data["cloud-config"])))
	if err != nil {
		return simulator.UserInfo{}, err
	}
	users := l.cloud.Users()
	i := slices.IndexFunc(users, func(u simulator.UserInfo) bool { return u.APIKey == config.APIKey })
	if i < 0 {
		return simulator.UserInfo{}, errors.New("CloudStack does not know the controller's keys")
	}
	return users[i], nil
}

// counted checks who has called CloudStack since the Service was created.
func (l *lesson) counted(ctx context.Context) error {
	user, err := l.controllerUser(ctx)
	if err != nil {
		return err
	}
	calls := l.cloud.Ledger().Find("", user.Name)
	if len(calls) == 0 {
		return fmt.Errorf("the ledger has no call of user %s", user.Name)
	}
	if others := l.cloud.Ledger().Find("", l.without.owner()); len(others) > 0 {
		return fmt.Errorf("the ledger has calls of user %s: %v", l.without.owner(), others)
	}
	l.saw(chapters.ServiceCalls, "%d calls of user %s", len(calls), user.Name)
	l.made = calls
	return nil
}

// calls is chapter 3.
func (l *lesson) calls(ctx context.Context) error {
	user, err := l.controllerUser(ctx)
	if err != nil {
		return err
	}
	l.title("The calls of user " + user.Name + " since the Service was created:")
	for _, c := range l.made {
		if chapters.Purposes[c.Command] == "" {
			return fmt.Errorf("the lesson does not say what %s is for", c.Command)
		}
		if c.Status != http.StatusOK || c.ErrorCode != 0 || c.JobID != "" && c.JobCode != 0 {
			return fmt.Errorf("%s was refused: HTTP status %d, error %d, job's result %d", c.Command, c.Status, c.ErrorCode, c.JobCode)
		}
	}
	l.table(l.made)
	l.saw(chapters.CallsExplained, "%d calls", len(l.made))
	if kind, err := l.roleType(ctx, user.Role); err != nil || kind != "User" {
		return errors.Join(err, fmt.Errorf("role %s of user %s is of type %q", user.Role, user.Name, kind))
	}
	l.saw(chapters.CallsPlainUser, "role %s", user.Role)
	if err := l.byHand(ctx); err != nil {
		return err
	}
	if err := l.showCloud(ctx); err != nil {
		return err
	}
	if err := l.both(ctx, "get", "service", web, "-o", serviceColumns); err != nil {
		return err
	}
	if err := l.without.pending(ctx, web); err != nil {
		return err
	}
	l.saw(chapters.CallsUnnoticed, "")
	return nil
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
		line := fmt.Sprintf("%5s  %-25s %-55s %s", number, c.Command, chapters.Purposes[c.Command], parameters(c))
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
func (l *lesson) roleType(ctx context.Context, name string) (string, error) {
	answer, err := l.cloud.Admin(ctx, "listRoles", map[string]string{"name": name})
	if err != nil {
		return "", err
	}
	roles, _ := answer["role"].([]any)
	if len(roles) != 1 {
		return "", fmt.Errorf("CloudStack has %d roles %s", len(roles), name)
	}
	role, _ := roles[0].(map[string]any)
	kind, _ := role["type"].(string)
	return kind, nil
}

// byHand makes the calls that give the Service of the cluster without the controller what the other has.
func (l *lesson) byHand(ctx context.Context) error {
	s := l.without
	client, err := l.cloud.Client(s.owner())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	l.cloud.Ledger().Reset()
	svc, _, err := s.service(ctx, web)
	if err != nil {
		return err
	}
	if err := makeByHand(ctx, client, svc, s.workerNames()); err != nil {
		return err
	}
	l.title("The calls of user " + s.owner() + ", by hand, for cluster \"without\":")
	l.table(l.cloud.Ledger().Find("", s.owner()))
	mine, err := s.rules(ctx)
	if err != nil {
		return err
	}
	theirs, err := l.with.rules(ctx)
	if err != nil {
		return err
	}
	if len(mine) != len(theirs) || len(mine) == 0 {
		return fmt.Errorf("%d rules by hand, %d of the controller", len(mine), len(theirs))
	}
	for i := range mine {
		a, b := mine[i], theirs[i]
		if a.PublicPort != b.PublicPort || a.Protocol != b.Protocol || a.Algorithm != b.Algorithm || len(a.Members) != len(b.Members) {
			return fmt.Errorf("the rules differ: %+v by hand, %+v of the controller", a, b)
		}
	}
	ports, err := openPorts(ctx, s, mine[0].PublicIP)
	if err != nil {
		return err
	}
	theirPorts, err := openPorts(ctx, l.with, theirs[0].PublicIP)
	if err != nil {
		return err
	}
	if !slices.Equal(ports, theirPorts) {
		return fmt.Errorf("open are the ports %v by hand, %v of the controller", ports, theirPorts)
	}
	l.saw(chapters.CallsByHand, "%s for %s", mine[0].PublicIP, theirs[0].PublicIP)
	return nil
}

// makeByHand acquires an address and makes its rules.
func makeByHand(ctx context.Context, client *cloudstack.Client, svc *corev1.Service, members []string) error {
	vms, err := client.ListVirtualMachines(ctx, cloudstack.VMQuery{})
	if err != nil {
		return err
	}
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
	address, err := done("associateIpAddress", submitted, err)
	if err != nil {
		return err
	}
	for _, p := range svc.Spec.Ports {
		submitted, err := client.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name: fmt.Sprintf("%s-%d", svc.Name, p.Port), Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: address, PublicPort: int(p.Port), PrivatePort: int(p.NodePort),
		})
		rule, err := done("createLoadBalancerRule", submitted, err)
		if err != nil {
			return err
		}
		submitted, err = client.AssignToLoadBalancerRule(ctx, rule, to)
		if _, err := done("assignToLoadBalancerRule", submitted, err); err != nil {
			return err
		}
		submitted, err = client.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{
			PublicIPID: address, Protocol: "tcp", StartPort: int(p.Port), EndPort: int(p.Port), CIDRs: []string{everyone},
		})
		if _, err := done("createFirewallRule", submitted, err); err != nil {
			return err
		}
	}
	return nil
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

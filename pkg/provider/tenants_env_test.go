// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Namespaces of the tenant tests. Only trustedNS is trusted by the default policy.
const (
	attackerNS = "attacker"
	victimNS   = "victim"
	friendNS   = "friend"
	trustedNS  = "kube-system"
)

// reasonNotAllowed is the reason of Events about Services that the policy refuses.
const reasonNotAllowed plan.Reason = "NotAllowed"

// Addresses of tenantWorld, all in k8s-net and none of them acquired by this cluster.
const (
	idleIP          = "203.0.113.31"
	forwardedIP     = "203.0.113.41" // forwards port 2222, with a firewall rule for that port
	staticIP        = "203.0.113.42" // static NAT to w5
	wideFirewallIP  = "203.0.113.43" // forwards port 2222, with a firewall rule for 2000-2999
	openedIP        = "203.0.113.44" // a firewall rule on port 80 and nothing else
	otherClusterIP  = "203.0.113.46" // tagged by another cluster
	otherLeasewebIP = "203.0.113.47" // rules of another cluster of Leaseweb's provider
	secondIdleIP    = "203.0.113.48"
)

// withTenantWorld adds what operators and other clusters have in the account.
func withTenantWorld(_ *bed, w *string) {
	*w += `
  - address: 203.0.113.41
    network: k8s-net
    firewallRules: [{protocol: tcp, startPort: 2222, endPort: 2222, cidrs: [198.51.100.0/24]}]
  - address: 203.0.113.42
    network: k8s-net
    staticNAT: w5
    firewallRules: [{protocol: tcp, startPort: 2222, endPort: 2222, cidrs: [198.51.100.0/24]}]
  - address: 203.0.113.43
    network: k8s-net
    firewallRules: [{protocol: tcp, startPort: 2000, endPort: 2999, cidrs: [198.51.100.0/24]}]
  - address: 203.0.113.44
    network: k8s-net
    firewallRules: [{protocol: tcp, startPort: 80, endPort: 80}]
  - address: 203.0.113.46
    network: k8s-net
    tags: {csccm-cluster: other, csccm-service: attacker/web, csccm-service-uid: 0e000000-0000-4000-8000-000000000001, csccm-managed-by: cloudstack-ccm, csccm-allocated-by: cloudstack-ccm}
    loadBalancerRules:
      - {name: a0e0000000000400080000000000000-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, members: [w5]}
    firewallRules: [{protocol: tcp, startPort: 80, endPort: 80}]
  - address: 203.0.113.47
    network: k8s-net
    loadBalancerRules:
      - {name: K8s_svc_OTHER_attacker_web-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, members: [w5]}
      - {name: K8s_svc_OTHER_attacker_web-tcp-443, publicPort: 443, privatePort: 30443, protocol: tcp, members: [w5]}
    firewallRules: [{protocol: tcp, startPort: 80, endPort: 80}]
  - {address: 203.0.113.48, network: k8s-net}
`
}

// withoutTags gives the controller a role that may not tag, such as CKS gives its clusters.
func withoutTags(b *bed, w *string) {
	b.noTags = true
	*w = strings.Replace(*w, "accounts:\n", `roles:
  - name: restricted
    type: User
    rules: [{deny: createTags}, {deny: deleteTags}, {deny: listTags}, {deny: listZones}, {allow: "*"}]
accounts:
`, 1)
	*w = strings.Replace(*w, "  - name: k8s\n    role: User", "  - name: k8s\n    role: restricted", 1)
}

// tenantPolicy sets the tenancy policy of the tests: the default one, under which only kube-system is trusted.
func tenantPolicy(d *loadBalancerDeps, noTags bool) {
	d.Tenancy = nil
	if noTags {
		// Kept addresses cannot be counted without tags, and are refused unless there is no limit.
		p := tenancy.Default()
		p.Limits.KeepIP.MaxPerNamespace = nil
		d.Tenancy = &p
	}
}

// tenantEnv is a bed with Services in several namespaces. The controller reaches the simulator without a socket,
// and a job has ended when its call is answered, so a sync needs no waiting.
type tenantEnv struct {
	*bed
	services int // created so far; makes UIDs
	nodes    []string

	mu    sync.Mutex
	after func(command string) // called after each call of the controller
}

func newTenantEnv(t *testing.T, options ...bedOption) *tenantEnv {
	t.Helper()
	e := &tenantEnv{nodes: []string{"w1", "w2"}}
	e.bed = newBed(t, append([]bedOption{withTenantWorld}, options...)...)
	e.inspect = e.client("inspect", "inspect", cloudstack.WithTransport(&wire{handler: e.sim.Handler()}))
	e.options = e.deps
	e.restart()
	for _, name := range []string{attackerNS, victimNS, friendNS, trustedNS, "default"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
		_, err := e.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	e.forward(forwardedIP, 2222, "w5")
	e.forward(wideFirewallIP, 2222, "w5")
	return e
}

// deps replaces the network between the controller and the simulator.
func (e *tenantEnv) deps(d *loadBalancerDeps) {
	api := e.client(testAPIKey, testSecret, cloudstack.WithTransport(&wire{handler: e.sim.Handler(), killer: e.killer, after: e.called}))
	inventoryOf := func(project string) *inventory.Inventory {
		return inventory.New(api, inventory.Options{ProjectID: project, Clock: e.clock})
	}
	d.API = instantJobs{loadbalancer.FromClient(api)}
	d.Inventory, d.InventoryOf = inventoryOf(e.project), inventoryOf
	tenantPolicy(d, e.noTags)
}

func (e *tenantEnv) called(command string) {
	e.mu.Lock()
	after := e.after
	e.mu.Unlock()
	if after != nil {
		after(command)
	}
}

// watch sets what is called after each call of the controller; nil for nothing.
func (e *tenantEnv) watch(after func(command string)) {
	e.mu.Lock()
	e.after = after
	e.mu.Unlock()
}

// wire is a transport that hands requests to the simulator's handler.
type wire struct {
	handler http.Handler
	killer  *killer              // may be nil
	after   func(command string) // may be nil
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (_ *http.Response, err error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	command := form.Get("command")
	var lost bool
	if w.killer != nil {
		var before bool
		if before, lost = w.killer.strikes(command); before {
			w.killer.cancel()
			return nil, errKilled
		}
	}
	defer func() {
		if p := recover(); p != nil { // the simulator cuts the connection
			err = io.ErrUnexpectedEOF
		}
	}()
	in := httptest.NewRequestWithContext(req.Context(), req.Method, req.URL.Path, strings.NewReader(string(body)))
	in.Header = req.Header
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, in)
	if w.after != nil {
		w.after(command)
	}
	if lost {
		w.killer.cancel()
		return nil, errKilled
	}
	return out.Result(), nil
}

// instantJobs reads a job once, since the simulator's jobs take no time here.
type instantJobs struct{ loadbalancer.API }

// Wait implements loadbalancer.API.
func (i instantJobs) Wait(ctx context.Context, command, id string) (*cloudstack.Job, error) {
	job, err := i.QueryJob(ctx, id)
	if err != nil {
		return nil, err
	}
	switch job.Status { //nolint:exhaustive // the others do not occur without a restart of the server
	case cloudstack.JobSucceeded:
		return job, nil
	case cloudstack.JobFailed:
		return job, &cloudstack.Error{Kind: cloudstack.KindJobFailed, Command: command, HTTPCode: job.ResultCode, JobID: id, Text: job.ErrorText}
	}
	return i.API.Wait(ctx, command, id)
}

// items are the objects of a list that an operator reads.
func (e *tenantEnv) items(command, name string, pairs ...string) []map[string]any {
	e.t.Helper()
	var out []map[string]any
	list, _ := e.asAdmin(command, append([]string{"listall", "true"}, pairs...)...)[name].([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// address is an address of the account as CloudStack lists it.
func (e *tenantEnv) address(ip string) cloudstack.PublicIP {
	e.t.Helper()
	ips, err := e.inspect.ListPublicIPs(e.t.Context(), cloudstack.PublicIPQuery{Address: ip, ProjectID: e.project})
	require.NoError(e.t, err)
	require.Len(e.t, ips, 1, ip)
	return ips[0]
}

// forward makes an operator forward a port of an address to the same port of a VM. It opens no firewall.
func (e *tenantEnv) forward(ip string, port int, vm string, pairs ...string) {
	e.t.Helper()
	vms, err := e.inspect.ListVirtualMachines(e.t.Context(), cloudstack.VMQuery{ProjectID: e.project})
	require.NoError(e.t, err)
	i := slices.IndexFunc(vms, func(v cloudstack.VirtualMachine) bool { return v.Name == vm })
	require.GreaterOrEqual(e.t, i, 0, vm)
	p := fmt.Sprint(port)
	e.asAdmin("createPortForwardingRule", append([]string{
		"ipaddressid", e.address(ip).ID, "protocol", "tcp", "publicport", p, "privateport", p, "virtualmachineid", vms[i].ID, "openfirewall", "false",
	}, pairs...)...)
}

// world is dump with port forwardings and static NAT.
func (e *tenantEnv) world() []string {
	e.t.Helper()
	out := e.dump()
	for _, f := range e.items("listPortForwardingRules", "portforwardingrule") {
		out = append(out, fmt.Sprintf("forwarding %v %v->%v %v", f["ipaddress"], f["publicport"], f["privateport"], f["virtualmachinename"]))
	}
	for _, ip := range e.items("listPublicIpAddresses", "publicipaddress", "isstaticnat", "true") {
		out = append(out, fmt.Sprintf("static NAT %v %v", ip["ipaddress"], ip["virtualmachinename"]))
	}
	slices.Sort(out)
	return out
}

// access returns who reaches a port of an address through a load balancer rule with members.
func (e *tenantEnv) access(ip string, port int) []string {
	e.t.Helper()
	ctx, id := e.t.Context(), e.address(ip).ID
	rules, err := e.inspect.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: id, ProjectID: e.project})
	require.NoError(e.t, err)
	firewall, err := e.inspect.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: id, ProjectID: e.project})
	require.NoError(e.t, err)
	var open []string
	for i := range firewall {
		if f := &firewall[i]; f.Protocol == "tcp" && f.StartPort <= port && port <= f.EndPort {
			open = append(open, f.CIDRs...)
		}
	}
	var out []string
	for i := range rules {
		if rules[i].PublicPort != port {
			continue
		}
		members, err := e.inspect.ListLoadBalancerMembers(ctx, rules[i].ID)
		require.NoError(e.t, err)
		if len(members) == 0 {
			continue
		}
		allowed := rules[i].CIDRs
		if len(allowed) == 0 {
			allowed = []string{annotation.Anyone}
		}
		out = append(out, intersection(allowed, open)...)
	}
	return out
}

// intersection returns the sources that are in both lists.
func intersection(a, b []string) []string {
	x, _, errA := annotation.ParseRanges(a)
	y, _, errB := annotation.ParseRanges(b)
	if err := errors.Join(errA, errB); err != nil {
		panic(err) // CloudStack lists no other ranges
	}
	return annotation.Strings(annotation.Aggregate(annotation.Intersect(x, y)))
}

// writes are the controller's calls since the last reset that change something.
func (e *tenantEnv) writes() []string {
	return slices.DeleteFunc(e.calls(), func(c string) bool { return strings.HasPrefix(c, "list") || strings.HasPrefix(c, "get") })
}

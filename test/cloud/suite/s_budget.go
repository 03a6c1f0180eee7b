// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// budgetPorts is the number of ports in the budgets.
const budgetPorts = 10

// quiet is the time without calls after which the controller is considered idle.
const quiet = time.Second

// idle waits until the controller is idle.
func (e *env) idle() {
	last, since := proxy.Mark(-1), time.Now()
	e.until("the controller to be idle", func() {
		if now := e.proxy.Mark(); now != last {
			last, since = now, time.Now()
		}
		must.Be(time.Since(since) >= quiet, "calls are made")
	})
}

// spent calls do while the controller is idle and waits until it is idle again. It returns the product's calls and the
// duration of do.
func (e *env) spent(do func()) (proxy.Calls, time.Duration) {
	mark, begun := e.proxy.Mark(), time.Now()
	do()
	took := time.Since(begun)
	e.idle()
	return e.proxy.Since(mark).WithoutPolls(), took
}

// budgets counts the calls during the life of a Service with 10 ports.
func budgets(e *env) string {
	var numbers []string
	for i := range budgetPorts {
		numbers = append(numbers, fmt.Sprint(8000+i))
	}

	all := strings.Join(numbers, ",")
	ip := ""

	// exclude excludes a node from load balancers; without a value it includes the node again.
	exclude := func(value string, serving []string) {
		e.label(e.names()[0], corev1.LabelNodeExcludeBalancers, value)
		e.rulesAre(ip, "the members to follow", func(rules map[string]rule) { complete(rules, all, serving) })
	}

	// Networks are read once every ten minutes for all Services. Let that happen before the calls are counted.
	e.served("first")
	e.idle()
	create, remove := 6+2*budgetPorts, 5 // the address is read again before it is released
	create++                             // one list has the results of all jobs, instead of a query for each job
	if e.vpcID != "" {                   // the tier's ACL list is read, too
		create, remove = create+2, remove+1
	}

	var seen []string
	for _, w := range []struct {
		what   string
		budget int
		do     func()
	}{
		{"create", create, func() { ip = e.served("web", all) }},
		{"sync with nothing to do", 0, func() { e.edit("web", "example.org/touched=yes") }},
		{"node leaves", budgetPorts + 2, func() { exclude("true", e.names()[1:]) }},
		{"node joins", budgetPorts + 2, func() { exclude("", e.names()) }},
		{"delete", remove, func() { e.remove("web") }},
	} {
		calls, took := e.spent(w.do)
		must.Be(len(calls) <= w.budget, "%s took %d calls, promised are %d: %s", w.what, len(calls), w.budget, calls)
		seen = append(seen, fmt.Sprintf("%s %d calls %.1f s", w.what, len(calls), took.Seconds()))
	}

	created, deleted := e.byHand(numbers)
	seen = append(seen,
		fmt.Sprintf("by hand on this server: create %.1f s, delete %.1f s", created.Seconds(), deleted.Seconds()))
	return strings.Join(seen, "; ")
}

// byHand creates the objects of the Service in the fastest known way. It submits rules and members one after the other
// and waits for all jobs together, and creates one firewall rule or ACL item for all ports. The release of the address
// removes everything.
func (e *env) byHand(numbers []string) (created, deleted time.Duration) {
	user, begun := e.world.User, time.Now()
	ip, id := e.acquire()
	var jobs []string
	submit := func(command string, params world.Params) world.Object {
		o := user.Ask(e.ctx, command, params)
		jobs = append(jobs, o.Text("jobid"))
		return o
	}

	for _, n := range numbers {
		r := submit("createLoadBalancerRule", world.Params{
			"name":         "by-hand-" + n,
			"publicipid":   id,
			"networkid":    e.networkID,
			"algorithm":    "roundrobin",
			"protocol":     "tcp",
			"publicport":   n,
			"privateport":  "3" + n,
			"openfirewall": "false",
		})
		submit("assignToLoadBalancerRule", world.Params{"id": r.Text("id"), "virtualmachineids": e.vmIDs()})
	}

	if e.vpcID == "" {
		submit("createFirewallRule", world.Params{
			"ipaddressid": id,
			"protocol":    "tcp",
			"cidrlist":    annotation.Anyone,
			"startport":   numbers[0],
			"endport":     numbers[len(numbers)-1],
		})
	}

	for _, job := range jobs {
		must.Get(user.Jobs().Result(e.ctx, "a call by hand", job))
	}

	created = time.Since(begun)
	e.serves(ip, strings.Join(numbers, ","))
	begun = time.Now()
	e.release(id)
	return created, time.Since(begun)
}

// vmIDs returns the ids of the nodes' VMs, separated by commas.
func (p *place) vmIDs() string {
	var ids []string
	for _, vm := range p.vms {
		ids = append(ids, vm.ID)
	}
	return strings.Join(ids, ",")
}

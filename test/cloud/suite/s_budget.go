// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/proxy"
)

// budgetScenarios count calls, and compare times with those of calls by hand.
func budgetScenarios(at string) []scenario {
	return []scenario{{name: at + ": calls and seconds of 10 ports", at: at, run: budgets}}
}

// budgetPorts is N of the budgets.
const budgetPorts = 10

// quiet is how long no call comes when the controller has nothing to do.
const quiet = time.Second

// idle waits until nobody makes a call for a while.
func (p *place) idle(ctx context.Context) error {
	last, since := proxy.Mark(-1), time.Now()
	return p.until(ctx, "the controller to be idle", func(context.Context) error {
		if now := p.proxy.Mark(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return errors.New("calls are made")
		}
		return nil
	})
}

// spent does something while the controller has nothing else to do and waits until it has nothing to do again. It returns the
// product's calls and the time until done.
func (e *env) spent(ctx context.Context, do func() error) (proxy.Calls, time.Duration, error) {
	mark, begun := e.proxy.Mark(), time.Now()
	if err := do(); err != nil {
		return nil, 0, err
	}
	took := time.Since(begun)
	err := e.idle(ctx)
	return e.proxy.Since(mark, proxy.Product).WithoutPolls(), took, err
}

// budgets goes through the life of a Service of 10 ports, and counts.
func budgets(ctx context.Context, e *env) (string, error) {
	var numbers []int32
	for i := range int32(budgetPorts) {
		numbers = append(numbers, 8000+i)
	}
	exclude := func(value string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, corev1.LabelNodeExcludeBalancers, value)
		_, err := e.cluster.Client.CoreV1().Nodes().Patch(ctx, e.names()[0], types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	ip := ""
	members := func(names ...string) error {
		return e.rulesAre(ctx, ip, "the members to follow", func(rules map[string]rule) error { return e.complete(rules, texts(numbers), names) })
	}
	// Networks are read once in ten minutes, for all Services.
	if _, err := e.served(ctx, "first"); err != nil {
		return "", err
	}
	if err := e.idle(ctx); err != nil {
		return "", err
	}
	create, remove := 6+2*budgetPorts, 4
	if e.vpcID != "" { // the tier's ACL list is read, too
		create, remove = create+2, remove+2
	}
	var seen []string
	for _, w := range []struct {
		what   string
		budget int
		do     func() error
	}{
		{"create", create, func() (err error) { ip, err = e.served(ctx, "web", ports(numbers...)); return err }},
		{"sync with nothing to do", 0, func() error {
			return e.edit(ctx, "web", func(s *corev1.Service) { s.Labels = map[string]string{"touched": "yes"} })
		}},
		{"node leaves", budgetPorts + 2, func() error {
			if err := exclude(`"true"`); err != nil {
				return err
			}
			return members(e.names()[1:]...)
		}},
		{"node joins", budgetPorts + 2, func() error {
			if err := exclude("null"); err != nil {
				return err
			}
			return members(e.names()...)
		}},
		{"delete", remove, func() error { return e.remove(ctx, "web") }},
	} {
		calls, took, err := e.spent(ctx, w.do)
		if err != nil {
			return "", fmt.Errorf("%s: %w", w.what, err)
		}
		if len(calls) > w.budget {
			return "", fmt.Errorf("%s took %d calls, promised are %d: %s", w.what, len(calls), w.budget, calls)
		}
		seen = append(seen, fmt.Sprintf("%s %d calls %.1f s", w.what, len(calls), took.Seconds()))
	}
	created, deleted, err := e.byHand(ctx, numbers)
	if err != nil {
		return "", fmt.Errorf("by hand: %w", err)
	}
	seen = append(seen, fmt.Sprintf("by hand on this server: create %.1f s, delete %.1f s", created.Seconds(), deleted.Seconds()))
	return strings.Join(seen, "; "), nil
}

// byHand does what the Service needs in the fastest way that is known: rules and members are submitted ahead, one after the
// other, and waited for together; then one firewall rule or ACL item for all ports; the release of the address removes them.
func (e *env) byHand(ctx context.Context, numbers []int32) (created, deleted time.Duration, err error) {
	user, begun := e.world.User, time.Now()
	ip, id, err := e.acquire(ctx)
	if err != nil {
		return 0, 0, err
	}
	var jobs []string
	submit := func(command string, params api.Params) (api.Object, error) {
		o, err := user.Call(ctx, command, params)
		jobs = append(jobs, o.Text("jobid"))
		return o, err
	}
	var vms []string
	for _, vm := range e.vms {
		vms = append(vms, vm.ID)
	}
	for _, n := range numbers {
		r, err := submit("createLoadBalancerRule", api.Params{
			"name": fmt.Sprintf("by-hand-%d", n), "publicipid": id, "networkid": e.network.ID, "algorithm": "roundrobin", "protocol": "tcp",
			"publicport": fmt.Sprint(n), "privateport": fmt.Sprint(30000 + n), "openfirewall": "false",
		})
		if err != nil {
			return 0, 0, err
		}
		if _, err := submit("assignToLoadBalancerRule", api.Params{"id": r.Text("id"), "virtualmachineids": strings.Join(vms, ",")}); err != nil {
			return 0, 0, err
		}
	}
	if e.vpcID == "" {
		if _, err := submit("createFirewallRule", api.Params{
			"ipaddressid": id, "protocol": "tcp", "cidrlist": everybody, "startport": fmt.Sprint(numbers[0]), "endport": fmt.Sprint(numbers[len(numbers)-1]),
		}); err != nil {
			return 0, 0, err
		}
	}
	for _, job := range jobs {
		if _, err := user.Wait(ctx, "a call by hand", job); err != nil {
			return 0, 0, err
		}
	}
	created = time.Since(begun)
	if err := e.serves(ctx, ip, texts(numbers)...); err != nil {
		return 0, 0, err
	}
	begun = time.Now()
	err = e.release(ctx, id)
	return created, time.Since(begun), err
}

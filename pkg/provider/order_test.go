// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/service"
)

// No load balancer rule is created or changed on an address after the creation of a firewall rule was submitted: for a new
// address, added ports, and a shared address.
func TestFirewallRulesAreSubmittedLast(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	steps := []struct {
		name string
		do   func()
	}{
		{"create", func() {
			env.create("web", []int{80, 443, 8080})
			env.mustSync("web")
		}},
		{"add ports", func() {
			env.changed(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 443, 8080, 9000, 9002) })
		}},
		{"a second Service", func() {
			env.create("mail", []int{25, 26}, func(s *corev1.Service) { s.Spec.LoadBalancerIP = env.ip("web") })
			env.mustSync("mail")
		}},
	}
	for _, step := range steps {
		env.reset()
		step.do()
		calls := env.calls()
		first := slices.Index(calls, "createFirewallRule")
		if assert.NotEqual(t, -1, first, step.name) {
			assert.NotContains(t, calls[first:], "createLoadBalancerRule", step.name)
			assert.NotContains(t, calls[first:], "assignToLoadBalancerRule", step.name)
		}
	}
}

// oneByOne records creations and deletions of internal load balancers that are submitted before the controller has seen
// the end of an earlier job.
type oneByOne struct {
	apply.Jobs

	mu        sync.Mutex
	running   string // the command whose job has not ended
	submitted int
	overlaps  []string
}

func internalCommand(name string) bool {
	return name == "createLoadBalancer" || name == "deleteLoadBalancer"
}

func (o *oneByOne) answered(form url.Values, r *http.Response) {
	command := form.Get("command")
	if !internalCommand(command) || r.StatusCode != http.StatusOK {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running != "" {
		o.overlaps = append(o.overlaps, command+" during "+o.running)
	}
	o.submitted++
	o.running = command
}

func (o *oneByOne) Await(ctx context.Context, a cloudstack.Await) (*cloudstack.Job, error) {
	job, err := o.Jobs.Await(ctx, a)
	if internalCommand(a.Command) {
		o.mu.Lock()
		o.running = ""
		o.mu.Unlock()
	}
	return job, err
}

// The server breaks an internal address when two of its ports are deleted at once: each creation and deletion waits
// until the job of the one before has ended, also when two Services share the address.
func TestInternalLoadBalancersOneByOne(t *testing.T) {
	t.Parallel()
	var order *oneByOne
	env := newEnv(t, withVPC, withDeps(func(d *service.Deps) {
		order = &oneByOne{Jobs: d.API.Jobs}
		d.API.Jobs = order
	}))
	env.look = order.answered
	env.create("web", []int{80, 81, 82, 83}, annotate(annotation.Internal, "true"))
	env.mustSync("web", "i1", "i2")
	assert.Equal(t, 4, order.submitted)

	// Other ports and another algorithm: deletions and creations in one plan.
	env.changed(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 91, 92, 93) }, "i1", "i2")
	env.changed(annotate(annotation.Algorithm, "leastconn"), "i1", "i2")
	require.NoError(t, env.remove("web"))
	assert.Empty(t, order.overlaps)
	assert.Equal(t, env.before, env.dump())

	// Two Services with one address, at the same time.
	for i, ports := range [][]int{{80, 81}, {90, 91}} {
		name := fmt.Sprintf("web%d", i)
		env.create(name, ports, annotate(annotation.Internal, "true"), func(s *corev1.Service) { s.Spec.LoadBalancerIP = "10.2.2.99" })
	}
	order.submitted = 0
	for _, work := range []func(string) error{
		func(name string) error { return env.sync(name, "i1", "i2") },
		env.remove,
	} {
		var group sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			group.Go(func() { errs[i] = work(fmt.Sprintf("web%d", i)) })
		}
		group.Wait()
		assert.Equal(t, []error{nil, nil}, errs)
	}
	assert.Equal(t, 8, order.submitted)
	assert.Empty(t, order.overlaps)
	assert.Equal(t, env.before, env.dump())
}

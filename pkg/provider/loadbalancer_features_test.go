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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/service"
)

var (
	readyEndpoint  = discoveryv1.EndpointConditions{Ready: ptr.To(true)}
	endingEndpoint = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
)

// endpoints sets the endpoints of a Service, by node.
func (a *apiServer) endpoints(key string, nodes endpoints) {
	a.t.Helper()
	namespace, name := a.split(key)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for node, conditions := range nodes {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{NodeName: &node, Conditions: conditions})
	}
	slices := a.kube.DiscoveryV1().EndpointSlices(namespace)
	_, err := slices.Create(a.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = slices.Update(a.t.Context(), s, metav1.UpdateOptions{})
	}
	require.NoError(a.t, err)
}

type endpoints = map[string]discoveryv1.EndpointConditions

// A drift round uses the current labels of the nodes, also if events of the informer were lost.
func TestDriftRoundSeesLabels(t *testing.T) {
	t.Parallel()
	labelled := map[string]string{}
	env := newEnv(t, withDeps(func(d *service.Deps) {
		d.Nodes = func() ([]*corev1.Node, error) {
			nodes := nodesNamed("w1", "w2")
			for _, n := range nodes {
				n.Labels = map[string]string{"tier": labelled[n.Name]}
			}
			return nodes, nil
		}
	}))
	env.create("web", []int{80}, annotate(annotation.NodeSelector, "tier=web"))
	env.mustSync("web")
	ip := env.get("web").Status.LoadBalancer.Ingress[0].IP
	for _, name := range []string{"w1", "w2"} {
		clear(labelled)
		labelled[name] = "web"
		env.round(5 * time.Minute)
		assert.Contains(t, of(env.dump(), ip), "rule a7c3e1b5200004000800000000000abc-tcp-80 80->30080 tcp roundrobin [0.0.0.0/0] ["+name+"]")
	}
}

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

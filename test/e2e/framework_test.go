// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	servicecontroller "k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// apacheCloud creates load balancers as Apache's provider does: rules are named after the Service's UID, have all nodes
// as members, and a firewall rule for each port. It tags and records nothing.
type apacheCloud struct {
	cloudprovider.Interface // the service controller calls none of the embedded methods
	api                     *cloudstack.Client
	vm                      func(node string) string

	mu     sync.Mutex
	synced map[string]bool
}

func (a *apacheCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return a, true }

func (*apacheCloud) GetLoadBalancerName(_ context.Context, _ string, svc *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(svc)
}

// rules returns the rules of a Service. As in all its callers, errors end the work through package must.
func (a *apacheCloud) rules(ctx context.Context, svc *corev1.Service) []cloudstack.LoadBalancerRule {
	return slices.DeleteFunc(must.Get(a.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{})),
		func(r cloudstack.LoadBalancerRule) bool {
			return !strings.HasPrefix(r.Name, a.GetLoadBalancerName(ctx, "", svc)+"-")
		})
}

func (a *apacheCloud) GetLoadBalancer(
	ctx context.Context, _ string, svc *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	rules, err := must.Try(func() []cloudstack.LoadBalancerRule { return a.rules(ctx, svc) })
	if err != nil || len(rules) == 0 {
		return nil, false, err
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: rules[0].PublicIP}}}, true, nil
}

// done waits for the job of a call and returns the id of the created object.
func (a *apacheCloud) done(ctx context.Context, submitted cloudstack.Submitted, err error) string {
	must.OK(err)
	must.Get(a.api.Jobs().Wait(ctx, "a call", submitted.JobID))
	return submitted.ID
}

func (a *apacheCloud) EnsureLoadBalancer(
	ctx context.Context, _ string, svc *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	err := must.Catch(func() { a.ensure(ctx, svc, nodes) })
	if err != nil {
		return nil, err
	}
	status, _, err := a.GetLoadBalancer(ctx, "", svc)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.synced[svc.Name] = err == nil
	return status, err
}

func (a *apacheCloud) ensure(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) {
	rules := a.rules(ctx, svc)
	var address string
	if len(rules) > 0 {
		address = rules[0].PublicIPID
	} else {
		network := must.Get(a.api.ListNetworks(ctx, cloudstack.NetworkQuery{}))[0].ID
		s, err := a.api.AssociateIP(ctx, cloudstack.AssociateIPRequest{NetworkID: network})
		address = a.done(ctx, s, err)
	}

	var members []cloudstack.MemberAddress
	for _, n := range nodes {
		members = append(members, cloudstack.MemberAddress{VMID: a.vm(n.Name)})
	}

	for _, p := range svc.Spec.Ports {
		name := fmt.Sprintf("%s-tcp-%d", a.GetLoadBalancerName(ctx, "", svc), p.Port)
		if slices.ContainsFunc(rules, func(r cloudstack.LoadBalancerRule) bool { return r.Name == name }) {
			continue
		}

		s, err := a.api.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name:        name,
			Algorithm:   "roundrobin",
			Protocol:    "tcp",
			PublicIPID:  address,
			PublicPort:  int(p.Port),
			PrivatePort: int(p.NodePort),
		})

		s, err = a.api.AssignToLoadBalancerRule(ctx, a.done(ctx, s, err), members)
		a.done(ctx, s, err)
		s, err = a.api.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{
			PublicIPID: address,
			Protocol:   "tcp",
			StartPort:  int(p.Port),
			EndPort:    int(p.Port),
			CIDRs:      []string{"0.0.0.0/0"},
		})

		a.done(ctx, s, err)
	}
}

func (*apacheCloud) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

func (a *apacheCloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *corev1.Service) error {
	return must.Catch(func() {
		rules := a.rules(ctx, svc)
		for _, r := range rules {
			s, err := a.api.Delete(ctx, "deleteLoadBalancerRule", r.ID)
			a.done(ctx, s, err)
		}
		if len(rules) > 0 {
			s, err := a.api.DisassociateIP(ctx, rules[0].PublicIPID)
			a.done(ctx, s, err)
		}
	})
}

// runFramework runs Kubernetes' own service controller until stop is called, and waits until it has synced the
// Services.
func (e *directEnv) runFramework(t *testing.T, services ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	config, err := e.AdminConfig()
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	cloud := &apacheCloud{api: e.api(t, testenv.User), vm: e.vms.VM, synced: map[string]bool{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := servicecontroller.New(cloud, client, factory.Core().V1().Services(), factory.Core().V1().Nodes(),
		"kubernetes", nil)
	require.NoError(t, err)
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, 2, controllers.NewControllerManagerMetrics("e2e")) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait(); factory.Shutdown() })
	t.Cleanup(stop)
	e.eventually(t, "Kubernetes' service controller to sync the Services", func(context.Context) {
		cloud.mu.Lock()
		defer cloud.mu.Unlock()
		for _, name := range services {
			must.Be(cloud.synced[name], "%s is not synced", name)
		}
	})

	return stop
}

// visible describes what users see of Services: rules with ids, addresses and members, firewall rules, finalizers, and
// the addresses in the status.
func (e *directEnv) visible(t *testing.T, services ...string) (out []string) {
	t.Helper()
	api := e.api(t, testenv.User)
	rules, err := testenv.Rules(t.Context(), api, "")
	require.NoError(t, err)
	for _, r := range rules {
		out = append(out,
			fmt.Sprint("rule ", r.ID, r.Name, r.PublicIPID, r.PublicIP, r.PublicPort, r.PrivatePort, r.Algorithm,
				r.State, r.Members))
	}

	addresses, err := api.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
	require.NoError(t, err)
	for _, a := range addresses {
		out = append(out, fmt.Sprint("address ", a.ID, a.Address, a.State))
	}

	firewall, err := api.ListFirewallRules(t.Context(), cloudstack.FirewallRuleQuery{})
	require.NoError(t, err)
	for _, f := range firewall {
		out = append(out, fmt.Sprint("firewall rule ", f.ID, f.PublicIPID, f.Protocol, f.StartPort, f.EndPort, f.CIDRs))
	}

	for _, name := range services {
		s, err := e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		out = append(out, fmt.Sprint("Service ", name, s.Finalizers, e.address(t, name)))
	}

	slices.Sort(out)
	return out
}

// TestKubernetesServiceControllerAndBack takes Services over from Kubernetes' own service controller, with the objects
// of Apache's provider, and gives them back. No rule, address or finalizer changes, and nothing is left at the end.
func TestKubernetesServiceControllerAndBack(t *testing.T) {
	t.Parallel()
	e := directEnvOf(t, testenv.Options{VMs: 3, Nodes: 3})
	empty := e.visible(t)
	framework := e.runFramework(t)
	e.service(t, "web", 80, 81, 443)
	e.service(t, "mail", 25)
	e.address(t, "web")
	e.address(t, "mail")
	require.NoError(t, e.vms.Idle(t.Context()))
	framework()
	same := func(what string, before []string, services ...string) {
		t.Helper()
		if after := e.visible(t, services...); !slices.Equal(before, after) {
			t.Errorf("%s changed\n%s\nto\n%s", what, strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
	}

	before := e.visible(t, "web", "mail")
	ours := e.controller(t, testenv.User, "--leader-elect=false")
	e.reconciled(t, "web", "mail")
	same("csccm", before, "web", "mail")
	e.service(t, "ours", 8080)
	e.reconciled(t, "ours")
	require.NoError(t, e.vms.Idle(t.Context()))
	ours.Stop(10 * time.Second)

	all := []string{"web", "mail", "ours"}
	before = e.visible(t, all...)
	e.runFramework(t, all...)
	same("Kubernetes' service controller", before, all...)
	for _, name := range all {
		e.deleteService(t, name)
		e.gone(t, name)
	}
	same("both together", empty)
}

// reconciled waits until csccm's controller reports that it has reconciled Services.
func (e *env) reconciled(t *testing.T, services ...string) {
	t.Helper()
	e.eventually(t, "csccm's controller to reconcile the Services", func(ctx context.Context) {
		for _, name := range services {
			s := must.Get(e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{}))
			must.Be(apimeta.IsStatusConditionTrue(s.Status.Conditions, "csccm.io/LoadBalancerReady"), "%s is not ready",
				name)
		}
	})
}

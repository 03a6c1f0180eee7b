// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/testenv"
	"github.com/csccm/csccm/test/traffic"
)

// stream is traffic through the Services of a cluster that another provider has left behind.
type stream struct {
	*clusterEnv
	path   *datapath.Path
	client *traffic.Client
}

// patience is longer than a busy machine holds up a request: what it does not bring is lost.
const patience = 2 * time.Minute

// unreachable are Services whose source ranges leave this machine's clients out.
var unreachable = map[string]bool{"restricted": true, "cidrs": true}

// newStream starts the recorded state with a backend for every node, and requests to all Services that let this machine in.
func newStream(t *testing.T, recorded, image, provider string) *stream {
	t.Helper()
	s := &stream{clusterEnv: newClusterEnv(t, nil)}
	state := s.leave(t, recorded)
	s.precededBy(t, testenv.Predecessor{Image: image, Provider: provider})
	s.standIn(t)
	to := map[string]string{}
	for _, v := range state.CloudStack.VirtualMachine {
		b, err := traffic.StartBackend(t.Context(), v.Name, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Stop)
		for _, r := range state.CloudStack.LoadBalancerRule {
			to[net.JoinHostPort(v.NIC[0].IPAddress, r.PrivatePort)] = b.Address()
		}
	}
	members, err := datapath.ParseMembers(to)
	if err != nil {
		t.Fatal(err)
	}
	if s.path, err = datapath.Start(t.Context(), s.cloud.Simulator, datapath.Options{Mode: datapath.Loopback, Members: members, HAProxy: datapath.FindHAProxy()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.path.Close)
	var targets []traffic.Target
	addresses := map[string]string{}
	for _, ip := range state.CloudStack.PublicIPAddress {
		addresses[ip.ID] = ip.IPAddress
	}
	services := map[string]string{} // by node port
	for i := range state.Kubernetes.Services {
		for _, p := range state.Kubernetes.Services[i].Spec.Ports {
			services[fmt.Sprint(p.NodePort)] = state.Kubernetes.Services[i].Name
		}
	}
	for _, r := range state.CloudStack.LoadBalancerRule {
		if at := net.JoinHostPort(addresses[r.PublicIPID], r.PublicPort); !unreachable[services[r.PrivatePort]] {
			targets = append(targets, traffic.Target{Name: services[r.PrivatePort] + ":" + r.PublicPort, Address: func() (string, error) {
				if listen, ok := s.path.Listen(at); ok {
					return listen, nil
				}
				return "", errors.New("no rule")
			}})
		}
	}
	s.client = traffic.Start(t.Context(), "before", traffic.Options{Targets: targets, Timeout: patience})
	s.eventually(t, "answers of every Service", func(context.Context) error {
		if r := s.client.Next("before"); len(targets) == 0 || r.Requests < 20 || r.Failures > 0 {
			return fmt.Errorf("%d targets, %+v", len(targets), r)
		}
		return nil
	})
	return s
}

// leave makes cluster and CloudStack as a provider left them. Names that hold a Service's UID get the new one.
func (e *clusterEnv) leave(t *testing.T, recorded string) *leftby.State {
	t.Helper()
	state, err := leftby.Load(recorded)
	if err != nil {
		t.Fatal(err)
	}
	for i := range state.Kubernetes.Services {
		e.recreate(t, state, &state.Kubernetes.Services[i])
	}
	world, err := state.World()
	if err != nil {
		t.Fatal(err)
	}
	if e.cloud, err = testenv.StartCloudStack(world); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.cloud.Stop)
	for i := range state.Kubernetes.Nodes {
		n := &state.Kubernetes.Nodes[i]
		o := joined(worker1)
		o.Name, o.Address, o.ProviderID, o.Labels = n.Name, n.Status.Addresses[0].Address, n.Spec.ProviderID, n.Labels
		e.join(t, o)
	}
	e.secret(t, string(e.config(t, leftby.Account).Render()))
	for i := range state.Kubernetes.Leases {
		l := state.Kubernetes.Leases[i]
		l.ObjectMeta = metav1.ObjectMeta{Name: l.Name, Namespace: l.Namespace}
		if _, err := e.Client.CoordinationV1().Leases(l.Namespace).Create(t.Context(), &l, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

// standIn holds the lease as the old controller does, until its Deployment has no replicas any more.
// That is all that one does with nothing to do.
func (e *clusterEnv) standIn(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	renew := func() bool {
		d, err := e.Client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, oldName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && *d.Spec.Replicas == 0 {
			return false
		}
		leases := e.Client.CoordinationV1().Leases(metav1.NamespaceSystem)
		if l, err := leases.Get(ctx, lease, metav1.GetOptions{}); err == nil {
			now := metav1.NowMicro()
			l.Spec.RenewTime = &now
			_, _ = leases.Update(ctx, l, metav1.UpdateOptions{}) // it is renewed again at once
		}
		return true
	}
	renew()
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for renew() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// recreate makes a Service with its ports and its status, and renames its rules after the new UID.
func (e *clusterEnv) recreate(t *testing.T, state *leftby.State, s *corev1.Service) {
	t.Helper()
	old := "a" + strings.ReplaceAll(string(s.UID), "-", "")[:31]
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, Annotations: s.Annotations, Finalizers: s.Finalizers}, Spec: *s.Spec.DeepCopy()}
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil
	made, err := e.Client.CoreV1().Services(s.Namespace).Create(t.Context(), svc, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status = s.Status
	if _, err := e.Client.CoreV1().Services(s.Namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range state.CloudStack.LoadBalancerRule {
		r := &state.CloudStack.LoadBalancerRule[i]
		r.Name = strings.Replace(r.Name, old, "a"+strings.ReplaceAll(string(made.UID), "-", "")[:31], 1)
	}
}

// during runs something that no request may notice.
func (s *stream) during(t *testing.T, what string, do func(t *testing.T)) {
	t.Helper()
	s.client.Next(what)
	ok := t.Run(what, do)
	r := s.client.Next("between")
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if ok && r.Requests == 0 {
		t.Errorf("%s: no request was sent meanwhile", what)
	}
}

// report prints the table of all parts with a name of their own.
func (s *stream) report(t *testing.T) {
	t.Helper()
	last := s.client.Stop()
	if err := last.Err(); err != nil {
		t.Error(err)
	}
	var all []traffic.Report
	for _, r := range s.client.Reports() {
		if r.Name != "before" && r.Name != "between" {
			all = append(all, r)
		}
	}
	t.Logf("TRAFFIC\n%s", traffic.Table(all))
}

// takeOver is the one command of docs/migrate.md.
func (s *stream) takeOver(t *testing.T) {
	s.csccm(t, "", append([]string{
		"install", "--yes", "--accept", "all", "--pin", "default/documented", "--skip-taint", "--set", "replicaCount=2",
	}, podNetwork...)...).want(t, 0)
	s.recorded(t)
}

// TestTrafficFromUpstream sends requests all the time while a cluster of Apache's provider becomes csccm's, and lives on.
func TestTrafficFromUpstream(t *testing.T) {
	t.Parallel()
	s := newStream(t, leftby.Apache, "apache/cloudstack-kubernetes-provider:v1.2.0", "external-cloudstack")
	defer s.report(t)
	s.during(t, "takeover from upstream v1.2.0", s.takeOver)
	if t.Failed() {
		return
	}
	s.during(t, "migrate-rules", s.migrate)
	s.during(t, "chart upgrade", func(t *testing.T) { s.csccm(t, "", "upgrade", "--set", "logVerbosity=4", "--yes").want(t, 0) })
	s.during(t, "chart rollback", func(t *testing.T) { s.csccm(t, "", "rollback", "--yes").want(t, 0) })
	s.during(t, "leader killed", s.killLeader)
	s.during(t, "CloudStack down for a minute", s.outage)
}

// TestTrafficFromLeaseweb does the same from Leaseweb's provider.
func TestTrafficFromLeaseweb(t *testing.T) {
	t.Parallel()
	s := newStream(t, leftby.Leaseweb, "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1", "cloudstack")
	defer s.report(t)
	s.during(t, "takeover from Leaseweb v1.8.1", s.takeOver)
}

// migrate gives the rules names of the oldest form and has csccm rename them.
func (s *stream) migrate(t *testing.T) {
	client := s.api(t, leftby.Account)
	list, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		r := &list[i]
		name := strings.Replace(r.Name, "-"+r.Protocol+"-", "-", 1)
		sent, err := client.UpdateLoadBalancerRule(t.Context(), cloudstack.UpdateLoadBalancerRuleRequest{ID: r.ID, Name: name, Protocol: r.Protocol, Algorithm: r.Algorithm})
		if err == nil {
			_, err = client.Jobs().Wait(t.Context(), "updateLoadBalancerRule", sent.JobID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.csccm(t, "", "migrate-rules", "--yes").want(t, 0)
	s.eventually(t, "the rules to have the names of today", func(ctx context.Context) error {
		now, err := client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{})
		for i := range now {
			if !strings.Contains(now[i].Name, "-"+now[i].Protocol+"-") {
				err = errors.Join(err, fmt.Errorf("one is named %s", now[i].Name))
			}
		}
		return err
	})
}

// killLeader ends the leader's process and waits until another leads and the first is back.
func (s *stream) killLeader(t *testing.T) {
	first := s.holder(t.Context())
	if err := syscall.Kill(s.leadingPID(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.newLeader(t, first)
	s.runs(t, "Deployment")
}

// outage takes CloudStack away for a minute. A Service changes meanwhile, and the change is made when CloudStack is back.
func (s *stream) outage(t *testing.T) {
	s.cloud.Restart(time.Minute)
	services := s.Client.CoreV1().Services(metav1.NamespaceDefault)
	web, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web.Spec.Ports = append(web.Spec.Ports, servicePorts(8888)...)
	if _, err := services.Update(t.Context(), web, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the port that was added meanwhile to be served", func(context.Context) error {
		if _, ok := s.path.Listen(net.JoinHostPort(web.Status.LoadBalancer.Ingress[0].IP, "8888")); !ok {
			return errors.New("no rule")
		}
		return nil
	})
	s.csccm(t, "", "doctor", "--only", "CS-006").want(t, 0, "API reachable from Pods: no call fails")
}

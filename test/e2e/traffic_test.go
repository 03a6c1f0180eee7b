// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/takeover/leftby"
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
	s.predecessorOf(t, image, provider)
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
	if s.path, err = datapath.Start(t.Context(), s.cloud.Simulator, datapath.Options{Mode: datapath.Loopback, Members: members}); err != nil {
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
func (env *clusterEnv) leave(t *testing.T, recorded string) *leftby.State {
	t.Helper()
	state, err := leftby.Load(recorded)
	if err != nil {
		t.Fatal(err)
	}
	for i := range state.Kubernetes.Services {
		env.recreate(t, state, &state.Kubernetes.Services[i])
	}
	world, err := state.World()
	if err != nil {
		t.Fatal(err)
	}
	if env.cloud, err = testenv.StartCloudStack(world); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.cloud.Stop)
	for i := range state.Kubernetes.Nodes {
		n := &state.Kubernetes.Nodes[i]
		o := joined(worker1)
		o.Name, o.Address, o.ProviderID, o.Labels = n.Name, n.Status.Addresses[0].Address, n.Spec.ProviderID, n.Labels
		env.join(t, o)
	}
	config, err := env.cloud.Config(leftby.Account)
	if err != nil {
		t.Fatal(err)
	}
	env.secret(t, string(config.Render()))
	for i := range state.Kubernetes.Leases {
		l := state.Kubernetes.Leases[i]
		l.ObjectMeta = metav1.ObjectMeta{Name: l.Name, Namespace: l.Namespace}
		if _, err := env.Client.CoordinationV1().Leases(l.Namespace).Create(t.Context(), &l, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

// standIn holds the lease as the old controller does, until its Deployment has no replicas any more.
// That is all that one does with nothing to do.
func (env *clusterEnv) standIn(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	renew := func() bool {
		d, err := env.Client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, oldName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && *d.Spec.Replicas == 0 {
			return false
		}
		leases := env.Client.CoordinationV1().Leases(metav1.NamespaceSystem)
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
func (env *clusterEnv) recreate(t *testing.T, state *leftby.State, s *corev1.Service) {
	t.Helper()
	old := "a" + strings.ReplaceAll(string(s.UID), "-", "")[:31]
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, Annotations: s.Annotations, Finalizers: s.Finalizers}, Spec: *s.Spec.DeepCopy()}
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil
	made, err := env.Client.CoreV1().Services(s.Namespace).Create(t.Context(), svc, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status = s.Status
	if _, err := env.Client.CoreV1().Services(s.Namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
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
	out, code := s.csccm(t, "", "install", "--yes", "--accept", "all", "--pin", "default/documented", "--skip-taint",
		"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)", "--set", "replicaCount=2")
	if code != 0 {
		t.Fatalf("the install ended with %d:\n%s", code, out)
	}
	t.Log(out)
	s.eventually(t, "the new controller to record its addresses", func(ctx context.Context) error {
		list, err := s.Client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			v := &list.Items[i]
			if v.Spec.Type == corev1.ServiceTypeLoadBalancer && v.Annotations["service.beta.kubernetes.io/cloudstack-load-balancer-addresses"] == "" {
				return fmt.Errorf("service %s has no record", v.Name)
			}
		}
		return nil
	})
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
	s.during(t, "chart upgrade", func(t *testing.T) {
		if out, code := s.csccm(t, "", "upgrade", "--set", "logVerbosity=4", "--yes"); code != 0 {
			t.Errorf("it ended with %d:\n%s", code, out)
		}
	})
	s.during(t, "chart rollback", func(t *testing.T) {
		if out, code := s.csccm(t, "", "rollback", "--yes"); code != 0 {
			t.Errorf("it ended with %d:\n%s", code, out)
		}
	})
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
	client, err := s.cloud.Client(leftby.Account)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
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
	if out, code := s.csccm(t, "", "migrate-rules", "--yes"); code != 0 {
		t.Errorf("migrate-rules ended with %d:\n%s", code, out)
	}
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
	holder := func(ctx context.Context) string {
		l, err := s.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
		if err != nil || l.Spec.HolderIdentity == nil {
			return ""
		}
		return *l.Spec.HolderIdentity
	}
	first, killed := holder(t.Context()), ""
	pods, err := s.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		path, ok := s.PodLog(metav1.NamespaceSystem, pods[i].Name)
		if !ok {
			continue
		}
		if log, err := os.ReadFile(path); err != nil || !strings.Contains(string(log), "uccessfully acquired lease") { // #nosec G304 -- a log of the test
			continue
		}
		for _, n := range s.Nodes() {
			if pid, ok := n.PodPID(metav1.NamespaceSystem, pods[i].Name); ok {
				killed = pods[i].Name
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if killed == "" {
		t.Fatalf("no Pod's log says that it leads; the lease is held by %q", first)
	}
	s.eventually(t, "another leader", func(ctx context.Context) error {
		if now := holder(ctx); now == first || now == "" {
			return fmt.Errorf("the lease is held by %q", now)
		}
		return nil
	})
	s.eventually(t, "the Pods to be ready again", s.rolledOut)
}

// outage takes CloudStack away for a minute, in which a Service changes: that is made good for afterwards.
func (s *stream) outage(t *testing.T) {
	s.cloud.Restart(time.Minute)
	services := s.Client.CoreV1().Services(metav1.NamespaceDefault)
	web, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web.Spec.Ports = append(web.Spec.Ports, servicePorts([]int32{8888})...)
	if _, err := services.Update(t.Context(), web, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = testenv.Wait(t.Context(), 5*time.Minute, "the port that was added meanwhile to be served", func(context.Context) error {
		if _, ok := s.path.Listen(net.JoinHostPort(web.Status.LoadBalancer.Ingress[0].IP, "8888")); !ok {
			return errors.New("no rule")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	out, code := s.csccm(t, "", "doctor", "--only", "CS-006")
	if text := strings.Join(strings.Fields(out), " "); code != 0 || !strings.Contains(text, "that is over") {
		t.Errorf("after the outage doctor ended with %d:\n%s", code, out)
	}
}

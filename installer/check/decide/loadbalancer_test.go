// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

const (
	uidWeb = "01234567-89ab-cdef-0123-456789abcdef"
	lbWeb  = "a0123456789abcdef0123456789abcde"
	lbGone = "affffffffffffffffffffffffffffff0"
)

func ours(wanted, ready int32) Workload {
	l := map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "r"}
	return Workload{Kind: "Deployment", Namespace: "kube-system", Name: "cloudstack-cloud-controller-manager", labels: l, selector: l, Wanted: wanted, Ready: ready}
}

func pod(name string, ready bool, change ...func(p *corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: ours(0, 0).labels}, Spec: corev1.PodSpec{NodeName: "node-of-" + name}}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func TestDecidePods(t *testing.T) {
	t.Parallel()
	waiting := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	}
	restarts := func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 7}} }
	unscheduled := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}
	}
	const deployment = "Deployment kube-system/cloudstack-cloud-controller-manager"
	decide := func(w Workload, pods ...corev1.Pod) Finding {
		c := ControllersOf("r", "kube-system", []Workload{w})
		return Pods(c, c.Pods(append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}})), true)
	}
	expect{OK, "2 Pods", nil}.verify(t, decide(ours(2, 2), pod("a", true), pod("b", true)))
	expect{Warning, "1 of 2 Pods ready", []string{deployment + ": 1 of 2", "Pod kube-system/b: ImagePullBackOff: no such image"}}.verify(t, decide(ours(2, 1), pod("a", true), pod("b", false, waiting)))
	expect{"", "0 of 1 Pod ready", []string{deployment, "Pod kube-system/a: not scheduled: 0/3"}}.verify(t, decide(ours(1, 0), pod("a", false, unscheduled)))
	expect{"", "0 of 0 Pods", []string{deployment}}.verify(t, decide(ours(0, 0)))
	expect{Warning, "restart", []string{"Pod kube-system/a: restarted 7 times"}}.verify(t, decide(ours(1, 1), pod("a", true, restarts)))
	expect{"", "release r has no Deployment", nil}.verify(t, Pods(ControllersOf("r", "kube-system", nil), nil, true))
}

func TestSecurityCheckNamesPodsOnWorkers(t *testing.T) {
	t.Parallel()
	node := func(name string, labels map[string]string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	role := map[string]string{"node-role.kubernetes.io/control-plane": ""}
	one := []corev1.Node{node("node-of-a", role), node("node-of-b", nil)}
	two := []corev1.Node{one[0], node("node-of-b", role)}
	pending := pod("c", false, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	expect{OK, "0 Pods", nil}.verify(t, Placement(nil, one))
	expect{OK, "2 Pods", nil}.verify(t, Placement([]corev1.Pod{pod("a", true), pending}, one))
	expect{OK, "2 Pods", nil}.verify(t, Placement([]corev1.Pod{pod("a", true), pod("b", true)}, two))
	expect{OK, "no node has the label", nil}.verify(t, Placement([]corev1.Pod{pod("b", true)}, one[1:]))
	expect{"", "1 Pod with the keys on workers", []string{"Pod kube-system/b: runs on node node-of-b, which is no control plane node"}}.verify(t, Placement([]corev1.Pod{pod("a", true), pod("b", true)}, one))
}

func lease(name, holder string, ago time.Duration) coordinationv1.Lease {
	at, seconds := metav1.NewMicroTime(now.Add(-ago)), int32(15)
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds},
	}
}

func TestDecideLeader(t *testing.T) {
	t.Parallel()
	const name = "cloud-controller-manager"
	pods := []corev1.Pod{pod("ccm-1", true)}
	others := []Workload{{Kind: "Deployment", Namespace: "x", Name: name, Wanted: 1}}
	decide := func(others []Workload, leases ...coordinationv1.Lease) Finding {
		return Leader(LeaderFacts{Leases: append(leases, lease("kube-scheduler", "s_1", 0)), Pods: pods, Others: others, Now: now})
	}
	expect{OK, "held by ccm-1_9d0c, renewed 2s ago", nil}.verify(t, decide(nil, lease(name, "ccm-1_9d0c", 2*time.Second)))
	expect{OK, "", nil}.verify(t, decide(others, lease(name, "node-of-ccm-1_9d0c", 2*time.Second)))
	expect{OK, "", nil}.verify(t, decide(nil, lease(name, "host-of-a-process-node_9d0c", time.Second)))
	expect{"", "no Pod of this release", []string{"Lease kube-system/" + name}}.verify(t, decide(others, lease(name, "else_1", time.Second)))
	expect{"", "nobody has renewed", []string{"Lease kube-system/" + name + ": renewed 5m0s ago"}}.verify(t, decide(nil, lease(name, "ccm-1_1", 5*time.Minute)))
	expect{"", "nobody holds", nil}.verify(t, decide(nil))
	expect{"", "nobody holds", nil}.verify(t, decide(nil, lease(name, "", time.Second)))
	// A controller was uninstalled 20 s ago and a new one started: the lease looks fresh, and nobody leads.
	pods[0].CreationTimestamp = metav1.NewTime(now.Add(-5 * time.Second))
	left, took := lease(name, "ccm-1_1", 20*time.Second), lease(name, "ccm-1_2", time.Second)
	left.Spec.AcquireTime = new(metav1.NewMicroTime(now.Add(-time.Hour)))
	took.Spec.AcquireTime = new(metav1.NewMicroTime(now.Add(-2 * time.Second)))
	expect{"", "nobody leads", []string{"Lease kube-system/" + name}}.verify(t, decide(nil, left))
	expect{OK, "held by ccm-1_2", nil}.verify(t, decide(nil, took))
	expect{"", "2 cloud controller managers", []string{"Lease kube-system/" + name, "Lease kube-system/leaseweb-cloud-controller-manager"}}.verify(t,
		decide(nil, lease(name, "ccm-1_1", time.Second), lease("leaseweb-cloud-controller-manager", "x_1", time.Second)))
}

func TestDecideOthers(t *testing.T) {
	t.Parallel()
	workloads := []Workload{
		ours(1, 1),
		{Kind: "Deployment", Namespace: "kube-system", Name: "cloud-controller-manager", Wanted: 1, Images: []string{"apache/cloudstack-kubernetes-provider:v1.2.0"}},
		{Kind: "Deployment", Namespace: "kube-system", Name: "scaled-down-cloud-controller-manager", Wanted: 0},
		{Kind: "DaemonSet", Namespace: "lw", Name: "provider", Wanted: 3, Images: []string{"registry.example.org/leaseweb-ccm:v1.8.1"}},
		{Kind: "Deployment", Namespace: "kube-system", Name: "coredns", Wanted: 2, Images: []string{"coredns"}},
	}
	k3s := nodeWith("s1", func(n *corev1.Node) { n.Annotations["k3s.io/node-args"] = `["server"]` })
	expect{OK, "none", nil}.verify(t, Others(ControllersOf("r", "kube-system", workloads[:1]).Others, nil, []corev1.Node{nodeWith("a")}))
	expect{"", "another", []string{
		"Deployment kube-system/cloud-controller-manager: 1 Pod, image apache/", "DaemonSet lw/provider: 3 Pods", "Node s1: built-in",
	}}.verify(t, Others(ControllersOf("r", "kube-system", workloads).Others, nil, []corev1.Node{k3s}))
	require.Len(t, ControllersOf("another-release", "kube-system", workloads).Others, 3, "a second release of ours is another one too")
}

// Static Pods of other providers count; what has ended, and the chart's own test, do not.
func TestLoosePods(t *testing.T) {
	t.Parallel()
	pod := func(name string, change func(p *corev1.Pod)) corev1.Pod {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: "registry.example.org/csccm/cloudstack-ccm:v1"}}},
		}
		change(&p)
		return p
	}
	loose := LoosePods([]corev1.Pod{
		pod("cloud-controller-manager-node1", func(*corev1.Pod) {}),
		pod("cloud-controller-manager-old", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("cloudstack-cloud-controller-manager-self-test", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("cloudstack-cloud-controller-manager-self-test", func(p *corev1.Pod) {
			p.Labels = map[string]string{"app.kubernetes.io/name": "cloudstack-ccm-self-test"}
		}),
		pod("cloud-controller-manager-1", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet"}} }),
		pod("cloud-controller-manager-2", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }),
	})
	require.Len(t, loose, 1)
	require.Equal(t, "cloud-controller-manager-node1", loose[0].Name)
}

func event(kind, name, component, reason, level string, ago time.Duration) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "default", Name: name, UID: types.UID(uidWeb)},
		Type:           level, Reason: reason, Message: "a message\nin two lines", Source: corev1.EventSource{Component: component},
		LastTimestamp: metav1.NewTime(now.Add(-ago)),
	}
}

func TestDecideEvents(t *testing.T) {
	t.Parallel()
	failed := event("Service", "web", "service-controller", "SyncLoadBalancerFailed", "Warning", 10*time.Minute)
	expect{OK, "none", nil}.verify(t, Errors(nil, nil, Living{}, now))
	expect{"", "1 object", []string{"Service default/web: SyncLoadBalancerFailed 10m0s ago: a message in two lines"}}.verify(t, Errors([]corev1.Event{failed}, nil, Living{}, now))
	for _, e := range []corev1.Event{
		event("Service", "web", "service-controller", "EnsuredLoadBalancer", "Normal", 9*time.Minute),
	} {
		expect{OK, "", nil}.verify(t, Errors([]corev1.Event{failed, e}, nil, Living{}, now))
	}
	earlier := event("Service", "web", "service-controller", "EnsuredLoadBalancer", "Normal", 11*time.Minute)
	expect{"", "", []string{"Service default/web: "}}.verify(t, Errors([]corev1.Event{earlier, failed}, nil, Living{}, now))
	expect{OK, "", nil}.verify(t, Errors([]corev1.Event{
		event("Service", "web", "service-controller", "SyncLoadBalancerFailed", "Warning", 2*time.Hour),
		event("Node", "a", "kubelet", "Rebooted", "Warning", time.Minute),
		event("Service", "web", "service-controller", "EnsuringLoadBalancer", "Normal", time.Minute),
	}, nil, Living{}, now))
	newStyle := failed
	newStyle.Source, newStyle.LastTimestamp = corev1.EventSource{}, metav1.Time{}
	newStyle.ReportingController, newStyle.EventTime = "cloud-node-controller", metav1.NewMicroTime(now.Add(-time.Minute))
	expect{"", "", []string{"Service default/web: 1m0s ago"}}.verify(t, Errors([]corev1.Event{newStyle}, nil, Living{}, now))
}

func TestDecideCKS(t *testing.T) {
	t.Parallel()
	expect{"", "made by CKS", nil}.verify(t, CKS(Distribution{cluster.CKS, "node names"}, nil, nil))
	expect{OK, "kubeadm (a ConfigMap)", nil}.verify(t, CKS(Distribution{cluster.Kubeadm, "a ConfigMap"}, nil, nil))
}

func lbService(change ...func(s *corev1.Service)) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uidWeb, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.11"}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func lbRule(id, name string, port int) cloudstack.LoadBalancerRule {
	return cloudstack.LoadBalancerRule{
		ID: id, Name: name, PublicIP: "203.0.113.11", PublicPort: port, PrivatePort: 30000 + port, Protocol: "tcp", State: "Active", NetworkID: "net-1",
	}
}

func members(ids ...string) []cloudstack.LoadBalancerMember {
	var out []cloudstack.LoadBalancerMember
	for _, id := range ids {
		out = append(out, cloudstack.LoadBalancerMember{VMID: id, Name: id[:1]})
	}
	return out
}

// healthy is a cluster of three nodes with one Service that has all it asks for.
func healthy() BalanceFacts {
	return BalanceFacts{
		Nodes: []corev1.Node{nodeWith("a"), nodeWith("b"), nodeWith("c")}, VMs: threeVMs(), Services: []corev1.Service{lbService()}, Now: now,
		Balancers: Balancers{
			Rules: []cloudstack.LoadBalancerRule{lbRule("1", lbWeb+"-tcp-80", 80)},
		},
	}
}

func TestDecideServices(t *testing.T) {
	t.Parallel()
	const web = "Service default/web: "
	tests := []struct {
		name   string
		change func(in *BalanceFacts)
		want   expect
	}{
		{"fine", func(*BalanceFacts) {}, expect{OK, "1 Service", nil}},
		{"none", func(in *BalanceFacts) { in.Services = nil }, expect{OK, "no Services", nil}},
		{"other kinds do not count", func(in *BalanceFacts) {
			class := "example.org/other"
			in.Services = []corev1.Service{lbService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }), lbService(func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class })}
		}, expect{OK, "no Services", nil}},
		{"new and without an address", func(in *BalanceFacts) {
			in.Services[0].Status.LoadBalancer.Ingress, in.Services[0].CreationTimestamp = nil, metav1.NewTime(now)
		}, expect{OK, "0 Services, 1 more being set up", nil}},
		{"old and without an address, with the reason", func(in *BalanceFacts) {
			in.Services[0].Status.LoadBalancer.Ingress = nil
			in.Events = []corev1.Event{event("Service", "web", "x", "SyncLoadBalancerFailed", "Warning", time.Minute)}
		}, expect{"", "1 of 1 Service", []string{web + "has no address since 1h0m0s: a message in two lines"}}},
		{"no rule", func(in *BalanceFacts) { in.Balancers.Rules = nil }, expect{"", "", []string{web + "port 80 has no rule"}}},
		{"a port without node port", func(in *BalanceFacts) { in.Balancers.Rules, in.Services[0].Spec.Ports[0].NodePort = nil, 0 }, expect{OK, "", nil}},
		{"an old name serves too", func(in *BalanceFacts) { in.Balancers.Rules[0].Name = lbWeb + "-80" }, expect{OK, "", nil}},
		{"another address", func(in *BalanceFacts) { in.Balancers.Rules[0].PublicIP = "203.0.113.99" }, expect{"", "", []string{web + "port 80: its rule is on 203.0.113.99, the Service shows 203.0.113.11"}}},
		{"a host name instead of the address", func(in *BalanceFacts) {
			in.Services[0].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "web.example.org"}}
		}, expect{OK, "", nil}},
		{"another node port", func(in *BalanceFacts) { in.Balancers.Rules[0].PrivatePort = 31000 }, expect{"", "", []string{web + "port 80: its rule goes to port 31000, the node port is 30080"}}},
		{"the plan is empty", func(in *BalanceFacts) {
			in.Balancers.Rules, in.Plans.ByName = nil, map[string]Planned{"default/web": {}}
		}, expect{OK, "1 Service", nil}},
		{"the plan has actions", func(in *BalanceFacts) {
			in.Plans.ByName = map[string]Planned{"default/web": {Actions: []string{"would open port 80", "b", "c", "d", "e", "f"}}}
		}, expect{"", "1 of 1 Service", []string{web + "would open port 80; b; c; d; 2 more actions"}}},
		{"a Service that was just changed is being worked on", func(in *BalanceFacts) {
			in.Plans.ByName = map[string]Planned{"default/web": {Actions: []string{"would open port 80"}}}
			in.Services[0].Status.Conditions = []metav1.Condition{{Type: service.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}
		}, expect{OK, "0 Services, 1 more being set up", nil}},
		{"a new Service that is refused is given no time", func(in *BalanceFacts) {
			in.Services[0].Status.LoadBalancer.Ingress, in.Services[0].CreationTimestamp = nil, metav1.NewTime(now)
			in.Plans.ByName = map[string]Planned{"default/web": {Refused: "port 80 is taken", Remedy: "use another port"}}
		}, expect{"", "1 of 1 Service", []string{web + "refused: port 80 is taken"}}},
		{"no plan", func(in *BalanceFacts) {
			in.Plans.ByName = map[string]Planned{"default/web": {Err: errors.New("no answer")}}
		}, expect{"", "1 of 1 Service", []string{web + "cannot be compared: no answer"}}},
		{"a sample", func(in *BalanceFacts) {
			in.Plans = Plans{ByName: map[string]Planned{"default/other": {}}, Sampled: true}
		}, expect{OK, "1 Service; compared with the controller's plan are 1 of them, --only LB compares all", nil}},
		{"a rule that Leaseweb's provider has named serves all the same", func(in *BalanceFacts) {
			in.Balancers.Rules[0].Name = "K8s_svc_kubernetes_default_web-tcp-80"
		}, expect{OK, "", nil}},
		{"one of another cluster's Service of that name does not", func(in *BalanceFacts) {
			in.Balancers.Rules[0].Name, in.Balancers.Rules[0].PublicIP = "K8s_svc_kubernetes_default_web-tcp-80", "203.0.113.99"
		}, expect{"", "1 of 1 Service", []string{"Service default/web: port 80 has no rule"}}},
		{"two rules are LB-004's", func(in *BalanceFacts) {
			in.Balancers.Rules = append(in.Balancers.Rules, lbRule("2", lbWeb+"-80", 80))
		}, expect{OK, "", nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := healthy()
			tt.change(&in)
			tt.want.verify(t, Services(in))
		})
	}
}

func TestDecideRuleNames(t *testing.T) {
	t.Parallel()
	in := healthy()
	expect{OK, "none", nil}.verify(t, OldNames(in.Plan()))
	expect{OK, "none", nil}.verify(t, Duplicates(in.Plan()))
	expect{OK, "none", nil}.verify(t, Orphans(in, nil, nil))

	in.Balancers.Rules = []cloudstack.LoadBalancerRule{
		lbRule("1", lbWeb+"-80", 80), lbRule("2", lbWeb+"-443", 443), lbRule("3", lbWeb+"-tcp-443", 443),
		lbRule("4", lbGone+"-80", 80), lbRule("5", "affffffffffffffffffffffffffffff1-80", 80),
	}
	in.Balancers.Members = map[string][]cloudstack.LoadBalancerMember{"4": members(idA, idB), "5": members(idA, "dddddddd-0000-4000-8000-000000000004")}
	expect{"", "2 rules", []string{
		"LoadBalancerRule " + lbWeb + "-80: Service default/web", "LoadBalancerRule " + lbGone + "-80: its Service is gone",
	}}.verify(t, OldNames(in.Plan()))
	expect{"", "1 rule", []string{"LoadBalancerRule " + lbWeb + "-443: another rule"}}.verify(t, Duplicates(in.Plan()))

	tagged := func(address, clusterID, uid string) cloudstack.PublicIP {
		return cloudstack.PublicIP{Address: address, Tags: map[string]string{plan.TagCluster: clusterID, plan.TagServiceUID: uid, plan.TagService: "default/old"}}
	}
	expect{"", "3 objects", []string{"LoadBalancerRule " + lbGone + "-80: nodes of this cluster", "PublicIpAddress 203.0.113.50: default/old", "PublicIpAddress 203.0.113.54: default/old"}}.verify(t, Orphans(in, []cloudstack.PublicIP{
		tagged("203.0.113.50", "ours", "gone"), tagged("203.0.113.51", "former", uidWeb), tagged("203.0.113.54", "former", "gone"), tagged("203.0.113.52", "another", "gone"), {Address: "203.0.113.53"},
	}, []string{"ours", "former"}))
}

// CCM-003 recommends a takeover only for providers that one can replace, and names the others.
func TestRemedyForOthers(t *testing.T) {
	t.Parallel()
	of := func(name, image string, args ...string) Workload {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: name}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: image, Args: args}}
		return DeploymentOf(d)
	}
	apache, leaseweb := of("a", "apache/cloudstack-kubernetes-provider:v1.2.0"), of("l", "mirror/ccm:1", "--cloud-provider=cloudstack")
	openstack := of("openstack-cloud-controller-manager", "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1", "--cloud-provider=openstack")
	const takes, removes = "`csccm takeover` stops", "kubectl -n ops delete deployment openstack-cloud-controller-manager"
	for name, tt := range map[string]struct {
		others []Workload
		says   []string
		not    string
	}{
		"Apache's":       {[]Workload{apache}, []string{takes}, "kubectl"},
		"Leaseweb's":     {[]Workload{leaseweb}, []string{takes}, "kubectl"},
		"an unknown one": {[]Workload{openstack}, []string{"csccm takeover does not know Deployment ops/openstack-cloud-controller-manager", removes}, takes},
		"both":           {[]Workload{apache, openstack}, []string{takes, removes}, "disable-cloud-controller"},
	} {
		remedy := Others(tt.others, nil, nil).Remedy
		for _, s := range tt.says {
			require.Contains(t, remedy, s, name)
		}
		require.NotContains(t, remedy, tt.not, name)
	}
}

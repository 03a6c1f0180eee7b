// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/kube/cluster"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/service"
)

func ours(wanted, ready int32) Workload {
	l := map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "r"}
	return Workload{
		Kind:      "Deployment",
		Namespace: "kube-system",
		Name:      "cloudstack-cloud-controller-manager",
		labels:    l,
		selector:  &metav1.LabelSelector{MatchLabels: l},
		Wanted:    wanted,
		Ready:     ready,
	}
}

func pod(name string, ready bool, change ...func(p *corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: ours(0, 0).labels},
		Spec:       corev1.PodSpec{NodeName: "node-of-" + name},
	}
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

func TestPods(t *testing.T) {
	t.Parallel()
	waiting := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{
				State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
				},
			},
		}
	}

	restarts := func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 7}} }
	unscheduled := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"},
		}
	}

	const deployment = "Deployment kube-system/cloudstack-cloud-controller-manager"
	running := func(w Workload, pods ...corev1.Pod) func(*Facts) {
		return func(f *Facts) {
			f.Sort([]Workload{w})
			f.Pods = f.OwnPods(append(pods,
				corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}}))
		}
	}

	warns("1 of 2 Pods ready", deployment+": 1 of 2", "Pod kube-system/b: ImagePullBackOff: no such image").of(t,
		"CCM-001", running(ours(2, 1), pod("a", true), pod("b", false, waiting)))
	fails("0 of 1 Pod ready", deployment, "Pod kube-system/a: not scheduled: 0/3").of(t, "CCM-001",
		running(ours(1, 0), pod("a", false, unscheduled)))
	fails("0 of 0 Pods", deployment).of(t, "CCM-001", running(ours(0, 0)))
	warns("restart", "Pod kube-system/a: restarted 7 times").of(t, "CCM-001",
		running(ours(1, 1), pod("a", true, restarts)))
	passes("1 Pod").of(t, "CCM-001", running(ours(1, 1), pod("a", true, restarts, func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{
			StartedAt: metav1.NewTime(now.Add(-2 * time.Hour)),
		}
	})))
	quota := ours(1, 0)
	quota.Problem = "no Pod can be created: exceeded quota"
	require.Contains(t, fails("0 of 1", deployment+": 0 of 1 Pods ready; no Pod can be created: exceeded quota").
		of(t, "CCM-001", running(quota)).Remedy, "rollout restart")
	fails("release r has no Deployment").of(t, "CCM-001")
}

func TestSecurityCheckNamesPodsOnWorkers(t *testing.T) {
	t.Parallel()
	control := func(name string) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:   name,
				Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""},
			},
		}
	}

	a, b, worker := control("node-of-a"), control("node-of-b"), corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-of-b"},
	}
	pending := pod("c", false, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	pods := func(pods ...corev1.Pod) func(*Facts) { return func(f *Facts) { f.Pods = pods } }
	passes("2 Pods").of(t, "CCM-006", ofNodes(a, worker), pods(pod("a", true), pending))
	passes("2 Pods").of(t, "CCM-006", ofNodes(a, b), pods(pod("a", true), pod("b", true)))
	passes("1 Pod").of(t, "CCM-006", ofNodes(worker), pods(pod("b", true)))
	fails("1 Pod with the keys on workers",
		"Pod kube-system/b: runs on node node-of-b, which is not a control plane node").of(t, "CCM-006",
		ofNodes(a, worker), pods(pod("a", true), pod("b", true)))
}

func TestLeader(t *testing.T) {
	t.Parallel()
	const name = "cloud-controller-manager"
	lease := func(name, holder string, ago, acquired time.Duration) coordinationv1.Lease {
		at, since, seconds := metav1.NewMicroTime(now.Add(-ago)), metav1.NewMicroTime(now.Add(-acquired)), int32(15)
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       &holder,
				RenewTime:            &at,
				AcquireTime:          &since,
				LeaseDurationSeconds: &seconds,
			},
		}
	}

	const second, hour = time.Second, time.Hour
	other := Workload{Kind: "Deployment", Namespace: "x", Name: name, Wanted: 1}
	held := []string{"Lease kube-system/" + name}
	for says, tt := range map[string]struct {
		age    time.Duration // age of the Pod
		other  bool
		leases []coordinationv1.Lease
		want   expect
	}{
		"by the node's name": {2 * hour, true,
			[]coordinationv1.Lease{lease(name, "node-of-ccm-1_9d0c", 2*second, hour)}, passes("")},
		"by a process": {2 * hour, false,
			[]coordinationv1.Lease{lease(name, "host-of-a-process-node_9d0c", second, hour)}, passes("")},
		"another leads": {2 * hour, true, []coordinationv1.Lease{lease(name, "else_1", second, hour)},
			fails("not a Pod of this release", held...)},
		"stale": {2 * hour, false, []coordinationv1.Lease{lease(name, "ccm-1_1", 5*time.Minute, hour)},
			fails("nobody has renewed", held[0]+": renewed 5m0s ago")},
		"none": {2 * hour, false, nil, fails("nobody holds")},
		"released": {2 * hour, false, []coordinationv1.Lease{lease(name, "", second, hour)},
			fails("nobody holds")},
		"of one that is gone": {5 * second, false, []coordinationv1.Lease{lease(name, "ccm-1_1", 20*second, hour)},
			fails("nobody leads", held...)},
		"of a new Pod": {5 * second, false, []coordinationv1.Lease{lease(name, "ccm-1_2", second, 2*second)},
			passes("held by ccm-1_2")},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			tt.want.of(t, "CCM-002", func(f *Facts) {
				f.Pods = []corev1.Pod{pod("ccm-1", true)}
				f.Pods[0].CreationTimestamp = metav1.NewTime(now.Add(-tt.age))
				f.Leases = append(tt.leases, lease("kube-scheduler", "s_1", 0, hour))
				if tt.other {
					f.Controllers = []Workload{other}
				}
			})
		})
	}
}

// Every rival that package family recognises is named with its remedy, except the one that is about to be replaced.
func TestOtherControllers(t *testing.T) {
	t.Parallel()
	of := func(d ...*appsv1.Deployment) func(*Facts) {
		return func(f *Facts) {
			for i := range d {
				f.Workloads = append(f.Workloads, cluster.DeploymentOf(d[i]))
			}
		}
	}

	mirrored := leftby.Controller("cs-provider", "registry.example.org/mirror/ccm:1.2.0", nil,
		"--cloud-provider=external-cloudstack")
	openstack := leftby.Controller("openstack-cloud-controller-manager", "x", nil, "--cloud-provider=openstack")
	release := leftby.Controller("ccm", "x", ours(1, 1).labels, "--cloud-provider=external-cloudstack")
	const named = "Deployment kube-system/cs-provider: 1 Pod, image registry.example.org/mirror"
	require.Contains(t, fails("another cloud controller manager", named).of(t, "CCM-003", of(mirrored, release)).Remedy,
		"`csccm takeover`")
	both := fails("another", named,
		"Deployment kube-system/openstack-cloud-controller-manager: ").of(t, "CCM-003", of(mirrored, openstack))
	require.Contains(t, both.Remedy, "`csccm takeover` stops")
	require.Contains(t, both.Remedy, "`kubectl -n kube-system delete deployment openstack-cloud-controller-manager`")
	passes("none").of(t, "CCM-003", of(mirrored), func(f *Facts) {
		f.Replaces = []Object{{Kind: "Deployment", Namespace: "kube-system", Name: "cs-provider"}}
	})
	fails("another", "Deployment kube-system/ccm: release").of(t, "CCM-003", of(release),
		func(f *Facts) { f.Release = "another" })
	k3s := nodeWith("s1",
		func(n *corev1.Node) { n.Annotations["k3s.io/node-args"] = `["server","--disable-cloud-controller"]` })
	require.Contains(t,
		fails("gives Services without a class addresses", "Node s1: ServiceLB").of(t, "CCM-003", ofNodes(k3s)).Remedy,
		"--disable=servicelb")
	written := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	written.Spec.Type = corev1.ServiceTypeLoadBalancer
	written.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	written.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "balancer", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`)},
	}
	fights := func(f *Facts) { f.Services = []corev1.Service{written} } // it is unknown whether the program still runs
	warns("gives Services without a class addresses", "Service default/web: balancer writes its status").of(t,
		"CCM-003", fights)
	fails("1 of 1 Service", "Service default/web: balancer writes its status (field manager), though").of(t, "LB-001",
		healthy, fights)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	p := pod("a", false)
	ready := pod("b", true)
	far := errors.New("dial tcp: i/o timeout")
	answers := func(a ...Answer) func(*Facts) { return func(f *Facts) { f.Answers = a } }
	well := Answer{Pod: &p}
	skips("").of(t, "CCM-004")
	passes("2 Pods").of(t, "CCM-004", answers(well, Answer{Pod: &ready, Err: far}))
	fails("1 Pod", "Pod kube-system/a: /healthz: [-]x").of(t, "CCM-004",
		answers(Answer{Pod: &p, Sick: "/healthz: [-]x"}))
	expect{Unknown, "", []string{"Pod kube-system/a: i/o timeout"}}.of(t, "CCM-004", answers(Answer{Pod: &p, Err: far}))
}

// What a Pod uses is compared with the Secret, the project and the role.
func TestStates(t *testing.T) {
	t.Parallel()
	p, silent := pod("a", true), pod("b", true)
	secret := cloudstack.Config{
		APIURL:    "https://cloud/client/api",
		APIKey:    "a",
		SecretKey: "b",
		Zone:      "z1",
		ProjectID: "prod",
	}

	const at = "Pod kube-system/a: "
	for says, tt := range map[string]struct {
		change func(f *Facts, s *provider.State)
		want   expect
	}{
		"as it is": {func(*Facts, *provider.State) {}, passes("1 Pod")},
		"an old zone": {
			func(_ *Facts, s *provider.State) { s.Waits = []string{"zone", "region"} },
			fails("1 difference", at+"works with the old zone, region of the cloud-config"),
		},
		"a project that was made again": {
			func(_ *Facts, s *provider.State) { s.Project = "p-old" },
			fails("1 difference", at+"works in the project with id p-old, and that of the cloud-config has id p-1"),
		},
		"a project whose name was not looked up yet": {func(_ *Facts, s *provider.State) { s.Project = "prod" },
			passes("")},
		"a Secret that was changed": {
			func(f *Facts, _ *provider.State) { f.Secret.APIKey, f.Secret.Region = "new", "r" },
			warns("may be out of date", at+"read the cloud-config 3m0s ago, and the Secret has another api-key, "+
				"region;"),
		},
		"a file in place of the Secret": {func(f *Facts, _ *provider.State) { f.Secret = nil }, passes("")},
		"a role that was repaired": {
			func(_ *Facts, s *provider.State) { s.Refused["createTags"] = now.Add(-time.Minute) },
			warns("may be out of date",
				at+"was refused createTags 1m0s ago, but the role of the keys allows it now; next try at 03:13:05Z"),
		},
		"a Service without tags": {
			func(f *Facts, _ *provider.State) {
				s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "web"}}
				s.Status.Conditions = []metav1.Condition{{Type: service.ConditionUntagged, Status: "True"}}
				f.Services = append(f.Services, s)
			},
			warns("may be out of date", "Service x/web: is not tagged in CloudStack, which the role of the keys allows"),
		},
		"a refusal that is over": {func(_ *Facts, s *provider.State) {
			s.Refused["createTags"] = now.Add(-time.Hour)
		}, passes("")},
		"a command that is refused": {func(_ *Facts, s *provider.State) { s.Refused["listTags"] = now }, passes("")},
		"both": {
			func(_ *Facts, s *provider.State) { s.Waits, s.Refused["createTags"] = []string{"zone"}, now },
			fails("2 differences", at+"works with", at+"was refused"),
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			tt.want.of(t, "CCM-007", func(f *Facts) {
				inSecret := secret
				f.Config, f.Secret, f.ProjectID, f.APIs = secret, &inSecret, "p-1", sets.New("createTags")
				s := &provider.State{
					Config:  secret.Digests(),
					Loaded:  now.Add(-3 * time.Minute),
					Project: "p-1",
					Refused: map[string]time.Time{},
				}
				tt.change(f, s)
				f.Answers = []Answer{{Pod: &p, State: s}, {Pod: &silent}}
			})
		})
	}

	skips("no Pod shows it").of(t, "CCM-007", func(f *Facts) { f.Answers = []Answer{{Pod: &silent}} })
}

// A warning about an object ends when the object is deleted or healthy again, or when a later Event reports success.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	const web = "Service default/web: SyncLoadBalancerFailed 10m0s ago: a message in two lines"
	failed := event("Service", "web", "service-controller", "SyncLoadBalancerFailed", "Warning", 10*time.Minute)
	ensured := func(ago time.Duration) corev1.Event {
		return event("Service", "web", "service-controller", "EnsuredLoadBalancer", "Normal", ago)
	}
	newStyle := failed
	newStyle.Source, newStyle.LastTimestamp = corev1.EventSource{}, metav1.Time{}
	newStyle.ReportingController = "cloud-node-controller"
	newStyle.EventTime = metav1.NewMicroTime(now.Add(-time.Minute))
	repaired := event("Service", "web", "cloudstack-cloud-controller-manager", "DriftRepaired", "Warning", time.Minute)
	lost := event("Node", "a", "cloud-node-controller", "NodeWithoutVM", "Warning", 10*time.Minute)
	unread := func(f *Facts) {
		f.Fail(Services, errors.New("no"))
		f.Fail(Nodes, errors.New("no"))
	}

	is := func(status metav1.ConditionStatus, ago time.Duration) func(*Facts) {
		return func(f *Facts) {
			f.Services = []corev1.Service{lbService(func(s *corev1.Service) {
				s.Status.Conditions = []metav1.Condition{
					{Type: service.ConditionReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-ago))},
				}
			})}
		}
	}

	planned := func(p planner.Service) func(*Facts) {
		return func(f *Facts) {
			is("True", 20*time.Minute)(f)
			f.Planned = map[string]*planner.Service{"default/web": &p}
		}
	}

	wellNode := func(f *Facts) {
		threeVMs(f)
		f.Nodes = []corev1.Node{nodeWith("a", providerID("cloudstack:///"+idA))}
	}

	for name, tt := range map[string]struct {
		change func(*Facts)
		events []corev1.Event
		open   []string
	}{
		"a warning":           {unread, []corev1.Event{failed}, []string{web}},
		"a success after it":  {unread, []corev1.Event{failed, ensured(9 * time.Minute)}, nil},
		"a success before it": {unread, []corev1.Event{ensured(11 * time.Minute), failed}, []string{web}},
		"an old one": {unread,
			[]corev1.Event{event("Service", "web", "service-controller", "SyncLoadBalancerFailed", "Warning",
				2*time.Hour)}, nil},
		"of the kubelet": {unread,
			[]corev1.Event{event("Node", "a", "kubelet", "Rebooted", "Warning", time.Minute)}, nil},
		"a new style":            {unread, []corev1.Event{newStyle}, []string{"Service default/web: 1m0s ago"}},
		"a Service that is gone": {func(*Facts) {}, []corev1.Event{failed, lost}, nil},
		"of a Service of that name": {func(f *Facts) {
			f.Services = []corev1.Service{lbService(func(s *corev1.Service) { s.UID = "new" })}
		}, []corev1.Event{failed}, nil},
		"a Service that is not ready":   {is("False", time.Minute), []corev1.Event{failed}, []string{web}},
		"a Service that is ready since": {is("True", time.Minute), []corev1.Event{failed, repaired}, nil},
		"a Service that was ready":      {is("True", 20*time.Minute), []corev1.Event{failed}, []string{web}},
		"a Service whose plan says it no more": {
			planned(planner.Service{}), []corev1.Event{failed}, nil,
		},
		"a Service whose plan says it": {
			planned(planner.Service{
				Preview: loadbalancer.Preview{Notices: []plan.Notice{{Reason: "SyncLoadBalancerFailed"}}},
			}), []corev1.Event{failed}, []string{web},
		},
		"a Service that cannot be planned": {planned(planner.Service{Error: "no answer"}), []corev1.Event{failed},
			[]string{web}},
		"a Node that is well": {wellNode, []corev1.Event{lost}, nil},
		"an annotation that a Node still has": {
			func(f *Facts) {
				wellNode(f)
				f.Nodes[0].Annotations[node.AnnotationInternalCIDRs] = "10.1.1.0/240"
			},
			[]corev1.Event{event("Node", "a", "cloud-node-controller", "InvalidAnnotation", "Warning", time.Minute)},
			[]string{"Node default/a: InvalidAnnotation"},
		},
		"a Node without a VM": {ofNodes(nodeWith("a")), []corev1.Event{lost},
			[]string{"Node default/a: NodeWithoutVM"}},
	} {
		want := fails("1 object", tt.open...)
		if tt.open == nil {
			want = passes("none")
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want.of(t, "CCM-005", tt.change, func(f *Facts) { f.Events = tt.events })
		})
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package family

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

type controllerCase struct {
	Deployment string            `json:"deployment"`
	Labels     map[string]string `json:"labels"`
	Container  corev1.Container  `json:"container"`
	Family     Family            `json:"family"`
	Lease      string            `json:"lease"`
}

func TestRecognise(t *testing.T) {
	cases.Run(t, "testdata/recognise.yaml", func(t *testing.T, _ string, c controllerCase) {
		t.Helper()
		d := leftby.Controller(c.Deployment, c.Container.Image, c.Labels, c.Container.Args...)
		d.Spec.Template.Spec.Containers[0].Env = c.Container.Env
		w := cluster.DeploymentOf(d)
		p := of(&w)
		require.Equal(t, c.Family, p.Family)
		if c.Lease == "" {
			require.Nil(t, p.Lease)
		} else {
			require.Equal(t, &lease.Name{Namespace: "kube-system", Name: c.Lease}, p.Lease)
		}
	})
}

// The lease is read from every kind of workload in the chart: it decides which controller stops first.
func TestLeaseOfAChart(t *testing.T) {
	t.Parallel()
	mine := lease.Name{Namespace: "infra", Name: "mine"}
	for kind, want := range map[string]lease.Name{"Deployment": mine, "DaemonSet": mine, "StatefulSet": lease.Default} {
		manifest := "apiVersion: v1\nkind: ServiceAccount\n---\napiVersion: apps/v1\nkind: " + kind + `
metadata: {name: ccm, labels: {app.kubernetes.io/name: named-by-its-owner}}
spec: {template: {spec: {containers: [{name: ccm, args: [--leader-elect-resource-name=mine, --leader-elect-resource-namespace=infra]}]}}}
`
		own := Own{Lease: lease.Default}
		own.FromChart(manifest)
		require.Equal(t, want, own.Lease, kind)
	}
}

// Rivals are found by arguments, leases and the writer of a Service's status, whatever their names and images.
func TestRivals(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	chart := func(release, controllers string) *appsv1.Deployment {
		d := leftby.Controller(release+"-ccm", "x",
			map[string]string{cluster.NameLabel: cluster.ChartName, cluster.InstanceLabel: release},
			"--cloud-provider=external-cloudstack")
		if controllers != "" {
			d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args,
				"--controllers="+controllers)
		}
		return d
	}

	deployments := func(d ...*appsv1.Deployment) func(*Evidence) {
		return func(e *Evidence) {
			for _, it := range d {
				e.Workloads = append(e.Workloads, cluster.DeploymentOf(it))
			}
		}
	}

	own := func(words ...string) func(*Evidence) {
		return func(e *Evidence) { e.Words = append([]string{"/cloudstack-ccm"}, words...) }
	}
	mirrored := leftby.Controller("cs-provider", "registry.example.org/mirror/ccm:1.2.0", nil,
		"--cloud-provider=external-cloudstack")
	stopped := mirrored.DeepCopy()
	stopped.Spec.Replicas = ptr.To(int32(0))
	ownedBy := func(kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
		}
	}
	static := func(change ...func(*corev1.Pod)) func(*Evidence) {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p-node1"},
			Spec:       corev1.PodSpec{Containers: mirrored.Spec.Template.Spec.Containers},
		}
		ownedBy("Node", "node1")(&p)
		for _, f := range change {
			f(&p)
		}
		return func(e *Evidence) { e.Pods = append(e.Pods, p) }
	}

	k3s := func(args string) func(*Evidence) {
		return func(e *Evidence) {
			e.Nodes = append(e.Nodes,
				corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: "s1", Annotations: map[string]string{"k3s.io/node-args": args}},
				})
		}
	}

	service := func(manager string, class *string) func(*Evidence) {
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, class
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
		s.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:type":{}}}`)},
			{
				Manager:     manager,
				Subresource: "status",
				FieldsV1:    metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`),
			},
		}
		return func(e *Evidence) { e.Services = append(e.Services, s) }
	}

	klipper := func(e *Evidence) {
		d := appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "svclb-web", Labels: map[string]string{
				"svccontroller.k3s.cattle.io/svcname": "web", "svccontroller.k3s.cattle.io/svcnamespace": "default",
			}},
		}
		all, _ := cluster.Workloads(t.Context(), fake.NewClientset(&d), "", metav1.ListOptions{})
		e.Workloads = append(e.Workloads, all...)
	}

	elected := func(name, holder string, ago time.Duration) func(*Evidence) {
		l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		l.Spec.HolderIdentity = &holder
		l.Spec.LeaseDurationSeconds = ptr.To(int32(15))
		l.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-ago)}
		return func(e *Evidence) { e.Leases = append(e.Leases, l) }
	}

	kubeVIP := leftby.Controller("vip", "mirror/vip", nil, "manager")
	kubeVIP.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "svc_enable", Value: "true"}}
	type is []func(*Evidence)
	for name, tt := range map[string]struct {
		is   is
		want string // the rival and a part of its What; "" for none
	}{
		"a mirrored image under another name": {is{deployments(mirrored)},
			"Deployment kube-system/cs-provider: 1 Pod, image registry"},
		"one with no Pods":   {is{deployments(stopped)}, ""},
		"the release itself": {is{deployments(chart("ccm", "")), own()}, ""},
		"a second release for the other work": {is{deployments(chart("two", "service-lb-controller")),
			own("--controllers=cloud-node-controller")}, ""},
		"a second release for some, no first": {is{deployments(chart("two", "service-lb-controller"))}, ""},
		"a second release for the same work": {is{deployments(chart("two", "service-lb-controller")), own()},
			"Deployment kube-system/two-ccm: release two of csccm's chart runs service-lb-controller"},
		"another release alone": {is{deployments(chart("two", ""))},
			"Deployment kube-system/two-ccm: release two of csccm's chart runs all controllers"},
		"a static Pod": {is{static()}, "Pod kube-system/p-node1: a static Pod"},
		"a Pod of a Deployment": {
			is{deployments(stopped), static(ownedBy("ReplicaSet", "cs-provider-5d4f8"), func(p *corev1.Pod) {
				p.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "5d4f8"}
			})},
			"",
		},
		"a StatefulSet": {is{static(ownedBy("StatefulSet", "ccm")), static(ownedBy("StatefulSet", "ccm"))},
			"StatefulSet kube-system/ccm: another cloud controller manager, image registry"},
		"a Job": {is{static(ownedBy("Job", "ccm"))}, "Job kube-system/ccm: another cloud controller manager"},
		"a ReplicaSet without a Deployment": {is{static(ownedBy("ReplicaSet", "ccm-5d4f8"))},
			"ReplicaSet kube-system/ccm-5d4f8: another cloud controller manager"},
		"a Pod of its own": {is{static(func(p *corev1.Pod) { p.OwnerReferences = nil })},
			"Pod kube-system/p-node1: another cloud controller manager"},
		"a Pod that has ended": {
			is{static(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
			"",
		},
		"the chart's self-test": {
			is{static(func(p *corev1.Pod) {
				p.Labels = map[string]string{cluster.NameLabel: "cloudstack-ccm-self-test"}
			})},
			"",
		},
		"k3s": {is{k3s(`["server"]`)},
			"Node s1: its k3s or RKE2 server runs the built-in"},
		"k3s without its cloud controller": {is{k3s(`["server","--disable-cloud-controller"]`)},
			"Node s1: its k3s server runs ServiceLB"},
		"k3s without both": {
			is{k3s(`["server","--disable-cloud-controller","--disable","traefik,servicelb"]`)},
			"",
		},
		"k3s without both, twice": {
			is{k3s(`["server","--disable-cloud-controller","--disable=servicelb","--disable=traefik"]`)},
			"",
		},
		"ServiceLB": {is{klipper, service("cloudstack-ccm", nil)},
			"DaemonSet kube-system/svclb-web: ServiceLB of k3s serves Service default/web"},
		"ServiceLB for a class": {is{klipper, service("k3s", ptr.To("io.cattle/klipper-lb"))}, ""},
		"MetalLB": {
			is{deployments(leftby.Controller("controller", "quay.io/metallb/controller:v0.14.9", nil, "--port=7472"))},
			"Deployment kube-system/controller: serves Services without a class",
		},
		"MetalLB beside a class of ours": {
			is{deployments(leftby.Controller("controller", "quay.io/metallb/controller:v0.14.9", nil)),
				k3s(`["server","--disable-cloud-controller"]`), own("--load-balancer-class=example.com/cs")},
			"",
		},
		"Cilium writes a status of our class": {is{service("cilium-operator-generic", ptr.To("example.com/cs")),
			own("--load-balancer-class=example.com/cs")},
			"Service default/web: cilium-operator-generic writes its status"},
		"MetalLB for a class": {
			is{deployments(leftby.Controller("controller", "quay.io/metallb/controller:v0.14.9", nil,
				"--lb-class=metallb"))},
			"",
		},
		"kube-vip": {is{deployments(kubeVIP)},
			"Deployment kube-system/vip: serves Services without a class"},
		"Cilium writes a status": {is{service("cilium-operator-generic", nil)},
			"Service default/web: cilium-operator-generic writes its status"},
		"Cilium writes a status of a class": {is{service("cilium-operator-generic", ptr.To("io.cilium/l2"))},
			""},
		"a provider for CloudStack wrote it": {is{service("cloudstack-ccm", nil)}, ""},
		"a person wrote it":                  {is{service("kubectl-edit", nil)}, ""},
		"a lease of nobody who is known": {is{elected("cloud-controller-manager", "host_1", time.Second)},
			"Lease kube-system/cloud-controller-manager: host_1"},
		"a lease of a Deployment that is gone": {is{elected("cloud-controller-manager", "x-6cdbc76f44-wq5vr_1",
			time.Second)}, ""},
		"a lease of a DaemonSet that is gone": {is{elected("cloud-controller-manager",
			"cloud-controller-manager-wq5vr_1", time.Second)}, ""},
		"a lease of a Deployment of another name": {is{deployments(leftby.Controller("x", "nginx", nil)),
			elected("cloud-controller-manager", "x-6cdbc76f44-wq5vr_1", time.Second)},
			"Lease kube-system/cloud-controller-manager: x-6cdb"},
		"a lease that has expired": {is{elected("cloud-controller-manager", "host_1", time.Minute)},
			""},
		"a lease of csccm": {is{elected("cloud-controller-manager", "csccm-takeover_1",
			time.Second)}, ""},
		"the release's lease": {is{deployments(chart("ccm", "")),
			elected("cloud-controller-manager", "host_1", time.Second)}, ""},
		"another lease beside the release's": {is{deployments(chart("ccm", "")),
			elected("k3s-cloud-controller-manager", "s1", time.Second)},
			"Lease kube-system/k3s-cloud-controller-manager: s1"},
		"the lease of a provider that is named": {is{deployments(mirrored),
			elected("cloud-controller-manager", "host_1", time.Second)}, "Deployment kube-system/cs-provider: 1 Pod"},
		"a lease of other controllers":              {is{elected("kube-scheduler", "host_1", time.Second)}, ""},
		"a Deployment of something else altogether": {is{deployments(leftby.Controller("web", "nginx", nil))}, ""},
	} {
		e := Evidence{At: now, Release: "ccm", Namespace: "kube-system"}
		for _, f := range tt.is {
			f(&e)
		}
		got := e.Rivals()
		if tt.want == "" {
			require.Empty(t, got, name)
			continue
		}
		require.Len(t, got, 1, name)
		require.Contains(t, got[0].String(), tt.want, name)
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kversion "k8s.io/apimachinery/pkg/version"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/kubelet"
)

// page is how many objects are asked for at once.
const page = 500

// listAll collects the pages of a list.
func listAll[T any, L metav1.ListInterface](ctx context.Context, e *Env, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error), items func(L) []T) ([]T, error) {
	var out []T
	o.Limit = page
	for {
		l, err := list(ctx, o)
		if err != nil {
			return nil, e.Cluster.Explain(err)
		}
		out = append(out, items(l)...)
		if o.Continue = l.GetContinue(); o.Continue == "" {
			return out, nil
		}
	}
}

func (e *Env) readVersion(ctx context.Context) (*kversion.Info, error) { return e.Cluster.Ping(ctx) }

func (e *Env) readDistribution(ctx context.Context) (decide.Distribution, error) {
	nodes, err := e.facts.nodes.get(ctx)
	if err != nil {
		return decide.Distribution{}, err
	}
	d, by, err := e.Cluster.Distribution(ctx, nodes)
	return decide.Distribution{Name: d, By: by}, err
}

func (e *Env) readNodes(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoreV1().Nodes().List, func(l *corev1.NodeList) []corev1.Node { return l.Items })
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, err
}

func (e *Env) readVolumes(ctx context.Context) ([]corev1.PersistentVolume, error) {
	return listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoreV1().PersistentVolumes().List, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items })
}

func (e *Env) leasesOf(ctx context.Context, namespace string) ([]coordinationv1.Lease, error) {
	return listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoordinationV1().Leases(namespace).List, func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items })
}

func (e *Env) readHeartbeats(ctx context.Context) ([]coordinationv1.Lease, error) {
	return e.leasesOf(ctx, corev1.NamespaceNodeLease)
}

// readLeases reads where leader election leases of cloud controller managers are.
func (e *Env) readLeases(ctx context.Context) ([]coordinationv1.Lease, error) {
	leases, err := e.leasesOf(ctx, metav1.NamespaceSystem)
	if err != nil || e.Namespace == metav1.NamespaceSystem {
		return leases, err
	}
	own, err := e.leasesOf(ctx, e.Namespace)
	return append(leases, own...), err
}

func (e *Env) readKubelets(ctx context.Context) ([]kubelet.NodeVerdict, error) {
	nodes, err := e.facts.nodes.get(ctx)
	if err != nil {
		return nil, err
	}
	return kubelet.VerifyWith(ctx, e.Cluster, nodes, e.ProbePod), nil
}

func (e *Env) readNamespace(ctx context.Context) (*corev1.Namespace, error) {
	n, err := e.Cluster.Kube.CoreV1().Namespaces().Get(ctx, e.Namespace, metav1.GetOptions{})
	return n, e.Cluster.Explain(err)
}

func (e *Env) readServices(ctx context.Context) ([]corev1.Service, error) {
	services, err := listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List, func(l *corev1.ServiceList) []corev1.Service { return l.Items })
	slices.SortFunc(services, func(a, b corev1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return services, err
}

func (e *Env) readWorkloads(ctx context.Context) ([]decide.Workload, error) {
	apps := e.Cluster.Kube.AppsV1()
	deployments, err := listAll(ctx, e, metav1.ListOptions{}, apps.Deployments(metav1.NamespaceAll).List, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items })
	if err != nil {
		return nil, err
	}
	sets, err := listAll(ctx, e, metav1.ListOptions{}, apps.DaemonSets(metav1.NamespaceAll).List, func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items })
	var out []decide.Workload
	for i := range deployments {
		out = append(out, decide.DeploymentOf(&deployments[i]))
	}
	for i := range sets {
		out = append(out, decide.DaemonSetOf(&sets[i]))
	}
	return out, err
}

// readPods reads the pods of the controller's namespace.
func (e *Env) readPods(ctx context.Context) ([]corev1.Pod, error) { return e.podsOf(ctx, e.Namespace) }

// readSystemPods reads those of kube-system, where other providers and static Pods are.
func (e *Env) readSystemPods(ctx context.Context) ([]corev1.Pod, error) {
	if e.Namespace == metav1.NamespaceSystem {
		return e.facts.pods.get(ctx)
	}
	return e.podsOf(ctx, metav1.NamespaceSystem)
}

func (e *Env) podsOf(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	return listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoreV1().Pods(namespace).List, func(l *corev1.PodList) []corev1.Pod { return l.Items })
}

// readEvents reads the Events about Nodes and Services, the objects of cloud controllers.
func (e *Env) readEvents(ctx context.Context) ([]corev1.Event, error) {
	var out []corev1.Event
	for _, kind := range []string{"Node", "Service"} {
		events, err := listAll(ctx, e, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind}, e.Cluster.Kube.CoreV1().Events(metav1.NamespaceAll).List, func(l *corev1.EventList) []corev1.Event { return l.Items })
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	return out, nil
}

// readReleases reads the records that Helm keeps of the release, oldest first.
func (e *Env) readReleases(ctx context.Context) ([]decide.ReleaseRecord, error) {
	secrets, err := listAll(ctx, e, metav1.ListOptions{LabelSelector: "owner=helm,name=" + e.Release}, e.Cluster.Kube.CoreV1().Secrets(e.Namespace).List, func(l *corev1.SecretList) []corev1.Secret { return l.Items })
	if err != nil {
		return nil, err
	}
	return decide.ReleaseRecords(secrets), nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kversion "k8s.io/apimachinery/pkg/version"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
)

// page is how many objects are asked for at once.
const page = 500

// all collects the pages of a list.
func all[T any](ctx context.Context, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) ([]T, string, error)) ([]T, error) {
	var out []T
	o.Limit = page
	for {
		items, next, err := list(ctx, o)
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
		if next == "" {
			return out, nil
		}
		o.Continue = next
	}
}

func (e *Env) readVersion(ctx context.Context) (*kversion.Info, error) { return e.Cluster.Ping(ctx) }

// distribution is how the cluster was made, and what told so.
type distribution struct {
	name cluster.Distribution
	by   string
}

func (e *Env) readDistribution(ctx context.Context) (distribution, error) {
	nodes, err := e.facts.nodes.get(ctx)
	if err != nil {
		return distribution{}, err
	}
	d, by, err := e.Cluster.Distribution(ctx, nodes)
	return distribution{d, by}, err
}

func (e *Env) readNodes(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := all(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Node, string, error) {
		l, err := e.Cluster.Kube.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		return l.Items, l.Continue, nil
	})
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, err
}

func (e *Env) readVolumes(ctx context.Context) ([]corev1.PersistentVolume, error) {
	return all(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]corev1.PersistentVolume, string, error) {
		l, err := e.Cluster.Kube.CoreV1().PersistentVolumes().List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		return l.Items, l.Continue, nil
	})
}

func (e *Env) leasesOf(ctx context.Context, namespace string) ([]coordinationv1.Lease, error) {
	return all(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]coordinationv1.Lease, string, error) {
		l, err := e.Cluster.Kube.CoordinationV1().Leases(namespace).List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		return l.Items, l.Continue, nil
	})
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
	services, err := all(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Service, string, error) {
		l, err := e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		return l.Items, l.Continue, nil
	})
	slices.SortFunc(services, func(a, b corev1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return services, err
}

func (e *Env) readWorkloads(ctx context.Context) ([]workload, error) {
	apps := e.Cluster.Kube.AppsV1()
	out, err := all(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]workload, string, error) {
		l, err := apps.Deployments(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		var out []workload
		for i := range l.Items {
			out = append(out, deploymentOf(&l.Items[i]))
		}
		return out, l.Continue, nil
	})
	if err != nil {
		return nil, err
	}
	sets, err := all(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]workload, string, error) {
		l, err := apps.DaemonSets(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		var out []workload
		for i := range l.Items {
			out = append(out, daemonSetOf(&l.Items[i]))
		}
		return out, l.Continue, nil
	})
	return append(out, sets...), err
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
	return all(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
		l, err := e.Cluster.Kube.CoreV1().Pods(namespace).List(ctx, o)
		if err != nil {
			return nil, "", e.Cluster.Explain(err)
		}
		return l.Items, l.Continue, nil
	})
}

// readEvents reads the Events about Nodes and Services, the objects of cloud controllers.
func (e *Env) readEvents(ctx context.Context) ([]corev1.Event, error) {
	var out []corev1.Event
	for _, kind := range []string{"Node", "Service"} {
		events, err := all(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind},
			func(ctx context.Context, o metav1.ListOptions) ([]corev1.Event, string, error) {
				l, err := e.Cluster.Kube.CoreV1().Events(metav1.NamespaceAll).List(ctx, o)
				if err != nil {
					return nil, "", e.Cluster.Explain(err)
				}
				return l.Items, l.Continue, nil
			})
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	return out, nil
}

// readReleases reads the records that Helm keeps of the release, oldest first.
func (e *Env) readReleases(ctx context.Context) ([]releaseRecord, error) {
	secrets, err := all(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + e.Release},
		func(ctx context.Context, o metav1.ListOptions) ([]corev1.Secret, string, error) {
			l, err := e.Cluster.Kube.CoreV1().Secrets(e.Namespace).List(ctx, o)
			if err != nil {
				return nil, "", e.Cluster.Explain(err)
			}
			return l.Items, l.Continue, nil
		})
	if err != nil {
		return nil, err
	}
	return releaseRecords(secrets), nil
}

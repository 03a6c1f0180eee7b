// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/podlog"
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

var versionFact = &fact[*kversion.Info]{"the version", func(ctx context.Context, e *Env) (*kversion.Info, error) {
	return e.Cluster.Ping(ctx)
}}

var distributionFact = &fact[decide.Distribution]{"the distribution", func(ctx context.Context, e *Env) (decide.Distribution, error) {
	nodes, err := nodesFact.get(ctx, e)
	if err != nil {
		return decide.Distribution{}, err
	}
	d, by, err := e.Cluster.Distribution(ctx, nodes)
	return decide.Distribution{Name: d, By: by}, err
}}

var nodesFact = &fact[[]corev1.Node]{"the nodes", func(ctx context.Context, e *Env) ([]corev1.Node, error) {
	nodes, err := listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoreV1().Nodes().List, func(l *corev1.NodeList) []corev1.Node { return l.Items })
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, err
}}

var volumesFact = &fact[[]corev1.PersistentVolume]{"the volumes", func(ctx context.Context, e *Env) ([]corev1.PersistentVolume, error) {
	return listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoreV1().PersistentVolumes().List, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items })
}}

func (e *Env) leasesOf(ctx context.Context, namespace string) ([]coordinationv1.Lease, error) {
	return listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoordinationV1().Leases(namespace).List, func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items })
}

var heartbeatsFact = &fact[[]coordinationv1.Lease]{"the nodes' leases", func(ctx context.Context, e *Env) ([]coordinationv1.Lease, error) {
	return e.leasesOf(ctx, corev1.NamespaceNodeLease)
}}

// leasesFact holds where leader election leases of cloud controller managers are.
var leasesFact = &fact[[]coordinationv1.Lease]{"the leases", func(ctx context.Context, e *Env) ([]coordinationv1.Lease, error) {
	leases, err := e.leasesOf(ctx, metav1.NamespaceSystem)
	if err != nil || e.Namespace == metav1.NamespaceSystem {
		return leases, err
	}
	own, err := e.leasesOf(ctx, e.Namespace)
	return append(leases, own...), err
}}

var kubeletsFact = &fact[[]kubelet.NodeVerdict]{"the kubelets", func(ctx context.Context, e *Env) ([]kubelet.NodeVerdict, error) {
	nodes, err := nodesFact.get(ctx, e)
	if err != nil {
		return nil, err
	}
	return kubelet.VerifyWith(ctx, e.Cluster, nodes, e.ProbePod), nil
}}

var namespaceFact = &fact[*corev1.Namespace]{"the namespace", func(ctx context.Context, e *Env) (*corev1.Namespace, error) {
	n, err := e.Cluster.Kube.CoreV1().Namespaces().Get(ctx, e.Namespace, metav1.GetOptions{})
	return n, e.Cluster.Explain(err)
}}

var servicesFact = &fact[[]corev1.Service]{"the Services", func(ctx context.Context, e *Env) ([]corev1.Service, error) {
	services, err := listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List, func(l *corev1.ServiceList) []corev1.Service { return l.Items })
	slices.SortFunc(services, func(a, b corev1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return services, err
}}

// controllersFact holds the cloud controller managers.
var controllersFact = &fact[decide.Controllers]{"Deployments and DaemonSets", func(ctx context.Context, e *Env) (decide.Controllers, error) {
	work, err := workloadsFact.get(ctx, e)
	if err != nil {
		return decide.Controllers{}, err
	}
	var all []decide.Workload
	for i := range work.deployments {
		all = append(all, decide.DeploymentOf(&work.deployments[i]))
	}
	for i := range work.daemonSets {
		all = append(all, decide.DaemonSetOf(&work.daemonSets[i]))
	}
	return decide.ControllersOf(e.Release, e.Namespace, all), nil
}}

// podsFact holds the pods of the controller's namespace.
var podsFact = &fact[[]corev1.Pod]{"the Pods", func(ctx context.Context, e *Env) ([]corev1.Pod, error) {
	return e.podsOf(ctx, e.Namespace)
}}

// systemPodsFact holds those of kube-system, where other providers and static Pods are.
var systemPodsFact = &fact[[]corev1.Pod]{"the Pods of kube-system", func(ctx context.Context, e *Env) ([]corev1.Pod, error) {
	if e.Namespace == metav1.NamespaceSystem {
		return podsFact.get(ctx, e)
	}
	return e.podsOf(ctx, metav1.NamespaceSystem)
}}

func (e *Env) podsOf(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	return listAll(ctx, e, metav1.ListOptions{}, e.Cluster.Kube.CoreV1().Pods(namespace).List, func(l *corev1.PodList) []corev1.Pod { return l.Items })
}

// eventsFact holds the Events about Nodes and Services, the objects of cloud controllers.
var eventsFact = &fact[[]corev1.Event]{"the Events", func(ctx context.Context, e *Env) ([]corev1.Event, error) {
	var out []corev1.Event
	for _, kind := range []string{"Node", "Service"} {
		events, err := listAll(ctx, e, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind}, e.Cluster.Kube.CoreV1().Events(metav1.NamespaceAll).List, func(l *corev1.EventList) []corev1.Event { return l.Items })
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	return out, nil
}}

// releasesFact holds the revisions that Helm keeps of the release, oldest first.
var releasesFact = &fact[[]helm.Release]{"Helm's records", func(ctx context.Context, e *Env) ([]helm.Release, error) {
	out, err := helm.Records(ctx, e.Cluster.Kube.CoreV1().Secrets(e.Namespace), e.Release)
	return out, e.Cluster.Explain(err)
}}

// ownPodsFact are the Pods of the release.
var ownPodsFact = &fact[[]corev1.Pod]{"the controller's Pods", func(ctx context.Context, e *Env) ([]corev1.Pod, error) {
	controllers, err := controllersFact.get(ctx, e)
	if err != nil {
		return nil, err
	}
	pods, err := podsFact.get(ctx, e)
	return controllers.Pods(pods), err
}}

// logsFact holds the logs of the release's Pods that run.
var logsFact = &fact[[]decide.Log]{"the controller's log", func(ctx context.Context, e *Env) ([]decide.Log, error) {
	pods, err := ownPodsFact.get(ctx, e)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
	return parallel(ctx, pods, func(ctx context.Context, p *corev1.Pod) (decide.Log, error) {
		o := &corev1.PodLogOptions{SinceSeconds: ptr.To[int64](3600), TailLines: ptr.To[int64](2000)}
		raw, err := e.Cluster.Kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o).DoRaw(ctx)
		lines, _ := podlog.ParseAll(string(raw), e.Clock.Now())
		return decide.Log{Pod: p.Name, Lines: lines}, e.Cluster.Explain(err)
	})
}}

const (
	securePort  = 10258
	healthzBody = "ok"
)

// answersFact holds what is answered when it asks each ready Pod of the release for its health and its metrics.
var answersFact = &fact[[]decide.Answer]{"the controller's health", func(ctx context.Context, e *Env) ([]decide.Answer, error) {
	pods, err := ownPodsFact.get(ctx, e)
	if err != nil {
		return nil, err
	}
	return parallel(ctx, pods, e.ask)
}}

func (e *Env) ask(ctx context.Context, p *corev1.Pod) (a decide.Answer, _ error) {
	a.Pod = p
	pods, port := e.Cluster.Kube.CoreV1().Pods(p.Namespace), strconv.Itoa(PortOf(p))
	get := func(path string) (body string, err error) {
		raw, err := pods.ProxyGet("https", p.Name, port, path, nil).DoRaw(ctx)
		return strings.TrimSpace(string(raw)), err
	}
	body, err := get("healthz")
	switch {
	case err == nil:
		a.Health, a.Healthy = body, body == healthzBody
	case strings.Contains(err.Error(), "healthz check failed"):
		a.Health = decide.OneLine(err.Error())
		return a, nil
	default:
		a.Err = e.Cluster.Explain(err)
		return a, nil
	}
	_, err = get("metrics")
	// The API server hands no identity on, so a controller that serves metrics refuses.
	a.Metrics = err == nil || !apierrors.IsNotFound(err)
	return a, nil
}

// PortOf is the port of health checks and metrics.
func PortOf(p *corev1.Pod) int {
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.Name == "https" {
				return int(port.ContainerPort)
			}
		}
	}
	return securePort
}

// admissionFact holds the release's admission policies by their labels: their names are the operator's to choose.
var admissionFact = &fact[decide.AdmissionObjects]{"the admission policies", func(ctx context.Context, e *Env) (decide.AdmissionObjects, error) {
	api := e.Cluster.Kube.AdmissionregistrationV1()
	labels := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm,app.kubernetes.io/instance=" + e.Release}
	var out decide.AdmissionObjects
	var err error
	out.Policies, err = listAll(ctx, e, labels, api.ValidatingAdmissionPolicies().List, func(l *admissionv1.ValidatingAdmissionPolicyList) []admissionv1.ValidatingAdmissionPolicy {
		return l.Items
	})
	if err != nil {
		return decide.AdmissionObjects{}, err
	}
	// A binding may be somebody else's, so all are read.
	out.Bindings, err = listAll(ctx, e, metav1.ListOptions{}, api.ValidatingAdmissionPolicyBindings().List, func(l *admissionv1.ValidatingAdmissionPolicyBindingList) []admissionv1.ValidatingAdmissionPolicyBinding {
		return l.Items
	})
	return out, err
}}

// labelsFact holds the labels of all namespaces, by name.
var labelsFact = &fact[map[string]map[string]string]{"the namespaces", func(ctx context.Context, e *Env) (map[string]map[string]string, error) {
	labels, err := cluster.NamespaceLabels(ctx, e.Cluster.Kube)
	return labels, e.Cluster.Explain(err)
}}

// clusterIDsFact holds the ids of the cluster in CloudStack's tags: the current one, then former ones.
var clusterIDsFact = &fact[[]string]{"the cluster's id", func(ctx context.Context, e *Env) ([]string, error) {
	controllers, err := controllersFact.get(ctx, e)
	if err != nil {
		return nil, err
	}
	id := cluster.Identity{}
	if words := controllers.Words(); words != nil {
		id = cluster.IdentityOf(words)
	}
	if e.CloudConfig != nil {
		id.Config, id.Former = e.CloudConfig.ClusterID, e.CloudConfig.FormerClusterIDs
	}
	out, err := id.Resolve(ctx, e.Cluster.Kube)
	return out, e.Cluster.Explain(err)
}}

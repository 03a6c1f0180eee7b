// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/installer/kube/rights"
)

// list collects the pages of a list.
func list[T any, P interface {
	*T
	runtime.Object
}, L runtime.Object](ctx context.Context, r *reading, o metav1.ListOptions, of func(context.Context, metav1.ListOptions) (L, error)) (out []T, err error) {
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of(ctx, o) })
	err = p.EachListItem(ctx, o, func(item runtime.Object) error {
		out = append(out, *item.(P)) //nolint:forcetypeassert // of the list's type
		return nil
	})
	if err != nil {
		return nil, r.Cluster.Explain(err)
	}
	return out, nil
}

var (
	all     metav1.ListOptions
	ofNodes = []decide.Source{decide.Nodes}
)

// kubeSources are the sources of Kubernetes.
func kubeSources() map[decide.Source]source {
	return map[decide.Source]source{
		decide.Version: {read: func(r *reading, ctx context.Context) error {
			v, err := r.Cluster.Ping(ctx)
			if err == nil {
				r.f.Version = v.GitVersion
			}
			return err
		}},
		decide.Distribution: {needs: ofNodes, read: func(r *reading, ctx context.Context) (err error) {
			r.f.Distribution, r.f.DistributionBy, err = r.Cluster.Distribution(ctx, r.f.Nodes)
			return err
		}},
		decide.Namespace: {read: func(r *reading, ctx context.Context) (err error) {
			r.f.NamespaceOf, err = r.Cluster.Kube.CoreV1().Namespaces().Get(ctx, r.Namespace, metav1.GetOptions{})
			return r.Cluster.Explain(err)
		}},
		decide.Namespaces: {read: func(r *reading, ctx context.Context) (err error) {
			r.f.Namespaces, err = cluster.NamespaceLabels(ctx, r.Cluster.Kube)
			return r.Cluster.Explain(err)
		}},
		decide.Nodes: {read: func(r *reading, ctx context.Context) (err error) {
			r.f.Nodes, err = list[corev1.Node](ctx, r, all, r.Cluster.Kube.CoreV1().Nodes().List)
			slices.SortFunc(r.f.Nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
			return err
		}},
		decide.Heartbeats: {read: func(r *reading, ctx context.Context) (err error) {
			r.f.Heartbeats, err = r.leases(ctx, corev1.NamespaceNodeLease)
			return err
		}},
		// Where leader election leases of cloud controller managers are.
		decide.Leases: {read: func(r *reading, ctx context.Context) (err error) {
			if r.f.Leases, err = r.leases(ctx, metav1.NamespaceSystem); err != nil || r.Namespace == metav1.NamespaceSystem {
				return err
			}
			own, err := r.leases(ctx, r.Namespace)
			r.f.Leases = append(r.f.Leases, own...)
			return err
		}},
		decide.Kubelets: {needs: ofNodes, read: func(r *reading, ctx context.Context) error {
			r.f.Kubelets = kubelet.VerifyWith(ctx, r.Cluster, r.f.Nodes, r.ProbePod)
			return nil
		}},
		decide.Volumes: {read: func(r *reading, ctx context.Context) (err error) {
			r.f.Volumes, err = list[corev1.PersistentVolume](ctx, r, all, r.Cluster.Kube.CoreV1().PersistentVolumes().List)
			return err
		}},
		decide.Services: {read: func(r *reading, ctx context.Context) (err error) {
			r.f.Services, err = list[corev1.Service](ctx, r, all, r.Cluster.Kube.CoreV1().Services("").List)
			slices.SortFunc(r.f.Services, func(a, b corev1.Service) int {
				return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
			})
			return err
		}},
		// The objects of cloud controllers are Nodes and Services.
		decide.Events: {read: func(r *reading, ctx context.Context) error {
			for _, kind := range []string{"Node", "Service"} {
				o := metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind}
				events, err := list[corev1.Event](ctx, r, o, r.Cluster.Kube.CoreV1().Events("").List)
				if err != nil {
					return err
				}
				r.f.Events = append(r.f.Events, events...)
			}
			return nil
		}},
		decide.Controllers: {read: (*reading).controllers},
		decide.Pods: {needs: []decide.Source{decide.Controllers}, read: func(r *reading, ctx context.Context) error {
			pods, err := list[corev1.Pod](ctx, r, all, r.Cluster.Kube.CoreV1().Pods(r.Namespace).List)
			r.f.Pods = r.f.OwnPods(pods)
			if r.Namespace == metav1.NamespaceSystem {
				r.systemPods = pods
			}
			return err
		}},
		// Where other providers and static Pods are.
		decide.SystemPods: {needs: []decide.Source{decide.Pods}, read: func(r *reading, ctx context.Context) (err error) {
			if r.f.SystemPods = r.systemPods; r.Namespace != metav1.NamespaceSystem {
				r.f.SystemPods, err = list[corev1.Pod](ctx, r, all, r.Cluster.Kube.CoreV1().Pods(metav1.NamespaceSystem).List)
			}
			return err
		}},
		decide.Logs: {needs: []decide.Source{decide.Pods}, read: (*reading).logs},
		decide.Answers: {needs: []decide.Source{decide.Pods}, read: func(r *reading, ctx context.Context) (err error) {
			r.f.Answers, err = parallel(ctx, r.f.Pods, r.ask)
			return err
		}},
		decide.Releases: {read: func(r *reading, ctx context.Context) (err error) {
			r.f.Records, err = helm.Records(ctx, r.Cluster.Kube.CoreV1().Secrets(r.Namespace), r.Release)
			for _, x := range r.f.Records {
				r.f.Revisions = append(r.f.Revisions, decide.Revision{Number: x.Revision, Status: x.Status, ChartVersion: x.ChartVersion, AppVersion: x.AppVersion})
			}
			return r.Cluster.Explain(err)
		}},
		decide.Rights: {tries: []decide.Source{decide.Namespace}, read: (*reading).rights},
		decide.Live: {read: func(r *reading, ctx context.Context) error {
			client, err := r.diff()
			if client != nil && r.Manifest != "" {
				r.f.Live, err = client.Live(ctx, r.Manifest)
			}
			return r.Cluster.Explain(err)
		}},
		decide.Drift: {needs: []decide.Source{decide.Releases}, read: func(r *reading, ctx context.Context) error {
			client, err := r.diff()
			if d := r.f.Deployed(); client != nil && d != nil {
				r.f.Drift, err = client.Drift(ctx, d.Manifest)
			}
			return r.Cluster.Explain(err)
		}},
		// The release's admission policies are found by their labels: their names are the operator's to choose. A binding may be
		// somebody else's, so all are read.
		decide.Admission: {read: func(r *reading, ctx context.Context) (err error) {
			api := r.Cluster.Kube.AdmissionregistrationV1()
			ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm,app.kubernetes.io/instance=" + r.Release}
			r.f.Policies, err = list[admissionv1.ValidatingAdmissionPolicy](ctx, r, ours, api.ValidatingAdmissionPolicies().List)
			if err == nil {
				r.f.Bindings, err = list[admissionv1.ValidatingAdmissionPolicyBinding](ctx, r, all, api.ValidatingAdmissionPolicyBindings().List)
			}
			return err
		}},
		decide.ClusterIDs: {needs: []decide.Source{decide.Controllers}, read: func(r *reading, ctx context.Context) (err error) {
			id := cluster.Identity{}
			if words := r.f.Words(); words != nil {
				id = cluster.IdentityOf(words)
			}
			if r.CloudConfig != nil {
				id.Config, id.Former = r.CloudConfig.ClusterID, r.CloudConfig.FormerClusterIDs
			}
			r.f.ClusterIDs, err = id.Resolve(ctx, r.Cluster.Kube)
			return r.Cluster.Explain(err)
		}},
		decide.Driver: {needs: []decide.Source{decide.Controllers, decide.Volumes}, read: (*reading).driver},
	}
}

func (r *reading) leases(ctx context.Context, namespace string) ([]coordinationv1.Lease, error) {
	return list[coordinationv1.Lease](ctx, r, all, r.Cluster.Kube.CoordinationV1().Leases(namespace).List)
}

func (r *reading) controllers(ctx context.Context) error {
	apps := r.Cluster.Kube.AppsV1()
	deployments, err := list[appsv1.Deployment](ctx, r, all, apps.Deployments("").List)
	if err != nil {
		return err
	}
	daemonSets, err := list[appsv1.DaemonSet](ctx, r, all, apps.DaemonSets("").List)
	if err != nil {
		return err
	}
	var workloads []decide.Workload
	for i := range deployments {
		workloads = append(workloads, decide.DeploymentOf(&deployments[i]))
	}
	for i := range daemonSets {
		workloads = append(workloads, decide.DaemonSetOf(&daemonSets[i]))
	}
	r.f.Sort(workloads)
	return nil
}

// logs reads those of the release's Pods that run or ran.
func (r *reading) logs(ctx context.Context) (err error) {
	pods := slices.DeleteFunc(slices.Clone(r.f.Pods), func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
	r.f.Logs, err = parallel(ctx, pods, func(ctx context.Context, p *corev1.Pod) (decide.Log, error) {
		o := &corev1.PodLogOptions{SinceSeconds: ptr.To[int64](3600), TailLines: ptr.To[int64](2000)}
		raw, err := r.Cluster.Kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o).DoRaw(ctx)
		lines, _ := podlog.ParseAll(string(raw), r.f.At)
		return decide.Log{Pod: p.Name, Lines: lines}, r.Cluster.Explain(err)
	})
	return err
}

// ask asks a Pod for its health and its metrics through the API server.
func (r *reading) ask(ctx context.Context, p *corev1.Pod) (a decide.Answer, _ error) {
	a.Pod = p
	pods, port := r.Cluster.Kube.CoreV1().Pods(p.Namespace), strconv.Itoa(PortOf(p))
	raw, err := pods.ProxyGet("https", p.Name, port, "healthz", nil).DoRaw(ctx)
	switch {
	case err == nil:
		a.Health = strings.TrimSpace(string(raw))
		a.Healthy = a.Health == "ok"
	case strings.Contains(err.Error(), "healthz check failed"):
		a.Health = decide.OneLine(err.Error())
		return a, nil
	default:
		a.Err = r.Cluster.Explain(err)
		return a, nil
	}
	_, err = pods.ProxyGet("https", p.Name, port, "metrics", nil).DoRaw(ctx)
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
	return 10258
}

// diff compares manifests with the cluster. It is nil without a connection for objects of any kind.
func (r *reading) diff() (*diff.Client, error) {
	if r.Cluster.REST == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	client, err := dynamic.NewForConfig(r.Cluster.REST)
	if err != nil {
		return nil, r.Cluster.Explain(err)
	}
	return &diff.Client{Dynamic: client, Release: r.Release, Namespace: r.Namespace}, nil
}

// rights asks for what an installation needs: of the chart's kinds those that it has; where it takes another controller's
// place, what a takeover needs too. A dry run shows the objects of the manifest that the API server would not take from
// the caller: admission webhooks, quotas and policies refuse what the caller's rights allow.
func (r *reading) rights(ctx context.Context) error {
	objects, err := diff.Parse(r.Manifest)
	if err != nil {
		return decide.Unreadable("the manifest", err)
	}
	var kinds []rights.Kind
	for i := range objects {
		kind, _ := meta.UnsafeGuessKindToResource(objects[i].GroupVersionKind())
		kinds = append(kinds, rights.Kind{Group: kind.Group, Resource: kind.Resource})
	}
	needed, optional := rights.Requests("install", r.Namespace, kinds)
	if len(r.Replaces) > 0 {
		n, o := rights.Requests("takeover", r.Namespace, kinds)
		needed, optional = append(needed, n...), append(optional, o...)
	}
	if apierrors.IsNotFound(r.f.Err(decide.Namespace)) {
		needed = append(needed, rights.Request{Verb: "create", Resource: "namespaces"})
	}
	r.f.Needed, r.f.Wanted = needed, optional
	requests := slices.Concat(needed, optional)
	allowed, err := parallel(ctx, requests, func(ctx context.Context, q *rights.Request) (bool, error) {
		resource, subresource, _ := strings.Cut(q.Resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: q.Verb, Group: q.Group, Resource: resource, Subresource: subresource, Namespace: q.Namespace,
			},
		}}
		answer, err := r.Cluster.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, r.Cluster.Explain(err)
	})
	if err != nil {
		return err
	}
	for i, q := range requests {
		if !allowed[i] && !slices.Contains(r.f.Denied, q) {
			r.f.Denied = append(r.f.Denied, q)
		}
	}
	client, err := r.diff()
	if client == nil || r.Manifest == "" {
		return err
	}
	changes, err := client.Drift(ctx, r.Manifest)
	if err != nil {
		return decide.Unreadable("the API server's answer to the chart", r.Cluster.Explain(err))
	}
	for i := range changes {
		if c := &changes[i]; c.Problem != "" {
			r.f.Refused = append(r.f.Refused, Object{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Message: decide.OneLine(c.Problem)})
		}
	}
	return nil
}

// driver reads what is of the CSI driver for CloudStack, where it is used.
func (r *reading) driver(ctx context.Context) error {
	var d decide.CSI
	_, err := r.Cluster.Kube.StorageV1().CSIDrivers().Get(ctx, decide.DriverName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return r.Cluster.Explain(err)
	}
	d.There = err == nil
	if r.f.Driver = d; !r.f.UsesDriver() {
		return nil
	}
	if namespace, name, key := r.f.DriverSecret(); name != "" {
		secret, err := r.Cluster.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			d.NoFile = "does not exist"
		case err != nil:
			return r.Cluster.Explain(err)
		default:
			d.File = string(secret.Data[key])
		}
	}
	d.Nodes, err = list[storagev1.CSINode](ctx, r, all, r.Cluster.Kube.StorageV1().CSINodes().List)
	r.f.Driver = d
	return err
}

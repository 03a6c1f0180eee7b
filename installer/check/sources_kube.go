// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/installer/kube/rights"
)

// kubeSources are the sources of Kubernetes. Their errors say what is wrong with the way to the API server.
func kubeSources() map[decide.Source]source {
	out := map[decide.Source]source{
		decide.Version: {read: func(ctx context.Context, r *reading, f *Facts) error {
			v, err := r.Cluster.Ping(ctx)
			if err == nil {
				f.Version = v.GitVersion
			}
			return err
		}},
		decide.Distribution: {needs: []decide.Source{decide.Nodes}, read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Distribution, f.DistributionBy, err = r.Cluster.Distribution(ctx, f.Nodes)
			return err
		}},
		decide.Namespace: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.NamespaceOf, err = r.Cluster.Kube.CoreV1().Namespaces().Get(ctx, f.Namespace, metav1.GetOptions{})
			return err
		}},
		decide.Namespaces: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Namespaces, err = cluster.NamespaceLabels(ctx, r.Cluster.Kube)
			return err
		}},
		decide.Nodes: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Nodes = cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().Nodes().List).Items
			slices.SortFunc(f.Nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
			return err
		}},
		decide.Heartbeats: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Heartbeats = cluster.List(ctx, &err, r.Cluster.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List).Items
			return err
		}},
		decide.Leases: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Leases = cluster.List(ctx, &err, r.Cluster.Kube.CoordinationV1().Leases(metav1.NamespaceSystem).List).Items
			if f.Namespace != metav1.NamespaceSystem {
				f.Leases = append(f.Leases, cluster.List(ctx, &err, r.Cluster.Kube.CoordinationV1().Leases(f.Namespace).List).Items...)
			}
			return err
		}},
		decide.Kubelets: {needs: []decide.Source{decide.Nodes}, read: func(ctx context.Context, r *reading, f *Facts) error {
			f.Kubelets = kubelet.Verify(ctx, r.Cluster, f.Nodes, r.ProbePod)
			return nil
		}},
		decide.Volumes: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Volumes = cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().PersistentVolumes().List).Items
			return err
		}},
		decide.Services: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Services = cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
			slices.SortFunc(f.Services, func(a, b corev1.Service) int {
				return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
			})
			return err
		}},
		decide.Events: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			for _, kind := range []string{"Node", "Service"} { // the objects of cloud controllers
				o := metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind}
				f.Events = append(f.Events, cluster.ListOf(ctx, &err, o, r.Cluster.Kube.CoreV1().Events(metav1.NamespaceAll).List).Items...)
			}
			return err
		}},
		decide.Controllers: {read: func(ctx context.Context, r *reading, f *Facts) error {
			all, err := cluster.Workloads(ctx, r.Cluster.Kube, metav1.NamespaceAll, metav1.ListOptions{})
			var workloads []decide.Workload
			for i := range all {
				workloads = append(workloads, decide.WorkloadOf(&all[i]))
			}
			f.Sort(workloads)
			return err
		}},
		decide.Pods: {needs: []decide.Source{decide.Controllers}, read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Pods = f.OwnPods(cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().Pods(f.Namespace).List).Items)
			return err
		}},
		// Where other providers and static Pods are.
		decide.SystemPods: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.SystemPods = cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().Pods(metav1.NamespaceSystem).List).Items
			return err
		}},
		decide.Logs: {needs: []decide.Source{decide.Pods}, read: readLogs},
		decide.Answers: {needs: []decide.Source{decide.Pods}, read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Answers, err = cluster.Each(ctx, f.Pods, r.ask)
			return err
		}},
		decide.Releases: {read: func(_ context.Context, r *reading, f *Facts) (err error) {
			f.Records, err = helm.Records(r.Cluster.Kube.CoreV1().Secrets(f.Namespace), f.Release)
			return err
		}},
		decide.Rights: {tries: []decide.Source{decide.Namespace}, read: readRights},
		// What a dry run says of the chart's objects: admission webhooks, quotas and policies refuse what the caller's rights allow.
		decide.Drift: {tries: []decide.Source{decide.Releases}, read: func(ctx context.Context, r *reading, f *Facts) error {
			if r.Cluster.REST == nil {
				return nil // no connection for objects of any kind
			}
			client, err := dynamic.NewForConfig(r.Cluster.REST)
			if err != nil {
				return err
			}
			d := &diff.Client{Dynamic: client, Release: r.Release, Namespace: r.Namespace}
			if deployed := f.Deployed(); f.Manifest != "" {
				f.Drift, err = d.Manifests(ctx, "", f.Manifest)
			} else if deployed != nil {
				f.Drift, err = d.Manifests(ctx, deployed.Manifest, deployed.Manifest)
			}
			return err
		}},
		// The release's admission policies are found by their labels: their names are the operator's to choose. A binding may be
		// somebody else's, so all are read.
		decide.Admission: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			api := r.Cluster.Kube.AdmissionregistrationV1()
			f.Policies = cluster.ListOf(ctx, &err, cluster.OfRelease(f.Release), api.ValidatingAdmissionPolicies().List).Items
			f.Bindings = cluster.List(ctx, &err, api.ValidatingAdmissionPolicyBindings().List).Items
			return err
		}},
		decide.ClusterIDs: {needs: []decide.Source{decide.Controllers}, read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			id := cluster.IdentityOf(f.Words())
			id.Config, id.Former = f.Config.ClusterID, f.Config.FormerClusterIDs
			f.ClusterIDs, err = id.Resolve(ctx, r.Cluster.Kube)
			return err
		}},
		decide.Driver: {needs: []decide.Source{decide.Controllers, decide.Volumes}, read: readDriver},
	}
	for s, src := range out {
		if s != decide.Version { // without an answer nothing else is asked for
			src.needs = append(src.needs, decide.Version)
		}
		read := src.read
		src.read = func(ctx context.Context, r *reading, f *Facts) error { return r.Cluster.Explain(read(ctx, r, f)) }
		out[s] = src
	}
	return out
}

// readLogs reads those of the release's Pods that run or ran.
func readLogs(ctx context.Context, r *reading, f *Facts) (err error) {
	pods := slices.DeleteFunc(slices.Clone(f.Pods), func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
	f.Logs, err = cluster.Each(ctx, pods, func(ctx context.Context, p *corev1.Pod) (decide.Log, error) {
		o := &corev1.PodLogOptions{SinceSeconds: ptr.To[int64](3600), TailLines: ptr.To[int64](2000)}
		raw, err := r.Cluster.Kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o).DoRaw(ctx)
		lines := podlog.ParseAll(string(raw), f.At)
		return decide.Log{Pod: p.Name, Lines: lines}, err
	})
	return err
}

// ask asks a Pod for its health and its metrics through the API server.
func (r *reading) ask(ctx context.Context, p *corev1.Pod) (a decide.Answer, _ error) {
	a.Pod = p
	pods, port := r.Cluster.Kube.CoreV1().Pods(p.Namespace), strconv.Itoa(PortOf(p))
	raw, err := pods.ProxyGet("https", p.Name, port, "healthz", nil).DoRaw(ctx)
	switch body := strings.TrimSpace(string(raw)); {
	case err != nil && strings.Contains(err.Error(), "healthz check failed"):
		a.Sick = "/healthz: " + decide.OneLine(err.Error())
	case err != nil:
		a.Err = r.Cluster.Explain(err)
	case body != "ok":
		a.Sick = "/healthz: " + body
	default:
		// The API server hands no identity on, so a controller that serves metrics refuses.
		if _, err = pods.ProxyGet("https", p.Name, port, "metrics", nil).DoRaw(ctx); apierrors.IsNotFound(err) {
			a.Sick = "serves /healthz but no /metrics"
		}
	}
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

// readRights asks for what an installation needs: of the chart's kinds those that it has; where it takes another controller's
// place, what a takeover needs too.
func readRights(ctx context.Context, r *reading, f *Facts) error {
	objects, err := diff.Parse(f.Manifest)
	if err != nil {
		return err
	}
	var kinds []schema.GroupResource
	for i := range objects {
		kind, _ := meta.UnsafeGuessKindToResource(objects[i].GroupVersionKind())
		kinds = append(kinds, kind.GroupResource())
	}
	f.Needed, f.Wanted = rights.Requests("install", f.Namespace, kinds)
	if len(f.Replaces) > 0 {
		needed, wanted := rights.Requests("takeover", f.Namespace, kinds)
		f.Needed, f.Wanted = append(f.Needed, needed...), append(f.Wanted, wanted...)
	}
	if apierrors.IsNotFound(f.Err(decide.Namespace)) {
		f.Needed = append(f.Needed, rights.Request{Verb: "create", Resource: "namespaces"})
	}
	requests := slices.Concat(f.Needed, f.Wanted)
	allowed, err := cluster.Each(ctx, requests, func(ctx context.Context, q *rights.Request) (bool, error) {
		resource, subresource, _ := strings.Cut(q.Resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: q.Verb, Group: q.Group, Resource: resource, Subresource: subresource, Namespace: q.Namespace,
			},
		}}
		answer, err := r.Cluster.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
	for i, ok := range allowed {
		if err == nil && !ok && !slices.Contains(f.Denied, requests[i]) {
			f.Denied = append(f.Denied, requests[i])
		}
	}
	return err
}

// readDriver reads what is of the CSI driver for CloudStack, where it is used.
func readDriver(ctx context.Context, r *reading, f *Facts) error {
	_, err := r.Cluster.Kube.StorageV1().CSIDrivers().Get(ctx, decide.DriverName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if f.Driver.There = err == nil; !f.UsesDriver() {
		return nil
	}
	err = nil
	if namespace, name, key := f.DriverSecret(); name != "" {
		secret, err := r.Cluster.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			f.Driver.NoFile = "does not exist"
		case err != nil:
			return err
		default:
			f.Driver.File = string(secret.Data[key])
		}
	}
	f.Driver.Nodes = cluster.List(ctx, &err, r.Cluster.Kube.StorageV1().CSINodes().List).Items
	return err
}

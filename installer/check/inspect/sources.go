// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/installer/kube/rights"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
)

// allSources returns the sources in Kubernetes and in CloudStack. Every other source needs an API server, or a
// CloudStack, that answers. Errors of Kubernetes are explained, with a remedy.
func allSources() map[check.Source]source {
	out := map[check.Source]source{}
	add := func(
		first check.Source, all check.Sources,
		read func(*reading, context.Context, check.Source, *check.Facts) error,
	) {
		for _, s := range all {
			out[s] = source{append(check.Sources{first}, check.Needed[s]...), check.Tried[s],
				func(ctx context.Context, r *reading, f *check.Facts) error { return read(r, ctx, s, f) }}
		}
		out[first] = source{read: out[first].read}
	}
	add(check.Version, check.OfKube, (*reading).readKube)
	add(check.Capabilities, check.OfCloud, (*reading).readCloud)
	return out
}

func (r *reading) readKube(ctx context.Context, s check.Source, f *check.Facts) (err error) {
	defer func() { err = r.Cluster.Explain(err) }()

	// The API server sorts lists by namespace and name.
	core, leases := r.Cluster.Kube.CoreV1(), r.Cluster.Kube.CoordinationV1().Leases
	switch s {
	case check.Version:
		v, err := r.Cluster.Ping(ctx)
		if err == nil {
			f.Version = v.GitVersion
		}
		return err

	case check.Distribution:
		f.Distribution, f.DistributionBy, err = r.Cluster.Distribution(ctx, f.Nodes)
	case check.Namespace:
		f.NamespaceOf, err = core.Namespaces().Get(ctx, f.Namespace, metav1.GetOptions{})
	case check.Namespaces:
		f.Namespaces, err = cluster.NamespaceLabels(ctx, r.Cluster.Kube)
	case check.Nodes:
		f.Nodes = cluster.List(ctx, &err, core.Nodes().List).Items
	case check.Heartbeats:
		f.Heartbeats = cluster.List(ctx, &err, leases(corev1.NamespaceNodeLease).List).Items
	case check.Leases:
		f.Leases = cluster.List(ctx, &err, leases(metav1.NamespaceSystem).List).Items
		if f.Namespace != metav1.NamespaceSystem {
			f.Leases = append(f.Leases, cluster.List(ctx, &err, leases(f.Namespace).List).Items...)
		}

	case check.Kubelets:
		f.Kubelets = kubelet.Verify(ctx, r.Cluster, f.Nodes, r.ProbePod)
	case check.Volumes:
		f.Volumes = cluster.List(ctx, &err, core.PersistentVolumes().List).Items
	case check.Services:
		f.Services = cluster.List(ctx, &err, core.Services(metav1.NamespaceAll).List).Items
	case check.Events:
		for _, kind := range []string{"Node", "Service"} { // the objects about which cloud controllers report Events
			o := metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind}
			f.Events = append(f.Events, cluster.ListOf(ctx, &err, o, core.Events(metav1.NamespaceAll).List).Items...)
		}

	case check.Controllers:
		all, err := cluster.Workloads(ctx, r.Cluster.Kube, metav1.NamespaceAll, metav1.ListOptions{})
		var workloads []check.Workload
		for i := range all {
			workloads = append(workloads, check.WorkloadOf(&all[i]))
		}
		f.Workloads = all
		f.Sort(workloads)
		return err

	case check.Pods:
		f.Pods = f.OwnPods(cluster.List(ctx, &err, core.Pods(f.Namespace).List).Items)
	case check.SystemPods: // other providers and static Pods run in kube-system
		f.SystemPods = cluster.List(ctx, &err, core.Pods(metav1.NamespaceSystem).List).Items
	case check.Logs:
		return r.readLogs(ctx, f)
	case check.Answers:
		f.Answers, err = cluster.Each(ctx, f.Pods, r.ask)
	case check.Releases:
		f.Records, err = helm.Records(core.Secrets(f.Namespace), f.Release)
	case check.Rights:
		return r.readRights(ctx, f)
	case check.Drift:
		return r.readDrift(ctx, f)
	case check.Admission:
		// The release's admission policies are found by their labels, because the operator chooses their names.
		// Bindings may be made by somebody else, so all are read.
		api := r.Cluster.Kube.AdmissionregistrationV1()
		f.Policies = cluster.ListOf(ctx, &err, cluster.OfRelease(f.Release),
			api.ValidatingAdmissionPolicies().List).Items
		f.Bindings = cluster.List(ctx, &err, api.ValidatingAdmissionPolicyBindings().List).Items

	case check.ClusterIDs:
		f.ClusterIDs, err = cluster.IDs(ctx, r.Cluster.Kube, &f.Config, f.Words())
	case check.Created:
		f.Created, err = credentials.ReadCreated(ctx, r.Cluster.Kube, f.Namespace)
	default:
		return r.readDriver(ctx, f)
	}

	return err
}

func (r *reading) readCloud(ctx context.Context, s check.Source, f *check.Facts) (err error) {
	switch s {
	case check.Capabilities:
		if r.CloudStack == nil {
			// this text is not shown, because CS-001, which all others need, reports the reason
			return errors.New("no CloudStack credentials")
		}
		f.Capabilities, err = r.CloudStack.Capabilities(ctx)
		if d, known := r.CloudStack.ClockOffset(); known { // a refusal has a Date header too
			f.ClockAhead = &d
		}
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return nil // a role may refuse listCapabilities and allow others
		}
		if err == nil {
			f.CloudStackVersion = f.Capabilities.Version
		}

	case check.APIs:
		f.APIs, err = r.CloudStack.ListAPIs(ctx)
	case check.Users: // find the owner of the keys, if the role may list users
		users, err := r.CloudStack.ListUsers(ctx, "")
		f.Owner = check.Find(users,
			func(u *cloudapi.User) bool { return u.APIKey != "" && u.APIKey == f.Config.APIKey })
		return err

	case check.Project:
		f.ProjectID, err = r.inventory.ProjectID(ctx)
	case check.Zones:
		f.Zones, err = r.inventory.Zones(ctx)
	case check.VMs:
		f.VMs, err = r.inventory.VMs(ctx, 0)
	case check.Places:
		if len(check.Lost(f.Nodes, f.VMs)) > 0 {
			f.Places = credentials.Places(ctx, r.CloudStack, f.ProjectID)
		}

	case check.Networks:
		f.Networks, err = r.CloudStack.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: f.ProjectID})
	case check.Addresses:
		f.Addresses, err = r.CloudStack.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: f.ProjectID})
	case check.Quota:
		// The minimal role may not read the limits; the checks work without them.
		if !f.APIs.HasAll("listAccounts", "listProjects") {
			return nil
		}
		quota, err := r.CloudStack.ReadQuota(ctx, f.ProjectID)
		if err == nil && quota.PublicIPs.Max != cloudapi.Unlimited {
			f.Quota = &quota.PublicIPs
		}
		return err

	case check.AllRules:
		f.AllRules, err = r.CloudStack.ListLoadBalancerRules(ctx,
			cloudstack.LoadBalancerRuleQuery{ProjectID: f.ProjectID})
	case check.Forwards:
		f.Forwards, err = r.CloudStack.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: f.ProjectID})
	case check.Balancers:
		return r.readBalancers(ctx, f)
	case check.Plans:
		return r.readPlans(ctx, f)
	default:
		return r.readCKS(ctx, f)
	}

	return err
}

// readLogs reads the logs of the release's Pods that have started.
func (r *reading) readLogs(ctx context.Context, f *check.Facts) (err error) {
	pods := slices.DeleteFunc(slices.Clone(f.Pods),
		func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
	f.Logs, err = cluster.Each(ctx, pods, func(ctx context.Context, p *corev1.Pod) (check.Log, error) {
		o := &corev1.PodLogOptions{SinceSeconds: ptr.To[int64](3600), TailLines: ptr.To[int64](2000)}
		raw, err := r.Cluster.Kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o).DoRaw(ctx)
		return check.Log{Pod: p.Name, Lines: podlog.ParseAll(string(raw), f.At)}, err
	})
	return err
}

// ask requests health, metrics and state of a Pod through the API server.
func (r *reading) ask(ctx context.Context, p *corev1.Pod) (a check.Answer, _ error) {
	a.Pod = p

	pods, port := r.Cluster.Kube.CoreV1().Pods(p.Namespace), strconv.Itoa(portOf(p))
	raw, err := pods.ProxyGet("https", p.Name, port, "healthz", nil).DoRaw(ctx)
	switch body := strings.TrimSpace(string(raw)); {
	case err != nil && strings.Contains(err.Error(), "healthz check failed"):
		a.Sick = "/healthz: " + check.OneLine(err.Error())
	case err != nil:
		a.Err = r.Cluster.Explain(err)
	case body != "ok":
		a.Sick = "/healthz: " + body
	default:
		// The API server's proxy does not forward an identity, so a controller that serves metrics refuses the request.
		// Only 404 is a problem.
		if _, err = pods.ProxyGet("https", p.Name, port, "metrics", nil).DoRaw(ctx); apierrors.IsNotFound(err) {
			a.Sick = "serves /healthz but no /metrics"
		}
	}

	var shown struct {
		State *provider.State `json:"cloudstack"`
	}
	raw, _ = pods.ProxyGet("https", p.Name, port, "configz", nil).DoRaw(ctx)
	_ = json.Unmarshal(raw, &shown) // State stays nil: an older controller has no such endpoint
	a.State = shown.State
	return a, nil
}

// portOf returns the port of health checks and metrics.
func portOf(p *corev1.Pod) int {
	for _, c := range p.Spec.Containers {
		if port := check.Find(c.Ports, func(x *corev1.ContainerPort) bool {
			return x.Name == "https"
		}); port != nil {
			return int(port.ContainerPort)
		}
	}
	return 10258
}

// readRights checks the permissions that an installation needs, for the kinds of objects in the chart. If another
// controller is replaced, it also checks those that a takeover needs.
func (r *reading) readRights(ctx context.Context, f *check.Facts) error {
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

	if apierrors.IsNotFound(f.Err(check.Namespace)) {
		f.Needed = append(f.Needed, rights.Request{Verb: "create", Resource: "namespaces"})
	}

	requests := slices.Concat(f.Needed, f.Wanted)
	allowed, err := cluster.Each(ctx, requests, func(ctx context.Context, q *rights.Request) (bool, error) {
		return q.Allowed(ctx, r.Cluster.Kube)
	})
	for i, ok := range allowed {
		if err == nil && !ok && !slices.Contains(f.Denied, requests[i]) {
			f.Denied = append(f.Denied, requests[i])
		}
	}

	return err
}

// readDrift reads the results of a dry run of the chart's objects: admission webhooks, quotas and policies may refuse
// objects that the caller's permissions allow.
func (r *reading) readDrift(ctx context.Context, f *check.Facts) error {
	deployed := f.Deployed()
	// Without a REST configuration there is no dynamic client; without manifest and release there are no objects.
	if r.Cluster.REST == nil || f.Manifest == "" && deployed == nil {
		return nil
	}

	client, err := dynamic.NewForConfig(r.Cluster.REST)
	if err != nil {
		return err
	}

	d := &diff.Client{Dynamic: client, Release: r.Release, Namespace: r.Namespace}
	if f.Manifest != "" {
		f.Drift, err = d.Manifests(ctx, "", f.Manifest)
	} else {
		f.Drift, err = d.Manifests(ctx, deployed.Manifest, deployed.Manifest)
	}
	return err
}

// readDriver reads the facts about the CSI driver for CloudStack, if the cluster uses it.
func (r *reading) readDriver(ctx context.Context, f *check.Facts) error {
	_, err := r.Cluster.Kube.StorageV1().CSIDrivers().Get(ctx, check.DriverName, metav1.GetOptions{})
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

// readBalancers reads the members of all rules that a provider for Kubernetes named and that are not the current rule
// of a Service: the members show which cluster such a rule belongs to.
func (r *reading) readBalancers(ctx context.Context, f *check.Facts) (err error) {
	var odd []string
	for _, it := range lbrules.MakePlan(f.AllRules, f.Services, f.Classes().Handles, nil, nil).Items {
		if it.Family != lbrules.FamilyForeign && it.Verdict != lbrules.VerdictCurrent {
			odd = append(odd, it.RuleID)
		}
	}
	f.OddMembers, err = lbrules.ReadMembers(ctx, r.CloudStack, odd)
	return err
}

// enough is the number of rules or VMs up to which all Services are planned. In larger clusters planning would be slow:
// reading the members costs one call for each rule or for each VM. Only Services that are not Ready, or have a warning,
// are planned there.
const enough = 16

// readPlans plans Services as the controller would.
func (r *reading) readPlans(ctx context.Context, f *check.Facts) error {
	all := r.sel.AllMembers || check.Matches(r.sel.Only, "LB-001") || min(len(f.AllRules), f.VMs.Len()) <= enough
	var chosen []*corev1.Service
	for _, s := range f.Services {
		wanted := all || !check.Settled(&s) || f.Warned(&s)
		if f.Classes().Handles(&s) && s.DeletionTimestamp == nil && wanted {
			chosen = append(chosen, &s)
		}
	}

	previewer, settings, err := planner.PreviewerOf(ctx, r.Cluster,
		&access.Cloud{Client: r.CloudStack, Config: r.CloudConfig}, r.Release, "")
	if err != nil {
		f.PlanErr = err
		return nil //nolint:nilerr // LB-001 shows it
	}

	plans, err := planner.Of(ctx, previewer.Round(time.Now()), settings, chosen, f.Nodes)
	if err != nil {
		return err
	}

	f.Planned = map[string]*planner.Service{}
	for _, s := range plans.Services {
		f.Planned[s.Service] = s
	}

	return nil
}

// readCKS reads CloudStack's object of the cluster, the firewall of its address, and its API server's certificate, if
// nodes have names as in CKS clusters.
func (r *reading) readCKS(ctx context.Context, f *check.Facts) error {
	if !slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool { return cluster.NamedByCKS(n.Name) }) {
		f.NotCKS = "not created by CKS: no node has such a name"
		return nil
	}

	clusters, err := r.CloudStack.ListKubernetesClusters(ctx, f.ProjectID)
	k := ckscheck.ClusterOf(clusters, lbrules.NodeVMs(f.Nodes, f.VMs))
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		f.NotCKS = "not checked: the role of the keys may not list the clusters of CKS"
		return nil
	case err != nil:
		return err
	case k == nil:
		f.NotCKS = "not created by CKS: none of its clusters has these nodes"
		return nil
	case k.Type == cloudstack.ExternalManaged:
		f.NotCKS = "not created by CKS: CloudStack only lists it"
		return nil
	}

	f.CKS, err = (&ckscheck.Reader{
		API:       r.CloudStack,
		ProjectID: f.ProjectID,
		Dial:      r.DialAPI,
		Clock:     r.Clock,
	}).Running(ctx, k, f.Nodes)
	return err
}

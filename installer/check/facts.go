// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kversion "k8s.io/apimachinery/pkg/version"

	"github.com/csccm/csccm/installer/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// DefaultSecretName holds the cloud-config; every provider for CloudStack, and CKS, name it so.
const DefaultSecretName = "cloudstack-secret" //nolint:gosec // a name

// facts are all that checks decide by, each read at most once.
type facts struct {
	phase Phase

	version      *fact[*kversion.Info]
	distribution *fact[string]
	nodes        *fact[[]corev1.Node]
	heartbeats   *fact[[]coordinationv1.Lease]
	kubelets     *fact[[]kubelet.NodeVerdict]
	namespace    *fact[*corev1.Namespace]
	services     *fact[[]corev1.Service]
	workloads    *fact[[]workload]
	pods         *fact[[]corev1.Pod]
	leases       *fact[[]coordinationv1.Lease]
	events       *fact[[]corev1.Event]
	releases     *fact[[]releaseRecord]

	inventory    *inventory.Inventory
	capabilities *fact[*cloudstack.Capabilities]
	apis         *fact[map[string]cloudstack.API]
	vms          *fact[*inventory.VMSnapshot]
	networks     *fact[[]cloudstack.Network]
	addresses    *fact[[]cloudstack.PublicIP]
	balancers    *fact[balancers]
}

// workload is a Deployment or DaemonSet of any namespace.
type workload struct {
	kind, namespace, name string
	labels, annotations   map[string]string
	selector              map[string]string
	images                []string
	wanted, ready         int32
}

func (w *workload) object() Object { return Object{Kind: w.kind, Namespace: w.namespace, Name: w.name} }

func deploymentOf(d *appsv1.Deployment) workload {
	w := workload{
		kind: "Deployment", namespace: d.Namespace, name: d.Name, labels: d.Labels, annotations: d.Annotations,
		wanted: 1, ready: d.Status.ReadyReplicas,
	}
	if d.Spec.Replicas != nil {
		w.wanted = *d.Spec.Replicas
	}
	w.fill(&d.Spec.Template, d.Spec.Selector)
	return w
}

func daemonSetOf(d *appsv1.DaemonSet) workload {
	w := workload{
		kind: "DaemonSet", namespace: d.Namespace, name: d.Name, labels: d.Labels, annotations: d.Annotations,
		wanted: d.Status.DesiredNumberScheduled, ready: d.Status.NumberReady,
	}
	w.fill(&d.Spec.Template, d.Spec.Selector)
	return w
}

func (w *workload) fill(t *corev1.PodTemplateSpec, selector *metav1.LabelSelector) {
	if selector != nil {
		w.selector = selector.MatchLabels
	}
	for i := range t.Spec.Containers {
		w.images = append(w.images, t.Spec.Containers[i].Image)
	}
}

// balancers are all public load balancer rules that the credentials see, with their members.
type balancers struct {
	rules   []cloudstack.LoadBalancerRule
	members map[string][]cloudstack.LoadBalancerMember // by rule id
}

// newFacts makes the facts of a run; nothing is read yet.
func newFacts(run context.Context, env *Env) *facts {
	f := &facts{}
	f.version = newFact(run, env.readVersion)
	f.distribution = newFact(run, env.readDistribution)
	f.nodes = newFact(run, env.readNodes)
	f.heartbeats = newFact(run, env.readHeartbeats)
	f.kubelets = newFact(run, env.readKubelets)
	f.namespace = newFact(run, env.readNamespace)
	f.services = newFact(run, env.readServices)
	f.workloads = newFact(run, env.readWorkloads)
	f.pods = newFact(run, env.readPods)
	f.leases = newFact(run, env.readLeases)
	f.events = newFact(run, env.readEvents)
	f.releases = newFact(run, env.readReleases)

	if env.CloudStack != nil {
		o := inventory.Options{Clock: env.Clock}
		if env.CloudConfig != nil {
			o.ProjectID, o.Zone = env.CloudConfig.ProjectID, env.CloudConfig.Zone
		}
		f.inventory = inventory.New(env.CloudStack, o)
	}
	f.capabilities = newFact(run, env.readCapabilities)
	f.apis = newFact(run, env.readAPIs)
	f.vms = newFact(run, env.readVMs)
	f.networks = newFact(run, env.readNetworks)
	f.addresses = newFact(run, env.readAddresses)
	f.balancers = newFact(run, env.readBalancers)
	return f
}

// fact is something that is read once, however many checks ask for it.
type fact[T any] struct {
	run   context.Context // of the whole run
	read  func(ctx context.Context) (T, error)
	token chan struct{} // holds one token: who takes it reads
	done  chan struct{} // closed when value and err are set
	value T
	err   error
}

func newFact[T any](run context.Context, read func(ctx context.Context) (T, error)) *fact[T] {
	f := &fact[T]{run: run, read: read, token: make(chan struct{}, 1), done: make(chan struct{})}
	f.token <- struct{}{}
	return f
}

// get gives the value, reading it if nobody did. Reading goes on under the context of the
// whole run when the check that asked first has run out of time: others wait for it too.
func (f *fact[T]) get(ctx context.Context) (T, error) {
	select {
	case <-f.token:
		go func() {
			defer close(f.done)
			defer func() {
				if p := recover(); p != nil {
					f.err = fmt.Errorf("csccm broke while reading it (%v): please report this", p)
				}
			}()
			f.value, f.err = f.read(f.run)
		}()
	default:
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, fmt.Errorf("not read in time: %w", ctx.Err())
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

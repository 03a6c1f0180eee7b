// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// Facts are what the checks of a run have read. What none of them asked for, or what could not be read,
// is zero. They belong to the caller, who must not change what they point to.
type Facts struct {
	At           time.Time
	Version      string // of the API server
	Distribution cluster.Distribution
	Nodes        []corev1.Node
	Kubelets     []kubelet.NodeVerdict
	Services     []corev1.Service
	Events       []corev1.Event // about Nodes and Services
	Leases       []coordinationv1.Lease
	Controllers  []Controller // of the release and of others
	Pods         []corev1.Pod // of the release
	Logs         []PodLog
	Revisions    []Revision // of the release, oldest first
	// CloudStackVersion is "" where the role may not ask.
	CloudStackVersion string
	VMs               *inventory.VMSnapshot
	Rules             []cloudstack.LoadBalancerRule // whose names any provider for Kubernetes gives
	Members           map[string][]cloudstack.LoadBalancerMember
	// Owner is whose the keys are; nil where the server does not say.
	Owner *Owner
	// Unread names what should be here and could not be read, by the names below.
	Unread []string
}

// Owner is whose keys the controller works with.
type Owner struct{ User, Account, Domain string }

// Has reports whether what a name stands for was read.
func (f *Facts) Has(name string) bool { return !slices.Contains(f.Unread, name) }

// Names of what may be in Unread.
const (
	FactNodes       = "nodes"
	FactServices    = "services"
	FactControllers = "controllers"
	FactReleases    = "releases"
	FactVMs         = "vms"
)

// Controller is a Deployment or DaemonSet of a cloud controller manager.
type Controller struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Images    []string `json:"images"`
	Wanted    int32    `json:"wanted"` // Pods
	Ready     int32    `json:"ready"`
	Ours      bool     `json:"ours"`
}

// PodLog is what a Pod of the release logged in the last hour.
type PodLog struct {
	Pod   string
	Lines []podlog.Line
}

// Revision is one of the Helm release.
type Revision struct {
	Number       int    `json:"revision"`
	Status       string `json:"status"`
	ChartVersion string `json:"chartVersion"`
	AppVersion   string `json:"appVersion"`
}

// VM is the machine of a node, if exactly one is known.
func (f *Facts) VM(n *corev1.Node) (cloudstack.VirtualMachine, bool) {
	if f.VMs == nil {
		return cloudstack.VirtualMachine{}, false
	}
	vm, err := node.Match(f.VMs, n)
	return vm, err == nil
}

// Leader is the lease that cloud controller managers hold, if one is there, and how long ago it was renewed.
func (f *Facts) Leader() (holder string, ago time.Duration) {
	for i := range f.Leases {
		l := &f.Leases[i]
		if decide.IsElection(l) && (holder == "" || f.At.Sub(l.Spec.RenewTime.Time) < ago) {
			holder, ago = *l.Spec.HolderIdentity, f.At.Sub(l.Spec.RenewTime.Time)
		}
	}
	return holder, ago
}

// Inspect is Run that also gives the facts that the report rests on.
func Inspect(ctx context.Context, env *Env, sel Selection, progress func(Result)) (Report, *Facts) {
	var out *Facts
	r := runThen(ctx, env, All(), sel, progress, func(work *Env) { out = work.exported() })
	return r, out
}

func (e *Env) exported() *Facts {
	f := e.facts
	out := &Facts{
		Owner: f.owner.Load(), At: e.Clock.Now(), Distribution: f.distribution.peek().Name, Nodes: f.nodes.peek(), Kubelets: f.kubelets.peek(),
		Services: f.services.peek(), Events: f.events.peek(), Leases: f.leases.peek(), Pods: f.ownPods.peek(),
		VMs: f.vms.peek(), Rules: f.balancers.peek().Rules, Members: f.balancers.peek().Members,
	}
	for _, u := range []struct {
		name string
		read bool
	}{
		{FactNodes, f.nodes.known()}, {FactServices, f.services.known()}, {FactControllers, f.workloads.known()}, {FactReleases, f.releases.known()},
		{FactVMs, f.vms.known()},
	} {
		if !u.read {
			out.Unread = append(out.Unread, u.name)
		}
	}
	if v := f.version.peek(); v != nil {
		out.Version = v.GitVersion
	}
	if c := f.capabilities.peek(); c != nil {
		out.CloudStackVersion = c.Version
	}
	workloads := f.workloads.peek()
	others := decide.OtherControllers(e.Release, e.Namespace, workloads)
	for i := range workloads {
		if w := &workloads[i]; w.IsOurs(e.Release, e.Namespace) {
			out.Controllers = append(out.Controllers, controllerOf(w, true))
		}
	}
	for i := range others {
		out.Controllers = append(out.Controllers, controllerOf(&others[i], false))
	}
	for _, l := range f.logs.peek() {
		out.Logs = append(out.Logs, PodLog{l.Pod, l.Lines})
	}
	for _, r := range f.releases.peek() {
		revision := Revision{Number: r.Revision, Status: r.Status}
		if c, err := r.Content(); err == nil {
			revision.ChartVersion, revision.AppVersion = c.Chart.Metadata.Version, c.Chart.Metadata.AppVersion
		}
		out.Revisions = append(out.Revisions, revision)
	}
	return out
}

func controllerOf(w *decide.Workload, ours bool) Controller {
	return Controller{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Images: w.Images, Wanted: w.Wanted, Ready: w.Ready, Ours: ours}
}

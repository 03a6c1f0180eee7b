// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
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
	Logs         []decide.Log
	Revisions    []Revision // of the release, oldest first
	// CloudStackVersion is "" where the role may not ask.
	CloudStackVersion string
	VMs               *inventory.VMSnapshot
	Rules             []cloudstack.LoadBalancerRule // whose names any provider for Kubernetes gives
	Members           map[string][]cloudstack.LoadBalancerMember
	Forwards          []cloudstack.PortForwarding // read where a Service may have some
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
	FactRules       = "rules"
)

// Controller is a Deployment or DaemonSet of a cloud controller manager.
type Controller = decide.Workload

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

func (f *Facts) vm(id string) (vm cloudstack.VirtualMachine, known bool) {
	if f.VMs == nil {
		return vm, false
	}
	return f.VMs.ByID(id)
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
	r, work := run(ctx, env, All(), sel, progress)
	return r, work.exported()
}

func (e *Env) exported() *Facts {
	out := &Facts{Owner: e.facts.owner.Load(), At: e.Clock.Now()}
	unless := func(known bool, name string) {
		if !known {
			out.Unread = append(out.Unread, name)
		}
	}
	var known bool
	out.Nodes, known = nodesFact.peek(e)
	unless(known, FactNodes)
	out.Services, known = servicesFact.peek(e)
	unless(known, FactServices)
	controllers, known := controllersFact.peek(e)
	unless(known, FactControllers)
	records, known := releasesFact.peek(e)
	unless(known, FactReleases)
	out.VMs, known = vmsFact.peek(e)
	unless(known, FactVMs)
	distribution, _ := distributionFact.peek(e)
	out.Distribution = distribution.Name
	out.Kubelets, _ = kubeletsFact.peek(e)
	out.Events, _ = eventsFact.peek(e)
	out.Leases, _ = leasesFact.peek(e)
	out.Pods, _ = ownPodsFact.peek(e)
	out.Logs, _ = logsFact.peek(e)
	balancers, known := balancersFact.peek(e)
	unless(known, FactRules)
	planned, _ := plansFact.peek(e)
	out.Rules, out.Members = balancers.Rules, map[string][]cloudstack.LoadBalancerMember{}
	maps.Copy(out.Members, planned.members)
	maps.Copy(out.Members, balancers.Members)
	for _, list := range out.Members {
		for i := range list {
			if vm, known := out.vm(list[i].VMID); known {
				list[i].Name = vm.Name
			}
		}
	}
	out.Forwards, _ = forwardsShown.peek(e)
	if v, _ := versionFact.peek(e); v != nil {
		out.Version = v.GitVersion
	}
	if c, _ := capabilitiesFact.peek(e); c != nil {
		out.CloudStackVersion = c.Version
	}
	out.Controllers = slices.Concat(controllers.Ours, controllers.Others)
	for _, r := range records {
		out.Revisions = append(out.Revisions, Revision{Number: r.Revision, Status: r.Status, ChartVersion: r.ChartVersion, AppVersion: r.AppVersion})
	}
	return out
}

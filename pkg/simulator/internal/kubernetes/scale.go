// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// scaling holds the parameters of scaleKubernetesCluster.
type scaling struct {
	size        *int // number of workers
	remove      []*store.ClusterNode
	offering    *store.ServiceOffering            // of all nodes
	offerings   map[string]*store.ServiceOffering // by kind of node
	autoscaling *bool
}

func (s *scaling) offeringOf(kind string) *store.ServiceOffering {
	if o := s.offerings[kind]; o != nil {
		return o
	}
	return s.offering
}

func scaleKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k := clusterTarget(c)
	s, err := readScaling(c, k)
	if err != nil {
		return clusterJob(c, err, nil), nil
	}
	shown := func() (any, error) { return clusterAnswer{viewCluster(c, k)}, nil }
	before := k.Stored
	grow := 0
	if s.size != nil {
		grow = *s.size - k.Size
	}
	if k.State() == store.VMRunning {
		k.Stored = store.ClusterScaling
	}
	back := func() {
		if k.Stored == store.ClusterScaling {
			k.Stored = before
		}
	}
	spec := clusterJob(c, nil, func(now time.Time) (any, error) {
		if err := scaleCluster(c, k, s, now); err != nil {
			return nil, err
		}
		back()
		return shown()
	})
	spec.Undo = back
	spec.After = nodeTime(c, "startVirtualMachine", max(grow, 0))
	return spec, nil
}

// readScaling reads and validates the parameters in CloudStack's order.
func readScaling(c *wire.Call, k *store.KubernetesCluster) (*scaling, error) {
	if k == nil {
		return nil, wire.Invalid("Invalid Kubernetes cluster ID")
	}
	offerings, err := nodeOfferings(c)
	if err != nil {
		return nil, err
	}
	s := &scaling{offerings: offerings, offering: wire.Arg[*store.ServiceOffering](c, "serviceofferingid"), size: c.OptInt("size"), autoscaling: c.OptBool("autoscalingenabled")}
	if !c.Given("serviceofferingid") && len(offerings) == 0 && s.size == nil && !c.Has("nodeids") && s.autoscaling == nil {
		return nil, wire.Invalid("Kubernetes cluster %s cannot be scaled, either service offering or cluster size or nodeids to be removed or autoscaling must be passed", k.Name)
	}
	if !c.Access(k.Owner) {
		return nil, wire.Denied()
	}
	if err := notExternal(k, "Scale"); err != nil {
		return nil, err
	}
	switch k.State() {
	case store.ClusterCreated, store.VMRunning, store.VMStopped:
	default:
		return nil, wire.Invalid("Kubernetes cluster %s is in %s state and can not be scaled", k.Name, k.State())
	}
	for _, check := range []func(*store.KubernetesCluster, *scaling) error{func(k *store.KubernetesCluster, s *scaling) error { return checkAutoscaling(c, k, s) }, func(k *store.KubernetesCluster, s *scaling) error { return checkScaleNodes(c, k, s) }, func(k *store.KubernetesCluster, s *scaling) error { return checkScaleOfferings(c, k, s) }, func(k *store.KubernetesCluster, s *scaling) error { return checkScaleSize(c, k, s) }} {
		if err := check(k, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func checkAutoscaling(c *wire.Call, k *store.KubernetesCluster, s *scaling) error {
	if s.autoscaling == nil || !*s.autoscaling {
		return nil
	}
	if s.size != nil || c.Has("nodeids") {
		return wire.Invalid("Autoscaling can not be passed along with nodeids or clustersize")
	}
	if !atLeast(k.Version, minKubernetesAutoscaling) {
		return wire.Invalid("Autoscaling requires Kubernetes Version %s or above", minKubernetesAutoscaling)
	}
	if err := checkEndpoint(c, k); err != nil {
		return err
	}
	switch least, most := c.Integer("minsize"), c.Integer("maxsize"); {
	case !c.Has("minsize") || !c.Has("maxsize"):
		return wire.Invalid("Autoscaling requires minsize and maxsize to be passed")
	case least < 1:
		return wire.Invalid("Minsize must be at least than 1")
	case most <= least:
		return wire.Invalid("Maxsize must be greater than minsize")
	default:
		return checkTotal(c, most+k.Control)
	}
}

// checkScaleNodes finds the nodes to remove.
func checkScaleNodes(c *wire.Call, k *store.KubernetesCluster, s *scaling) error {
	if !c.Has("nodeids") {
		return nil
	}
	if s.size != nil || s.offering != nil || s.offerings[store.NodeWorker] != nil {
		return wire.Invalid("nodeids can not be passed along with clustersize or service offering")
	}
	control := 0
	for _, r := range c.Lists["nodeids"] {
		v, _ := r.Obj.(*store.VM)
		n := k.Node(v)
		if n == nil {
			return wire.Invalid("Invalid node ids")
		}
		if n.Control {
			control++
		}
		s.remove = append(s.remove, n)
	}
	switch {
	case control >= k.Control:
		return wire.Invalid("Can not remove all control nodes from a cluster")
	case len(s.remove)-control >= k.Size:
		return wire.Invalid("Can not remove all nodes from a cluster")
	}
	return nil
}

func checkScaleOfferings(c *wire.Call, k *store.KubernetesCluster, s *scaling) error {
	for _, kind := range store.NodeKinds {
		o := s.offeringOf(kind)
		if o == nil {
			continue
		}
		const text = "Kubernetes cluster : %s cannot be scaled with service offering : %s, "
		v := k.Version
		switch {
		case o.CPUNumber < minNodeCPU || o.MemMB < minNodeMem:
			return wire.Invalid(text+"Kubernetes cluster template(CoreOS) needs minimum %d vCPUs and %d MB RAM", k.Name, o.Name, minNodeCPU, minNodeMem)
		case o.CPUNumber < v.MinCPU:
			return wire.Invalid(text+"associated Kubernetes version : %s needs minimum %d vCPUs", k.Name, o.Name, v.Name, v.MinCPU)
		case o.MemMB < v.MinMemMB:
			return wire.Invalid(text+"associated Kubernetes version : %s needs minimum %d MB RAM", k.Name, o.Name, v.Name, v.MinMemMB)
		}
		old := k.Offerings[kind]
		if old == nil {
			old = k.Offering
		}
		if old != nil && k.State() == store.VMRunning && (o.MemMB < old.MemMB || o.CPUNumber*o.CPUSpeed < old.CPUNumber*old.CPUSpeed) {
			return wire.Invalid("Kubernetes cluster cannot be scaled down for service offering. Service offering : %s offers lesser resources as compared to "+
				"service offering : %s of Kubernetes cluster : %s", o.Name, old.Name, k.Name)
		}
	}
	return nil
}

func checkScaleSize(c *wire.Call, k *store.KubernetesCluster, s *scaling) error {
	if s.size == nil || *s.size == k.Size {
		return nil
	}
	switch {
	case k.State() == store.VMStopped: // only the offering of a stopped cluster can change
		return wire.Invalid("Kubernetes cluster : %s is in %s state", k.Name, k.State())
	case *s.size < 1:
		return wire.Invalid("Kubernetes cluster : %s cannot be scaled for size, %d", k.Name, *s.size)
	}
	return checkTotal(c, *s.size+k.Control)
}

// scaleCluster applies the changes.
func scaleCluster(c *wire.Call, k *store.KubernetesCluster, s *scaling, now time.Time) error {
	if s.autoscaling != nil {
		k.Autoscaling, k.MinSize, k.MaxSize = *s.autoscaling, c.OptInt("minsize"), c.OptInt("maxsize")
		if !k.Autoscaling {
			k.MinSize, k.MaxSize = nil, nil
		}
	}
	for _, kind := range store.NodeKinds {
		o := s.offeringOf(kind)
		if o == nil || o == k.OfferingOf(kind) {
			continue
		}
		for _, n := range k.NodesOf(kind) {
			n.VM.Offering = o
		}
		k.Offerings[kind] = o
	}
	if s.offering != nil {
		k.Offering = s.offering
	}
	if err := resizeCluster(c, k, s, now); err != nil {
		return err
	}
	k.Measure()
	return nil
}

// resizeCluster adds workers, or removes the named nodes or the newest workers.
func resizeCluster(c *wire.Call, k *store.KubernetesCluster, s *scaling, now time.Time) error {
	remove := s.remove
	if s.size != nil && *s.size < k.Size {
		var own []*store.ClusterNode
		for _, n := range k.NodesOf(store.NodeWorker) {
			if !n.External {
				own = append(own, n)
			}
		}
		remove = own[max(len(own)-(k.Size-*s.size), 0):]
	}
	for _, n := range remove {
		if !n.External {
			c.St.RemoveNode(k, n)
			k.Size--
		}
	}
	if s.size != nil {
		for k.Size < *s.size {
			if err := deployNode(c, k, store.NodeWorker, now); err != nil {
				return wire.Invalid("Scaling failed for Kubernetes cluster : %s, unable to provision node VM in the cluster", k.Name)
			}
			k.Size++
		}
	}
	if len(remove) > 0 || s.size != nil {
		reopenSSH(c, k, now)
	}
	return nil
}

func upgradeKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k := clusterTarget(c)
	to := liveVersion(wire.Arg[*store.KubernetesVersion](c, "kubernetesversionid"))
	if err := checkClusterUpgrade(c, k, to); err != nil {
		return clusterJob(c, err, nil), nil
	}
	before := k.Stored
	k.Stored = store.ClusterUpgrading
	spec := clusterJob(c, nil, func(time.Time) (any, error) {
		k.Version, k.Stored = to, before
		for _, n := range k.Nodes {
			if !n.Manual && !n.Etcd {
				n.Version = to.Semantic
			}
		}
		return clusterAnswer{viewCluster(c, k)}, nil
	})
	spec.Undo = func() { k.Stored = before }
	spec.After = nodeTime(c, "startVirtualMachine", len(k.Nodes))
	return spec, nil
}

func checkClusterUpgrade(c *wire.Call, k *store.KubernetesCluster, to *store.KubernetesVersion) error {
	if err := checkEndpoint(c, k); err != nil {
		return err
	}
	if k == nil {
		return wire.Invalid("Invalid Kubernetes cluster ID")
	}
	if err := notExternal(k, "Upgrade"); err != nil {
		return err
	}
	if !c.Access(k.Owner) {
		return wire.Denied()
	}
	from, o := liveVersion(k.Version), k.Offering
	const text = "Kubernetes cluster : %s cannot be upgraded with Kubernetes version : %s which needs minimum %d %s while associated service offering : %s offers only %d %s"
	switch {
	case k.State() != store.VMRunning:
		return wire.Invalid("Kubernetes cluster : %s is not in running state", k.Name)
	case to == nil:
		return wire.Invalid("Invalid Kubernetes version ID")
	case to.Disabled:
		return wire.Invalid("Kubernetes version ID: %s for upgrade is in %s state", to.UUID, to.State())
	case from == nil:
		return wire.Invalid("Invalid Kubernetes version associated with cluster : %s", k.Name)
	case o == nil:
		return wire.Invalid("Invalid service offering associated with Kubernetes cluster : %s", k.Name)
	case o.CPUNumber < to.MinCPU:
		return wire.Invalid(text, k.Name, to.Name, to.MinCPU, "vCPUs", o.Name, o.CPUNumber, "vCPUs")
	case o.MemMB < to.MinMemMB:
		return wire.Invalid(text, k.Name, to.Name, to.MinMemMB, "MB RAM", o.Name, o.MemMB, "MB RAM")
	}
	if err := checkUpgrade(from.Semantic, to.Semantic); err != nil {
		return err
	}
	if to.Zone != nil && to.Zone != k.Zone {
		return wire.Invalid("ISO associated with version : %s is not in Ready state for datacenter : %s", to.Name, k.Zone.Name)
	}
	return nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
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

	w := &work{c: c, k: k}
	grows := s.size != nil && *s.size > k.Size
	if grows {
		full := wire.Invalid("Scaling failed for Kubernetes cluster : %s in zone : %s, insufficient capacity", k.Name,
			k.Zone.Name)
		if err := w.fault(fault.Capacity, full); err != nil {
			return clusterJob(c, err, nil), nil
		}
	}

	before := k.Stored
	if k.State() == store.VMRunning {
		k.Stored = store.ClusterScaling
	}

	if grows {
		w.offer(s)
		w.grow(*s.size)
	} else {
		w.shrink(s)
		w.offer(s)
	}

	w.then(w.time("scaleKubernetesCluster"), func(time.Time) error {
		s.autoscale(c, k)
		k.Measure()
		k.Stored = before
		return nil
	})

	return w.job(store.ClusterAlert, w.shown), nil
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

	s := &scaling{
		offerings:   offerings,
		offering:    wire.Arg[*store.ServiceOffering](c, "serviceofferingid"),
		size:        c.OptInt("size"),
		autoscaling: c.OptBool("autoscalingenabled"),
	}

	if !c.Given("serviceofferingid") &&
		len(offerings) == 0 &&
		s.size == nil &&
		!c.Has("nodeids") &&
		s.autoscaling == nil {
		return nil, wire.Invalid("Kubernetes cluster %s cannot be scaled, either service offering or cluster size or "+
			"nodeids to be removed or autoscaling must be passed", k.Name)
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

	for _, check := range []func(*wire.Call, *store.KubernetesCluster, *scaling) error{
		checkAutoscaling, checkScaleNodes, checkScaleOfferings, checkScaleSize,
	} {
		if err := check(c, k, s); err != nil {
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
		if n == nil || slices.Contains(s.remove, n) {
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

func checkScaleOfferings(_ *wire.Call, k *store.KubernetesCluster, s *scaling) error {
	for _, kind := range store.NodeKinds {
		o := s.offeringOf(kind)
		if o == nil {
			continue
		}

		const text = "Kubernetes cluster : %s cannot be scaled with service offering : %s, "
		v := k.Version
		switch {
		case o.CPUNumber < minNodeCPU || o.MemMB < minNodeMem:
			return wire.Invalid(text+"Kubernetes cluster template(CoreOS) needs minimum %d vCPUs and %d MB RAM",
				k.Name, o.Name, minNodeCPU, minNodeMem)
		case o.CPUNumber < v.MinCPU:
			return wire.Invalid(text+"associated Kubernetes version : %s needs minimum %d vCPUs", k.Name, o.Name,
				v.Name, v.MinCPU)
		case o.MemMB < v.MinMemMB:
			return wire.Invalid(text+"associated Kubernetes version : %s needs minimum %d MB RAM", k.Name, o.Name,
				v.Name, v.MinMemMB)
		}

		old := k.Offerings[kind]
		if old == nil {
			old = k.Offering
		}

		if old != nil &&
			k.State() == store.VMRunning &&
			(o.MemMB < old.MemMB || o.CPUNumber*o.CPUSpeed < old.CPUNumber*old.CPUSpeed) {
			return wire.Invalid("Kubernetes cluster cannot be scaled down for service offering. Service offering : "+
				"%s offers lesser resources as compared to service offering : %s of Kubernetes cluster : %s",
				o.Name, old.Name, k.Name)
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
	case *s.size < k.Size && slices.ContainsFunc(k.Nodes, func(n *store.ClusterNode) bool { return n.External }):
		return wire.Invalid("the simulator has no recording of a cluster with external nodes that becomes smaller")
	case *s.size < 1:
		return wire.Invalid("Kubernetes cluster : %s cannot be scaled for size, %d", k.Name, *s.size)
	}
	return checkTotal(c, *s.size+k.Control)
}

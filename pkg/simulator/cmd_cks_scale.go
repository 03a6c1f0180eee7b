// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// scaling holds the parameters of scaleKubernetesCluster.
type scaling struct {
	size        *int // number of workers
	remove      []*clusterNode
	offering    *serviceOffering            // of all nodes
	offerings   map[string]*serviceOffering // by kind of node
	autoscaling *bool
}

func (s *scaling) offeringOf(kind string) *serviceOffering {
	if o := s.offerings[kind]; o != nil {
		return o
	}
	return s.offering
}

func scaleKubernetesCluster(c *call) (*jobSpec, error) {
	k := c.clusterTarget()
	s, err := c.readScaling(k)
	if err != nil {
		return c.clusterJob(err, nil), nil
	}
	shown := func() (any, error) { return clusterAnswer{c.viewCluster(k)}, nil }
	before := k.stored
	grow := 0
	if s.size != nil {
		grow = *s.size - k.size
	}
	if k.state() == vmRunning {
		k.stored = clusterScaling
	}
	back := func() {
		if k.stored == clusterScaling {
			k.stored = before
		}
	}
	spec := c.clusterJob(nil, func(now time.Time) (any, error) {
		if err := c.scaleCluster(k, s, now); err != nil {
			return nil, err
		}
		back()
		return shown()
	})
	spec.undo = back
	spec.after = c.nodeTime("startVirtualMachine", max(grow, 0))
	return spec, nil
}

// readScaling reads and validates the parameters in CloudStack's order.
func (c *call) readScaling(k *kubernetesCluster) (*scaling, error) {
	if k == nil {
		return nil, invalid("Invalid Kubernetes cluster ID")
	}
	offerings, err := c.nodeOfferings()
	if err != nil {
		return nil, err
	}
	s := &scaling{offerings: offerings, offering: arg[*serviceOffering](c, "serviceofferingid"), size: c.optInt("size"), autoscaling: c.optBool("autoscalingenabled")}
	if !c.given("serviceofferingid") && len(offerings) == 0 && s.size == nil && !c.has("nodeids") && s.autoscaling == nil {
		return nil, invalid("Kubernetes cluster %s cannot be scaled, either service offering or cluster size or nodeids to be removed or autoscaling must be passed", k.name)
	}
	if !c.access(k.owner) {
		return nil, denied()
	}
	if err := notExternal(k, "Scale"); err != nil {
		return nil, err
	}
	switch k.state() {
	case clusterCreated, vmRunning, vmStopped:
	default:
		return nil, invalid("Kubernetes cluster %s is in %s state and can not be scaled", k.name, k.state())
	}
	for _, check := range []func(*kubernetesCluster, *scaling) error{c.checkAutoscaling, c.checkScaleNodes, c.checkScaleOfferings, c.checkScaleSize} {
		if err := check(k, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (c *call) checkAutoscaling(k *kubernetesCluster, s *scaling) error {
	if s.autoscaling == nil || !*s.autoscaling {
		return nil
	}
	if s.size != nil || c.has("nodeids") {
		return invalid("Autoscaling can not be passed along with nodeids or clustersize")
	}
	if !k.version.atLeast(minKubernetesAutoscaling) {
		return invalid("Autoscaling requires Kubernetes Version %s or above", minKubernetesAutoscaling)
	}
	if err := c.checkEndpoint(k); err != nil {
		return err
	}
	switch least, most := c.integer("minsize"), c.integer("maxsize"); {
	case !c.has("minsize") || !c.has("maxsize"):
		return invalid("Autoscaling requires minsize and maxsize to be passed")
	case least < 1:
		return invalid("Minsize must be at least than 1")
	case most <= least:
		return invalid("Maxsize must be greater than minsize")
	default:
		return c.checkTotal(most + k.control)
	}
}

// checkScaleNodes finds the nodes to remove.
func (c *call) checkScaleNodes(k *kubernetesCluster, s *scaling) error {
	if !c.has("nodeids") {
		return nil
	}
	if s.size != nil || s.offering != nil || s.offerings[nodeWorker] != nil {
		return invalid("nodeids can not be passed along with clustersize or service offering")
	}
	control := 0
	for _, r := range c.lists["nodeids"] {
		v, _ := r.obj.(*vm)
		n := k.node(v)
		if n == nil {
			return invalid("Invalid node ids")
		}
		if n.control {
			control++
		}
		s.remove = append(s.remove, n)
	}
	switch {
	case control >= k.control:
		return invalid("Can not remove all control nodes from a cluster")
	case len(s.remove)-control >= k.size:
		return invalid("Can not remove all nodes from a cluster")
	}
	return nil
}

func (c *call) checkScaleOfferings(k *kubernetesCluster, s *scaling) error {
	for _, kind := range nodeKinds {
		o := s.offeringOf(kind)
		if o == nil {
			continue
		}
		const text = "Kubernetes cluster : %s cannot be scaled with service offering : %s, "
		v := k.version
		switch {
		case o.cpuNumber < minNodeCPU || o.memMB < minNodeMem:
			return invalid(text+"Kubernetes cluster template(CoreOS) needs minimum %d vCPUs and %d MB RAM", k.name, o.name, minNodeCPU, minNodeMem)
		case o.cpuNumber < v.minCPU:
			return invalid(text+"associated Kubernetes version : %s needs minimum %d vCPUs", k.name, o.name, v.name, v.minCPU)
		case o.memMB < v.minMemMB:
			return invalid(text+"associated Kubernetes version : %s needs minimum %d MB RAM", k.name, o.name, v.name, v.minMemMB)
		}
		old := k.offerings[kind]
		if old == nil {
			old = k.offering
		}
		if old != nil && k.state() == vmRunning && (o.memMB < old.memMB || o.cpuNumber*o.cpuSpeed < old.cpuNumber*old.cpuSpeed) {
			return invalid("Kubernetes cluster cannot be scaled down for service offering. Service offering : %s offers lesser resources as compared to "+
				"service offering : %s of Kubernetes cluster : %s", o.name, old.name, k.name)
		}
	}
	return nil
}

func (c *call) checkScaleSize(k *kubernetesCluster, s *scaling) error {
	if s.size == nil || *s.size == k.size {
		return nil
	}
	switch {
	case k.state() == vmStopped: // only the offering of a stopped cluster can change
		return invalid("Kubernetes cluster : %s is in %s state", k.name, k.state())
	case *s.size < 1:
		return invalid("Kubernetes cluster : %s cannot be scaled for size, %d", k.name, *s.size)
	}
	return c.checkTotal(*s.size + k.control)
}

// scaleCluster applies the changes.
func (c *call) scaleCluster(k *kubernetesCluster, s *scaling, now time.Time) error {
	if s.autoscaling != nil {
		k.autoscaling, k.minSize, k.maxSize = *s.autoscaling, c.optInt("minsize"), c.optInt("maxsize")
		if !k.autoscaling {
			k.minSize, k.maxSize = nil, nil
		}
	}
	for _, kind := range nodeKinds {
		o := s.offeringOf(kind)
		if o == nil || o == k.offeringOf(kind) {
			continue
		}
		for _, n := range k.nodesOf(kind) {
			n.vm.offering = o
		}
		k.offerings[kind] = o
	}
	if s.offering != nil {
		k.offering = s.offering
	}
	if err := c.resizeCluster(k, s, now); err != nil {
		return err
	}
	k.measure()
	return nil
}

// resizeCluster adds workers, or removes the named nodes or the newest workers.
func (c *call) resizeCluster(k *kubernetesCluster, s *scaling, now time.Time) error {
	remove := s.remove
	if s.size != nil && *s.size < k.size {
		var own []*clusterNode
		for _, n := range k.nodesOf(nodeWorker) {
			if !n.external {
				own = append(own, n)
			}
		}
		remove = own[max(len(own)-(k.size-*s.size), 0):]
	}
	for _, n := range remove {
		if !n.external {
			c.st.removeNode(k, n)
			k.size--
		}
	}
	if s.size != nil {
		for k.size < *s.size {
			if err := c.deployNode(k, nodeWorker, now); err != nil {
				return invalid("Scaling failed for Kubernetes cluster : %s, unable to provision node VM in the cluster", k.name)
			}
			k.size++
		}
	}
	if len(remove) > 0 || s.size != nil {
		c.reopenSSH(k, now)
	}
	return nil
}

func upgradeKubernetesCluster(c *call) (*jobSpec, error) {
	k := c.clusterTarget()
	to := liveVersion(arg[*kubernetesVersion](c, "kubernetesversionid"))
	if err := c.checkClusterUpgrade(k, to); err != nil {
		return c.clusterJob(err, nil), nil
	}
	before := k.stored
	k.stored = clusterUpgrading
	spec := c.clusterJob(nil, func(time.Time) (any, error) {
		k.version, k.stored = to, before
		for _, n := range k.nodes {
			if !n.manual && !n.etcd {
				n.version = to.semantic
			}
		}
		return clusterAnswer{c.viewCluster(k)}, nil
	})
	spec.undo = func() { k.stored = before }
	spec.after = c.nodeTime("startVirtualMachine", len(k.nodes))
	return spec, nil
}

func (c *call) checkClusterUpgrade(k *kubernetesCluster, to *kubernetesVersion) error {
	if err := c.checkEndpoint(k); err != nil {
		return err
	}
	if k == nil {
		return invalid("Invalid Kubernetes cluster ID")
	}
	if err := notExternal(k, "Upgrade"); err != nil {
		return err
	}
	if !c.access(k.owner) {
		return denied()
	}
	from, o := liveVersion(k.version), k.offering
	const text = "Kubernetes cluster : %s cannot be upgraded with Kubernetes version : %s which needs minimum %d %s while associated service offering : %s offers only %d %s"
	switch {
	case k.state() != vmRunning:
		return invalid("Kubernetes cluster : %s is not in running state", k.name)
	case to == nil:
		return invalid("Invalid Kubernetes version ID")
	case to.disabled:
		return invalid("Kubernetes version ID: %s for upgrade is in %s state", to.uuid, to.state())
	case from == nil:
		return invalid("Invalid Kubernetes version associated with cluster : %s", k.name)
	case o == nil:
		return invalid("Invalid service offering associated with Kubernetes cluster : %s", k.name)
	case o.cpuNumber < to.minCPU:
		return invalid(text, k.name, to.name, to.minCPU, "vCPUs", o.name, o.cpuNumber, "vCPUs")
	case o.memMB < to.minMemMB:
		return invalid(text, k.name, to.name, to.minMemMB, "MB RAM", o.name, o.memMB, "MB RAM")
	}
	if err := checkUpgrade(from.semantic, to.semantic); err != nil {
		return err
	}
	if to.zone != nil && to.zone != k.zone {
		return invalid("ISO associated with version : %s is not in Ready state for datacenter : %s", to.name, k.zone.name)
	}
	return nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"
)

// deployCluster is the job of a new CloudManaged cluster. It creates the address, the VMs in CloudStack's order, and
// the rules. If it fails, the cluster remains in state Error with everything created so far.
func (c *call) deployCluster(k *kubernetesCluster, now time.Time) error {
	c.st.serviceUser(k.owner, now)
	if err := c.clusterAddress(k, now); err != nil {
		return err
	}
	k.template = systemTemplate
	for _, step := range []struct {
		kind, what string
		n          int
	}{{nodeEtcd, "etcd", k.etcd}, {nodeControl, "the control", k.control}, {nodeWorker, "node", k.size}} {
		for range step.n {
			if err := c.deployNode(k, step.kind, now); err != nil {
				return invalid("Provisioning %s VM failed in the Kubernetes cluster : %s", step.what, k.name)
			}
		}
	}
	if err := c.openCluster(k, now); err != nil {
		return err
	}
	host := k.externalLB
	switch {
	case host != "":
	case k.address != nil:
		host = k.address.addr.String()
	default:
		host = k.nodesOf(nodeControl)[0].vm.nics[0].ip
	}
	text, err := newKubeconfig(fmt.Sprintf("https://%s:%d", host, apiPort), now)
	if err != nil {
		return err
	}
	k.endpoint, k.kubeconfig, k.stored = fmt.Sprintf("https://%s:%d/", host, apiPort), text, vmRunning
	return nil
}

// measure sets the cluster's CPUs and memory to the sum over its nodes, or over the planned nodes if it has none yet.
func (k *kubernetesCluster) measure() {
	k.cores, k.memMB = 0, 0
	add := func(o *serviceOffering, n int) {
		if o != nil {
			k.cores, k.memMB = k.cores+o.cpuNumber*n, k.memMB+o.memMB*n
		}
	}
	if len(k.nodes) > 0 {
		for _, n := range k.nodes {
			add(n.vm.offering, 1)
		}
		return
	}
	for kind, n := range map[string]int{nodeWorker: k.size, nodeControl: k.control, nodeEtcd: k.etcd} {
		add(k.offeringOf(kind), n)
	}
}

// clusterTarget returns the cluster that the command names, or nil if it is deleted.
func (c *call) clusterTarget() *kubernetesCluster {
	k := arg[*kubernetesCluster](c, "id")
	if k == nil || k.removed {
		return nil
	}
	return k
}

func notExternal(k *kubernetesCluster, verb string) error {
	if k.kind == externalManaged {
		return invalid("%s kubernetes cluster is not supported for an externally managed cluster (%s)", verb, k.name)
	}
	return nil
}

// setVMs changes the state of the cluster's VMs that are in state from.
func (k *kubernetesCluster) setVMs(from, to string, now time.Time) {
	for _, n := range k.nodes {
		if n.vm.state == from {
			n.vm.state, n.vm.updated = to, now
		}
	}
}

// clusterToSwitch returns the cluster that the command starts or stops.
func (c *call) clusterToSwitch(verb, missing string) (*kubernetesCluster, error) {
	k := c.clusterTarget()
	if k == nil {
		return nil, invalid("%s", missing)
	}
	if err := notExternal(k, verb); err != nil {
		return nil, err
	}
	if !c.access(k.owner) {
		return nil, denied()
	}
	return k, nil
}

func startKubernetesCluster(c *call) (*jobSpec, error) {
	k, err := c.clusterToSwitch("Start", "Given Kubernetes cluster was not found")
	if err != nil {
		return c.clusterJob(err, nil), nil
	}
	shown := func() (any, error) { return clusterAnswer{c.viewCluster(k)}, nil }
	switch k.state() {
	case vmRunning, vmStarting: // nothing to do
		return c.clusterJob(nil, func(time.Time) (any, error) { return shown() }), nil
	}
	if k.endpoint == "" {
		return c.clusterJob(invalid("Kubernetes cluster : %s has invalid API endpoint. Can not verify if cluster is in ready state", k.name), nil), nil
	}
	before := k.stored
	k.stored = vmStarting
	k.setVMs(vmStopped, vmStarting, c.now)
	spec := c.clusterJob(nil, func(now time.Time) (any, error) {
		c.st.implement(k.network, now)
		for _, n := range k.nodes {
			if n.vm.state == vmStarting {
				c.st.boot(n.vm, now)
			}
		}
		k.stored = vmRunning
		return shown()
	})
	spec.undo = func() {
		k.stored = before
		k.setVMs(vmStarting, vmStopped, c.now)
	}
	spec.after = c.nodeTime("startVirtualMachine", len(k.nodes))
	return spec, nil
}

func stopKubernetesCluster(c *call) (*jobSpec, error) {
	k, err := c.clusterToSwitch("Stop", "Failed to find Kubernetes cluster with given ID")
	if err != nil {
		return c.clusterJob(err, nil), nil
	}
	done := func(time.Time) (any, error) { return success{true}, nil }
	state := k.state()
	if state == vmStopped || state == vmStopping {
		return c.clusterJob(nil, done), nil
	}
	before := k.stored
	if state == vmRunning || state == clusterAlert || state == vmStarting {
		k.stored = vmStopping
	}
	k.setVMs(vmRunning, vmStopping, c.now)
	spec := c.clusterJob(nil, func(now time.Time) (any, error) {
		for _, n := range k.nodes {
			if n.vm.state == vmStopping || n.vm.state == vmRunning {
				n.vm.stopped(now)
			}
		}
		if k.stored == vmStopping {
			k.stored = vmStopped
		}
		return done(now)
	})
	spec.undo = func() {
		k.stored = before
		k.setVMs(vmStopping, vmRunning, c.now)
	}
	spec.after = c.nodeTime("stopVirtualMachine", len(k.nodes))
	return spec, nil
}

func deleteKubernetesCluster(c *call) (*jobSpec, error) {
	k := c.clusterTarget()
	err := c.checkClusterDelete(k)
	var before string
	if err == nil {
		if before = k.stored; k.kind == cloudManaged {
			k.stored = clusterDestroy
		}
	}
	spec := c.clusterJob(err, func(now time.Time) (any, error) {
		if k.removed {
			return nil, invalid("Invalid cluster id specified")
		}
		c.st.destroyCluster(k, c.boolean("cleanup") || c.boolean("expunge"), c.boolean("expunge"), now)
		return success{true}, nil
	})
	spec.instanceType = "KubernetesCluster"
	if err == nil {
		spec.undo = func() { k.stored = before }
		if k.kind == cloudManaged {
			spec.after = c.nodeTime("destroyVirtualMachine", len(k.nodes))
		}
	}
	return spec, nil
}

func (c *call) checkClusterDelete(k *kubernetesCluster) error {
	if k == nil {
		return invalid("Invalid cluster id specified")
	}
	if !c.access(k.owner) {
		return denied()
	}
	if k.kind == externalManaged {
		if c.boolean("expunge") && c.caller.account.normal() && !c.st.settings.UserExpungeRecover {
			return invalid("Parameter expunge can be passed by Admin only. Or when the allow.user.expunge.recover.vm key is set.")
		}
		return nil
	}
	switch k.state() {
	case vmRunning, vmStopped, clusterAlert, vmError, clusterDestroy:
	default:
		return invalid("Cannot perform delete operation on cluster %s in state: %s", k.text(), k.state())
	}
	if !k.ownNetwork {
		return nil
	}
	external, guests := 0, 0
	for _, n := range k.nodes {
		if n.external {
			external++
		}
	}
	if external > 0 {
		return invalid("Failed to delete kubernetes cluster %s as there are %d external node(s) present. Please remove the external node(s) from the cluster "+
			"(and network) or delete them before deleting the cluster.", k.name, external)
	}
	for _, v := range c.st.vms.rows {
		if !v.removed && v.nicIn(k.network) != nil {
			guests++
		}
	}
	if guests > len(k.nodes) {
		return invalid("Network : %s for Kubernetes cluster : %s has instances using it which are not part of the Kubernetes cluster", k.network.name, k.name)
	}
	return nil
}

// destroyCluster removes a cluster and its resources. The VMs of an ExternalManaged cluster remain, unless destroy or
// expunge is set.
func (st *state) destroyCluster(k *kubernetesCluster, destroy, expunge bool, now time.Time) {
	if k.kind == externalManaged {
		for _, n := range k.nodes {
			if v := n.vm; !v.removed && destroy && !v.protected {
				st.destroy(v, now)
				if expunge {
					st.expunge(v)
				}
			}
		}
		k.nodes = nil
	} else {
		for len(k.nodes) > 0 {
			st.removeNode(k, k.nodes[0])
		}
		if k.ownNetwork && !k.network.removed {
			st.destroyNetwork(k.network)
		} else {
			st.closeCluster(k)
		}
	}
	k.removed = true
	st.dropServiceAccount(k.owner)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// deployCluster is the job of a new CloudManaged cluster. It creates the address, the VMs in CloudStack's order, and
// the rules. If it fails, the cluster remains in state Error with everything created so far.
func deployCluster(c *wire.Call, k *store.KubernetesCluster, now time.Time) error {
	serviceUser(c.St, k.Owner, now)
	if err := clusterAddress(c, k, now); err != nil {
		return err
	}
	k.Template = systemTemplate
	for _, step := range []struct {
		kind, what string
		n          int
	}{{store.NodeEtcd, "etcd", k.Etcd}, {store.NodeControl, "the control", k.Control}, {store.NodeWorker, "node", k.Size}} {
		for range step.n {
			if err := deployNode(c, k, step.kind, now); err != nil {
				return wire.Invalid("Provisioning %s VM failed in the Kubernetes cluster : %s", step.what, k.Name)
			}
		}
	}
	if err := openCluster(c, k, now); err != nil {
		return err
	}
	host := k.ExternalLB
	switch {
	case host != "":
	case k.Address != nil:
		host = k.Address.Addr.String()
	default:
		host = k.NodesOf(store.NodeControl)[0].VM.NICs[0].IP
	}
	text, err := newKubeconfig(fmt.Sprintf("https://%s:%d", host, store.APIPort), now)
	if err != nil {
		return err
	}
	k.Endpoint, k.Kubeconfig, k.Stored = fmt.Sprintf("https://%s:%d/", host, store.APIPort), text, store.VMRunning
	return nil
}

// clusterTarget returns the cluster that the command names, or nil if it is deleted.
func clusterTarget(c *wire.Call) *store.KubernetesCluster {
	k := wire.Arg[*store.KubernetesCluster](c, "id")
	if k == nil || k.Removed {
		return nil
	}
	return k
}

func notExternal(k *store.KubernetesCluster, verb string) error {
	if k.Kind == store.ExternalManaged {
		return wire.Invalid("%s kubernetes cluster is not supported for an externally managed cluster (%s)", verb, k.Name)
	}
	return nil
}

// setVMs changes the state of the cluster's VMs that are in state from.
func setVMs(k *store.KubernetesCluster, from, to string, now time.Time) {
	for _, n := range k.Nodes {
		if n.VM.State == from {
			n.VM.State, n.VM.Updated = to, now
		}
	}
}

// clusterToSwitch returns the cluster that the command starts or stops.
func clusterToSwitch(c *wire.Call, verb, missing string) (*store.KubernetesCluster, error) {
	k := clusterTarget(c)
	if k == nil {
		return nil, wire.Invalid("%s", missing)
	}
	if err := notExternal(k, verb); err != nil {
		return nil, err
	}
	if !c.Access(k.Owner) {
		return nil, wire.Denied()
	}
	return k, nil
}

func startKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k, err := clusterToSwitch(c, "Start", "Given Kubernetes cluster was not found")
	if err != nil {
		return clusterJob(c, err, nil), nil
	}
	shown := func() (any, error) { return clusterAnswer{viewCluster(c, k)}, nil }
	switch k.State() {
	case store.VMRunning, store.VMStarting: // nothing to do
		return clusterJob(c, nil, func(time.Time) (any, error) { return shown() }), nil
	}
	if k.Endpoint == "" {
		return clusterJob(c, wire.Invalid("Kubernetes cluster : %s has invalid API endpoint. Can not verify if cluster is in ready state", k.Name), nil), nil
	}
	before := k.Stored
	k.Stored = store.VMStarting
	setVMs(k, store.VMStopped, store.VMStarting, c.Now)
	spec := clusterJob(c, nil, func(now time.Time) (any, error) {
		c.St.Implement(k.Network, now)
		for _, n := range k.Nodes {
			if n.VM.State == store.VMStarting {
				c.St.Boot(n.VM, now)
			}
		}
		k.Stored = store.VMRunning
		return shown()
	})
	spec.Undo = func() {
		k.Stored = before
		setVMs(k, store.VMStarting, store.VMStopped, c.Now)
	}
	spec.After = nodeTime(c, "startVirtualMachine", len(k.Nodes))
	return spec, nil
}

func stopKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k, err := clusterToSwitch(c, "Stop", "Failed to find Kubernetes cluster with given ID")
	if err != nil {
		return clusterJob(c, err, nil), nil
	}
	done := func(time.Time) (any, error) { return wire.Success{Success: true}, nil }
	state := k.State()
	if state == store.VMStopped || state == store.VMStopping {
		return clusterJob(c, nil, done), nil
	}
	before := k.Stored
	if state == store.VMRunning || state == store.ClusterAlert || state == store.VMStarting {
		k.Stored = store.VMStopping
	}
	setVMs(k, store.VMRunning, store.VMStopping, c.Now)
	spec := clusterJob(c, nil, func(now time.Time) (any, error) {
		for _, n := range k.Nodes {
			if n.VM.State == store.VMStopping || n.VM.State == store.VMRunning {
				n.VM.Stopped(now)
			}
		}
		if k.Stored == store.VMStopping {
			k.Stored = store.VMStopped
		}
		return done(now)
	})
	spec.Undo = func() {
		k.Stored = before
		setVMs(k, store.VMStopping, store.VMRunning, c.Now)
	}
	spec.After = nodeTime(c, "stopVirtualMachine", len(k.Nodes))
	return spec, nil
}

func deleteKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k := clusterTarget(c)
	err := checkClusterDelete(c, k)
	var before string
	if err == nil {
		if before = k.Stored; k.Kind == store.CloudManaged {
			k.Stored = store.ClusterDestroy
		}
	}
	spec := clusterJob(c, err, func(now time.Time) (any, error) {
		if k.Removed {
			return nil, wire.Invalid("Invalid cluster id specified")
		}
		c.St.DestroyCluster(k, c.Boolean("cleanup") || c.Boolean("expunge"), c.Boolean("expunge"), now)
		return wire.Success{Success: true}, nil
	})
	spec.InstanceType = "KubernetesCluster"
	if err == nil {
		spec.Undo = func() { k.Stored = before }
		if k.Kind == store.CloudManaged {
			spec.After = nodeTime(c, "destroyVirtualMachine", len(k.Nodes))
		}
	}
	return spec, nil
}

func checkClusterDelete(c *wire.Call, k *store.KubernetesCluster) error {
	if k == nil {
		return wire.Invalid("Invalid cluster id specified")
	}
	if !c.Access(k.Owner) {
		return wire.Denied()
	}
	if k.Kind == store.ExternalManaged {
		if c.Boolean("expunge") && c.Caller.Account.Normal() && !c.St.Settings.UserExpungeRecover {
			return wire.Invalid("Parameter expunge can be passed by Admin only. Or when the allow.user.expunge.recover.vm key is set.")
		}
		return nil
	}
	switch k.State() {
	case store.VMRunning, store.VMStopped, store.ClusterAlert, store.VMError, store.ClusterDestroy:
	default:
		return wire.Invalid("Cannot perform delete operation on cluster %s in state: %s", k.Text(), k.State())
	}
	if !k.OwnNetwork {
		return nil
	}
	external, guests := 0, 0
	for _, n := range k.Nodes {
		if n.External {
			external++
		}
	}
	if external > 0 {
		return wire.Invalid("Failed to delete kubernetes cluster %s as there are %d external node(s) present. Please remove the external node(s) from the cluster "+
			"(and network) or delete them before deleting the cluster.", k.Name, external)
	}
	for _, v := range c.St.VMs.Rows {
		if !v.Removed && v.NICIn(k.Network) != nil {
			guests++
		}
	}
	if guests > len(k.Nodes) {
		return wire.Invalid("Network : %s for Kubernetes cluster : %s has instances using it which are not part of the Kubernetes cluster", k.Network.Name, k.Name)
	}
	return nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"cmp"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// defaultRootDisk is the default size of a node's root disk, in GB.
const defaultRootDisk = 8

// createKubernetesCluster stores a cluster. The job of a CloudManaged cluster creates its VMs.
func createKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	owner, err := c.OwnerToUse()
	if err != nil {
		return nil, err
	}

	if n := wire.Arg[*store.Network](c, "networkid"); n != nil {
		if err := checkNetworkUse(c, n); err != nil {
			return nil, err
		}
	}

	kind := c.Str("clustertype")
	if !c.Has("clustertype") {
		kind = store.CloudManaged
	}

	if err := clusterKind(kind); err != nil {
		return nil, err
	}

	k := &store.KubernetesCluster{
		Entity:      store.Entity{Created: c.Now},
		Name:        c.Str("name"),
		Description: cmp.Or(c.Str("description"), c.Str("name")),
		Kind:        kind,
		Owner:       owner,
		Zone:        wire.Arg[*store.Zone](c, "zoneid"),
		Version:     liveVersion(wire.Arg[*store.KubernetesVersion](c, "kubernetesversionid")),
		Offering:    wire.Arg[*store.ServiceOffering](c, "serviceofferingid"),
		Network:     wire.Arg[*store.Network](c, "networkid"),
		Control:     1,
		Size:        c.Integer("size"),
		RootDiskGB:  defaultRootDisk,
		Csi:         c.Boolean("enablecsi"),
		CNI:         wire.Arg[*store.CNIConfig](c, "cniconfigurationid"),
	}

	if c.Has("controlnodes") {
		k.Control = c.Integer("controlnodes")
	}

	if kind == store.ExternalManaged {
		if err := completeExternal(c, k); err != nil {
			return nil, cksError(err)
		}
		c.St.KubernetesClusters.Add(k)
		return creation(k, clusterJob(c, nil, func(time.Time) (any, error) {
			if k.Removed {
				return nil, wire.Invalid("Failed to find Kubernetes cluster with given ID")
			}
			return wire.Object("kubernetescluster", viewCluster(c, k)), nil
		})), nil
	}

	if err := completeManaged(c, k); err != nil {
		return nil, cksError(err)
	}

	if err := clusterLimits(c, k, k.Total()); err != nil {
		return nil, err
	}

	if k.Network == nil {
		if k.Network, err = createClusterNetwork(c, k); err != nil {
			return nil, cksError(err)
		}
		k.OwnNetwork = true
	}

	k.Stored, k.Template = store.VMStarting, systemTemplate
	c.St.KubernetesClusters.Add(k)
	w := deployCluster(c, k)
	return creation(k, w.job(store.VMError, w.shown)), nil
}

// creation returns spec with the ID and the type of the new cluster, which the answers about its job contain.
func creation(k *store.KubernetesCluster, spec *wire.JobSpec) *wire.JobSpec {
	spec.ObjectID, spec.InstanceType = k.UUID, "KubernetesCluster"
	return spec
}

func liveVersion(v *store.KubernetesVersion) *store.KubernetesVersion {
	if v == nil || v.Removed {
		return nil
	}
	return v
}

// completeExternal runs the checks of an ExternalManaged cluster.
func completeExternal(c *wire.Call, k *store.KubernetesCluster) error {
	if err := readRootDisk(c, k); err != nil {
		return err
	}
	if err := checkClusterZone(c, k); err != nil {
		return err
	}
	k.Stored = store.VMRunning
	if k.Offering != nil {
		k.Cores, k.MemMB = k.Offering.CPUNumber*(k.Control+k.Size), k.Offering.MemMB*(k.Control+k.Size)
	}
	return nil
}

// completeManaged runs the checks of a CloudManaged cluster in CloudStack's order, and reads the parameters that only
// such clusters have.
func completeManaged(c *wire.Call, k *store.KubernetesCluster) error {
	if k.Version == nil {
		return wire.Invalid("Unable to find given Kubernetes version in supported versions")
	}
	for _, check := range managedChecks {
		if err := check(c, k); err != nil {
			return err
		}
	}
	k.Measure()
	return nil
}

// managedChecks are the checks of a CloudManaged cluster in CloudStack's order.
var managedChecks = []func(*wire.Call, *store.KubernetesCluster) error{
	checkEndpoint, readRootDisk, readNodeMaps, checkClusterSize, checkClusterZone, checkClusterOffering,
	checkClusterVersion, checkISO, checkNodeOfferings, checkClusterNetwork,
}

func checkEndpoint(c *wire.Call, _ *store.KubernetesCluster) error {
	if strings.Contains(c.St.Setting("endpoint.url"), "localhost") {
		return wire.Invalid("Global setting endpoint.url has to be set to the Management Server's API end point")
	}
	return nil
}

func readRootDisk(c *wire.Call, k *store.KubernetesCluster) error {
	if !c.Has("noderootdisksize") {
		return nil
	}
	k.RootDiskGB = c.Integer("noderootdisksize")
	if k.RootDiskGB < defaultRootDisk {
		return wire.Invalid("Provided node root disk size is lesser than default size of %dGB", defaultRootDisk)
	}
	return nil
}

// readNodeMaps reads nodeofferings, nodetemplates and etcdnodes.
func readNodeMaps(c *wire.Call, k *store.KubernetesCluster) error {
	offerings, err := nodeOfferings(c)
	if err != nil {
		return err
	}
	k.Offerings, k.Etcd = offerings, c.Integer("etcdnodes")
	k.Templates, err = nodeTemplates(c)
	return err
}

// nodeOfferings returns the offerings of nodeofferings by kind of node.
func nodeOfferings(c *wire.Call) (map[string]*store.ServiceOffering, error) {
	out := map[string]*store.ServiceOffering{}
	for _, e := range c.Maps["nodeofferings"] {
		kind, id := e["node"], e["offering"]
		if kind == "" || id == "" {
			return nil, wire.Invalid("Incomplete Node Type to Service Offering ID mapping: '%s' -> '%s'",
				javaText(e, "node"), javaText(e, "offering"))
		}
		if !validNodeKind(kind) {
			return nil, wire.Invalid("The provided value '%s' for Node Type is invalid", kind)
		}
		o, ok := c.St.Offerings.Get(id)
		if !ok || o.Removed {
			return nil, wire.Invalid("Cannot find a service offering with ID %s", id)
		}
		out[strings.ToUpper(kind)] = o
	}
	return out, nil
}

// nodeTemplates returns the templates of nodetemplates by kind of node. The error texts are guesses, modelled on those
// of nodeofferings.
func nodeTemplates(c *wire.Call) (map[string]*store.Template, error) {
	out := map[string]*store.Template{}
	for _, e := range c.Maps["nodetemplates"] {
		t, ok := c.St.Templates.Get(e["template"])
		switch {
		case !validNodeKind(e["node"]):
			return nil, wire.Invalid("The provided value '%s' for Node Type is invalid", e["node"])
		case !ok || t.Removed:
			return nil, wire.Invalid("Cannot find a template with ID %s", e["template"])
		case !t.ForCKS:
			return nil, wire.Invalid("the simulator has no recording of a template that is not marked for CKS")
		}
		out[strings.ToUpper(e["node"])] = t
	}
	return out, nil
}

func validNodeKind(s string) bool {
	s = strings.ToUpper(s)
	return s == store.NodeWorker || s == store.NodeControl || s == store.NodeEtcd || s == store.NodeDefault
}

// javaText formats an entry's value like Java: a missing value is "null".
func javaText(e wire.MapEntry, key string) string {
	if v, ok := e[key]; ok {
		return v
	}
	return "null"
}

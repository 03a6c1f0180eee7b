// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// defaultRootDisk is the default size of a node's root disk, in GB.
const defaultRootDisk = 8

// createKubernetesCluster stores a cluster. The job of a CloudManaged cluster creates its VMs.
func createKubernetesCluster(c *call, create clusterNetworkCreator) (*jobSpec, error) {
	owner, err := c.ownerToUse()
	if err != nil {
		return nil, err
	}
	if n := arg[*network](c, "networkid"); n != nil {
		if err := c.checkNetworkUse(n); err != nil {
			return nil, err
		}
	}
	kind := c.str("clustertype")
	if !c.has("clustertype") {
		kind = cloudManaged
	}
	if err := clusterKind(kind); err != nil {
		return nil, err
	}
	k := &kubernetesCluster{
		entity: entity{created: c.now}, name: c.str("name"), description: c.str("description"), kind: kind, owner: owner, zone: arg[*zone](c, "zoneid"),
		version: liveVersion(arg[*kubernetesVersion](c, "kubernetesversionid")), offering: arg[*serviceOffering](c, "serviceofferingid"),
		network: arg[*network](c, "networkid"), keyPair: c.str("keypair"),
		control: 1, size: c.integer("size"), rootDiskGB: defaultRootDisk, externalLB: c.str("externalloadbalanceripaddress"), csi: c.boolean("enablecsi"),
	}
	if k.description == "" {
		k.description = k.name
	}
	if c.has("controlnodes") {
		k.control = c.integer("controlnodes")
	}
	if kind == externalManaged {
		if err := c.completeExternal(k); err != nil {
			return nil, cksError(err)
		}
		c.st.kubernetesClusters.add(k)
		return c.creation(k, func(time.Time) error { return nil }), nil
	}
	if err := c.completeManaged(k); err != nil {
		return nil, cksError(err)
	}
	if err := c.clusterLimits(k, k.total()); err != nil {
		return nil, err
	}
	if k.network == nil {
		if k.network, err = c.createClusterNetwork(k, create); err != nil {
			return nil, cksError(err)
		}
		k.ownNetwork = true
	}
	k.stored = vmStarting
	c.st.kubernetesClusters.add(k)
	spec := c.creation(k, func(now time.Time) error { return c.deployCluster(k, now) })
	spec.after = c.nodeTime("startVirtualMachine", k.total())
	return spec, nil
}

// creation is the job of createKubernetesCluster.
func (c *call) creation(k *kubernetesCluster, work func(now time.Time) error) *jobSpec {
	failed := func() {
		if k.stored == vmStarting {
			k.stored = vmError
		}
	}
	return &jobSpec{objectID: k.uuid, instanceType: "KubernetesCluster", undo: failed, run: func(now time.Time) (any, error) {
		if k.removed {
			return nil, cksError(invalid("Failed to find Kubernetes cluster with given ID"))
		}
		if err := work(now); err != nil {
			return nil, cksError(err)
		}
		return clusterAnswer{c.viewCluster(k)}, nil
	}}
}

func liveVersion(v *kubernetesVersion) *kubernetesVersion {
	if v == nil || v.removed {
		return nil
	}
	return v
}

// completeExternal runs the checks of an ExternalManaged cluster.
func (c *call) completeExternal(k *kubernetesCluster) error {
	if err := c.readRootDisk(k); err != nil {
		return err
	}
	if err := c.checkClusterZone(k); err != nil {
		return err
	}
	if err := c.checkKeyPair(k); err != nil {
		return err
	}
	if err := c.checkRegistry(); err != nil {
		return err
	}
	if k.externalLB != "" && !validIP(k.externalLB) {
		return invalid("Invalid external load balancer IP address")
	}
	k.stored = vmRunning
	if k.offering != nil {
		k.cores, k.memMB = k.offering.cpuNumber*(k.control+k.size), k.offering.memMB*(k.control+k.size)
	}
	return nil
}

// completeManaged runs the checks of a CloudManaged cluster in CloudStack's order, and reads the parameters that only
// such clusters have.
func (c *call) completeManaged(k *kubernetesCluster) error {
	if k.version == nil {
		return invalid("Unable to find given Kubernetes version in supported versions")
	}
	for _, check := range []func(*kubernetesCluster) error{
		c.checkEndpoint, c.readRootDisk, c.readNodeMaps, c.checkClusterSize, c.checkClusterZone, c.checkClusterOffering, c.checkClusterVersion, c.checkNodeOfferings,
		c.checkKeyPair, func(*kubernetesCluster) error { return c.checkRegistry() }, c.checkExternalLB, c.checkExperimental, c.checkClusterNetwork,
	} {
		if err := check(k); err != nil {
			return err
		}
	}
	k.measure()
	return nil
}

func (c *call) checkEndpoint(*kubernetesCluster) error {
	if u := c.st.settings.endpointURL(); strings.Contains(u, "localhost") {
		return invalid("Global setting endpoint.url has to be set to the Management Server's API end point")
	}
	return nil
}

func (c *call) readRootDisk(k *kubernetesCluster) error {
	if !c.has("noderootdisksize") {
		return nil
	}
	k.rootDiskGB = c.integer("noderootdisksize")
	if k.rootDiskGB < defaultRootDisk {
		return invalid("Provided node root disk size is lesser than default size of %dGB", defaultRootDisk)
	}
	return nil
}

// readNodeMaps reads nodeofferings and nodetemplates.
func (c *call) readNodeMaps(k *kubernetesCluster) error {
	offerings, err := c.nodeOfferings()
	if err != nil {
		return err
	}
	k.offerings, k.templates = offerings, map[string]*template{}
	for _, e := range c.maps["nodetemplates"] {
		kind, id := e["node"], e["template"]
		if kind == "" || id == "" {
			return invalid("Incomplete Node Type to template ID mapping: '%s' -> '%s'", javaText(e, "node"), javaText(e, "template"))
		}
		if !validNodeKind(kind) {
			return invalid("The provided value '%s' for Node Type is invalid", kind)
		}
		t, ok := c.st.templates.get(id)
		if !ok || t.removed {
			return invalid("Cannot find a template with ID %s", id)
		}
		k.templates[strings.ToUpper(kind)] = t
	}
	k.etcd = c.integer("etcdnodes")
	return nil
}

// nodeOfferings returns the offerings of nodeofferings by kind of node.
func (c *call) nodeOfferings() (map[string]*serviceOffering, error) {
	out := map[string]*serviceOffering{}
	for _, e := range c.maps["nodeofferings"] {
		kind, id := e["node"], e["offering"]
		if kind == "" || id == "" {
			return nil, invalid("Incomplete Node Type to Service Offering ID mapping: '%s' -> '%s'", javaText(e, "node"), javaText(e, "offering"))
		}
		if !validNodeKind(kind) {
			return nil, invalid("The provided value '%s' for Node Type is invalid", kind)
		}
		o, ok := c.st.offerings.get(id)
		if !ok || o.removed {
			return nil, invalid("Cannot find a service offering with ID %s", id)
		}
		out[strings.ToUpper(kind)] = o
	}
	return out, nil
}

func validNodeKind(s string) bool {
	s = strings.ToUpper(s)
	return s == nodeWorker || s == nodeControl || s == nodeEtcd || s == nodeDefault
}

// javaText formats an entry's value like Java: a missing value is "null".
func javaText(e mapEntry, key string) string {
	if v, ok := e[key]; ok {
		return v
	}
	return "null"
}

func validIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// checkRegistry requires either all parameters of a private registry or none.
func (c *call) checkRegistry() error {
	u, p, address := c.str("dockerregistryusername"), c.str("dockerregistrypassword"), c.str("dockerregistryurl")
	if u == "" && p == "" && address == "" {
		return nil
	}
	if u == "" || p == "" || address == "" {
		return invalid("All the docker private registry parameters (username, password, url) required are specified")
	}
	if parsed, err := url.Parse(address); err != nil || parsed.Scheme == "" {
		return invalid("Invalid docker registry url specified")
	}
	return nil
}

func (c *call) checkExperimental(*kubernetesCluster) error {
	if c.str("dockerregistryurl") != "" && !c.st.settings.KubernetesExperimental {
		return invalid("Private registry for the Kubernetes cluster is an experimental feature. Use %s configuration for enabling experimental features",
			"cloud.kubernetes.cluster.experimental.features.enabled")
	}
	return nil
}

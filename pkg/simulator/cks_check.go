// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"regexp"
	"strings"
)

// The checks of a CloudManaged cluster before it is created.

// Ports of a cluster.
const (
	apiPort     = 6443
	nodeSSHPort = 2222 // the first of the public ports that are forwarded to port 22 of the nodes
	etcdSSHPort = 50000
	sshPort     = 22
)

// labelName matches a DNS label that may be a host name.
var labelName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func (c *call) checkClusterSize(k *kubernetesCluster) error {
	switch {
	case !labelName.MatchString(k.name):
		return invalid("Invalid name for the Kubernetes cluster name: %s", k.name)
	case k.control < 1:
		return invalid("Invalid cluster control nodes count: %d", k.control)
	case k.size < 1:
		shown := fmt.Sprint(k.size)
		if !c.has("size") {
			shown = "null"
		}
		return invalid("Invalid cluster size: %s", shown)
	}
	return c.checkTotal(k.control + k.size)
}

func (c *call) checkTotal(n int) error {
	if n > c.st.settings.kubernetesMaxSize() {
		return invalid("Maximum cluster size can not exceed %d. Please contact your administrator", c.st.settings.kubernetesMaxSize())
	}
	return nil
}

func (c *call) checkClusterZone(k *kubernetesCluster) error {
	switch {
	case k.zone == nil || k.zone.removed:
		return invalid("Unable to find zone by ID: %s", c.str("zoneid"))
	case !k.zone.enabled:
		return errf(codeAccount, csPermission, "Cannot perform this operation, zone ID: %s is currently disabled", k.zone.uuid)
	}
	return nil
}

// clusterNetworkOffering is the value of cloud.kubernetes.cluster.network.offering.
const clusterNetworkOffering = "DefaultNetworkOfferingforKubernetesService"

func (st *state) clusterNetworkOffering() *networkOffering {
	o, _ := st.netOffs.find(func(o *networkOffering) bool { return o.spec.Name == clusterNetworkOffering })
	return o
}

// checkClusterOffering checks that the network offering gives nodes access to the internet.
func (c *call) checkClusterOffering(k *kubernetesCluster) error {
	o := c.st.clusterNetworkOffering()
	if k.network != nil {
		o = k.network.offering
	}
	bad := errf(codeInternal, csRuntime, "Kubernetes service has not been configured properly to provision Kubernetes clusters")
	switch {
	case o == nil || o.spec.State != "Enabled":
		return bad
	case o.spec.GuestType == typeShared || o.spec.ForVPC:
		return nil
	case !o.has("SourceNat") || !o.spec.Egress:
		return bad
	}
	return nil
}

// checkClusterVersion checks that the version is enabled, available in the zone, and new enough for several control
// nodes.
func (c *call) checkClusterVersion(k *kubernetesCluster) error {
	v := k.version
	switch {
	case v.disabled:
		return invalid("Kubernetes version ID: %s is in %s state", v.uuid, v.state())
	case v.zone != nil && v.zone != k.zone:
		return invalid("Kubernetes version ID: %s is not available for zone ID: %s", v.uuid, k.zone.uuid)
	case k.control > 1 && !v.atLeast(minKubernetesHA):
		return invalid("HA support is available only for Kubernetes version %s and above. Given version ID: %s is %s", minKubernetesHA, v.uuid, v.semantic)
	}
	return nil
}

func (c *call) checkNodeOfferings(k *kubernetesCluster) error {
	for _, kind := range nodeKinds {
		if kind == nodeEtcd && k.etcd == 0 {
			continue
		}
		o := k.offerings[kind]
		if o == nil {
			o = k.offering
		}
		if o == nil || o.removed {
			return invalid("When serviceofferingid is not specified, service offerings for each node type must be specified in the nodeofferings parameter.")
		}
		if err := k.version.fits(o); err != nil {
			return invalid("Given service offering ID: %s for %s nodes is not suitable for the Kubernetes cluster version %s - %s", o.exceptionText(), kind, k.version.text(), asAPIError(err).text)
		}
	}
	return nil
}

// exceptionText formats a service offering like CloudStack's exceptions.
func (o *serviceOffering) exceptionText() string {
	return fmt.Sprintf(`Service offering {"id":%d,"name":"%s","uuid":"%s"}.`, o.id, o.name, o.uuid)
}

// text formats a version like CloudStack's exceptions.
func (v *kubernetesVersion) text() string {
	return fmt.Sprintf(`KubernetesSupportedVersion {"id":%d,"name":"%s","uuid":"%s"}`, v.id, v.name, v.uuid)
}

// fits returns an error if VMs of the offering are too small for nodes of this version.
func (v *kubernetesVersion) fits(o *serviceOffering) error {
	const text = "Kubernetes cluster cannot be created with service offering ID: %s, "
	switch {
	case o.cpuNumber < minNodeCPU || o.memMB < minNodeMem:
		return invalid(text+"Kubernetes cluster template needs minimum %d vCPUs and %d MB RAM", o.uuid, minNodeCPU, minNodeMem)
	case o.cpuNumber < v.minCPU:
		return invalid(text+"Kubernetes version ID: %s needs minimum %d vCPUs", o.uuid, v.uuid, v.minCPU)
	case o.memMB < v.minMemMB:
		return invalid(text+"associated Kubernetes version ID: %s needs minimum %d MB RAM", o.uuid, v.uuid, v.minMemMB)
	}
	return nil
}

// checkKeyPair checks that the SSH key pair belongs to the cluster's owner.
func (c *call) checkKeyPair(k *kubernetesCluster) error {
	if strings.TrimSpace(k.keyPair) == "" {
		return nil
	}
	if _, ok := c.st.keyNamed(k.owner, k.keyPair); ok {
		return nil
	}
	return invalid("Given SSH key pair with name: %s was not found for the account %s", k.keyPair, k.owner.name)
}

func (c *call) checkExternalLB(k *kubernetesCluster) error {
	switch {
	case k.externalLB == "":
	case !validIP(k.externalLB):
		return invalid("Invalid external load balancer IP address")
	case k.network == nil:
		return invalid("externalloadbalanceripaddress parameter must be specified along with networkid parameter")
	case k.network.typ != typeShared:
		return invalid("externalloadbalanceripaddress parameter must be specified when network type is not Shared or is ROUTED network")
	}
	return nil
}

// checkClusterNetwork checks the network that the caller specified.
func (c *call) checkClusterNetwork(k *kubernetesCluster) error {
	n := k.network
	if n == nil {
		return nil
	}
	if n.typ == typeIsolated {
		if _, taken := c.st.kubernetesClusters.find(func(o *kubernetesCluster) bool { return o.network == n }); taken {
			return invalid("Network ID: %s is already under use by another Kubernetes cluster", n.uuid)
		}
		if err := c.checkClusterServices(n, k.control+k.size); err != nil {
			return err
		}
		if n.owner != k.owner {
			return networkDenied(n)
		}
	}
	if n.typ == typeShared && k.control > 1 && k.externalLB == "" {
		return invalid("Multi-control nodes, HA Kubernetes cluster with %s network ID: %s needs an external load balancer IP address. %s parameter can be used",
			n.typ, n.uuid, "externalloadbalanceripaddress")
	}
	return nil
}

func (c *call) checkClusterServices(n *network, nodes int) error {
	for _, s := range []struct{ service, text string }{
		{"UserData", "userdata"}, {"Dhcp", "DHCP"}, {"Firewall", "firewall"}, {"PortForwarding", "port forwarding"},
	} {
		if !n.provides(s.service) && (s.service != "Firewall" || n.vpc == nil) {
			return invalid("Network ID: %s does not support %s that is required for Kubernetes cluster", n.uuid, s.text)
		}
	}
	if n.state == netAllocated { // no address and no rules yet
		return nil
	}
	if n.vpc != nil {
		if n.acl != nil && n.acl.vpc == nil && n.acl.name == "default_deny" {
			return invalid("Network ID: %s can not be used for Kubernetes cluster as it uses default deny ACL", n.uuid)
		}
		return nil
	}
	ip := c.st.sourceNATOf(n)
	if ip == nil {
		return invalid("Network ID: %s does not have a source NAT IP associated with it. To provision a Kubernetes Cluster, source NAT IP is required", n.uuid)
	}
	return c.checkClusterPorts(n, ip, nodes)
}

// checkClusterPorts refuses existing rules on the ports that the cluster needs.
func (c *call) checkClusterPorts(n *network, ip *publicIP, nodes int) error {
	check := func(kind string, first, last int) error {
		var what string
		switch {
		case first <= apiPort && apiPort <= last:
			what = "API access"
		case max(nodeSSHPort, first) <= min(nodeSSHPort+nodes-1, last):
			what = "node VM SSH access"
		default:
			return nil
		}
		return invalid("Network: %s has conflicting %s rules to provision Kubernetes cluster for %s", n.text(), kind, what)
	}
	for _, r := range ip.fwRules {
		if r.protocol != "tcp" {
			continue
		}
		first, last := 1, 65535
		if r.startPort != nil {
			first, last = *r.startPort, *r.endPort
		}
		if err := check("firewall", first, last); err != nil {
			return err
		}
	}
	for _, r := range ip.pfRules {
		if err := check("portforwarding", r.publicStart, r.publicEnd); err != nil {
			return err
		}
	}
	return nil
}

// sourceNATOf returns the network's source NAT address, or nil if it has none.
func (st *state) sourceNATOf(n *network) *publicIP {
	if n.vpc != nil {
		return nil
	}
	return n.sourceNATIP(st)
}

// clusterLimits refuses n more nodes if they exceed the owner's limits.
func (c *call) clusterLimits(k *kubernetesCluster, n int) error {
	need := demand{vms: int64(n), volumes: int64(n)}
	for kind, count := range map[string]int{nodeWorker: k.size, nodeControl: k.control, nodeEtcd: k.etcd} {
		if o := k.offeringOf(kind); o != nil {
			need.cpus, need.memMiB = need.cpus+int64(o.cpuNumber*count), need.memMiB+int64(o.memMB*count)
		}
	}
	if err := c.checkDemand(k.owner, need); err != nil {
		return errf(codeAlloc, csResourceAlloc, "%s", asAPIError(err).text)
	}
	return nil
}

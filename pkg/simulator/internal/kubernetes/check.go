// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"regexp"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// labelName matches a DNS label that can be a host name.
var labelName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func checkClusterSize(c *wire.Call, k *store.KubernetesCluster) error {
	switch {
	case !labelName.MatchString(k.Name):
		return wire.Invalid("Invalid name for the Kubernetes cluster name: %s", k.Name)
	case k.Control < 1:
		return wire.Invalid("Invalid cluster control nodes count: %d", k.Control)
	case k.Size < 1:
		shown := fmt.Sprint(k.Size)
		if !c.Has("size") {
			shown = "null"
		}
		return wire.Invalid("Invalid cluster size: %s", shown)
	}
	return checkTotal(c, k.Control+k.Size)
}

func checkTotal(c *wire.Call, n int) error {
	if most := c.St.IntSetting("cloud.kubernetes.cluster.max.size"); n > most {
		return wire.Invalid("Maximum cluster size can not exceed %d. Please contact your administrator", most)
	}
	return nil
}

func checkClusterZone(c *wire.Call, k *store.KubernetesCluster) error {
	switch {
	case k.Zone == nil || k.Zone.Removed:
		return wire.Invalid("Unable to find zone by ID: %s", c.Str("zoneid"))
	case !k.Zone.Enabled:
		return wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Cannot perform this operation, zone ID: %s is currently disabled", k.Zone.UUID)
	}
	return nil
}

func networkOfferingForClusters(st *store.State) *store.NetworkOffering {
	name := st.Setting("cloud.kubernetes.cluster.network.offering")
	o, _ := st.NetOffs.Find(func(o *store.NetworkOffering) bool { return o.Spec.Name == name })
	return o
}

// checkClusterOffering checks that the network offering gives nodes access to the internet.
func checkClusterOffering(c *wire.Call, k *store.KubernetesCluster) error {
	o := networkOfferingForClusters(c.St)
	if k.Network != nil {
		o = k.Network.Offering
	}
	bad := wire.Errf(wire.CodeInternal, wire.CSRuntime,
		"Kubernetes service has not been configured properly to provision Kubernetes clusters")
	switch {
	case o == nil || o.Spec.State != "Enabled":
		return bad
	case o.Spec.GuestType == store.TypeShared || o.Spec.ForVPC:
		return nil
	case !o.Has("SourceNat") || !o.Spec.Egress:
		return bad
	}
	return nil
}

// checkClusterVersion checks that the version is enabled, available in the zone, and new enough for several control
// nodes.
func checkClusterVersion(c *wire.Call, k *store.KubernetesCluster) error {
	v := k.Version
	switch {
	case v.Disabled:
		return wire.Invalid("Kubernetes version ID: %s is in %s state", v.UUID, v.State())
	case v.Zone != nil && v.Zone != k.Zone:
		return wire.Invalid("Kubernetes version ID: %s is not available for zone ID: %s", v.UUID, k.Zone.UUID)
	case k.Control > 1 && !atLeast(v, minKubernetesHA):
		return wire.Invalid("HA support is available only for Kubernetes version %s and above. Given version ID: %s "+
			"is %s", minKubernetesHA, v.UUID, v.Semantic)
	}
	return nil
}

// checkISO checks that the version's ISO can be attached to VMs of the zone.
func checkISO(c *wire.Call, k *store.KubernetesCluster) error {
	v := k.Version
	switch v.ISO(c.Now) {
	case "":
		return wire.Invalid("Invalid ISO associated with version ID: %s", v.UUID)
	case store.ISOReady:
		return nil
	}
	return wire.Invalid("ISO associated with version ID: %s is not in Ready state for datacenter ID: %s", v.UUID,
		k.Zone.UUID)
}

func checkNodeOfferings(c *wire.Call, k *store.KubernetesCluster) error {
	for _, kind := range store.NodeKinds {
		if kind == store.NodeEtcd && k.Etcd == 0 {
			continue
		}
		o := k.Offerings[kind]
		if o == nil {
			o = k.Offering
		}
		if o == nil || o.Removed {
			return wire.Invalid("When serviceofferingid is not specified, service offerings for each node type must " +
				"be specified in the nodeofferings parameter.")
		}
		if err := fits(k.Version, o); err != nil {
			return wire.Invalid("Given service offering ID: %s for %s nodes is not suitable for the Kubernetes "+
				"cluster version %s - %s", exceptionText(o), kind, text(k.Version), wire.AsAPIError(err).Text)
		}
	}

	return nil
}

// exceptionText formats a service offering like CloudStack's exceptions.
func exceptionText(o *store.ServiceOffering) string {
	return fmt.Sprintf(`Service offering {"id":%d,"name":"%s","uuid":"%s"}.`, o.ID, o.Name, o.UUID)
}

// text formats a version like CloudStack's exceptions.
func text(v *store.KubernetesVersion) string {
	return fmt.Sprintf(`KubernetesSupportedVersion {"id":%d,"name":"%s","uuid":"%s"}`, v.ID, v.Name, v.UUID)
}

// fits returns an error if VMs of the offering are too small for nodes of this version.
func fits(v *store.KubernetesVersion, o *store.ServiceOffering) error {
	const text = "Kubernetes cluster cannot be created with service offering ID: %s, "
	switch {
	case o.CPUNumber < minNodeCPU || o.MemMB < minNodeMem:
		return wire.Invalid(text+"Kubernetes cluster template needs minimum %d vCPUs and %d MB RAM", o.UUID, minNodeCPU,
			minNodeMem)
	case o.CPUNumber < v.MinCPU:
		return wire.Invalid(text+"Kubernetes version ID: %s needs minimum %d vCPUs", o.UUID, v.UUID, v.MinCPU)
	case o.MemMB < v.MinMemMB:
		return wire.Invalid(text+"associated Kubernetes version ID: %s needs minimum %d MB RAM", o.UUID, v.UUID,
			v.MinMemMB)
	}
	return nil
}

// checkClusterNetwork checks the network that the caller specified.
func checkClusterNetwork(c *wire.Call, k *store.KubernetesCluster) error {
	n := k.Network
	if n == nil {
		return nil
	}

	if n.Typ == store.TypeIsolated {
		if _, taken := c.St.KubernetesClusters.Find(func(o *store.KubernetesCluster) bool {
			return o.Network == n
		}); taken {
			return wire.Invalid("Network ID: %s is already under use by another Kubernetes cluster", n.UUID)
		}
		if err := checkClusterServices(c, n, k.Control+k.Size); err != nil {
			return err
		}
		if n.Owner != k.Owner {
			return networkDenied(n)
		}
	}

	if n.Typ == store.TypeShared && k.Control > 1 {
		return wire.Invalid("Multi-control nodes, HA Kubernetes cluster with %s network ID: %s needs an external "+
			"load balancer IP address. %s parameter can be used", n.Typ, n.UUID, "externalloadbalanceripaddress")
	}

	return nil
}

func checkClusterServices(c *wire.Call, n *store.Network, nodes int) error {
	for _, s := range []struct{ service, text string }{
		{"UserData", "userdata"}, {"Dhcp", "DHCP"}, {"Firewall", "firewall"}, {"PortForwarding", "port forwarding"},
	} {
		if !n.Provides(s.service) && (s.service != "Firewall" || n.VPC == nil) {
			return wire.Invalid("Network ID: %s does not support %s that is required for Kubernetes cluster", n.UUID,
				s.text)
		}
	}

	if n.State == store.NetAllocated { // no address and no rules yet
		return nil
	}

	if n.VPC != nil {
		if n.ACL != nil && n.ACL.VPC == nil && n.ACL.Name == "default_deny" {
			return wire.Invalid("Network ID: %s can not be used for Kubernetes cluster as it uses default deny ACL",
				n.UUID)
		}
		return nil
	}

	ip := sourceNATOf(c.St, n)
	if ip == nil {
		return wire.Invalid("Network ID: %s does not have a source NAT IP associated with it. To provision a "+
			"Kubernetes Cluster, source NAT IP is required", n.UUID)
	}

	return checkClusterPorts(c, n, ip, nodes)
}

// checkClusterPorts refuses existing rules on the ports that the cluster needs.
func checkClusterPorts(c *wire.Call, n *store.Network, ip *store.PublicIP, nodes int) error {
	check := func(kind string, first, last int) error {
		var what string
		switch {
		case first <= store.APIPort && store.APIPort <= last:
			what = "API access"
		case max(store.NodeSSHPort, first) <= min(store.NodeSSHPort+nodes-1, last):
			what = "node VM SSH access"
		default:
			return nil
		}
		return wire.Invalid("Network: %s has conflicting %s rules to provision Kubernetes cluster for %s", n.Text(),
			kind, what)
	}

	for _, r := range ip.FWRules {
		if r.Protocol != "tcp" {
			continue
		}
		first, last := 1, 65535
		if r.StartPort != nil {
			first, last = *r.StartPort, *r.EndPort
		}
		if err := check("firewall", first, last); err != nil {
			return err
		}
	}

	for _, r := range ip.PFRules {
		if err := check("portforwarding", r.PublicStart, r.PublicEnd); err != nil {
			return err
		}
	}

	return nil
}

// sourceNATOf returns the network's source NAT address, or nil if it has none.
func sourceNATOf(st *store.State, n *store.Network) *store.PublicIP {
	if n.VPC != nil {
		return nil
	}
	return n.SourceNATIP(st)
}

// clusterLimits returns an error if n more nodes exceed the owner's limits.
func clusterLimits(c *wire.Call, k *store.KubernetesCluster, n int) error {
	need := wire.Demand{VMs: int64(n), Volumes: int64(n)}
	for kind, count := range map[string]int{
		store.NodeWorker:  k.Size,
		store.NodeControl: k.Control,
		store.NodeEtcd:    k.Etcd,
	} {
		if o := k.OfferingOf(kind); o != nil {
			need.CPUs, need.MemMiB = need.CPUs+int64(o.CPUNumber*count), need.MemMiB+int64(o.MemMB*count)
		}
	}
	if err := c.CheckDemand(k.Owner, need); err != nil {
		return wire.Errf(wire.CodeAlloc, wire.CSResourceAlloc, "%s", wire.AsAPIError(err).Text)
	}
	return nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// resourceTables maps the resource types of events to the kinds of objects, to look up current names.
var resourceTables = map[string]refKind{
	"VirtualMachine": refVM, "IpAddress": refIP, "FirewallRule": refRule, "LoadBalancerRule": refLBRule, "Network": refNetwork, "Vpc": refVPC,
	"Project": refProject, "Account": refAccount, "User": refUser, "Domain": refDomain, "Role": refRole, "NetworkAcl": refACLList,
	"Nic": refNIC, "AffinityGroup": refAffinityGroup, "ServiceOffering": refOffering, "DiskOffering": refDiskOffering, "Template": refTemplate,
	"Volume": refVolume, "NetworkOffering": refNetOffering, "VpcOffering": refVPCOffering, "NetworkAclItem": refACLItem,
	"PhysicalNetwork": refPhysicalNet, "Zone": refZone, "KubernetesCluster": refKubernetesCluster,
}

// ownerOf returns the owner of an object, or nil if it has none.
func ownerOf(obj any) *account {
	switch o := obj.(type) {
	case *vm:
		return o.owner
	case *nic:
		return ownerOf(o.vm)
	case *secondaryIP:
		return ownerOf(o.nic)
	case *volume:
		return ownerOf(o.vm)
	case *affinityGroup:
		return o.owner
	case *instanceGroup:
		return o.owner
	case *sshKeyPair:
		return o.owner
	case *publicIP:
		return o.owner
	case *lbRule:
		return o.account
	case *stickyPolicy:
		return ownerOf(o.rule)
	case *sslCert:
		return o.owner
	case *fwRule:
		return o.account
	case *pfRule:
		return o.account
	case *network:
		return o.owner
	case *vpc:
		return o.owner
	case *aclList:
		if o.vpc != nil {
			return o.vpc.owner
		}
	case *aclItem:
		return ownerOf(o.list)
	case *kubernetesCluster:
		return o.owner
	case *project:
		return o.owner()
	case *account:
		return o
	case *user:
		return o.account
	case *job:
		return o.caller.account
	case *event:
		return o.owner
	}
	return nil
}

// nameOf returns the name of an object in events, or "" for kinds without a name.
func nameOf(obj any) string {
	switch o := obj.(type) {
	case *vm:
		return o.name
	case *volume:
		return o.name
	case *affinityGroup:
		return o.name
	case *instanceGroup:
		return o.name
	case *sshKeyPair:
		return o.name
	case *publicIP:
		return o.addr.String()
	case *lbRule:
		return o.name
	case *stickyPolicy:
		return o.name
	case *sslCert:
		return o.name
	case *network:
		return o.name
	case *vpc:
		return o.name
	case *aclList:
		return o.name
	case *kubernetesCluster:
		return o.name
	case *project:
		return o.name
	case *projectRole:
		return o.name
	case *account:
		return o.name
	case *user:
		return o.username
	case *domain:
		return o.name
	case *role:
		return o.name
	case *zone:
		return o.name
	case *serviceOffering:
		return o.name
	case *diskOffering:
		return o.name
	case *networkOffering:
		return o.spec.Name
	case *vpcOffering:
		return o.name
	case *template:
		return o.name
	}
	return ""
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import "strings"

// The commands that change something and that a run may send; any other is refused. Every parameter that names objects must name objects
// of the run.
var (
	// named commands make an object of a name, which must have the run's prefix. The others must name an object of the run.
	named  = strings.Fields(`createDomain createAccount createProject createRole createNetwork createVPC deployVirtualMachine uploadSslCert`)
	others = strings.Fields(`associateIpAddress createFirewallRule createLoadBalancerRule assignToLoadBalancerRule removeFromLoadBalancerRule
		createLoadBalancer createPortForwardingRule createUser registerUserKeys getUserKeys updateUser deleteUser createRolePermission deleteRole addAccountToProject
		deleteDomain deleteAccount deleteProject updateResourceLimit deleteNetwork restartNetwork deleteVPC createNetworkACLList
		deleteNetworkACLList replaceNetworkACLList createNetworkACL deleteNetworkACL startVirtualMachine stopVirtualMachine
		destroyVirtualMachine expungeVirtualMachine addNicToVirtualMachine removeNicFromVirtualMachine disassociateIpAddress
		deleteFirewallRule updateLoadBalancerRule deleteLoadBalancerRule createLBStickinessPolicy deleteLBStickinessPolicy
		deleteLoadBalancer assignCertToLoadBalancer removeCertFromLoadBalancer deleteSslCert updatePortForwardingRule
		deletePortForwardingRule createTags deleteTags`)
	// free are parameters that may name objects of others, by command: what the cloud offers to all its users, or a default ACL list.
	// Those without a command name nothing that a call could change.
	free = map[string][]string{
		"":                      {"zoneid", "serviceofferingid", "templateid", "networkofferingid", "vpcofferingid", "jobid", "customjobid"},
		"createDomain":          {"parentdomainid"},
		"createAccount":         {"roleid"},
		"createNetwork":         {"aclid", "physicalnetworkid"},
		"replaceNetworkACLList": {"aclid"},
	}
)

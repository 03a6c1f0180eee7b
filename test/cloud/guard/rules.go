// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

// rule is about one command that changes something. Every parameter that names objects must name objects of the run.
type rule struct {
	// named commands make an object of a name, which must have the run's prefix. Others must name an object of the run.
	named bool
	// free are parameters that may name objects of others: what the cloud offers to all its users.
	free []string
	// lent commands may name objects that were lent to the run, but not as the object to change.
	lent bool
}

// alwaysFree name no object that a call could change.
var alwaysFree = []string{
	"zoneid", "serviceofferingid", "templateid", "networkofferingid", "vpcofferingid", "jobid", "customjobid",
}

// rules are the commands that a run may send. A command that is not here is refused.
var rules = map[string]rule{
	// What holds everything else.
	"createDomain":         {named: true, free: []string{"parentdomainid"}},
	"createAccount":        {named: true, free: []string{"roleid"}},
	"createProject":        {named: true},
	"createRole":           {named: true},
	"createNetwork":        {named: true, free: []string{"aclid", "physicalnetworkid"}}, // aclid may be a default list
	"createVPC":            {named: true},
	"deployVirtualMachine": {named: true},
	"uploadSslCert":        {named: true},

	"createUser":            {},
	"registerUserKeys":      {},
	"getUserKeys":           {},
	"updateUser":            {},
	"deleteUser":            {},
	"createRolePermission":  {},
	"deleteRole":            {},
	"addAccountToProject":   {},
	"deleteDomain":          {},
	"deleteAccount":         {},
	"deleteProject":         {},
	"updateResourceLimit":   {},
	"deleteNetwork":         {},
	"restartNetwork":        {},
	"deleteVPC":             {},
	"createNetworkACLList":  {},
	"deleteNetworkACLList":  {},
	"replaceNetworkACLList": {free: []string{"aclid"}}, // a default list
	"createNetworkACL":      {},
	"deleteNetworkACL":      {},

	"startVirtualMachine":         {},
	"stopVirtualMachine":          {},
	"destroyVirtualMachine":       {},
	"expungeVirtualMachine":       {},
	"addNicToVirtualMachine":      {},
	"removeNicFromVirtualMachine": {},

	"associateIpAddress":    {lent: true},
	"disassociateIpAddress": {},
	"createFirewallRule":    {lent: true},
	"deleteFirewallRule":    {},

	"createLoadBalancerRule":     {lent: true},
	"updateLoadBalancerRule":     {},
	"deleteLoadBalancerRule":     {},
	"assignToLoadBalancerRule":   {lent: true},
	"removeFromLoadBalancerRule": {lent: true},
	"createLBStickinessPolicy":   {},
	"deleteLBStickinessPolicy":   {},
	"createLoadBalancer":         {lent: true},
	"deleteLoadBalancer":         {},
	"assignCertToLoadBalancer":   {},
	"removeCertFromLoadBalancer": {},
	"deleteSslCert":              {},
	"createPortForwardingRule":   {lent: true},
	"updatePortForwardingRule":   {},
	"deletePortForwardingRule":   {},

	"createTags": {},
	"deleteTags": {},
}

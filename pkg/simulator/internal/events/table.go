// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"maps"
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// EventSpecs are the commands that record events.
var EventSpecs = map[string]store.EventSpec{
	// identity
	"createDomain":                {Kind: "DOMAIN.CREATE", Phrase: "creating Domain", Label: "Domain Id", Resource: "Domain", Param: ""},
	"updateDomain":                {Kind: "DOMAIN.UPDATE", Phrase: "updating Domain", Label: "Domain Id", Resource: "Domain", Param: "id"},
	"moveDomain":                  {Kind: "DOMAIN.MOVE", Phrase: "moving Domain", Label: "Domain Id", Resource: "Domain", Param: "domainid"},
	"deleteDomain":                {Kind: "DOMAIN.DELETE", Phrase: "deleting Domain", Label: "Domain Id", Resource: "Domain", Param: "id"},
	"createAccount":               {Kind: "ACCOUNT.CREATE", Phrase: "creating Account", Label: "Account Id", Resource: "Account", Param: ""},
	"updateAccount":               {Kind: "ACCOUNT.UPDATE", Phrase: "updating account", Label: "Account Id", Resource: "Account", Param: "id"},
	"enableAccount":               {Kind: "ACCOUNT.ENABLE", Phrase: "enabling account", Label: "Account Id", Resource: "Account", Param: "id"},
	"disableAccount":              {Kind: "ACCOUNT.DISABLE", Phrase: "disabling account", Label: "Account Id", Resource: "Account", Param: "id"},
	"lockAccount":                 {Kind: "ACCOUNT.DISABLE", Phrase: "locking account", Label: "Account Id", Resource: "Account", Param: ""},
	"deleteAccount":               {Kind: "ACCOUNT.DELETE", Phrase: "deleting account", Label: "Account Id", Resource: "Account", Param: "id"},
	"createUser":                  {Kind: "USER.CREATE", Phrase: "creating User", Label: "User Id", Resource: "User", Param: ""},
	"updateUser":                  {Kind: "USER.UPDATE", Phrase: "Updating User", Label: "User Id", Resource: "User", Param: "id"},
	"enableUser":                  {Kind: "USER.ENABLE", Phrase: "enabling User", Label: "User Id", Resource: "User", Param: "id"},
	"disableUser":                 {Kind: "USER.DISABLE", Phrase: "disabling User", Label: "User Id", Resource: "User", Param: "id"},
	"lockUser":                    {Kind: "USER.LOCK", Phrase: "locking User", Label: "User Id", Resource: "User", Param: "id"},
	"deleteUser":                  {Kind: "USER.DELETE", Phrase: "deleting User", Label: "User Id", Resource: "User", Param: "id"},
	"moveUser":                    {Kind: "USER.MOVE", Phrase: "moving User to a new account", Label: "User Id", Resource: "User", Param: "id"},
	"registerUserKeys":            {Kind: "REGISTER.USER.KEY", Phrase: "register for the developer API keys", Label: "User Id", Resource: "User", Param: "id"},
	"createRole":                  {Kind: "ROLE.CREATE", Phrase: "creating Role", Label: "Role Id", Resource: "Role", Param: ""},
	"importRole":                  {Kind: "ROLE.IMPORT", Phrase: "importing Role", Label: "Role Id", Resource: "Role", Param: ""},
	"updateRole":                  {Kind: "ROLE.UPDATE", Phrase: "updating Role", Label: "Role Id", Resource: "Role", Param: "id"},
	"enableRole":                  {Kind: "ROLE.ENABLE", Phrase: "enabling Role", Label: "Role Id", Resource: "Role", Param: "id"},
	"disableRole":                 {Kind: "ROLE.DISABLE", Phrase: "disabling Role", Label: "Role Id", Resource: "Role", Param: "id"},
	"deleteRole":                  {Kind: "ROLE.DELETE", Phrase: "deleting Role", Label: "Role Id", Resource: "Role", Param: "id"},
	"createRolePermission":        {Kind: "ROLE.PERMISSION.CREATE", Phrase: "creating Role Permission", Label: "Role Id", Resource: "Role", Param: "roleid"},
	"updateRolePermission":        {Kind: "ROLE.PERMISSION.UPDATE", Phrase: "updating Role Permission", Label: "Role Id", Resource: "Role", Param: "roleid"},
	"deleteRolePermission":        {Kind: "ROLE.PERMISSION.DELETE", Phrase: "deleting Role Permission", Label: "", Resource: "Role", Param: "id"},
	"createProject":               {Kind: "PROJECT.CREATE", Phrase: "creating project", Label: "Project Id", Resource: "Project", Param: ""},
	"updateProject":               {Kind: "PROJECT.UPDATE", Phrase: "updating project", Label: "Project Id", Resource: "Project", Param: "id"},
	"activateProject":             {Kind: "PROJECT.ACTIVATE", Phrase: "activating project", Label: "Project Id", Resource: "Project", Param: "id"},
	"suspendProject":              {Kind: "PROJECT.SUSPEND", Phrase: "suspending project", Label: "Project Id", Resource: "Project", Param: "id"},
	"deleteProject":               {Kind: "PROJECT.DELETE", Phrase: "deleting project", Label: "Project Id", Resource: "Project", Param: "id"},
	"addAccountToProject":         {Kind: "PROJECT.ACCOUNT.ADD", Phrase: "adding account to project", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"deleteAccountFromProject":    {Kind: "PROJECT.ACCOUNT.REMOVE", Phrase: "removing account from project", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"addUserToProject":            {Kind: "PROJECT.USER.ADD", Phrase: "adding user to project", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"deleteUserFromProject":       {Kind: "PROJECT.USER.REMOVE", Phrase: "removing user from project", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"createProjectRole":           {Kind: "PROJECT.ROLE.CREATE", Phrase: "creating Project Role", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"updateProjectRole":           {Kind: "PROJECT.ROLE.UPDATE", Phrase: "updating Project Role", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"deleteProjectRole":           {Kind: "PROJECT.ROLE.DELETE", Phrase: "deleting Project Role", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"createProjectRolePermission": {Kind: "PROJECT.ROLE.PERMISSION.CREATE", Phrase: "Creating Project Role Permission", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"updateProjectRolePermission": {Kind: "PROJECT.ROLE.PERMISSION.UPDATE", Phrase: "updating Project Role Permission", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"deleteProjectRolePermission": {Kind: "PROJECT.ROLE.PERMISSION.DELETE", Phrase: "deleting Project Role Permission", Label: "Project Id", Resource: "Project", Param: "projectid"},
	"updateConfiguration":         {Kind: "CONFIGURATION.VALUE.EDIT", Phrase: "updating configuration", Label: "", Resource: "", Param: ""},
	"resetConfiguration":          {Kind: "CONFIGURATION.VALUE.EDIT", Phrase: "resetting configuration", Label: "", Resource: "", Param: ""},

	// virtual machines
	"deployVirtualMachine":              {Kind: "VM.CREATE", Phrase: "deploying Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: ""},
	"startVirtualMachine":               {Kind: "VM.START", Phrase: "starting Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"stopVirtualMachine":                {Kind: "VM.STOP", Phrase: "stopping Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"rebootVirtualMachine":              {Kind: "VM.REBOOT", Phrase: "rebooting Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"destroyVirtualMachine":             {Kind: "VM.DESTROY", Phrase: "destroying Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"expungeVirtualMachine":             {Kind: "VM.EXPUNGE", Phrase: "expunging Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"recoverVirtualMachine":             {Kind: "VM.RECOVER", Phrase: "Recovering VM", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"updateVirtualMachine":              {Kind: "VM.UPDATE", Phrase: "updating Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"scaleVirtualMachine":               {Kind: "VM.UPGRADE", Phrase: "upgrading Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"changeServiceForVirtualMachine":    {Kind: "VM.UPGRADE", Phrase: "upgrading Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"migrateVirtualMachine":             {Kind: "VM.MIGRATE", Phrase: "migrating VM", Label: "Vm Id", Resource: "VirtualMachine", Param: "virtualmachineid"},
	"restoreVirtualMachine":             {Kind: "VM.RESTORE", Phrase: "restoring Vm", Label: "Vm Id", Resource: "VirtualMachine", Param: "virtualmachineid"},
	"assignVirtualMachine":              {Kind: "VM.MOVE", Phrase: "move VM to another user", Label: "Vm Id", Resource: "VirtualMachine", Param: "virtualmachineid"},
	"resetPasswordForVirtualMachine":    {Kind: "VM.RESETPASSWORD", Phrase: "resetting Vm password", Label: "Vm Id", Resource: "VirtualMachine", Param: "id"},
	"addNicToVirtualMachine":            {Kind: "NIC.CREATE", Phrase: "Creating Nic", Label: "Vm Id", Resource: "VirtualMachine", Param: "virtualmachineid"},
	"removeNicFromVirtualMachine":       {Kind: "NIC.DELETE", Phrase: "Removing Nic", Label: "Vm Id", Resource: "VirtualMachine", Param: "virtualmachineid"},
	"updateDefaultNicForVirtualMachine": {Kind: "NIC.UPDATE", Phrase: "Updating NIC", Label: "Vm Id", Resource: "VirtualMachine", Param: "virtualmachineid"},
	"addIpToNic":                        {Kind: "NIC.SECONDARY.IP.CONFIGURE", Phrase: "Configuring secondary ip rules", Label: "", Resource: "Nic", Param: "nicid"},
	"removeIpFromNic":                   {Kind: "NIC.SECONDARY.IP.UNASSIGN", Phrase: "Unassigning secondary ip", Label: "", Resource: "Nic", Param: "id"},
	"createSSHKeyPair":                  {Kind: "REGISTER.SSH.KEYPAIR", Phrase: "creating ssh keypair", Label: "", Resource: "", Param: ""},
	"registerSSHKeyPair":                {Kind: "REGISTER.SSH.KEYPAIR", Phrase: "registering ssh keypair", Label: "", Resource: "", Param: ""},
	"registerUserData":                  {Kind: "REGISTER.USER.DATA", Phrase: "registering userdata", Label: "", Resource: "", Param: ""},
	"createAffinityGroup":               {Kind: "AG.CREATE", Phrase: "Creating Affinity Group", Label: "", Resource: "AffinityGroup", Param: ""},
	"deleteAffinityGroup":               {Kind: "AG.DELETE", Phrase: "deleting affinity group", Label: "", Resource: "AffinityGroup", Param: "id"},
	"createServiceOffering":             {Kind: "SERVICE.OFFERING.CREATE", Phrase: "creating service offering", Label: "Service offering Id", Resource: "ServiceOffering", Param: ""},
	"updateServiceOffering":             {Kind: "SERVICE.OFFERING.EDIT", Phrase: "updating service offering", Label: "Service offering Id", Resource: "ServiceOffering", Param: "id"},
	"deleteServiceOffering":             {Kind: "SERVICE.OFFERING.DELETE", Phrase: "deleting service offering", Label: "Service offering Id", Resource: "ServiceOffering", Param: "id"},
	"createDiskOffering":                {Kind: "DISK.OFFERING.CREATE", Phrase: "creating disk offering", Label: "", Resource: "DiskOffering", Param: ""},
	"deleteDiskOffering":                {Kind: "DISK.OFFERING.DELETE", Phrase: "deleting disk offering", Label: "", Resource: "DiskOffering", Param: "id"},
	"registerTemplate":                  {Kind: "TEMPLATE.CREATE", Phrase: "creating template", Label: "Template Id", Resource: "Template", Param: ""},
	"updateTemplate":                    {Kind: "TEMPLATE.UPDATE", Phrase: "updating template", Label: "Template Id", Resource: "Template", Param: "id"},
	"deleteTemplate":                    {Kind: "TEMPLATE.DELETE", Phrase: "Deleting template", Label: "Template Id", Resource: "Template", Param: "id"},
	"createVolume":                      {Kind: "VOLUME.CREATE", Phrase: "creating volume", Label: "Volume Id", Resource: "Volume", Param: ""},
	"attachVolume":                      {Kind: "VOLUME.ATTACH", Phrase: "attaching volume", Label: "Volume Id", Resource: "Volume", Param: "id"},
	"detachVolume":                      {Kind: "VOLUME.DETACH", Phrase: "detaching volume", Label: "Volume Id", Resource: "Volume", Param: "id"},
	"resizeVolume":                      {Kind: "VOLUME.RESIZE", Phrase: "resizing volume", Label: "Volume Id", Resource: "Volume", Param: "id"},
	"deleteVolume":                      {Kind: "VOLUME.DELETE", Phrase: "deleting volume", Label: "Volume Id", Resource: "Volume", Param: "id"},
	"createSnapshot":                    {Kind: "SNAPSHOT.CREATE", Phrase: "creating snapshot", Label: "Snapshot Id", Resource: "Snapshot", Param: ""},
	"deleteSnapshot":                    {Kind: "SNAPSHOT.DELETE", Phrase: "deleting snapshot", Label: "Snapshot Id", Resource: "Snapshot", Param: "id"},

	// networks
	"createNetwork":            {Kind: "NETWORK.CREATE", Phrase: "creating network", Label: "Network Id", Resource: "Network", Param: ""},
	"updateNetwork":            {Kind: "NETWORK.UPDATE", Phrase: "updating network", Label: "Network Id", Resource: "Network", Param: "id"},
	"restartNetwork":           {Kind: "NETWORK.RESTART", Phrase: "restarting network", Label: "Network Id", Resource: "Network", Param: "id"},
	"deleteNetwork":            {Kind: "NETWORK.DELETE", Phrase: "deleting network", Label: "Network Id", Resource: "Network", Param: "id"},
	"createNetworkOffering":    {Kind: "NETWORK.OFFERING.CREATE", Phrase: "creating network offering", Label: "Network offering Id", Resource: "NetworkOffering", Param: ""},
	"updateNetworkOffering":    {Kind: "NETWORK.OFFERING.EDIT", Phrase: "updating network offering", Label: "Network offering Id", Resource: "NetworkOffering", Param: "id"},
	"deleteNetworkOffering":    {Kind: "NETWORK.OFFERING.DELETE", Phrase: "deleting network offering", Label: "Network offering Id", Resource: "NetworkOffering", Param: "id"},
	"createVPC":                {Kind: "VPC.CREATE", Phrase: "creating vpc", Label: "Vpc Id", Resource: "Vpc", Param: ""},
	"updateVPC":                {Kind: "VPC.UPDATE", Phrase: "updating vpc", Label: "Vpc Id", Resource: "Vpc", Param: "id"},
	"restartVPC":               {Kind: "VPC.RESTART", Phrase: "restarting vpc", Label: "Vpc Id", Resource: "Vpc", Param: "id"},
	"deleteVPC":                {Kind: "VPC.DELETE", Phrase: "deleting vpc", Label: "Vpc Id", Resource: "Vpc", Param: "id"},
	"createVPCOffering":        {Kind: "VPC.OFFERING.CREATE", Phrase: "creating vpc offering", Label: "Vpc offering Id", Resource: "VpcOffering", Param: ""},
	"updateVPCOffering":        {Kind: "VPC.OFFERING.UPDATE", Phrase: "updating vpc offering", Label: "Vpc offering Id", Resource: "VpcOffering", Param: "id"},
	"deleteVPCOffering":        {Kind: "VPC.OFFERING.DELETE", Phrase: "deleting vpc offering", Label: "Vpc offering Id", Resource: "VpcOffering", Param: "id"},
	"createNetworkACLList":     {Kind: "NETWORK.ACL.CREATE", Phrase: "creating network acl list", Label: "Network ACL Id", Resource: "NetworkAcl", Param: ""},
	"updateNetworkACLList":     {Kind: "NETWORK.ACL.UPDATE", Phrase: "updating network acl list", Label: "Network ACL Id", Resource: "NetworkAcl", Param: "id"},
	"replaceNetworkACLList":    {Kind: "NETWORK.ACL.REPLACE", Phrase: "Replacing network ACL", Label: "Network ACL Id", Resource: "NetworkAcl", Param: "aclid"},
	"deleteNetworkACLList":     {Kind: "NETWORK.ACL.DELETE", Phrase: "Deleting Network ACL List", Label: "Network ACL Id", Resource: "NetworkAcl", Param: "id"},
	"createNetworkACL":         {Kind: "NETWORK.ACL.ITEM.CREATE", Phrase: "creating network acl item", Label: "Network ACL Item Id", Resource: "NetworkAclItem", Param: ""},
	"updateNetworkACLItem":     {Kind: "NETWORK.ACL.ITEM.UPDATE", Phrase: "Updating Network ACL Item", Label: "Network ACL Item Id", Resource: "NetworkAclItem", Param: "id"},
	"moveNetworkAclItem":       {Kind: "NETWORK.ACL.ITEM.UPDATE", Phrase: "Changing ACL rule's order", Label: "Network ACL Item Id", Resource: "NetworkAclItem", Param: "id"},
	"deleteNetworkACL":         {Kind: "NETWORK.ACL.ITEM.DELETE", Phrase: "Deleting Network ACL Item", Label: "Network ACL Item Id", Resource: "NetworkAclItem", Param: "id"},
	"createPrivateGateway":     {Kind: "PRIVATE.GATEWAY.CREATE", Phrase: "creating VPC private gateway", Label: "", Resource: "PrivateGateway", Param: ""},
	"createNetworkPermissions": {Kind: "NETWORK.PERMISSION.UPDATE", Phrase: "updating network permissions", Label: "Network Id", Resource: "Network", Param: "networkid"},
	"removeNetworkPermissions": {Kind: "NETWORK.PERMISSION.UPDATE", Phrase: "updating network permissions", Label: "Network Id", Resource: "Network", Param: "networkid"},
	"resetNetworkPermissions":  {Kind: "NETWORK.PERMISSION.UPDATE", Phrase: "updating network permissions", Label: "Network Id", Resource: "Network", Param: "networkid"},
	"createPhysicalNetwork":    {Kind: "PHYSICAL.NETWORK.CREATE", Phrase: "Creating Physical Network", Label: "Physical Network Id", Resource: "PhysicalNetwork", Param: ""},
	"createZone":               {Kind: "ZONE.CREATE", Phrase: "creating zone", Label: "Zone Id", Resource: "Zone", Param: ""},
	"updateZone":               {Kind: "ZONE.EDIT", Phrase: "editing zone", Label: "Zone Id", Resource: "Zone", Param: "id"},
	"deleteZone":               {Kind: "ZONE.DELETE", Phrase: "deleting zone", Label: "Zone Id", Resource: "Zone", Param: "id"},
	"createVlanIpRange":        {Kind: "VLAN.IP.RANGE.CREATE", Phrase: "creating vlan IP range", Label: "", Resource: "", Param: ""},
	"deleteVlanIpRange":        {Kind: "VLAN.IP.RANGE.DELETE", Phrase: "deleting vlan IP range", Label: "", Resource: "", Param: "id"},

	// addresses and rules
	"associateIpAddress":         {Kind: "NET.IPASSIGN", Phrase: "allocating Ip", Label: "IP Id", Resource: "IpAddress", Param: ""},
	"disassociateIpAddress":      {Kind: "NET.IPRELEASE", Phrase: "disassociating Ip", Label: "IP Id", Resource: "IpAddress", Param: "id"},
	"reserveIpAddress":           {Kind: "NET.IPRESERVE", Phrase: "reserving Ip", Label: "IP Id", Resource: "IpAddress", Param: "id"},
	"releaseIpAddress":           {Kind: "NET.IPRELEASE", Phrase: "releasing Reserved Ip", Label: "IP Id", Resource: "IpAddress", Param: "id"},
	"updateIpAddress":            {Kind: "NET.IPUPDATE", Phrase: "updating public ip address", Label: "IP Id", Resource: "IpAddress", Param: "id"},
	"enableStaticNat":            {Kind: "STATICNAT.ENABLE", Phrase: "enabling static nat", Label: "IP Id", Resource: "IpAddress", Param: "ipaddressid"},
	"disableStaticNat":           {Kind: "STATICNAT.DISABLE", Phrase: "disabling static nat", Label: "IP Id", Resource: "IpAddress", Param: "ipaddressid"},
	"createPortForwardingRule":   {Kind: "NET.RULEADD", Phrase: "creating forwarding rule", Label: "Rule Id", Resource: "FirewallRule", Param: ""},
	"updatePortForwardingRule":   {Kind: "NET.RULEMODIFY", Phrase: "updating forwarding rule", Label: "Rule Id", Resource: "FirewallRule", Param: "id"},
	"deletePortForwardingRule":   {Kind: "NET.RULEDELETE", Phrase: "revoking forwarding rule", Label: "Rule Id", Resource: "FirewallRule", Param: "id"},
	"createIpForwardingRule":     {Kind: "NET.RULEADD", Phrase: "creating static nat rule", Label: "Rule Id", Resource: "FirewallRule", Param: ""},
	"createFirewallRule":         {Kind: "FIREWALL.OPEN", Phrase: "creating firewall rule", Label: "Rule Id", Resource: "FirewallRule", Param: ""},
	"updateFirewallRule":         {Kind: "FIREWALL.UPDATE", Phrase: "updating firewall rule", Label: "Rule Id", Resource: "FirewallRule", Param: "id"},
	"deleteFirewallRule":         {Kind: "FIREWALL.CLOSE", Phrase: "revoking firewall rule", Label: "Rule Id", Resource: "FirewallRule", Param: "id"},
	"createEgressFirewallRule":   {Kind: "FIREWALL.EGRESS.OPEN", Phrase: "creating egress firewall rule for network", Label: "Rule Id", Resource: "FirewallRule", Param: ""},
	"updateEgressFirewallRule":   {Kind: "FIREWALL.EGRESS.UPDATE", Phrase: "updating egress firewall rule", Label: "Rule Id", Resource: "FirewallRule", Param: "id"},
	"deleteEgressFirewallRule":   {Kind: "FIREWALL.EGRESS.CLOSE", Phrase: "revoking egress firewall rule", Label: "Rule Id", Resource: "FirewallRule", Param: "id"},
	"createLoadBalancerRule":     {Kind: "LB.CREATE", Phrase: "creating load balancer", Label: "Load balancer Id", Resource: "FirewallRule", Param: ""},
	"updateLoadBalancerRule":     {Kind: "LB.UPDATE", Phrase: "updating load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: "id"},
	"deleteLoadBalancerRule":     {Kind: "LB.DELETE", Phrase: "deleting load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: "id"},
	"assignToLoadBalancerRule":   {Kind: "LB.ASSIGN.TO.RULE", Phrase: "assigning to load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: "id"},
	"removeFromLoadBalancerRule": {Kind: "LB.REMOVE.FROM.RULE", Phrase: "removing from load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: "id"},
	"createLBStickinessPolicy":   {Kind: "LB.STICKINESSPOLICY.CREATE", Phrase: "Apply Stickinesspolicy to load balancer", Label: "", Resource: "LoadBalancerRule", Param: "lbruleid"},
	"updateLBStickinessPolicy":   {Kind: "LB.STICKINESSPOLICY.UPDATE", Phrase: "updating LB Stickiness policy", Label: "", Resource: "LoadBalancerRule", Param: "id"},
	"deleteLBStickinessPolicy":   {Kind: "LB.STICKINESSPOLICY.DELETE", Phrase: "revoking LB Stickiness policy", Label: "", Resource: "LoadBalancerRule", Param: "id"},
	"createLBHealthCheckPolicy":  {Kind: "LB.HEALTHCHECKPOLICY.CREATE", Phrase: "Apply HealthCheckPolicy to load balancer", Label: "", Resource: "LoadBalancerRule", Param: "lbruleid"},
	"deleteLBHealthCheckPolicy":  {Kind: "LB.HEALTHCHECKPOLICY.DELETE", Phrase: "revoking LB HealthCheck policy", Label: "", Resource: "LoadBalancerRule", Param: "id"},
	"createLoadBalancer":         {Kind: "LB.CREATE", Phrase: "creating load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: ""},
	"updateLoadBalancer":         {Kind: "LB.UPDATE", Phrase: "updating internal load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: "id"},
	"deleteLoadBalancer":         {Kind: "LB.DELETE", Phrase: "deleting load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: "id"},
	"uploadSslCert":              {Kind: "LB.CERT.UPLOAD", Phrase: "Uploading a certificate to cloudstack", Label: "", Resource: "", Param: ""},
	"deleteSslCert":              {Kind: "LB.CERT.DELETE", Phrase: "Deleting a certificate to cloudstack", Label: "", Resource: "", Param: "id"},
	"assignCertToLoadBalancer":   {Kind: "LB.CERT.ASSIGN", Phrase: "assigning certificate to load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: "lbruleid"},
	"removeCertFromLoadBalancer": {Kind: "LB.CERT.REMOVE", Phrase: "removing certificate from load balancer", Label: "Load balancer Id", Resource: "LoadBalancerRule", Param: "lbruleid"},
	"createTags":                 {Kind: "CREATE_TAGS", Phrase: "creating resource tags", Label: "", Resource: "", Param: ""},
	"deleteTags":                 {Kind: "DELETE_TAGS", Phrase: "deleting resource tags", Label: "", Resource: "", Param: ""},
	"addResourceDetail":          {Kind: "CREATE_RESOURCE_DETAILS", Phrase: "creating resource details", Label: "", Resource: "", Param: ""},
	"removeResourceDetail":       {Kind: "DELETE_RESOURCE_DETAILS", Phrase: "deleting resource details", Label: "", Resource: "", Param: ""},

	// Kubernetes service
	// The texts are those of CloudStack's source. The commands for VMs of ExternalManaged clusters record no event.
	"createKubernetesCluster": {
		Kind: "KUBERNETES.CLUSTER.CREATE", Phrase: "creating Kubernetes cluster", Resource: "KubernetesCluster", Param: "",
		Scheduled: "Creating Kubernetes cluster Id: {id}",
	},
	"deleteKubernetesCluster": {
		Kind: "KUBERNETES.CLUSTER.DELETE", Phrase: "deleting Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: "Deleting Kubernetes cluster ID: {uuid}",
	},
	"startKubernetesCluster": {
		Kind: "KUBERNETES.CLUSTER.START", Phrase: "starting Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: "Starting Kubernetes cluster ID: {uuid}",
	},
	"stopKubernetesCluster": {
		Kind: "KUBERNETES.CLUSTER.STOP", Phrase: "stopping Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: "Stopping Kubernetes cluster ID: {uuid}",
	},
	"scaleKubernetesCluster": {
		Kind: "KUBERNETES.CLUSTER.SCALE", Phrase: "scaling Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: "Scaling Kubernetes cluster ID: {uuid}",
	},
	"upgradeKubernetesCluster": {
		Kind: "KUBERNETES.CLUSTER.UPGRADE", Phrase: "upgrading Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: "Upgrading Kubernetes cluster ID: {uuid}",
	},
	"addNodesToKubernetesCluster": {
		Kind: "KUBERNETES.CLUSTER.NODES.ADD", Phrase: "Adding external nodes to Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: "Adding {nodes} nodes to the Kubernetes cluster with ID: {id}",
	},
	"removeNodesFromKubernetesCluster": {
		Kind: "KUBERNETES.CLUSTER.NODES.REMOVE", Phrase: "Removing external nodes from Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: "Removing {nodes} nodes from the Kubernetes Cluster with ID: {id}",
	},
	"addKubernetesSupportedVersion":    {Kind: "KUBERNETES.VERSION.ADD", Phrase: "Adding Kubernetes supported version", Label: "", Resource: "", Param: ""},
	"updateKubernetesSupportedVersion": {Kind: "KUBERNETES.VERSION.UPDATE", Phrase: "Updating Kubernetes supported version", Label: "", Resource: "", Param: "id"},
	"deleteKubernetesSupportedVersion": {Kind: "KUBERNETES.VERSION.DELETE", Phrase: "Deleting Kubernetes supported version", Label: "", Resource: "", Param: "id", Scheduled: "Deleting Kubernetes supported version ID: {uuid}"},
}

// otherEventTypes are the types of events that do not belong to a command.
var otherEventTypes = []string{"API.KEY.ACCESS.UPDATE", "USER.LOGIN", "USER.LOGOUT", "STATICNAT.DISABLE", "ROUTER.CREATE", "ROUTER.START", "ROUTER.STOP"}

// eventTypes returns the names that listEventTypes answers, sorted and without duplicates.
func eventTypes() []string {
	seen := map[string]bool{}
	for _, s := range EventSpecs {
		seen[s.Kind] = true
	}
	for _, k := range otherEventTypes {
		seen[k] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

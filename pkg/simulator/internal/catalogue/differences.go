// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

// Difference is a change in a release of CloudStack that is visible to a cloud controller manager or its installer.
type Difference struct {
	// Since is the release, such as 4.19 or 4.19.2.
	Since string
	// What describes the change for readers.
	What string
	// Commands that the release added.
	Commands []string
	// Params that the release added, by command. The catalogue contains their since values. Parameters that are not
	// listed here are only in the catalogue.
	Params map[string][]string
	// Fields that the release added to answers, by key of answerObjects.
	Fields map[string][]string
	// Without describes what csccm does on older releases; empty: csccm does not use the change.
	Without string
}

// TLS termination by virtual routers.
const (
	routerTLSSince = "4.22"
	TLSCapability  = "SslTermination"
	ProtocolSSL    = "ssl"
)

// AnswerObjects are objects in answers: a command that returns the object, and the object's keys in answers.
var AnswerObjects = map[string]struct {
	Command string
	keys    []string
}{
	"balancer rule":      {"listLoadBalancerRules", []string{"loadbalancerrule", "loadbalancer"}},
	"public address":     {"listPublicIpAddresses", []string{"publicipaddress", "ipaddress"}},
	"firewall rule":      {"listFirewallRules", []string{"firewallrule"}},
	"virtual machine":    {"listVirtualMachines", []string{"virtualmachine"}},
	"network":            {"listNetworks", []string{"network"}},
	"VPC":                {"listVPCs", []string{"vpc"}},
	"zone":               {"listZones", []string{"zone"}},
	"job":                {"queryAsyncJobResult", []string{"queryasyncjobresultresponse", "asyncjobs"}},
	"event":              {"listEvents", []string{"event"}},
	"keys of a user":     {"getUserKeys", []string{"userkeys"}},
	"user":               {"listUsers", []string{"user"}},
	"account":            {"listAccounts", []string{"account"}},
	"Kubernetes cluster": {"listKubernetesClusters", []string{"kubernetescluster"}},
	"Kubernetes version": {"listKubernetesSupportedVersions", []string{"kubernetessupportedversion"}},
}

// Differences are all changes, the oldest first. docs/support-policy.md is generated from them.
var Differences = []Difference{
	{
		Since: "4.17", What: "reserveIpAddress and releaseIpAddress",
		Commands: []string{"reserveIpAddress", "releaseIpAddress"},
	},
	{
		Since: "4.17", What: "IPv6 firewall of isolated networks",
		Commands: []string{"createIpv6FirewallRule", "deleteIpv6FirewallRule", "listIpv6FirewallRules",
			"updateIpv6FirewallRule"},
	},
	{
		Since: "4.17", What: "listNetworks by networkfilter and associatednetworkid",
		Params: map[string][]string{"listNetworks": {"networkfilter", "associatednetworkid"}},
	},
	{
		Since: "4.17", What: "traffictype of firewall rules, resources of events, statistics of VMs by accumulate",
		Params: map[string][]string{"listVirtualMachines": {"accumulate"}},
		Fields: map[string][]string{
			"firewall rule": {"traffictype"},
			"event":         {"resourceid", "resourcetype", "resourcename"},
		},
	},
	{
		Since:   "4.18",
		What:    "createLoadBalancerRule with cidrlist: the sources of a balancer rule",
		Params:  map[string][]string{"createLoadBalancerRule": {"cidrlist"}},
		Fields:  map[string][]string{"balancer rule": {"cidrlist"}},
		Without: "Not supported. In a VPC a Service with source ranges is refused with an Event",
	},
	{
		Since: "4.18", What: "type of zones (Core, Edge), MTU of networks",
		Params: map[string][]string{"createNetwork": {"publicmtu", "privatemtu"}},
		Fields: map[string][]string{"zone": {"type"}},
	},
	{
		Since: "4.19", What: "disassociateIpAddress by address, listZones by several ids",
		Params: map[string][]string{"disassociateIpAddress": {"ipaddress"}, "listZones": {"ids"}},
	},
	{
		Since:    "4.19",
		What:     "Kubernetes clusters that CloudStack does not manage (clustertype=ExternalManaged)",
		Commands: []string{"addVirtualMachinesToKubernetesCluster", "removeVirtualMachinesFromKubernetesCluster"},
		Params:   map[string][]string{"createKubernetesCluster": {"clustertype"}},
		Fields:   map[string][]string{"Kubernetes cluster": {"clustertype"}},
		Without:  "The chart value `registerCluster` cannot be used",
	},
	{
		Since: "4.19", What: "managementserverid of jobs, templatetype of VMs, domainpath of networks",
		Fields: map[string][]string{
			"job":             {"managementserverid"},
			"virtual machine": {"templatetype"},
			"network":         {"domainpath"},
		},
	},
	{
		Since: "4.19.2", What: "domainpath of most objects",
		Fields: map[string][]string{"virtual machine": {"domainpath"}, "balancer rule": {"domainpath"}},
	},
	{
		Since: "4.20", What: "routed networks, BGP, autonomous systems",
		Commands: []string{"listRoutingFirewallRules", "createRoutingFirewallRule", "listBgpPeers",
			"createIpv4SubnetForZone"},
	},
	{
		Since: "4.20", What: "deleteprotection and vmtype of VMs",
		Params: map[string][]string{"updateVirtualMachine": {"deleteprotection"}},
		Fields: map[string][]string{"virtual machine": {"deleteprotection", "vmtype"}},
	},
	{
		Since:  "4.20.1",
		What:   "apikeyaccess of users and accounts, architectures, routedmodeenabled of zones",
		Params: map[string][]string{"listVirtualMachines": {"arch", "userdataid"}, "listUsers": {"apikeyaccess"}},
		Fields: map[string][]string{
			"keys of a user":     {"apikeyaccess"},
			"user":               {"apikeyaccess"},
			"account":            {"apikeyaccess"},
			"virtual machine":    {"arch"},
			"zone":               {"routedmodeenabled"},
			"Kubernetes version": {"arch"},
		},
	},
	{
		Since: "4.21",
		What: "Kubernetes clusters with offerings and templates by kind of node, etcd nodes, CNI, nodes added " +
			"and removed",
		Commands: []string{
			"addNodesToKubernetesCluster", "removeNodesFromKubernetesCluster",
			"registerCniConfiguration", "listCniConfiguration", "deleteCniConfiguration",
		},
		Params: map[string][]string{
			"createKubernetesCluster": {"nodeofferings", "nodetemplates", "etcdnodes", "hypervisor",
				"cniconfigurationid", "cniconfigdetails"},
			"scaleKubernetesCluster": {"nodeofferings"},
			"listTemplates":          {"forcks"},
		},
		Fields:  map[string][]string{"Kubernetes cluster": {"etcdnodes"}},
		Without: "`csccm cks` refuses the flags and commands that need it, by name, before it changes anything",
	},
	{
		Since: "4.21", What: "managementservername of jobs, forprovider of addresses, usersource of users",
		Params: map[string][]string{"listUsers": {"usersource"}},
		Fields: map[string][]string{
			"job":            {"managementservername"},
			"public address": {"forprovider"},
			"user":           {"usersource"},
		},
	},
	{
		Since: "4.22", What: "updateLoadBalancerRule with cidrlist; the router is told of a changed protocol",
		Params: map[string][]string{"updateLoadBalancerRule": {"cidrlist"}},
		Without: "When source ranges change, the rule is deleted and created again, which ends its connections " +
			"(Event `RuleReplaced`). " +
			"When the protocol changes, the algorithm is changed and changed back (Event `RuleReapplied`)",
	},
	{
		Since: routerTLSSince,
		What: "TLS termination by the virtual router (protocol ssl, SslTermination), assignCertToLoadBalancer " +
			"with forced",
		Params:  map[string][]string{"assignCertToLoadBalancer": {"forced"}},
		Without: "A Service with the annotation `ssl-certificate` is refused with an Event; nothing is changed",
	},
	{
		Since: "4.22", What: "listNetworks by name, CSI driver in Kubernetes clusters",
		Params: map[string][]string{"listNetworks": {"name"}, "createKubernetesCluster": {"enablecsi"}},
		Fields: map[string][]string{"Kubernetes cluster": {"csienabled"}},
	},
}

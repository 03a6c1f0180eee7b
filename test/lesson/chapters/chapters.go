// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chapters is the text of the lesson: what each chapter is about, what there is to see and to try, and the code
// that does it. The lesson prints it, and the tests compare both with it.
package chapters

// Chapter is one chapter of the lesson.
type Chapter struct {
	Title string
	Intro string
	// Look are the claims of the chapter. The lesson prints each of them only after it has been observed.
	Look []Claim
	Try  []Try
	Code []Code
}

// Claim is what the chapter shows. The ID connects it with the check that observes it.
type Claim struct{ ID, Text string }

// Try is a command for a second terminal. The lesson runs it too.
type Try struct {
	// Line is a line for a shell. WITH and WITHOUT hold the kubeconfigs of the two clusters.
	Line string
	// Shows is what to look for in the output, and Want a text that the output holds.
	Shows, Want string
}

// Code is a function that takes part in what the chapter shows.
type Code struct {
	// File is its path in the repository, Func its name; a method is Type.Method.
	File, Func string
	Does       string
}

// IDs of the claims.
const (
	NodesTainted     = "nodes-tainted"
	NodesWait        = "nodes-wait"
	NodesInitialised = "nodes-initialised"
	NodesFromVM      = "nodes-from-vm"
	PodScheduled     = "pod-scheduled"

	ServicePending = "service-pending"
	ServiceServed  = "service-served"
	ServiceRules   = "service-rules"
	ServiceOpen    = "service-open"
	ServiceCalls   = "service-calls"

	CallsExplained = "calls-explained"
	CallsPlainUser = "calls-plain-user"
	CallsByHand    = "calls-by-hand"
	CallsUnnoticed = "calls-unnoticed"

	VMNotReady  = "vm-not-ready"
	VMNodeStays = "vm-node-stays"
	VMNodeGoes  = "vm-node-goes"
	VMOthers    = "vm-others"

	DriftRemoved  = "drift-removed"
	DriftRepaired = "drift-repaired"
	DriftTold     = "drift-told"
	DriftStays    = "drift-stays"

	LeaderOne   = "leader-one"
	LeaderRules = "leader-rules"
	LeaderOther = "leader-other"
	LeaderWork  = "leader-work"
	LeaderNode  = "leader-node"
	LeaderNone  = "leader-none"
)

// Before is what the lesson says before the first chapter.
const Before = "One simulated CloudStack holds two accounts, and in each account a network with four VMs. On the VMs of account " +
	"\"without\" runs a Kubernetes cluster without a cloud controller manager, on those of account \"with\" one that gets one. Nothing else " +
	"differs: both have a real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and nodes whose kubelets run with " +
	"--cloud-provider=external. The nodes are processes of this machine; the simulator answers the CloudStack API as a management server does."

// After is what the lesson says after the last chapter.
const After = "A cloud controller manager is a program with two APIs in its hands. From Kubernetes it reads what is wanted: Nodes and " +
	"Services. From the cloud it reads what is there: VMs, addresses, rules. It changes the one or the other until both agree, again and " +
	"again, and keeps nothing for itself: killed at any point, the next leader finds all that it needs in the two APIs."

// Next is what the lesson says at its end, while both clusters still run.
const Next = "To try next, while both clusters run: make Services of your own in cluster \"with\". On the page (make lesson with -ui), choose a rule and " +
	"delete it, destroy a VM, fill the account, or switch on a fault, and see what the controller makes of it."

// All are the chapters, in their order.
var All = []Chapter{
	{
		Title: "Nodes",
		Intro: "A kubelet with --cloud-provider=external does not know on which VM it runs. It registers its Node with the taint " +
			"node.cloudprovider.kubernetes.io/uninitialized, and the scheduler keeps Pods away until a cloud controller manager has found the " +
			"VM in the cloud, has written what it knows of it to the Node, and has removed the taint.",
		Look: []Claim{
			{NodesTainted, "before the controller is installed, all Nodes of both clusters have the taint and no provider ID"},
			{NodesWait, "without: the Nodes keep the taint, and have no provider ID, no instance type and no zone"},
			{NodesInitialised, "with: the taint is gone, and the provider ID of each Node holds the ID of its VM in CloudStack"},
			{NodesFromVM, "with: address, instance type and zone of each Node are those of its VM"},
			{PodScheduled, "a Pod waits in cluster \"without\", because no node tolerates it, and runs in cluster \"with\""},
		},
		Try: []Try{
			{"kubectl --kubeconfig $WITHOUT describe node without-1", "the taint, and that ProviderID is missing", "node.cloudprovider.kubernetes.io/uninitialized"},
			{"kubectl --kubeconfig $WITH get node with-1 -o yaml", "spec.providerID, the labels, status.addresses", "external-cloudstack://"},
			{"kubectl --kubeconfig $WITHOUT describe pod hello", "the scheduler's reason", "untolerated taint"},
		},
		Code: []Code{
			{"pkg/node/instances.go", "Nodes.InstanceMetadata", "is called by Kubernetes' node controller for each new Node"},
			{"pkg/node/match.go", "Match", "finds the VM of a Node: by provider ID, else by name"},
			{"pkg/node/metadata.go", "Metadata", "turns a VM into provider ID, addresses, instance type, zone and labels"},
			{"pkg/inventory/inventory.go", "Inventory.VMs", "lists the VMs once for all Nodes that ask at the same time"},
		},
	},
	{
		Title: "A Service",
		Intro: "A Service of type LoadBalancer asks the cloud for an address. Kubernetes itself only stores the wish. A cloud controller manager " +
			"watches for it, makes the load balancer with the API of the cloud, and writes the address to the status of the Service. The same " +
			"Service, web, is created in both clusters.",
		Look: []Claim{
			{ServicePending, "without: the Service has no address and no Event; nothing says why"},
			{ServiceServed, "with: the Service has an address, and CloudStack has allocated it to the cluster's account"},
			{ServiceRules, "with: the address has a load balancer rule for each port, from the port to the node port of all workers"},
			{ServiceOpen, "with: the firewall of the address lets everyone in to these ports, and to no other"},
			{ServiceCalls, "the ledger of CloudStack has the controller's calls, and none of cluster \"without\""},
		},
		Try: []Try{
			{"kubectl --kubeconfig $WITHOUT get service web", "EXTERNAL-IP is <pending>", "<pending>"},
			{"kubectl --kubeconfig $WITH describe service web", "the Events and the condition of the controller", "AddressAllocated"},
			{"KUBECONFIG=$WITH csccm plan", "what the controller would do now: nothing", "1 as asked for"},
		},
		Code: []Code{
			{"pkg/service/sync.go", "Controller.Sync", "works on one Service from the queue, after each change of it or of the nodes"},
			{"pkg/loadbalancer/plan/desire.go", "Desire", "what the Service needs, without a call: pure"},
			{"pkg/loadbalancer/observe/observe.go", "Observer.Observe", "what CloudStack has of it: only reads"},
			{"pkg/loadbalancer/plan/plan.go", "Plan", "the steps from the one to the other, in order: pure"},
			{"pkg/loadbalancer/apply/apply.go", "Applier.Do", "makes calls of the steps"},
		},
	},
	{
		Title: "The calls",
		Intro: "CloudStack has one way in: signed HTTP calls. What changes something often starts a job, and the caller asks for its result. " +
			"These are the calls of chapter 2, from the simulator's ledger, each with its purpose. Then a person makes the calls that change " +
			"something for cluster \"without\", with the keys of its account: in CloudStack the result is the same.",
		Look: []Claim{
			{CallsExplained, "each call that the controller made for the Service has a purpose that the table names"},
			{CallsPlainUser, "the controller's user needs no administrator's rights: its role is of type User, and no call was refused"},
			{CallsByHand, "with calls by hand, account \"without\" has the same address, rules, members and firewall"},
			{CallsUnnoticed, "without: the Service is still pending, because nobody tells Kubernetes"},
		},
		Try: []Try{
			{"KUBECONFIG=$WITH csccm status", "the Service and its address", "web"},
			{"kubectl --kubeconfig $WITH -n kube-system get secret cloudstack-secret", "the controller's keys are in this Secret", "cloudstack-secret"},
		},
		Code: []Code{
			{"pkg/cloudstack/call.go", "Client.Call", "one call: limit, parameters, answer or typed error"},
			{"pkg/cloudstack/access.go", "signatureOf", "the signature of a call"},
			{"pkg/cloudstack/jobwaiter.go", "JobWaiter.Wait", "waits for a job; one poll serves all that wait"},
			{"pkg/loadbalancer/apply/allocate.go", "Applier.acquire", "acquires an address so that a crash in between loses nothing"},
			{"pkg/simulator/ledger.go", "Ledger.Find", "the simulator's side: the calls that were made"},
		},
	},
	{
		Title: "A VM is destroyed",
		Intro: "In each cluster, one worker's VM is destroyed in CloudStack, and its kubelet falls silent. Kubernetes sees only the silence: it " +
			"cannot know whether the machine comes back. Only the cloud knows.",
		Look: []Claim{
			{VMNotReady, "both: Kubernetes marks the Node as not ready, because its kubelet is silent"},
			{VMNodeGoes, "with: the controller finds that the VM is gone, and the Node is deleted"},
			{VMNodeStays, "without: the Node is still there, not ready"},
			{VMOthers, "with: the other Nodes are untouched, and the Service keeps its address with the workers that are left"},
		},
		Try: []Try{
			{"kubectl --kubeconfig $WITHOUT get nodes", "one Node is NotReady, and stays so", "NotReady"},
			{"kubectl --kubeconfig $WITH get nodes", "three Nodes are left", "with-cp"},
		},
		Code: []Code{
			{"pkg/node/instances.go", "Nodes.InstanceExists", "is called by Kubernetes' node lifecycle controller for a Node that is not ready"},
			{"pkg/node/guard.go", "guard.check", "refuses deletions when suspiciously many VMs are missing at once"},
			{"pkg/inventory/inventory.go", "Inventory.VM", "the proof: one fresh read by ID"},
			{"pkg/service/sources.go", "Controller.nodeChanged", "puts the Services whose rules have the Node into the queue"},
		},
	},
	{
		Title: "Drift",
		Intro: "Somebody deletes a load balancer rule of each cluster by hand, as happens in the user interface at night. No API tells the " +
			"controller. It compares all Services with CloudStack once in a while: every 10 seconds here, every 5 minutes by default.",
		Look: []Claim{
			{DriftRemoved, "both: CloudStack deletes the rule of port 443"},
			{DriftRepaired, "with: the rule is back, with the same ports and members"},
			{DriftTold, "with: an Event on the Service names what was repaired"},
			{DriftStays, "without: the rule is still missing"},
		},
		Try: []Try{
			{"kubectl --kubeconfig $WITH get events --field-selector involvedObject.name=web", "the Event DriftRepaired", "DriftRepaired"},
			{"KUBECONFIG=$WITH csccm doctor --explain DriftRepaired", "what the Event means and what to do", "DriftRepaired"},
		},
		Code: []Code{
			{"pkg/service/rounds.go", "Controller.Round", "puts all Services into the queue; one read of the rules serves them all"},
			{"pkg/loadbalancer/reconciler.go", "Reconciler.Reconcile", "observes, plans and applies, as for a change of the Service"},
			{"pkg/loadbalancer/reconciler.go", "Reconciler.noteDrift", "reports what somebody else has changed"},
		},
	},
	{
		Title: "The leader is killed",
		Intro: "The controller runs twice. A lease in Kubernetes decides which of the two acts; the other waits. The machine of the leader " +
			"crashes: all processes on it are killed, so that the leader cannot give the lease back. In CloudStack its VM still runs, as after a " +
			"kernel panic. A Service, shop, is created in both clusters. Traffic does not pass through the controller: the router in CloudStack " +
			"forwards it by its rules.",
		Look: []Claim{
			{LeaderOne, "with: two Pods of the controller run, and one of them holds the lease"},
			{LeaderRules, "with: while nobody leads, the rules in CloudStack stay as they are"},
			{LeaderOther, "with: when the lease has run out, the other Pod takes it"},
			{LeaderWork, "with: the new leader gives the Service shop its address, and web keeps its own"},
			{LeaderNode, "with: the Node of the crashed machine is not ready, and stays, because its VM still runs"},
			{LeaderNone, "without: there is no lease of a cloud controller, and both Services are pending"},
		},
		Try: []Try{
			{"kubectl --kubeconfig $WITH -n kube-system get lease cloud-controller-manager -o yaml", "holderIdentity, leaseTransitions", "holderIdentity"},
			{"kubectl --kubeconfig $WITH get nodes", "the Node of the crashed machine is NotReady", "NotReady"},
		},
		Code: []Code{
			{"pkg/leader/leader.go", "Fence.Enter", "lets a call out only while the lease is certain"},
			{"pkg/leader/leader.go", "Fence.HandOver", "gives the lease back when the leader is told to end; a killed one cannot"},
			{"cmd/cloudstack-ccm/command.go", "newCommand", "where the lease, the flags and the provider are put together"},
		},
	},
}

// Purposes are what the controller's calls for a new Service are for, by command.
var Purposes = map[string]string{
	"listVirtualMachines":           "which VMs are the nodes: networks and IDs of the members",
	"listNetworks":                  "what the network of the VMs can do",
	"listZones":                     "the zone of the VMs",
	"listProjects":                  "the project of the cluster",
	"listApis":                      "whether the role may forward ports",
	"listCapabilities":              "how many calls the server allows",
	"listPublicIpAddresses":         "which addresses there are, and whose",
	"listTags":                      "which objects the cluster owns",
	"listLoadBalancerRules":         "which rules there are",
	"listLoadBalancerRuleInstances": "which VMs are members of a rule",
	"listFirewallRules":             "which ports of the address are open",
	"listPortForwardingRules":       "which ports of the address lead to a single VM",
	"listLBStickinessPolicies":      "whether a rule has stickiness",
	"listSslCerts":                  "which certificates a rule can have",
	"listLoadBalancers":             "which internal load balancers there are",
	"listNetworkACLs":               "what the ACL list of a VPC tier lets in",
	"associateIpAddress":            "acquires the address",
	"createTags":                    "writes to whom the address and the rules belong",
	"createLoadBalancerRule":        "makes a rule: a public port of the address to a node port",
	"assignToLoadBalancerRule":      "makes the workers' VMs members of a rule",
	"createFirewallRule":            "opens the ports of the address",
	"queryAsyncJobResult":           "asks for the result of a job",
	"listAsyncJobs":                 "asks for the results of several jobs at once",
}

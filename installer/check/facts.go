// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/installer/kube/rights"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider"
)

// Source is something that a run reads at most once, however many checks use it. Its text completes "X could not be
// read".
type Source string

// Sources of Kubernetes.
const (
	Version      Source = "the version"
	Distribution Source = "the distribution"
	Rights       Source = "the permissions"
	Namespace    Source = "the namespace"
	Namespaces   Source = "the namespaces"
	Nodes        Source = "the nodes"
	Heartbeats   Source = "the nodes' leases"
	Kubelets     Source = "the kubelets"
	Volumes      Source = "the volumes"
	Services     Source = "the Services"
	Events       Source = "the Events"
	Leases       Source = "the leases"
	Controllers  Source = "Deployments and DaemonSets"
	Pods         Source = "the controller's Pods"
	SystemPods   Source = "the Pods of kube-system"
	Logs         Source = "the controller's log"
	Answers      Source = "the controller's health"
	Releases     Source = "Helm's records"
	Drift        Source = "the release's objects"
	Admission    Source = "the admission policies"
	ClusterIDs   Source = "the cluster's id"
	Created      Source = "the list of what csccm created in CloudStack"
	Driver       Source = "the CSI driver"
)

// Sources of CloudStack.
const (
	Capabilities Source = "the answer to a call with the keys"
	APIs         Source = "the allowed commands"
	Users        Source = "the users"
	Project      Source = "the project"
	Zones        Source = "the zones"
	VMs          Source = "the VMs"
	Places       Source = "the VMs of other projects"
	Networks     Source = "the networks"
	Addresses    Source = "the addresses"
	Quota        Source = "the limit of addresses"
	AllRules     Source = "the load balancer rules"
	Balancers    Source = "the members of the load balancer rules"
	Forwards     Source = "the port forwardings"
	Plans        Source = "what the controller would do"
	CKS          Source = "the cluster of CKS"
)

// Sources in Kubernetes and in CloudStack.
var (
	OfKube = Sources{
		Version, Distribution, Rights, Namespace, Namespaces, Nodes, Heartbeats, Kubelets, Volumes, Services, Events,
		Leases, Controllers, Pods, SystemPods, Logs, Answers, Releases, Drift, Admission, ClusterIDs, Created, Driver,
	}
	OfCloud = Sources{
		Capabilities, APIs, Users, Project, Zones, VMs, Places, Networks, Addresses, Quota, AllRules, Balancers,
		Forwards, Plans, CKS,
	}
	// Needed are sources without which the given source cannot be read.
	Needed = map[Source]Sources{
		Distribution: {Nodes},
		Kubelets:     {Nodes},
		Pods:         {Controllers},
		Logs:         {Pods},
		Answers:      {Pods},
		ClusterIDs:   {Controllers},
		Driver:       {Controllers, Volumes},
		Places:       {Project, Nodes, VMs},
		Networks:     {Project},
		Addresses:    {Project},
		Quota:        {Project, APIs},
		AllRules:     {Project},
		Forwards:     {Project},
		Balancers:    {AllRules, Services},
		Plans:        {Services, Nodes, AllRules, VMs},
		CKS:          {Project, Nodes, VMs},
	}
	// Tried are sources that are read first, if possible, before the given source.
	Tried = map[Source]Sources{Rights: {Namespace}, Drift: {Releases}, Plans: {Events}}
)

// Setup is the input of a run.
type Setup struct {
	Context, Server, User string // from the kubeconfig
	Namespace, Release    string // of the controller
	Phase                 Phase
	// Config is the cloud-config. Without one it has no API URL.
	Config cloudstack.Config
	// NoCloud is the reason why CloudStack cannot be used; CS-001 is then skipped. If the credentials are wrong,
	// NoCloudErr is set instead, and CS-001 fails. If both are zero, CloudStack can be used.
	NoCloud    string
	NoCloudErr error
	// Secret is the cloud-config in the release's Secret; nil if the credentials came from a file.
	Secret   *cloudstack.Config
	Manifest string // the rendered chart that is about to be applied; "" if there is none
	// Replaces are workloads of another controller that the current command replaces. CCM-002 and CCM-003 do not count
	// them as another cloud controller manager.
	Replaces Objects
}

// Facts are what the checks of a run have read. Fields are zero if no check needed them or they could not be read.
type Facts struct {
	At           time.Time     // time by the API server's clock
	MachineAhead time.Duration // by how much this machine's clock is ahead of the API server's
	Setup
	errs sync.Map // error by Source

	Version        string // version of the API server
	Distribution   cluster.Distribution
	DistributionBy string // the evidence for Distribution
	Needed, Wanted []rights.Request
	Denied         []rights.Request
	NamespaceOf    *corev1.Namespace
	Namespaces     map[string]map[string]string // labels by name
	Nodes          []corev1.Node
	Kubelets       []kubelet.NodeVerdict
	Heartbeats     []coordinationv1.Lease
	Volumes        []corev1.PersistentVolume
	Services       []corev1.Service
	Events         []corev1.Event // about Nodes and Services
	Leases         []coordinationv1.Lease
	Workloads      []cluster.Workload
	Controllers    []Workload   // of the release and of others
	CSI            []Workload   // Deployments of the CSI driver
	Pods           []corev1.Pod // of the release
	SystemPods     []corev1.Pod
	Logs           []Log
	Answers        []Answer
	Records        []helm.Release // Helm's, oldest first
	Drift          []diff.Change
	Policies       []admissionv1.ValidatingAdmissionPolicy
	Bindings       []admissionv1.ValidatingAdmissionPolicyBinding
	ClusterIDs     []string // in CloudStack's tags: the current one, then former ones
	Created        *credentials.Created
	Driver         CSI

	CloudStackVersion string // "" if the role may not read it
	Capabilities      *cloudstack.Capabilities
	ClockAhead        *time.Duration // by how much CloudStack's clock is ahead; nil if not known
	APIs              sets.Set[string]
	Owner             *cloudapi.User // owner of the keys; nil if the server does not show it
	ProjectID         string         // "" for the account itself
	Zones             []cloudstack.Zone
	VMs               *inventory.VMSnapshot
	Places            []credentials.Place // other places with VMs; read if most nodes have no VM
	Networks          []cloudstack.Network
	Addresses         []cloudstack.PublicIP
	Quota             *cloudapi.Usage // of public addresses; nil if there is no limit or it cannot be read
	AllRules          []cloudstack.LoadBalancerRule
	OddMembers        lbrules.Members // members of rules that are not the current rule of a Service
	Forwards          []cloudstack.PortForwarding
	Planned           map[string]*planner.Service // plans of the controller, by namespace/name
	PlanErr           error                       // why nothing could be planned
	CKS               *ckscheck.Facts
	NotCKS            string // why CKS is nil
}

// Log is what one Pod of the controller logged in the last hour.
type Log struct {
	Pod   string
	Lines []podlog.Line
}

// Answer is the response of a Pod's own endpoints, through the API server.
type Answer struct {
	Pod  *corev1.Pod
	Sick string // what is wrong with the answer; "" if nothing is
	Err  error  // why there is no answer
	// State is the internal state of the Pod; nil if the Pod does not show it.
	State *provider.State
}

// Fail records that a source could not be read.
func (f *Facts) Fail(s Source, err error) { f.errs.Store(s, err) }

// Err returns the reason why a source could not be read; nil if it was read.
func (f *Facts) Err(s Source) error {
	err, _ := f.errs.Load(s)
	e, _ := err.(error)
	return e
}

// VM returns the VM of a node, if exactly one matches.
func (f *Facts) VM(n *corev1.Node) (cloudstack.VirtualMachine, bool) {
	if f.VMs == nil {
		return cloudstack.VirtualMachine{}, false
	}
	vm, err := node.Match(f.VMs, n)
	return vm, err == nil
}

// withoutName removes the prefix with the node's name from an error, because the finding already has the name.
func withoutName(err error, n *corev1.Node) string {
	return strings.TrimPrefix(err.Error(), "node \""+n.Name+"\" ")
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	kversion "k8s.io/apimachinery/pkg/version"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// DefaultSecretName holds the cloud-config; every provider for CloudStack, and CKS, name it so.
const DefaultSecretName = "cloudstack-secret" //nolint:gosec // a name

// facts are all facts that checks decide by, each read at most once.
type facts struct {
	phase Phase
	owner atomic.Pointer[Owner] // nil where the server does not say

	version      *fact[*kversion.Info]
	distribution *fact[decide.Distribution]
	nodes        *fact[[]corev1.Node]
	volumes      *fact[[]corev1.PersistentVolume]
	heartbeats   *fact[[]coordinationv1.Lease]
	kubelets     *fact[[]kubelet.NodeVerdict]
	namespace    *fact[*corev1.Namespace]
	services     *fact[[]corev1.Service]
	workloads    *fact[[]decide.Workload]
	pods         *fact[[]corev1.Pod]
	systemPods   *fact[[]corev1.Pod]
	ownPods      *fact[[]corev1.Pod]
	logs         *fact[[]decide.Log]
	answers      *fact[[]decide.Answer]
	leases       *fact[[]coordinationv1.Lease]
	events       *fact[[]corev1.Event]
	releases     *fact[[]decide.ReleaseRecord]
	admission    *fact[decide.AdmissionObjects]
	labels       *fact[map[string]map[string]string]
	clusterID    *fact[string]

	inventory    *inventory.Inventory
	capabilities *fact[*cloudstack.Capabilities]
	apis         *fact[map[string]cloudstack.API]
	vms          *fact[*inventory.VMSnapshot]
	places       *fact[[]credentials.Place] // other than the project of the cloud-config
	networks     *fact[[]cloudstack.Network]
	addresses    *fact[[]cloudstack.PublicIP]
	balancers    *fact[decide.Balancers]
	balance      *fact[decide.BalanceFacts]
}

// newFacts makes the facts of a run; nothing is read yet.
func newFacts(run context.Context, env *Env) *facts {
	f := &facts{}
	f.version = newFact(run, "the version", env.readVersion)
	f.distribution = newFact(run, "the distribution", env.readDistribution)
	f.nodes = newFact(run, "the nodes", env.readNodes)
	f.volumes = newFact(run, "the volumes", env.readVolumes)
	f.heartbeats = newFact(run, "the nodes' leases", env.readHeartbeats)
	f.kubelets = newFact(run, "the kubelets", env.readKubelets)
	f.namespace = newFact(run, "the namespace", env.readNamespace)
	f.services = newFact(run, "the Services", env.readServices)
	f.workloads = newFact(run, "Deployments and DaemonSets", env.readWorkloads)
	f.pods = newFact(run, "the Pods", env.readPods)
	f.systemPods = newFact(run, "the Pods of kube-system", env.readSystemPods)
	f.ownPods = newFact(run, "the controller's Pods", env.readOwnPods)
	f.logs = newFact(run, "the controller's log", env.readLogs)
	f.answers = newFact(run, "the controller's health", env.readAnswers)
	f.leases = newFact(run, "the leases", env.readLeases)
	f.events = newFact(run, "the Events", env.readEvents)
	f.releases = newFact(run, "Helm's records", env.readReleases)
	f.admission = newFact(run, "the admission policies", env.readAdmission)
	f.labels = newFact(run, "the namespaces", env.readLabels)
	f.clusterID = newFact(run, "the cluster's id", env.readClusterID)

	if env.CloudStack != nil {
		o := inventory.Options{Clock: env.Clock}
		if env.CloudConfig != nil {
			o.ProjectID, o.Zone = env.CloudConfig.ProjectID, env.CloudConfig.Zone
		}
		f.inventory = inventory.New(env.CloudStack, o)
	}
	f.capabilities = newFact(run, "the answer to the keys", env.readCapabilities)
	f.apis = newFact(run, "the allowed commands", env.readAPIs)
	f.vms = newFact(run, "the VMs", env.readVMs)
	f.places = newFact(run, "the VMs of other projects", env.readPlaces)
	f.networks = newFact(run, "the networks", env.readNetworks)
	f.addresses = newFact(run, "the addresses", env.readAddresses)
	f.balancers = newFact(run, "the load balancer rules", env.readBalancers)
	f.balance = newFact(run, "Services and rules", env.readBalance)
	return f
}
